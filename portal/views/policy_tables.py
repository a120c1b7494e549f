"""What the page of a comparison over seeds shows: a chart of dots with intervals for each figure, and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from portal import formats
from portal.charts import Figure, axis, layout
from portal.csv_files import Cell
from portal.forms.policies import title_of
from portal.views.simulation_tables import NOTHING, Entry
from scheduler.queries.simulations import PoliciesCompared
from scheduler.simulator.intervals import Again
from scheduler.simulator.measures import MEASURES, Measure
from scheduler.simulator.policy_table import is_better, is_clear, rows

REAL = gettext_lazy("what really happened")
TITLES: Mapping[str, str | Promise] = {
    "wait_mean_s": gettext_lazy("Wait, mean"),
    "wait_median_s": gettext_lazy("Wait, median"),
    "wait_p90_s": gettext_lazy("Wait, 9 in 10 within"),
    "debug_p90_s": gettext_lazy("Debug runs, 9 in 10 within"),
    "large_median_s": gettext_lazy("Large gangs, median wait"),
    "large_p90_s": gettext_lazy("Large gangs, 9 in 10 within"),
    "completion_mean_s": gettext_lazy("Completion, mean"),
    "completion_p90_s": gettext_lazy("Completion, 9 in 10 within"),
    "finished": gettext_lazy("Workloads finished"),
    "delivery": gettext_lazy("Impact, %"),
    "rho_p90": gettext_lazy("Finish-time fairness ρ, 9 in 10 within"),
    "rho_max": gettext_lazy("Finish-time fairness ρ, worst"),
    "occupancy": gettext_lazy("Occupancy, %"),
    "usable": gettext_lazy("Largest gang, of free or interruptible, %"),
    "largest": gettext_lazy("Largest gang, of the cluster, %"),
    "packed": gettext_lazy("Nodes in use, how full, %"),
    "pieces": gettext_lazy("Free GPUs that are on nodes in use, %"),
    "spread": gettext_lazy("Runs on more nodes than they need, %"),
    "price": gettext_lazy("GPU time, times what it takes unspread"),
    "utilization": gettext_lazy("Gangs over several nodes use, modelled, %"),
    "preemptions": gettext_lazy("Preemptions"),
    "lost_gpu_h": gettext_lazy("Work lost to interruptions, GPU-hours"),
}
GROUPS: Mapping[str, tuple[str | Promise, str | Promise]] = {
    "waits": (
        gettext_lazy("Waits"),
        gettext_lazy("Whoever had not started by the end counts with what it had waited by then."),
    ),
    "completion": (gettext_lazy("Completion"), gettext_lazy("From submission to end, of what finished.")),
    "fairness": (
        gettext_lazy("Fairness"),
        gettext_lazy("What of the owed was given; and how many times as long work took as with a fair share apart."),
    ),
    "use": (
        gettext_lazy("Use, packing and fragmentation"),
        gettext_lazy(
            "How large a gang could have started, and how work lay on nodes, hour by hour, by the rule of contracts, "
            "whoever decides; what gangs that are spread over nodes would have used, and how much longer they take, "
            "as measured elsewhere (Philly, 2017)."
        ),
    ),
    "preemption": (
        gettext_lazy("Preemption"),
        gettext_lazy("Work that was repeated or thrown away, and start-ups after the first."),
    ),
}
AGAIN: Mapping[Again, str | Promise] = {
    Again.INVENTED: gettext_lazy(
        "Each seed is a laboratory of its own: means over the seeds, with 95 % intervals of them."
    ),
    Again.DRAWN: gettext_lazy(
        "What the work itself came to, with 95 % intervals from the spread of the other seeds, in which its arrivals "
        "are drawn anew in blocks of six hours of the same time of day."
    ),
    Again.MOVED: gettext_lazy(
        "Means over the seeds with 95 % intervals, of luck alone: from the second on the same work comes up to 10 "
        "minutes earlier or later, and takes up to a tenth more or less."
    ),
    Again.ALONE: gettext_lazy("One run of each policy: no intervals."),
}
TIME_UNITS = ((86_400, 3 * 86_400, "d"), (3_600, 2 * 3_600, "h"), (60, 120, "min"), (1, 0, "s"))
"""In which unit durations are drawn: its seconds, from how long on, its name."""
ROW_REM, EDGE_REM = 2.25, 2.5


@dataclass(frozen=True, slots=True)
class Drawn:
    """One figure's chart, how tall it is, and what stands above it."""

    title: str
    chart: Figure
    height_rem: float


