"""A comparison of policies as one HTML file that needs nothing else: charts of dots with intervals, and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from scheduler.management.comparison_tables import REAL, half, heading, said, side, sign
from scheduler.simulator.measures import MEASURES, Measure, Measures
from scheduler.simulator.policy_table import Line
from scheduler.simulator.study import charts
from scheduler.simulator.study.page import as_file

TITLE = "Policies compared"
HEADINGS: Mapping[str, str] = {
    "waits": "Waits",
    "completion": "Completion",
    "fairness": "Fairness",
    "use": "Use, packing and fragmentation",
    "preemption": "Preemption",
}
"""Of the groups that figures are in."""
HOW_TO_READ = (
    "A dot is the estimate and its bar the 95 % interval; filled in colour, the difference to the first policy is more "
    "than luck; open, it may be luck."
)
DOTTED = " The dotted line is what really happened."
SIDES = (("base", "the first"), ("better", "better"), ("worse", "worse"), ("", "no clear difference"))
LETTER = 6.2
"""About as wide as one letter of a policy's name is, in the chart's units."""
LEAST_LABEL, MOST_LABEL = 100, 250


def comparison_page(about: str, names: Sequence[str], lines: Sequence[Line], real: Measures | None) -> str:
    """The whole file.

    Args:
        about: what was run.
        names: of the policies; the others are compared with the first.
        lines: `policy_table.table`.
        real: what really happened, where it is history.
    """
    legend = "".join(
        f'<li><span class="mark {charts.look_of(each)}"></span>{escape(word)}</li>'
        for each, word in SIDES[: None if len(names) > 1 else 1]
    )
    body = [f'<p>{HOW_TO_READ}{DOTTED if real else ""}</p><ul class="legend">{legend}</ul>']
    for group, title in HEADINGS.items():
        measures = [each for each in MEASURES if each.group == group and any(line[each.name] for line in lines)]
        if not measures:
            continue
        body.append(f'<h2>{escape(title)}</h2><div class="pair">')
        body += [_figure(each, names, lines, real) for each in measures]
        body.append(f"</div>{_table(measures, names, lines, real)}")
    return as_file(TITLE, about, "".join(body))


def _figure(measure: Measure, names: Sequence[str], lines: Sequence[Line], real: Measures | None) -> str:
    dots = [
        _dot(measure, place, name, line[measure.name])
        for place, (name, line) in enumerate(zip(names, lines, strict=True))
    ]
    width = min(MOST_LABEL, max(LEAST_LABEL, round(LETTER * max(len(name) for name in names))))
    drawn = charts.dots(
        measure.label,
        dots,
        lambda value: said(measure, value),
        label_width=width,
        at=None if real is None else real.get(measure.name),
        from_zero=measure.unit != "part",
    )
    return f"<figure><figcaption>{escape(heading(measure))}</figcaption>{drawn}</figure>"


def _dot(measure: Measure, place: int, name: str, told: Mapping[str, Any] | None) -> charts.Dot:
    if told is None:
        return charts.Dot(name, None, None, None, "")
    apart = told["difference"]
    look = "base" if not place else "" if apart is None else side(measure, apart)
    return charts.Dot(name, told["value"], told["low"], told["high"], look)


def _table(measures: Sequence[Measure], names: Sequence[str], lines: Sequence[Line], real: Measures | None) -> str:
    """A row for each policy; below a value with its interval, how much more it is than under the first."""
    rows = [] if real is None else [(REAL, [escape(said(each, real.get(each.name))) for each in measures])]
    rows += [
        (name, [_cell(each, line[each.name]) for each in measures]) for name, line in zip(names, lines, strict=True)
    ]
    head = "".join(f'<th scope="col">{escape(each.label)}</th>' for each in measures)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for name, cells in rows
    )
    return (
        f'<div class="wide"><table class="sides"><thead><tr><th scope="col">policy</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(measure: Measure, told: Mapping[str, Any] | None) -> str:
    """ "12 min ± 2 min", and below it "+3 min ± 1 min, worse"."""
    if told is None:
        return "–"
    cell = escape(f"{said(measure, told['value'])} {half(measure, told)}".strip())
    apart = told["difference"]
    if apart is None:
        return cell
    more = escape(f"{sign(apart)}{said(measure, abs(apart['value']))} {half(measure, apart)}".strip())
    how = side(measure, apart)
    words = f'<span class="{charts.look_of(how)}">{more}, {how}</span>' if how else more
    return f"{cell}<small>{words}</small>"
