"""What budgets would have done on a Slurm cluster, beside what was: one HTML file by itself, or Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import Any

from scheduler.management.slurm_scenario import Past
from scheduler.simulator.comparison import CLASSES
from scheduler.simulator.study.page import STYLE

HOUR_S, DAY_S = 3_600, 86_400
MILLI_S_IN_AN_HOUR = 3_600_000
ACCOUNTS_SHOWN = 200
LABEL_WIDTH, BAR_WIDTH, VALUE_WIDTH = 110, 250, 62
NONE = "–"


@dataclass(frozen=True, slots=True)
class Side:
    """One column: what it is called, in a sentence too, and its figures (`simulator.comparison.figures`)."""

    name: str
    about: str
    figures: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below a heading; the first cell of each names it."""

    title: str
    about: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(past: Past, sides: Sequence[Side]) -> list[Table]:
    """All that the report says in figures."""
    return [_whole(past, sides), _waits(sides), _accounts(past, sides)]


def _whole(past: Past, sides: Sequence[Side]) -> Table:
    lines = (
        ("Occupancy: held of what was there", lambda each: percent(each["occupancy"])),
        ("Delivery: given of what was owed", lambda each: percent(each["delivery"])),
        ("Started", lambda each: f"{each['started']:,}"),
        ("Ended", lambda each: f"{each['ended']:,}"),
        ("Preempted or requeued", lambda each: f"{each['preemptions']:,}"),
        ("Wait, median", lambda each: span(each["waits"]["all"]["median_s"])),
        ("Wait, 90th percentile", lambda each: span(each["waits"]["all"]["p90_s"])),
    )
    rows = [[title, *(say(side.figures) for side in sides)] for title, say in lines]
    about = f"The whole cluster, over {span(sides[0].figures['end_s'])} from {past.began_at:%Y-%m-%d %H:%M} UTC."
    return Table("Side by side", about, ["", *(side.name for side in sides)], rows)


def _waits(sides: Sequence[Side]) -> Table:
    rows = []
    for name in CLASSES:
        counts = [side.figures["waits"][name]["count"] for side in sides]
        if any(counts):
            rows.append([name, f"{max(counts):,}", *(_wait(side.figures["waits"][name]) for side in sides)])
    about = (
        "From submission to first start, median and 90th percentile. Debug: a contract of at most 15 minutes, on one "
        "node at most. Large: at least a sixteenth of the cluster."
    )
    return Table("Waits by kind of job", about, ["", "jobs", *(side.name for side in sides)], rows)


def _wait(wait: Mapping[str, Any]) -> str:
    return f"{span(wait['median_s'])} / {span(wait['p90_s'])}" if wait["count"] else NONE


def _accounts(past: Past, sides: Sequence[Side]) -> Table:
    entitled = entitlements(past)
    rows = []
    for name in _by_use(past, sides)[:ACCOUNTS_SHOWN]:
        each = [side.figures["nodes"].get(name, {}) for side in sides]
        rows.append(
            [
                name,
                percent(entitled[name]),
                *(_hours(node) for node in each),
                *(percent(node.get("delivery")) for node in each),
            ]
        )
    names = [side.name for side in sides]
    about = (
        f"{past.unit} hours that each account was given, and how much of what it was owed (the smaller of what it was "
        "entitled to and what it asked for, hour by hour) that was."
    )
    head = ["account", "entitled to", *(f"hours, {name}" for name in names), *(f"delivery, {name}" for name in names)]
    return Table("Accounts", about, head, rows)


def _by_use(past: Past, sides: Sequence[Side]) -> list[str]:
    """Budget nodes with any use, most used first."""
    used: dict[str, int] = {}
    for side in sides:
        for name, node in side.figures["nodes"].items():
            used[name] = max(used.get(name, 0), node["charged_milli_s"] + node["uncharged_milli_s"])
    known = {node.id for node in past.scenario.tree if node.parent is not None}
    return sorted(
        (name for name, amount in used.items() if amount and name in known), key=lambda each: (-used[each], each)
    )


def entitlements(past: Past) -> dict[str, float]:
    """Part of the cluster by budget node: the product of its shares along the path."""
    found: dict[str, float] = {}
    for node in past.scenario.tree:  # parents before their children
        above = 1.0 if node.parent is None else found[node.parent]
        found[node.id] = above * (node.shares / node.whole if node.whole else 0.0)
    return found


# --- in words ---------------------------------------------------------------------------------------------------------


def verdict(sides: Sequence[Side]) -> list[str]:
    """What the figures say, in sentences."""
    real, ours = sides[0].figures, sides[1].figures
    said = []
    if real["delivery"] is not None and ours["delivery"] is not None:
        said.append(
            f"Of what accounts were entitled to and asked for, Slurm gave {percent(real['delivery'])}; under contracts "
            f"it would have been {percent(ours['delivery'])}."
        )
    if real["occupancy"] is not None and ours["occupancy"] is not None:
        said.append(f"Occupancy would have been {percent(ours['occupancy'])} instead of {percent(real['occupancy'])}.")
    for name in ("debug", "large"):
        before, after = real["waits"][name], ours["waits"][name]
        if before["count"] and after["count"]:
            said.append(
                f"The median {name} job waited {span(before['median_s'])}, and would have waited "
                f"{span(after['median_s'])}."
            )
    unstarted = real["started"] - ours["started"]
    if unstarted > 0:
        said.append(f"{unstarted:,} jobs that ran would not have started by the end of this time.")
    return said


def percent(part: float | None) -> str:
    """12.3 %."""
    return NONE if part is None else f"{100 * part:.1f} %"


