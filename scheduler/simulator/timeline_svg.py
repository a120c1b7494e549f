"""Draws a view of a timeline as SVG: each bar where they are few, cells of time and nodes where they are many.

The drawing names classes only (f1 a team's fill, s1 its stroke, o1 text on it, ...), so that a page's style sheet or
`timeline_page.STYLE` gives it both looks. Bars of one run are one group with a title; cells of one look are one path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from .timeline import (
    INSIDE,
    LEAVING,
    OVER,
    STARTING,
    TO_COME,
    UNALLOCATED,
    Bar,
    Promise,
    Row,
    Timeline,
    parts_of,
    was_taken,
)
from .timeline_cells import Cells, View
from .timeline_words import Tick, duration_word

BARS_HEIGHT, DEVICE_MIN, DEVICE_MAX = 720, 1.2, 14.0
CELLS_HEIGHT, GROUP_MIN, GROUP_MAX = 560, 7.0, 26.0
TOP, BOTTOM, RIGHT = 10.0, 24.0, 8.0
LETTER, LINE = 6.9, 14.0
"""Width of a letter and height of a line of 12 px text."""
THIN = 0.5
"""Height of what starts up or leaves, as a part of the bar's."""
TEXTURED_FROM, DOTTED_FROM = 5, 9
"""Hues from these numbers on carry level lines, or dots, so that none differs by colour alone."""

KIND_WORDS = {
    STARTING: "starting up",
    INSIDE: "inside its contract",
    OVER: "after its contract: can be interrupted",
    UNALLOCATED: "unallocated: can be interrupted",
    LEAVING: "leaving",
    TO_COME: "contract still to come",
}
Rectangle = tuple[float, float, float, float]
"""Left, top, width, height."""


@dataclass(frozen=True)
class Look:
    """How a view is drawn.

    Attributes:
        prefix: of the ids inside, unique on the page.
        width: of the drawing's own coordinates.
        label: what it is, for those who do not see it.
        ticks: of the time axis.
        when: an instant in words.
        workload_href: where a run leads, if anywhere.
        rows_href: where rows [first, end) lead, if anywhere.
        say: an English text, or a pattern of one, in the reader's language.
    """

    prefix: str
    width: float
    label: str
    ticks: Sequence[Tick]
    when: Callable[[int], str]
    workload_href: Callable[[str], str] | None = None
    rows_href: Callable[[int, int], str] | None = None
    say: Callable[[str], str] = str


@dataclass
class Canvas:
    """Where things stand in a drawing. `edges` are the top and the height of each row of the view."""

    view: View
    look: Look
    left: float
    edges: Sequence[tuple[float, float]]
    parts: list[str] = field(default_factory=list)

    @property
    def bottom(self) -> float:
        """Where the last row ends."""
        return self.edges[-1][0] + self.edges[-1][1] if self.edges else TOP

    def x(self, at_s: int) -> float:
        """Where an instant stands, kept inside the drawing."""
        view = self.view
        inside_s = min(max(at_s, view.from_s), view.until_s) - view.from_s
        return self.left + inside_s * (self.look.width - self.left - RIGHT) / view.span_s

    def path(self, css: str, rectangles: Iterable[Rectangle], fill: str = "") -> None:
        """Rectangles of one look as one path; nothing where there are none."""
        drawn = "".join(f"M{_n(x)} {_n(y)}h{_n(w)}v{_n(h)}h{_n(-w)}z" for x, y, w, h in rectangles)
        if drawn:
            named = f' class="{css}"' if css else ""
            self.parts.append(f'<path{named}{self.pattern(fill) if fill else ""} d="{drawn}"/>')

    def layers(self, name: str, css: str, rectangles: Iterable[Rectangle], fills: Sequence[str]) -> None:
        """The same rectangles in a class and then in patterns over it, written once."""
        if not fills:
            self.path(css, rectangles)
            return
        name = f"{self.look.prefix}-{name}"
        self.parts.append("<defs>")
        self.path("", rectangles)
        self.parts[-1] = self.parts[-1].replace("<path", f'<path id="{name}"', 1)
        self.parts.append(f'</defs><use class="{css}" href="#{name}"/>')
        self.parts += [f'<use{self.pattern(fill)} href="#{name}"/>' for fill in fills]

    def pattern(self, name: str) -> str:
        """A fill attribute."""
        return f' fill="url(#{self.look.prefix}-{name})"'