@dataclass(frozen=True, slots=True)
class Row:
    """A policy's row: its name, what it is, and a cell for each figure of the group."""

    name: str
    below: str
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True)
class Group:
    """Figures that belong together."""

    name: str
    title: str
    words: str
    charts: Sequence[Drawn]
    titles: Sequence[str]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class Told:
    """Everything about a comparison over seeds."""

    sentence: str
    again: str
    has_real: bool
    groups: Sequence[Group]


def told(compared: PoliciesCompared, *, with_charts: str) -> Told:
    """The page's values.

    Args:
        compared: what has finished.
        with_charts: "charts", or "tables" alone.
    """
    groups = []
    for name, (title, words) in GROUPS.items():
        measures = [each for each in MEASURES if each.group == name and _is_known(each, compared)]
        if measures:
            charts = [_chart(each, compared) for each in measures] if with_charts == "charts" else []
            titles = [str(TITLES[each.name]) for each in measures]
            groups.append(Group(name, str(title), str(words), charts, titles, _rows(measures, compared)))
    return Told(_sentence(compared), str(AGAIN[compared.again]), compared.real is not None, groups)


def csv_rows(compared: PoliciesCompared) -> Iterator[Sequence[Cell]]:
    """A row for each policy and figure, by `policy_table.COLUMNS`: times in seconds, parts of one."""
    for row in rows(compared.policies, compared.lines):
        yield tuple(Decimal(f"{value:.6f}") if isinstance(value, float) else value for value in row)


def _is_known(measure: Measure, compared: PoliciesCompared) -> bool:
    return any(line[measure.name] is not None for line in compared.lines)


