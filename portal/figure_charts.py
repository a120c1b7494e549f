"""The charts of the pages of figures: pyramid, fairness, waits, pace. As portal/charts.py draws: colours by role, and a
table beside each from the same values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from itertools import pairwise

from django.utils.translation import gettext

from budgets.models import Cluster
from portal import formats
from portal.charts import (
    HATCH,
    HOVER_FORMATS,
    MILLI,
    TEXTURED_FROM,
    TIME_STOPS,
    Figure,
    axis,
    layout,
    unit_title,
    wall,
)
from scheduler.failures import Origin
from scheduler.queries.delays import Cause, Delays
from scheduler.queries.failed import Losses
from scheduler.queries.fairness import Fairness
from scheduler.queries.pace import Pace
from scheduler.queries.pyramid import Point, Pyramid
from scheduler.queries.spans import Steps
from scheduler.queries.waits import BOUNDS_S, ClassWaits

SHADES = (100, 60, 35, 80, 48, 25)
"""How strong a team's colour is drawn for the first, second ... child that bears it: children have their parent's."""
GAP = 0.07
"""Between charts that stand above one another, as a part of the height."""


def spans_of(points: Sequence[Point]) -> list[float]:
    """Seconds of each point."""
    return [(point.end - point.start).total_seconds() for point in points]


def bars(name: str, starts: Sequence[str], spans: Sequence[float], heights: Sequence[float], **more: object) -> Figure:
    """One kind of bars over time."""
    return {
        "type": "bar", "name": name, "x": list(starts), "y": list(heights), "width": [span * 1_000 for span in spans],
        "offset": 0, "hovertemplate": "%{y:,.1f}", **more,
    }  # fmt: skip


def panels(count: int) -> list[list[float]]:
    """The heights of so many charts above one another, from the top down, as plotly's domains."""
    height = (1 - GAP * (count - 1)) / count
    tops = [1 - place * (height + GAP) for place in range(count)]
    return [[max(0.0, top - height), top] for top in tops]


def pyramid_trend(pyramid: Pyramid) -> Figure:
    """Availability, occupancy, impact and utilization above one another, each from 0 to 100 %; a gap is unknown."""
    points = pyramid.points
    named = [
        (gettext("Availability, %"), [point.layer.availability for point in points]),
        (gettext("Occupancy, %"), [point.layer.occupancy for point in points]),
        (gettext("Impact, %"), [point.layer.impact for point in points]),
        (gettext("Utilization, %"), [point.activity.utilization for point in points]),
    ]
    ends = [*(wall(point.start) for point in points), *[wall(point.end) for point in points[-1:]]]
    data, axes, titles = [], {}, []
    for place, ((name, ratios), domain) in enumerate(zip(named, panels(len(named)), strict=True), start=1):
        suffix = "" if place == 1 else str(place)
        values = [None if ratio is None else round(100 * ratio, 2) for ratio in ratios]
        data.append({
            "type": "scatter", "mode": "lines", "name": name, "x": ends, "y": [*values, *values[-1:]],
            "yaxis": f"y{suffix}", "connectgaps": False, "line": {"color": "role:ink", "width": 1.5, "shape": "hv"},
            "fill": "tozeroy", "fillcolor": "role:delivered/25", "hovertemplate": "%{y:.1f}",
        })  # fmt: skip
        axes[f"yaxis{suffix}"] = axis(domain=domain, range=[0, 103], tickvals=[0, 50, 100], fixedrange=True)
        titles.append({**unit_title(f"<b>{name}</b>"), "y": domain[1], "yshift": 1})
    step = pyramid.steps.step
    return {
        "data": data,
        "layout": layout(
            margin={"l": 44, "r": 12, "t": 28, "b": 40},
            xaxis=axis(
                type="date", showgrid=False, anchor=f"y{len(named)}", tickformatstops=TIME_STOPS,
                hoverformat=HOVER_FORMATS[step],
            ),
            annotations=titles,
            **axes,
        ),
    }  # fmt: skip