def draw_bars(timeline: Timeline, bars: Sequence[Bar], view: View, look: Look) -> str:
    """The view with every bar of it."""
    rows = timeline.rows[view.first_row : view.end_row]
    devices = max(1, sum(row.size_milli for row in rows) // 1_000)
    device = min(max(BARS_HEIGHT / devices, DEVICE_MIN), DEVICE_MAX)
    gap = 3.0 if device >= 4 else 1.0 if device >= 2 else 0.4
    canvas = _canvas(view, look, rows, [row.size_milli / 1_000 * device for row in rows], gap)
    _ground(canvas, timeline)
    runs: dict[int, list[Bar]] = defaultdict(list)
    for bar in bars:
        runs[bar.run].append(bar)
    edges: list[Rectangle] = []
    arrows: list[tuple[float, float]] = []
    for found in runs.values():
        _run(canvas, timeline, found, device, gap, edges, arrows)
    canvas.path("edge", edges)
    if arrows:
        drawn = "".join(f"M{_n(x)} {_n(y - 5)}l8 5l-8 5z" for x, y in arrows)
        canvas.parts.append(f'<path class="arrow" d="{drawn}"/>')
    _promises(canvas, timeline)
    return _finished(canvas, timeline, {timeline.teams[bar.team].colour for bar in bars})


def draw_cells(timeline: Timeline, cells: Cells, look: Look) -> str:
    """The view in cells; `timeline.bars` is not looked at."""
    grid = cells.grid
    view = grid.view
    rows = timeline.rows[view.first_row : view.end_row]
    height = min(max(CELLS_HEIGHT / grid.groups, GROUP_MIN), GROUP_MAX)
    gap = 1.0 if height > 8 else 0.5
    canvas = _canvas(view, look, rows, [height / grid.per_group] * len(rows), gap, per_group=grid.per_group)
    _ground(canvas, timeline)
    tops = [canvas.edges[group * grid.per_group][0] for group in range(grid.groups)]
    lane = height / cells.lanes
    looks: dict[tuple[int, int], list[Rectangle]] = defaultdict(list)
    for mark in cells.marks:
        x = canvas.x(view.from_s + mark.from_column * grid.column_s)
        width = canvas.x(view.from_s + mark.until_column * grid.column_s) - x
        colour = timeline.teams[mark.team].colour
        looks[colour, mark.kind].append((x, tops[mark.group] + mark.lane * lane, width, lane))
    for number, ((colour, kind), rectangles) in enumerate(sorted(looks.items())):
        if kind == UNALLOCATED:
            canvas.path("", rectangles, f"u{colour}")
            continue
        fills = [_texture_of(colour), "over" if kind == OVER else ""]
        canvas.layers(f"l{number}", f"f{colour}", rectangles, [fill for fill in fills if fill])
    edges = []
    for (group, column), milli in cells.taken.items():
        part = max(milli / max(1, sum(row.size_milli for row in rows[group * grid.per_group :][: grid.per_group])), 0.2)
        end = canvas.x(view.from_s + (column + 1) * grid.column_s)
        edges.append((end - 1.5, tops[group] + height * (1 - min(part, 1.0)), 1.5, height * min(part, 1.0)))
    canvas.path("edge", edges)
    _promises(canvas, timeline)
    return _finished(canvas, timeline, {colour for colour, _ in looks})


def _canvas(
    view: View, look: Look, rows: Sequence[Row], heights: Sequence[float], gap: float, per_group: int = 1
) -> Canvas:
    left = 8 + LETTER * min(max((len(row.name) for row in rows), default=4), 18)
    edges, top = [], TOP
    for at, height in enumerate(heights):
        edges.append((top, height))
        top += height + (gap if (at + 1) % per_group == 0 else 0)
    return Canvas(view, look, left, edges)


def _ground(canvas: Canvas, timeline: Timeline) -> None:
    """Free devices, and when nodes were not to be used."""
    view, first = canvas.view, canvas.view.first_row
    width = canvas.look.width - canvas.left - RIGHT
    canvas.path("free", [(canvas.left, top, width, height) for top, height in canvas.edges])
    index = timeline.index_of()
    for why, pattern in (("maintenance", "service"), ("unhealthy", "repair"), ("down", "repair")):
        rectangles = []
        for spell in timeline.unfit:
            at = index.get(spell.node, -1) - first
            if spell.why == why and 0 <= at < len(canvas.edges) and spell.until_s > view.from_s:
                x = canvas.x(spell.from_s)
                if spell.from_s < view.until_s:
                    rectangles.append((x, canvas.edges[at][0], canvas.x(spell.until_s) - x, canvas.edges[at][1]))
        canvas.path("repair", rectangles)
        canvas.path("", rectangles, pattern)


def _promises(canvas: Canvas, timeline: Timeline) -> None:
    """Reservations as outlines, from the last devices of their nodes up, since which of them it will be is not said;
    those of one workload are one group, with its name where that fits.
    """
    view, look = canvas.view, canvas.look
    taken_milli: dict[int, int] = defaultdict(int)
    groups: dict[str, list[tuple[Promise, Rectangle]]] = defaultdict(list)
    for promise in timeline.promises:
        at = promise.node - view.first_row
        x, end = canvas.x(promise.start_s), canvas.x(promise.end_s)
        if not 0 <= at < len(canvas.edges) or end <= x:
            continue
        top, height = canvas.edges[at]
        size_milli = timeline.rows[promise.node].size_milli
        taken_milli[promise.node] += promise.size_milli
        y = top + height * max(0, size_milli - taken_milli[promise.node]) / size_milli
        part = min(1.0, promise.size_milli / size_milli)
        groups[promise.workload].append((promise, (x, y, end - x, height * part)))
    for workload, found in groups.items():
        (first, (x, y, width, height)), rectangles = found[0], [rectangle for _, rectangle in found]
        title = look.say("{workload}: reserved from {at} at the latest")
        title = title.format(workload=workload, at=look.when(first.start_s))
        href = look.workload_href(workload) if look.workload_href else ""
        canvas.parts.append((f'<a href="{escape(href)}">' if href else "<g>") + f"<title>{escape(title)}</title>")
        canvas.path("reserved", rectangles)
        if height >= LINE - 2 and width >= LETTER * len(workload) + 14:
            canvas.parts.append(f'<text class="name halo" x="{_n(x + 6)}" y="{_n(y + min(height, 18) / 2 + 4)}">')
            canvas.parts.append(f"{escape(workload)}</text>")
        canvas.parts.append("</a>" if href else "</g>")


def _run(
    canvas: Canvas,
    timeline: Timeline,
    bars: Sequence[Bar],
    device: float,
    gap: float,
    edges: list[Rectangle],
    arrows: list[tuple[float, float]],
) -> None:
    """One run: its blocks, in the parts of its life, with its name where that fits."""
    first, colour = bars[0], timeline.teams[bars[0].team].colour
    blocks = list(_blocks(canvas, bars, device, gap))
    look = canvas.look
    opened = f'<a href="{escape(look.workload_href(first.workload))}">' if look.workload_href else "<g>"
    canvas.parts.append(f"{opened}<title>{escape(_title(canvas, timeline, bars))}</title>")
    for kind, from_s, until_s in parts_of(first, timeline.now_s):
        x, end = canvas.x(from_s), canvas.x(until_s)
        if end <= x:
            continue
        thin = THIN if kind in (STARTING, LEAVING) else 1.0
        rectangles = [(x, y + h * (1 - thin) / 2, end - x, h * thin) for y, h in blocks]
        if kind == UNALLOCATED:
            canvas.path(f"open s{colour}", rectangles, f"u{colour}")
            continue
        canvas.path(f"f{colour} promise" if kind == TO_COME else f"f{colour}", rectangles)
        if kind == OVER:
            canvas.path("", rectangles, "over")
        elif kind == INSIDE and _texture_of(colour):
            canvas.path("", rectangles, _texture_of(colour))
    x, end = canvas.x(first.start_s), canvas.x(timeline.now_s if first.end_s is None else first.end_s)
    _name(canvas, first, colour, x, end, blocks)
    canvas.parts.append("</a>" if look.workload_href else "</g>")
    if was_taken(first) and first.end_s is not None and first.end_s <= canvas.view.until_s:
        width = 3.0 if end - x > 6 else 1.5
        edges += [(end - width, y, width, h) for y, h in blocks]
        arrows += [(end - 1, y + h / 2) for y, h in blocks if h >= 10 and end - x > 12]


def _blocks(canvas: Canvas, bars: Sequence[Bar], device: float, gap: float) -> Iterator[tuple[float, float]]:
    """Tops and heights of a run's bars, those that touch over a node's edge joined."""
    begun: tuple[float, float] | None = None
    for bar in sorted(bars):
        top = canvas.edges[bar.node - canvas.view.first_row][0] + bar.lane_milli / 1_000 * device
        bottom = top + bar.size_milli / 1_000 * device
        if begun is not None and abs(top - begun[1] - gap) < 0.01 and bar.lane_milli == 0:
            begun = (begun[0], bottom)
            continue
        if begun is not None:
            yield begun[0], begun[1] - begun[0]
        begun = (top, bottom)
    if begun is not None:
        yield begun[0], begun[1] - begun[0]


def _title(canvas: Canvas, timeline: Timeline, bars: Sequence[Bar]) -> str:
    first, when, say = bars[0], canvas.look.when, canvas.look.say
    team = timeline.teams[first.team]
    end = say("still there") if first.end_s is None else say("to {at}").format(at=when(first.end_s))
    lines = [
        f"{first.workload}, {team.code}" + (f" {team.name}" if team.name != team.code else ""),
        f"{when(first.start_s)} {end}",
        f"{say('funded') if first.is_funded else say('unallocated')}; {_life(first, timeline.now_s, say)}",
    ]
    if was_taken(first):
        taken = say("preempted for {taker}").format(taker=first.taker)
        lines.append(taken if first.taker else say("ended: {reason}").format(reason=say(first.reason)))
    elif first.reason:
        lines.append(say("ended: {reason}").format(reason=say(first.reason.replace("_", " "))))
    return "\n".join(lines)


def _life(bar: Bar, now_s: int, say: Callable[[str], str]) -> str:
    return ", ".join(
        f"{say(KIND_WORDS[kind].partition(':')[0])} {duration_word(until_s - from_s)}"
        for kind, from_s, until_s in parts_of(bar, now_s)
    )


def _name(canvas: Canvas, bar: Bar, colour: int, x: float, end: float, blocks: Sequence[tuple[float, float]]) -> None:
    """The workload's id in the first block, if it fits."""
    y, height = blocks[0]
    if height < LINE - 2 or end - x < LETTER * len(bar.workload) + 14:
        return
    css = f"o{colour}" if bar.is_funded else "halo"
    canvas.parts.append(f'<text class="name {css}" x="{_n(x + 9)}" y="{_n(y + min(height, 18) / 2 + 4)}">')
    canvas.parts.append(f"{escape(bar.workload)}</text>")


def _texture_of(colour: int) -> str:
    """The pattern that a hue carries, if any."""
    return "dots" if colour >= DOTTED_FROM else "tex" if colour >= TEXTURED_FROM else ""


def _finished(canvas: Canvas, timeline: Timeline, colours: set[int]) -> str:
    """Axis, row names and the instant now around what is drawn."""
    look, view, bottom = canvas.look, canvas.view, canvas.bottom
    names = [row.name for row in timeline.rows[view.first_row : view.end_row]]
    height = bottom + BOTTOM
    # what holds links is no picture to those who do not see it, but a group of links
    role = "group" if look.workload_href or look.rows_href else "img"
    before = [
        (
            f'<svg viewBox="0 0 {_n(look.width)} {_n(height)}" width="{_n(look.width)}"'
            f' height="{_n(height)}" role="{role}"'
            f' aria-label="{escape(look.label)}" xmlns="http://www.w3.org/2000/svg" class="timeline"'
            f' data-left="{_n(canvas.left)}" data-right="{_n(look.width - RIGHT)}" data-top="{_n(TOP)}"'
            f' data-bottom="{_n(bottom)}" data-from="{view.from_s}" data-until="{view.until_s}"'
            f' data-rows="{",".join(_n(top) for top, _ in canvas.edges)}" data-first="{view.first_row}"'
            f' data-names="{escape(" ".join(names))}">'
        ),
        _patterns(look.prefix, colours),
    ]
    after = []
    for tick in look.ticks:
        x = canvas.x(tick.at_s)
        after.append(f'<path class="g" d="M{_n(x)} {_n(TOP)}V{_n(bottom + 4)}"/>')
        half = LETTER * len(tick.words) / 2
        anchor, x = ("end", look.width) if x + half > look.width else ("middle", x)
        after.append(f'<text class="{"b" if tick.is_major else ""}" text-anchor="{anchor}" x="{_n(x)}"')
        after.append(f' y="{_n(bottom + 18)}">{escape(tick.words)}</text>')
    after += _row_names(canvas, timeline)
    if view.from_s < timeline.now_s < view.until_s:
        x = canvas.x(timeline.now_s)
        after.append(f'<path class="now" d="M{_n(x)} 0V{_n(bottom)}"/>')
    return "".join([*before, *canvas.parts, *after, "</svg>"])


def _row_names(canvas: Canvas, timeline: Timeline) -> Iterator[str]:
    """Names beside the rows: every one where there is room, else the first of so many."""
    first, edges, href = canvas.view.first_row, canvas.edges, canvas.look.rows_href
    shown: list[int] = []
    for at, (top, _) in enumerate(edges):
        if not shown or top - edges[shown[-1]][0] >= LINE:
            shown.append(at)
    for at, following in zip(shown, [*shown[1:], len(edges)], strict=True):
        top, height = edges[at]
        name = timeline.rows[first + at].name
        y = top + min(max(height, LINE), 20) / 2 + 4
        text = f'<text x="0" y="{_n(y)}">{escape(name)}</text>'
        yield f'<a href="{escape(href(first + at, first + following))}">{text}</a>' if href else text


def _patterns(prefix: str, colours: set[int]) -> str:
    """The hatches, textures and fills that the drawing refers to."""
    slanted = 'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    upright = 'patternUnits="userSpaceOnUse"'
    found = [
        f'<pattern id="{prefix}-over" width="6" height="6" {slanted}><path class="h-over" d="M0 0V6"/></pattern>',
        f'<pattern id="{prefix}-repair" width="5" height="5" {upright}><path class="h-repair" d="M0 0V5"/></pattern>',
        (
            f'<pattern id="{prefix}-service" width="9" height="9" {upright}><path class="h-repair" d="M0 0V9M3 0V9"/>'
            "</pattern>"
        ),
        f'<pattern id="{prefix}-tex" width="5" height="5" {upright}><path class="tex" d="M0 0h5v1.4h-5z"/></pattern>',
        (
            f'<pattern id="{prefix}-dots" width="5" height="5" {upright}><circle class="tex" cx="2" cy="2" r="1.1"/>'
            "</pattern>"
        ),
    ]
    found += [
        f'<pattern id="{prefix}-u{colour}" width="5" height="5" {slanted}><rect class="free" width="5" height="5"/>'
        f'<path class="s{colour}" stroke-width="2.4" d="M0 0V5"/></pattern>'
        for colour in sorted(colours)
    ]
    return f"<defs>{''.join(found)}</defs>"


def _n(value: float) -> str:
    """A coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")
