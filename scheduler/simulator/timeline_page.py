"""Timelines as files that need nothing else: side by side as SVG, or as a page on which one can zoom.

Both follow the reader's light or dark look, and print in the light one. The drawings show the whole from the first
moment, without scripts; the page's script (given by the caller) draws any part of it from the data that the page holds.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .timeline import Timeline
from .timeline_cells import BARS_MAX, View, bars_in, cells, grid_of, held_in, taken_in
from .timeline_figures import Sum, TeamLine, by_team, hours, percent, sum_of
from .timeline_style import style
from .timeline_svg import Look, draw_bars, draw_cells
from .timeline_words import duration_word, ticks_of

PANEL_WIDTH, PANEL_GAP = 760.0, 32.0
TICKS_MAX = 8
LEGEND = (
    ("in", "inside its contract"),
    ("over", "after it: can be interrupted"),
    ("unal", "unallocated: can be interrupted"),
    ("taken", "preempted"),
    ("thin", "starting up or leaving"),
    ("service", "maintenance"),
    ("repair", "in repair"),
    ("idle", "idle"),
)
"""Swatches that every timeline has."""


@dataclass(frozen=True)
class Panel:
    """One of the timelines of a file."""

    name: str
    timeline: Timeline
    view: View


def are_few(panels: Iterable[Panel]) -> bool:
    """Whether each of the panels can show every bar: what is compared is drawn in one way."""
    return all(len(bars_in(panel.timeline, panel.view)) <= BARS_MAX for panel in panels)


def drawn(panel: Panel, look: Look, *, as_bars: bool) -> str:
    """The view as SVG: each bar, or cells."""
    timeline, view = panel.timeline, panel.view
    bars = bars_in(timeline, view)
    if as_bars:
        return draw_bars(timeline, bars, view, look)
    grid = grid_of(view)
    sizes_milli = [row.size_milli for row in timeline.rows[view.first_row : view.end_row]]
    held = held_in(bars, grid, timeline.now_s)
    return draw_cells(timeline, cells(grid, held, taken_in(bars, grid), sizes_milli, timeline.now_s), look)


def look_of(panel: Panel, number: int) -> Look:
    """How a panel of a file is drawn: simulated time, leading nowhere."""
    view = panel.view
    return Look(
        prefix=f"p{number}",
        width=PANEL_WIDTH,
        label=f"GPUs held under {panel.name}, by node and time",
        ticks=ticks_of(view.from_s, view.until_s, TICKS_MAX),
        when=duration_word,
    )


def lines_of(panel: Panel) -> list[TeamLine]:
    """The panel's table."""
    return by_team(panel.timeline.teams, bars_in(panel.timeline, panel.view), panel.view, panel.timeline.now_s)


def sentence(total: Sum) -> str:
    """What a panel shows, in one sentence."""
    held = percent(total.held_milli_s, total.known_milli_s)
    free = percent(total.unallocated_milli_s, total.held_milli_s)
    return (
        f"{held} % of the GPU time was held, {free} % of that unallocated; "
        f"{total.runs:,} runs, {total.taken:,} of them preempted."
    )


def svg_file(title: str, panels: Sequence[Panel]) -> str:
    """One SVG with the panels side by side under a title, and a legend below."""
    width = len(panels) * PANEL_WIDTH + (len(panels) - 1) * PANEL_GAP
    as_bars = are_few(panels)
    parts: list[str] = []
    bottom = 0.0
    for at, panel in enumerate(panels):
        x = at * (PANEL_WIDTH + PANEL_GAP)
        total = sum_of(panel.timeline, lines_of(panel), panel.view)
        svg = drawn(panel, look_of(panel, at), as_bars=as_bars)
        bottom = max(bottom, float(svg.partition(' height="')[2].partition('"')[0]))
        parts.append(f'<text class="b" x="{x:g}" y="62">{escape(panel.name)}</text>')
        parts.append(f'<text x="{x:g}" y="80">{escape(sentence(total))}</text>')
        parts.append(svg.replace("<svg ", f'<svg x="{x:g}" y="90" ', 1))
    legend, height = _svg_legend(panels, width, 90 + bottom + 24)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-16 -8 {width + 32:g} {height + 16:g}" role="img"'
        f' aria-label="{escape(title)}"><title>{escape(title)}</title><style>{style()}</style>'
        f'<rect class="ground" x="-16" y="-8" width="{width + 32:g}" height="{height + 16:g}"/>'
        f'<text class="title" x="0" y="28">{escape(title)}</text>{"".join(parts)}{legend}</svg>\n'
    )