def _sentence(compared: PoliciesCompared) -> str:
    """For each other policy, what it clearly does better and worse than the first."""
    said = []
    for name, line in zip(compared.policies[1:], compared.lines[1:], strict=True):
        better, worse = 0, 0
        for each in MEASURES:
            apart = (line[each.name] or {}).get("difference")
            if apart is not None and is_clear(apart):
                better, worse = better + is_better(each, apart), worse + (not is_better(each, apart))
        if better or worse:
            said.append(
                gettext("{policy} is better in {better} figures and worse in {worse}").format(
                    policy=name, better=better, worse=worse
                )
            )
    if not said:
        return ""
    return gettext("Against {base}, where it is more than luck: {policies}.").format(
        base=compared.policies[0], policies="; ".join(said)
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def _rows(measures: Sequence[Measure], compared: PoliciesCompared) -> list[Row]:
    found = []
    if compared.real is not None:
        real = compared.real
        known = [real.get(each.name) for each in measures]
        entries = [
            NOTHING if value is None else Entry(_said(each, value)) for each, value in zip(measures, known, strict=True)
        ]
        found.append(Row(str(REAL), "", entries))
    for name, line, done in zip(compared.policies, compared.lines, compared.done, strict=True):
        title = title_of(name)
        words = "" if title == name else title
        if done < compared.seeds:
            runs = gettext("{done} of {wanted} runs").format(done=done, wanted=compared.seeds)
            words = f"{words}; {runs}" if words else runs
        found.append(Row(name, words, [_entry(each, line[each.name]) for each in measures]))
    return found


def _entry(measure: Measure, told_of_it: Mapping[str, Any] | None) -> Entry:
    if told_of_it is None:
        return NOTHING
    below = [_half(measure, told_of_it)]
    apart = told_of_it["difference"]
    tone = ""
    if apart is not None:
        much = _about(measure, abs(apart["value"]))
        sign = "" if much == _about(measure, 0) else "+" if apart["value"] > 0 else "−"
        below.append(f"{sign}{much} {_half(measure, apart)}".strip())
        if is_clear(apart):
            tone = "better" if is_better(measure, apart) else "worse"
    return Entry(_said(measure, told_of_it["value"]), "; ".join(each for each in below if each), tone)


def _half(measure: Measure, told_of_it: Mapping[str, Any]) -> str:
    high = told_of_it["high"]
    return "" if high is None else f"±{formats.NBSP}{_about(measure, high - told_of_it['value'])}"


def _about(measure: Measure, value: float) -> str:
    """A difference or half an interval: durations in one unit, longer ones with a tenth."""
    if measure.unit != "s":
        return _said(measure, value)
    for unit_s, from_s, unit in TIME_UNITS[:2]:
        if value >= from_s:
            return f"{formats.half_up(Fraction(value) / unit_s, 1)}{formats.NBSP}{unit}"
    unit_s, from_s, unit = TIME_UNITS[2]
    return f"{round(value / unit_s)}{formats.NBSP}{unit}" if value >= from_s else formats.duration(round(value))


def _said(measure: Measure, value: float) -> str:
    """In the unit that the column's title names; durations with theirs."""
    if measure.unit == "s":
        return formats.duration(round(value))
    if measure.unit == "count":
        return formats.count(round(value))
    exact = Fraction(100 * value if measure.unit == "part" else value)
    return formats.half_up(exact, 2 if measure.unit == "times" else 1)


# --- charts -----------------------------------------------------------------------------------------------------------


def _chart(measure: Measure, compared: PoliciesCompared) -> Drawn:
    """A dot with its interval for each policy, its name above it; filled where it clearly differs from the first.

    No figure is less than nought, and no interval is drawn below it. Parts of a whole may lie close together: their
    axis does not begin at nought.
    """
    known = [(place, line[measure.name]) for place, line in enumerate(compared.lines)]
    drawn = [(place, each) for place, each in known if each is not None]
    real = None if compared.real is None else compared.real.get(measure.name)
    highs = [each["value"] if each["high"] is None else each["high"] for _, each in drawn]
    most = max([*highs, *([] if real is None else [real])])
    unit_s, unit = next((unit_s, name) for unit_s, from_s, name in TIME_UNITS if most >= from_s)
    scale = {"s": 1 / unit_s, "part": 100.0}.get(measure.unit, 1.0)
    title = str(TITLES[measure.name])
    number = len(compared.policies)
    looks = (
        ("base", compared.policies[0], "circle", "role:ink"),
        ("better", gettext("better"), "circle", "role:good"),
        ("worse", gettext("worse"), "circle", "role:bad"),
        ("", gettext("no clear difference"), "circle-open", "role:delivered"),
    )
    data = []
    for side, name, symbol, colour in looks:
        chosen = [(place, each) for place, each in drawn if (_side(measure, each) if place else "base") == side]
        if chosen:
            words = [_hover(measure, compared.policies[place], each) for place, each in chosen]
            data.append({**_dots(chosen, words, scale, symbol, colour), "name": name})
    start = "nonnegative" if measure.unit == "part" else "tozero"
    return Drawn(
        f"{title} ({unit})" if measure.unit == "s" else title,
        {
            "data": data,
            "layout": layout(
                margin={"l": 4, "r": 16, "t": 4, "b": 28},
                hovermode="closest",
                xaxis=axis(rangemode=start, nticks=5, tickformat=",~g", fixedrange=True),
                yaxis=axis(range=[number - 0.5, -0.85], showgrid=False, visible=False, fixedrange=True),
                shapes=[] if real is None else [_dotted(real * scale)],
                annotations=[_name(place, name) for place, name in enumerate(compared.policies)],
            ),
        },
        EDGE_REM + ROW_REM * number,
    )


def _dots(
    chosen: Sequence[tuple[int, Mapping[str, Any]]], words: Sequence[str], scale: float, symbol: str, colour: str
) -> Figure:
    """Dots with their intervals, of policies by place; `words` are shown when one is pointed at."""
    halves = [0.0 if each["high"] is None else float(each["high"] - each["value"]) for _, each in chosen]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [each["value"] * scale for _, each in chosen],
        "y": [place for place, _ in chosen],
        "customdata": list(words),
        "hovertemplate": "%{customdata}<extra></extra>",
        "cliponaxis": False,
        "marker": {"size": 10, "symbol": symbol, "color": colour, "line": {"width": 2, "color": colour}},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "thickness": 2,
            "width": 4,
            "color": colour,
            "array": [half * scale for half in halves],
            "arrayminus": [min(half, each["value"]) * scale for half, (_, each) in zip(halves, chosen, strict=True)],
        },
    }


def _dotted(at: float) -> Figure:
    """An upright line where reality was."""
    line = {"color": "role:ink-3", "width": 1, "dash": "dot"}
    return {"type": "line", "x0": at, "x1": at, "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _side(measure: Measure, told_of_it: Mapping[str, Any]) -> str:
    apart = told_of_it["difference"]
    if not is_clear(apart):
        return ""
    return "better" if is_better(measure, apart) else "worse"


def _hover(measure: Measure, name: str, told_of_it: Mapping[str, Any]) -> str:
    entry = _entry(measure, told_of_it)
    return f"<b>{name}</b><br>{entry.text}{f'<br>{entry.below}' if entry.below else ''}"


def _name(place: int, name: str) -> Figure:
    """A policy's name above its dot."""
    return {
        "text": name, "xref": "paper", "x": 0, "xanchor": "left", "yref": "y", "y": place - 0.42,
        "yanchor": "middle", "showarrow": False, "font": {"color": "role:ink-2", "size": 11},
    }  # fmt: skip