def who_held(pyramid: Pyramid) -> Figure:
    """What of the usable devices was held and charged, held and charged to nobody, or free, as means of each point."""
    points, cluster = pyramid.points, pyramid.cluster
    starts, spans = [wall(point.start) for point in points], spans_of(points)

    def mean(amounts: Sequence[int]) -> list[float]:
        return [round(amount / (MILLI * span), 2) for amount, span in zip(amounts, spans, strict=True)]

    allocated = mean([point.layer.allocated_milli_s for point in points])
    unallocated = mean([point.layer.uncharged_milli_s for point in points])
    capacity = mean([point.layer.capacity_milli_s for point in points])
    usable = mean([point.layer.usable_milli_s for point in points])
    ends = [*starts, *[wall(point.end) for point in points[-1:]]]
    pattern = {"color": "role:bg", "pattern": {**HATCH, "fgcolor": "role:delivered", "bgcolor": "role:bg"}}
    data = [
        bars(gettext("allocated"), starts, spans, allocated, marker={"color": "role:delivered", "line": {"width": 0}}),
        bars(
            gettext("unallocated"), starts, spans, unallocated, base=allocated, marker=pattern,
            customdata=unallocated, hovertemplate="%{customdata:,.1f}",
        ),
        {
            "type": "scatter", "mode": "lines", "name": gettext("usable"), "x": ends, "y": [*usable, *usable[-1:]],
            "line": {"color": "role:ink", "width": 2, "shape": "hv"}, "hovertemplate": "%{y:,.1f}",
        },
        {
            "type": "scatter", "mode": "lines", "name": gettext("all devices"), "x": ends,
            "y": [*capacity, *capacity[-1:]], "hovertemplate": "%{y:,.1f}",
            "line": {"color": "role:ink-3", "width": 1, "dash": "dot", "shape": "hv"},
        },
    ]  # fmt: skip
    return {
        "data": data,
        "layout": layout(
            margin={"l": 44, "r": 12, "t": 28, "b": 40},
            xaxis=axis(
                type="date",
                showgrid=False,
                tickformatstops=TIME_STOPS,
                hoverformat=HOVER_FORMATS[pyramid.steps.step],
            ),
            yaxis=axis(rangemode="tozero", nticks=5, tickformat=",~g"),
            annotations=[unit_title(mean_of(cluster, is_hourly=pyramid.steps.step == "hour"))],
        ),
    }


def mean_of(cluster: Cluster, *, is_hourly: bool) -> str:
    """The unit of a chart over time."""
    words = gettext("{units}, mean of an hour") if is_hourly else gettext("{units}, mean of a day")
    return words.format(units=formats.unit_word(cluster.unit))


def owed_and_given(level: Fairness, cluster: Cluster) -> Figure:
    """Of each child: delivered within what it was entitled to, owed and not delivered beside it, borrowed beyond."""
    lines = [line for line in level.lines if line.books.entitled_milli_s or line.books.charged_milli_s][::-1]
    names = [f"{line.node.code} {line.node.name}"[:24] for line in lines]

    def hours(name: str) -> list[float]:
        return [round(getattr(line.books, name) / formats.MILLI_S_PER_HOUR, 1) for line in lines]

    within, short, borrowed = hours("within_milli_s"), hours("not_delivered_milli_s"), hours("borrowed_milli_s")
    entitled = hours("entitled_milli_s")

    def lying(name: str, lengths: list[float], base: list[float], marker: Figure) -> Figure:
        return {
            "type": "bar", "orientation": "h", "name": name, "y": names, "x": lengths, "base": base, "width": 0.6,
            "marker": {"line": {"width": 0}, **marker}, "customdata": lengths,
            "hovertemplate": f"%{{y}}, {name}: %{{customdata:,.1f}}<extra></extra>",
        }  # fmt: skip

    ground = {"color": "role:short/14", "pattern": {**HATCH, "fgcolor": "role:short", "bgcolor": "role:short/14"}}
    ticks = [
        {
            "type": "line", "x0": end, "x1": end, "y0": place - 0.42, "y1": place + 0.42,
            "line": {"color": "role:ink", "width": 2},
        }
        for place, end in enumerate(entitled)
    ]  # fmt: skip
    return {
        "data": [
            lying(gettext("delivered within it"), within, [0.0] * len(within), {"color": "role:delivered"}),
            lying(gettext("owed, not delivered"), short, within, ground),
            lying(
                gettext("borrowed, above it"),
                borrowed,
                entitled,
                {"color": "role:borrowed", "line": {"width": 1, "color": "role:delivered"}},
            ),
        ],
        "layout": layout(
            margin={"l": 8, "r": 12, "t": 28, "b": 40},
            hovermode="closest",
            xaxis=axis(rangemode="tozero", nticks=6, tickformat=",~g"),
            yaxis=axis(automargin=True, showgrid=False, fixedrange=True),
            shapes=ticks,
            annotations=[
                {**unit_title(formats.hours_word(cluster.unit)), "x": 1, "xanchor": "right", "xshift": 0},
            ],
        ),
    }