def span(seconds: int | None) -> str:
    """Seconds below two minutes, then minutes, hours, days."""
    if seconds is None:
        return NONE
    for limit_s, unit_s, unit in ((120, 1, "s"), (2 * HOUR_S, 60, "min"), (2 * DAY_S, HOUR_S, "h")):
        if seconds < limit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{timedelta(seconds=seconds) / timedelta(days=1):.1f} days"


def _hours(node: Mapping[str, Any]) -> str:
    total = node.get("charged_milli_s", 0) + node.get("uncharged_milli_s", 0)
    return f"{total / MILLI_S_IN_AN_HOUR:,.0f}"


ASSUMED = (
    "A job's contract is its own duration, at most {cap}; {resumed}.",
    "Gangs larger than a node hold whole nodes under contracts, and what they really held in the records.",
    "Everybody submits when they really did, however long they then wait.",
)


def assumptions(cap_s: int, restart_cost_s: int | None) -> list[str]:
    """What was decided for want of records."""
    resumed = (
        "a preempted job is lost"
        if restart_cost_s is None
        else f"a preempted job goes on later, and repeats {span(restart_cost_s)} of its work"
    )
    return [line.format(cap=span(cap_s), resumed=resumed) for line in ASSUMED]


# --- as a file --------------------------------------------------------------------------------------------------------

TITLE = "What would budgets have done on this cluster?"


def as_markdown(past: Past, sides: Sequence[Side], told: Sequence[str]) -> str:
    """The whole report in Markdown."""
    parts = [f"# {TITLE}", *verdict(sides)]
    parts += [f"- **{side.name}**: {side.about}" for side in sides]
    for table in tables(past, sides):
        parts += [f"## {table.title}", table.about]
        lines = [table.head, ["---"] * len(table.head), *table.rows]
        parts.append("\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines))
    parts += ["## What this rests on", "\n".join(f"- {line}" for line in told)]
    return "\n\n".join(parts) + "\n"


def as_html(past: Past, sides: Sequence[Side], told: Sequence[str]) -> str:
    """The whole report as one file: it opens from disk, in light or dark, on a phone, and prints."""
    body = "".join(f"<p>{escape(line)}</p>" for line in verdict(sides))
    body += f"<dl>{''.join(f'<dt>{escape(side.name)}</dt><dd>{escape(side.about)}</dd>' for side in sides)}</dl>"
    for table in tables(past, sides):
        body += f"<h2>{escape(table.title)}</h2><p>{escape(table.about)}</p>"
        if table.title == "Accounts":
            body += _bars(past, sides)
        body += _as_table(table)
    body += f"<h2>What this rests on</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in told)}</ul>"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(TITLE)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}{OWN_STYLE}</style></head>'
        f"<body><main><h1>{escape(TITLE)}</h1>{body}</main></body></html>\n"
    )


OWN_STYLE = """
.bar.a{fill:var(--a)}.bar.b2{fill:var(--b)}.bar.c{fill:var(--c)}.mark{stroke:var(--ink);stroke-width:1.5}
li{color:var(--ink-2);max-width:75ch}ul{padding-left:20px}
"""
LOOKS = ("a", "b2", "c")
BARS_SHOWN = 12


def _as_table(table: Table) -> str:
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in table.rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table></div>'


def _bars(past: Past, sides: Sequence[Side]) -> str:
    """How much of the cluster each account was given, with what it is entitled to as a mark."""
    entitled = entitlements(past)
    total = sum(node.capacity_milli for node in past.scenario.nodes) * sides[0].figures["end_s"]
    names = [name for name in _by_use(past, sides) if _is_leaf(past, name)][:BARS_SHOWN]
    if not names or not total:
        return ""
    parts = {
        name: [
            sum(side.figures["nodes"].get(name, {}).get(key, 0) for key in ("charged_milli_s", "uncharged_milli_s"))
            / total
            for side in sides
        ]
        for name in names
    }
    most = max(max(entitled[name], *parts[name]) for name in names) or 1.0
    row_height, width = 12 * len(sides) + 12, LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH
    drawn = []
    for index, name in enumerate(names):
        top = index * row_height + 6
        drawn.append(f'<text class="b" x="0" y="{top + 11}">{escape(name[:16])}</text>')
        for number, part in enumerate(parts[name]):
            length = max(BAR_WIDTH * part / most, 1)
            drawn.append(
                f'<rect class="bar {LOOKS[number % 3]}" x="{LABEL_WIDTH}" y="{top + 12 * number}" width="{length:.1f}" '
                f'height="10" rx="2"><title>{escape(f"{name}, {sides[number].name}: {percent(part)}")}</title></rect>'
            )
        x = LABEL_WIDTH + BAR_WIDTH * entitled[name] / most
        drawn.append(f'<path class="mark" d="M{x:.1f} {top - 2}v{12 * len(sides) + 2}"/>')
        drawn.append(f'<text x="{LABEL_WIDTH + BAR_WIDTH + 6}" y="{top + 11}">{percent(entitled[name])}</text>')
    legend = "".join(
        f'<li><span class="key {LOOKS[number % 3]}"></span>{escape(side.name)}</li>'
        for number, side in enumerate(sides)
    )
    return (
        f'<figure><svg viewBox="0 0 {width} {len(names) * row_height + 6}" style="max-width:520px" role="img" '
        f'aria-label="Part of the cluster that each account was given">{"".join(drawn)}</svg>'
        f'<ul class="legend">{legend}<li>| entitled to</li></ul><figcaption>Part of the cluster that each account was '
        "given, and what it is entitled to (the mark and the figure); the table below has the same in hours."
        "</figcaption></figure>"
    )


def _is_leaf(past: Past, name: str) -> bool:
    return all(node.parent != name for node in past.scenario.tree)