def _svg_legend(panels: Sequence[Panel], width: float, top: float) -> tuple[str, float]:
    """Rows of swatches, and where they end."""
    named = [(f"f{line.team.colour}", line.team.code) for panel in panels for line in lines_of(panel)]
    swatches = [*dict.fromkeys(named), *((f"sw-{css}", words) for css, words in LEGEND)]
    parts, x, y = [_legend_patterns()], 0.0, top
    for css, words in swatches:
        needed = 22 + 6.9 * len(words) + 18
        if x + needed > width:
            x, y = 0.0, y + 22
        parts.append(_svg_swatch(css, x, y))
        parts.append(f'<text x="{x + 22:g}" y="{y + 10:g}">{escape(words)}</text>')
        x += needed
    return "".join(parts), y + 16


def _legend_patterns() -> str:
    slanted = 'width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    upright = 'height="9" patternUnits="userSpaceOnUse"'
    return (
        f'<defs><pattern id="k-over" {slanted}><path class="h-over" d="M0 0V6"/></pattern>'
        f'<pattern id="k-unal" {slanted}><path class="s0" stroke-width="2.4" d="M0 0V6"/></pattern>'
        f'<pattern id="k-repair" width="5" {upright}><path class="h-repair" d="M0 0V9"/></pattern>'
        f'<pattern id="k-service" width="9" {upright}><path class="h-repair" d="M0 0V9M3 0V9"/></pattern></defs>'
    )


def _svg_swatch(css: str, x: float, y: float) -> str:
    box = f'x="{x:g}" y="{y:g}" width="16" height="12"'
    if css.startswith("f"):
        return f'<rect class="{css}" {box}/>'
    if css == "sw-unal":
        return f'<rect class="open s0" fill="url(#k-unal)" {box}/>'
    if css == "sw-idle":
        return f'<rect class="free" {box}/>'
    if css in ("sw-repair", "sw-service"):
        return f'<rect class="repair" {box}/><rect fill="url(#k-{css[3:]})" {box}/>'
    if css == "sw-thin":
        return f'<rect class="f0" x="{x:g}" y="{y + 3:g}" width="16" height="6"/>'
    more = {
        "sw-over": f'<rect fill="url(#k-over)" {box}/>',
        "sw-taken": f'<rect class="edge" x="{x + 13:g}" y="{y:g}" width="3" height="12"/>',
    }
    return f'<rect class="f0" {box}/>{more.get(css, "")}'