def bin_names() -> list[str]:
    """The bins of a distribution of waits, shortest first."""
    bounds = [formats.duration(bound) for bound in BOUNDS_S]
    middle = [f"{low} – {high}" for low, high in pairwise(bounds)]
    return [gettext("under {time}").format(time=bounds[0]), *middle, gettext("over {time}").format(time=bounds[-1])]


def wait_distribution(classes: Sequence[tuple[str, ClassWaits]]) -> Figure:
    """How many per cent of each class waited how long; one chart a class, above one another, with the same bins."""
    names = bin_names()
    top = 1.45 * max((100 * max(waits.bins) / waits.count for _, waits in classes if waits.count), default=100)
    short = [name.replace(formats.NBSP, " ") for name in names]
    data, axes, titles = [], {}, []
    for place, ((title, waits), domain) in enumerate(zip(classes, panels(len(classes)), strict=True), start=1):
        suffix = "" if place == 1 else str(place)
        parts = [round(100 * count / waits.count, 1) if waits.count else 0 for count in waits.bins]
        data.append({
            "type": "bar", "name": title, "x": short, "y": parts, "yaxis": f"y{suffix}", "customdata": waits.bins,
            "marker": {"color": "role:delivered", "line": {"width": 0}}, "width": 0.9,
            "text": [f"{part:.0f} %" if part else "" for part in parts], "textposition": "outside",
            "textfont": {"color": "role:ink-2", "size": 11}, "cliponaxis": False,
            "hovertemplate": "%{x}: %{customdata:,} (%{y:.1f} %)<extra></extra>",
        })  # fmt: skip
        axes[f"yaxis{suffix}"] = axis(domain=domain, range=[0, top], showgrid=False, visible=False, fixedrange=True)
        counted = gettext("{count} first starts").format(count=formats.count(waits.count))
        titles.append({
            **unit_title(f"<b>{title}</b>, {counted}"), "y": domain[1], "yshift": -6, "x": 0, "xshift": 0,
        })  # fmt: skip
    return {
        "data": data,
        "layout": layout(
            margin={"l": 40, "r": 12, "t": 16, "b": 64},
            hovermode="closest",
            xaxis=axis(type="category", showgrid=False, anchor=f"y{len(classes)}", tickangle=-30, fixedrange=True),
            annotations=titles,
            **axes,
        ),
    }


def stacked(series: Sequence[tuple[str, Sequence[int], Figure]], steps: Steps, cluster: Cluster) -> Figure:
    """Amounts of device time by step, one upon another: names, thousandths of a device-second, and markers."""
    bounds = steps.bounds()
    starts, spans = [wall(start) for start, _ in bounds], [(end - start).total_seconds() for start, end in bounds]
    below = [0.0] * len(starts)
    data: list[Figure] = []
    for name, amounts, marker in series:
        heights = [round(amount / formats.MILLI_S_PER_HOUR, 2) for amount in amounts]
        if not any(heights):
            continue
        data.append(
            bars(
                name, starts, spans, heights, base=below, customdata=heights, hovertemplate="%{customdata:,.1f}",
                marker={"line": {"width": 1, "color": "role:bg"}, **marker},
            )
        )  # fmt: skip
        below = [round(base + height, 2) for base, height in zip(below, heights, strict=True)]
    return {
        "data": data,
        "layout": layout(
            margin={"l": 48, "r": 12, "t": 28, "b": 40},
            xaxis=axis(type="date", showgrid=False, tickformatstops=TIME_STOPS, hoverformat=HOVER_FORMATS[steps.step]),
            yaxis=axis(rangemode="tozero", nticks=5, tickformat=",~g"),
            annotations=[unit_title(formats.hours_word(cluster.unit))],
        ),
    }


SHORT: Figure = {"color": "role:short/14", "pattern": {**HATCH, "fgcolor": "role:short", "bgcolor": "role:short/14"}}
CAUSE_MARKERS: dict[Cause, Figure] = {
    Cause.FAIR_SHARE: {"color": "role:delivered"},
    Cause.CONTRACTS: {"color": "role:borrowed", "line": {"width": 1, "color": "role:delivered"}},
    Cause.FRAGMENTATION: SHORT,
    Cause.NODES: {"color": "role:ink-3"},
    Cause.HELD: {"color": "role:bg", "pattern": {**HATCH, "fgcolor": "role:ink-3", "bgcolor": "role:bg"}},
    Cause.UNSEEN: {"color": "role:ink-3/38"},
}
ORIGIN_MARKERS: dict[Origin, Figure] = {
    Origin.OWN: {"color": "role:delivered"},
    Origin.INFRASTRUCTURE: SHORT,
    Origin.UNKNOWN: {"color": "role:bg", "pattern": {**HATCH, "fgcolor": "role:ink-3", "bgcolor": "role:bg"}},
}


def delays_over_time(found: Delays, steps: Steps, cluster: Cluster, names: Mapping[Cause, str]) -> Figure:
    """What the first starts of each step had waited for."""
    series = [(names[cause], [each.get(cause, 0) for each in found.by_step], CAUSE_MARKERS[cause]) for cause in Cause]
    return stacked(series, steps, cluster)


def losses_over_time(found: Losses, steps: Steps, cluster: Cluster, names: Mapping[Origin, str]) -> Figure:
    """What the runs that failed in each step had held, by whose it was."""
    series = [
        (names[origin], [each.get(origin, 0) for each in found.by_step], ORIGIN_MARKERS[origin]) for origin in Origin
    ]
    return stacked(series, steps, cluster)


def pace_to_the_end(
    pace: Pace, grown: Sequence[tuple[datetime, int]], due: Sequence[tuple[datetime, int]], cluster: Cluster
) -> Figure:
    """Delivered as it grew, beside the entitlement as it comes due, and the range at the end of the period.

    `grown` is what had been delivered by each instant, from 0 on, and `due` what it was or will be entitled to by then.
    """

    def hours(milli_s: int) -> float:
        return round(float(Fraction(milli_s) / formats.MILLI_S_PER_HOUR), 1)

    now, end = wall(pace.at), wall(pace.end)
    data = [
        {
            "type": "scatter", "mode": "lines", "name": gettext("even use of the entitlement"),
            "x": [wall(at) for at, _ in due], "y": [hours(amount) for _, amount in due],
            "line": {"color": "role:ink", "width": 2}, "hovertemplate": "%{y:,.0f}",
        },
        {
            "type": "scatter", "mode": "lines", "name": gettext("delivered"), "x": [wall(at) for at, _ in grown],
            "y": [hours(amount) for _, amount in grown], "fill": "tozeroy",
            "line": {"color": "role:delivered", "width": 2}, "fillcolor": "role:delivered/25",
            "hovertemplate": "%{y:,.0f}",
        },
    ]  # fmt: skip
    if pace.forecast is not None:
        low, high = hours(pace.forecast.low_milli_s), hours(pace.forecast.high_milli_s)
        last = hours(pace.books.charged_milli_s)
        data += [
            {
                "type": "scatter", "mode": "lines", "x": [now, end, end, now], "y": [last, high, low, last],
                "fill": "toself", "fillcolor": "role:borrowed", "line": {"width": 0, "color": "role:borrowed"},
                "hoverinfo": "skip", "name": gettext("8 of 10 forecasts"),
            },
            {
                "type": "scatter", "mode": "lines", "name": gettext("forecast, middle"), "x": [now, end],
                "y": [last, hours(pace.forecast.middle_milli_s)], "hovertemplate": "%{y:,.0f}",
                "line": {"color": "role:delivered", "width": 2, "dash": "dash"},
            },
        ]  # fmt: skip
    return {
        "data": data,
        "layout": layout(
            margin={"l": 56, "r": 12, "t": 28, "b": 40},
            xaxis=axis(type="date", showgrid=False, tickformatstops=TIME_STOPS, range=[wall(pace.start), end]),
            yaxis=axis(rangemode="tozero", nticks=5, tickformat=",~g"),
            annotations=[
                {**unit_title(formats.hours_word(cluster.unit)), "xshift": -52},
            ],
        ),
    }