def html_file(title: str, panels: Sequence[Panel], script: str) -> str:
    """A page with the panels side by side, their tables, and the data from which `script` draws any part."""
    as_bars = are_few(panels)
    figures = "".join(_figure(panel, at, as_bars=as_bars) for at, panel in enumerate(panels))
    teams = dict.fromkeys(line.team for panel in panels for line in lines_of(panel))
    legend = "".join(
        f'<li><span class="sw"><svg width="16" height="12">{_svg_swatch(f"f{team.colour}", 0, 0)}</svg></span>'
        f"{escape(team.code)}</li>"
        for team in teams
    ) + "".join(
        f'<li><span class="sw"><svg width="16" height="12">{_svg_swatch(f"sw-{css}", 0, 0)}</svg></span>'
        f"{escape(words)}</li>"
        for css, words in LEGEND
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style()}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="how" data-how hidden>Drag over a timeline to look closer, on both at once; with the keyboard: + and − zoom,
the arrow keys move, 0 shows the whole. Point at a bar for its run.</p>
<p class="tools" data-tools hidden><button type="button" data-do="closer">Closer</button>
<button type="button" data-do="wider">Wider</button> <button type="button" data-do="earlier">Earlier</button>
<button type="button" data-do="later">Later</button> <button type="button" data-do="whole">The whole</button>
<span data-range></span></p>
<div class="panels">{figures}</div>
<p class="told" data-told role="status"></p>
<svg width="0" height="0" aria-hidden="true">{_legend_patterns()}</svg>
<ul class="legend">{legend}</ul>
</main>
<script>{script}</script>
</body>
</html>
"""


def _figure(panel: Panel, number: int, *, as_bars: bool) -> str:
    lines = lines_of(panel)
    total = sum_of(panel.timeline, lines, panel.view)
    rows = "".join(
        f"<tr><th scope=row>{escape(line.team.code)}</th><td>{hours(line.held_milli_s)}</td>"
        f"<td>{hours(line.interruptible_milli_s)}</td><td>{hours(line.unallocated_milli_s)}</td>"
        f"<td>{line.runs:,}</td><td>{line.taken:,}</td></tr>"
        for line in lines
    )
    return (
        f'<figure data-panel="{number}"><figcaption><b>{escape(panel.name)}</b> {escape(sentence(total))}</figcaption>'
        f'<div class="drawing">{drawn(panel, look_of(panel, number), as_bars=as_bars)}</div>'
        "<details><summary>Show as table</summary><table><thead><tr><th scope=col>Team</th>"
        "<th scope=col>GPU-hours held</th><th scope=col>of it interruptible</th><th scope=col>of it unallocated</th>"
        f"<th scope=col>Runs</th><th scope=col>Preempted</th></tr></thead><tbody>{rows}</tbody></table></details>"
        f'<script type="text/plain" data-runs>{embedded(panel)}</script></figure>'
    )


def embedded(panel: Panel) -> str:
    """All bars, compactly: base64 of zlib-compressed JSON, which browsers can inflate; columns by name.

    Instants are differences to the bar before (`start`) or to the bar's own start, −1 where they did not happen.
    """
    timeline = panel.timeline
    workloads: dict[str, int] = {}
    columns: dict[str, list[int]] = {
        name: [] for name in ("node", "lane", "size", "start", "running", "contract", "told", "end", "team", "taken")
    }
    names: list[int] = []
    before_s = 0
    for bar in timeline.bars:
        instants = (bar.running_s, bar.contract_end_s, bar.told_s, bar.end_s)
        offsets = [-1 if at_s is None else at_s - bar.start_s for at_s in instants]
        taken = workloads.setdefault(bar.taker, len(workloads)) if bar.taker is not None else -1
        values = (bar.node, bar.lane_milli, bar.size_milli, bar.start_s - before_s, *offsets)
        team = bar.team * 2 + int(bar.is_funded)
        for column, value in zip(columns.values(), (*values, team, taken), strict=True):
            column.append(value)
        names.append(workloads.setdefault(bar.workload, len(workloads)))
        before_s = bar.start_s
    index = timeline.index_of()
    stored: dict[str, Any] = {
        "now": timeline.now_s,
        "view": panel.view,
        "rows": [[row.name, row.size_milli] for row in timeline.rows],
        "teams": [[team.code, team.colour] for team in timeline.teams],
        "unfit": [[index[spell.node], *spell[1:]] for spell in timeline.unfit if spell.node in index],
        "workloads": list(workloads),
        "names": names,
        **columns,
    }
    packed = zlib.compress(json.dumps(stored, separators=(",", ":")).encode(), 9)
    return base64.b64encode(packed).decode()