def who_got(series: Sequence[tuple[str, int | None, Sequence[int]]], steps: Steps, cluster: Cluster) -> Figure:
    """What the children of a node were delivered, one upon another in tree order, as means of each point.

    `series` are a name, a team colour (None for all others together) and the amounts by step.
    """
    bounds = steps.bounds()
    starts = [wall(start) for start, _ in bounds]
    spans = [(end - start).total_seconds() for start, end in bounds]
    below = [0.0] * len(starts)
    ends = [*starts, wall(bounds[-1][1])]
    data: list[Figure] = []
    used: Counter[int | None] = Counter()
    middles: list[tuple[float, str]] = []
    for name, colour, amounts in series:
        shade = SHADES[min(used[colour], len(SHADES) - 1)]
        used[colour] += 1
        heights = [round(amount / (MILLI * span), 3) for amount, span in zip(amounts, spans, strict=True)]
        team = f"role:team-{colour or 0}/{shade}"
        texture = (
            {"pattern": {"shape": "-", "size": 5, "solidity": 0.25, "fgcolor": "role:bg/26", "bgcolor": team}}
            if colour is not None and colour >= TEXTURED_FROM
            else {}
        )
        data.append(
            bars(
                name,
                starts,
                spans,
                heights,
                base=below,
                customdata=heights,
                hovertemplate="%{customdata:,.1f}",
                marker={"color": team, "line": {"width": 0}, **texture},
            )
        )
        middles.append((below[-1] + heights[-1] / 2, name))
        below = [round(base + height, 3) for base, height in zip(below, heights, strict=True)]
        data.append({
            "type": "scatter", "mode": "lines", "x": ends, "y": [*below, *below[-1:]], "hoverinfo": "skip",
            "line": {"color": "role:bg", "width": 1, "shape": "hv"},
        })  # fmt: skip
    return {
        "data": data,
        "layout": layout(
            margin={"l": 44, "r": 64, "t": 28, "b": 40},
            xaxis=axis(type="date", showgrid=False, tickformatstops=TIME_STOPS, hoverformat=HOVER_FORMATS[steps.step]),
            yaxis=axis(rangemode="tozero", nticks=5, tickformat=",~g"),
            annotations=[
                unit_title(mean_of(cluster, is_hourly=steps.step == "hour")),
                *at_the_edge(middles, max(below)),
            ],
        ),
    }


def at_the_edge(middles: Sequence[tuple[float, str]], top: float) -> list[Figure]:
    """Names at the right edge, each where its last band is, pushed apart; the legend below has all of them again."""
    labels: list[Figure] = []
    floor = 0.0
    for at, name in middles:
        at = max(at, floor)
        floor = at + top * 0.09
        labels.append({
            "text": name, "xref": "paper", "x": 1, "yref": "y", "y": at, "xanchor": "left", "xshift": 8,
            "showarrow": False, "font": {"color": "role:ink-2"}, "name": "edge",
        })  # fmt: skip
    return labels
