"""Charts as plotly's JSON. Colours are roles of the style sheet ("role:delivered"), resolved by static/js/charts.js.

Every chart has its table beside it on the page, made from the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

from django.utils.translation import gettext, gettext_lazy

from budgets.models import Cluster
from budgets.queries import midnight
from portal import formats
from scheduler.queries.usage import Series

MILLI = 1_000
MARKS_MAX = 10_000
"""Bars and points in one chart."""
NOTES_MAX = 4
TEXTURED_FROM = 5
"""Team colours from this number on carry level lines."""
HATCH = {"shape": "/", "size": 6, "solidity": 0.35}

Figure = dict[str, Any]


def wall(at: datetime) -> str:
    """An instant as the axis shows it: the organisation's clock, without a zone."""
    return formats.local(at).strftime("%Y-%m-%dT%H:%M:%S")


def axis(**more: Any) -> Figure:
    """An axis with the page's lines."""
    return {"gridcolor": "role:line", "linecolor": "role:line-2", "zeroline": False, **more}


def layout(**more: Any) -> Figure:
    """What all charts share."""
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 44, "r": 112, "t": 28, "b": 40},
        "showlegend": False,
        "hovermode": "x unified",
        "barmode": "overlay",
        "bargap": 0,
        "separators": "".join(formats.separators()),
        "dragmode": False,
        **more,
    }


# --- usage against entitlement ----------------------------------------------------------------------------------------


def usage_against_entitlement(
    series: Series, steps: Sequence[tuple[date, Fraction]], cluster: Cluster, size_milli: int
) -> Figure:
    """Entitled as a stepped line; delivered within it, borrowed above it, owed and not delivered hatched below it.

    All in units of the cluster, as means of each point; blank below the line is where nobody asked or nodes were in
    repair. `steps` are the entitlements by day, `size_milli` the cluster's devices.
    """
    spans = [(point.end - point.start).total_seconds() for point in series.points]
    starts = [wall(point.start) for point in series.points]

    def mean(name: str) -> list[float]:
        return [
            round(getattr(point.books, name) / (MILLI * span), 3)
            for point, span in zip(series.points, spans, strict=True)
        ]

    entitled, within = mean("entitled_milli_s"), mean("within_milli_s")
    short, borrowed = mean("not_delivered_milli_s"), mean("borrowed_milli_s")
    common = {
        "type": "bar",
        "x": starts,
        "width": [span * 1_000 for span in spans],
        "offset": 0,
        "marker_line": {"width": 0},
    }

    def bars(name: str, heights: list[float], base: list[float], marker: Figure) -> Figure:
        trace = {**common, "name": name, "y": heights, "base": base, "customdata": heights}
        trace["marker"] = {**marker, "line": trace.pop("marker_line")}
        return {**trace, "hovertemplate": "%{customdata:,.1f}"}

    ground = {"color": "role:short/14", "pattern": {**HATCH, "fgcolor": "role:short", "bgcolor": "role:short/14"}}
    ends = [*starts, wall(series.points[-1].end)] if series.points else []
    data = [
        bars(gettext("delivered within it"), within, [0.0] * len(within), {"color": "role:delivered"}),
        bars(gettext("owed, not delivered"), short, within, ground),
        bars(gettext("borrowed, above it"), borrowed, entitled, {"color": "role:borrowed"}),
        top_edge(ends, borrowed, entitled),
        {
            "type": "scatter",
            "mode": "lines",
            "name": "entitled",
            "x": ends,
            "y": [*entitled, *entitled[-1:]],
            "line": {"color": "role:ink", "width": 2, "shape": "hv"},
            "hovertemplate": "%{y:,.1f}",
        },
    ]
    notes = share_changes(steps, series, size_milli)
    return {
        "data": data,
        "layout": layout(
            xaxis=axis(type="date", showgrid=False, tickformatstops=TIME_STOPS, hoverformat=HOVER_FORMATS[series.step]),
            yaxis=axis(rangemode="tozero", nticks=5, tickformat=",~g"),
            shapes=[note_line(at) for at, _ in notes],
            annotations=[
                unit_title(MEANS[series.step].format(unit=formats.unit_word(cluster.unit))),
                *[note_text(at, words) for at, words in notes],
                *edge_labels(entitled, within, short, borrowed),
            ],
        ),
    }


TIME_STOPS = [
    {"dtickrange": [None, 59_999], "value": "%H:%M:%S\n%-d %b"},
    {"dtickrange": [60_000, 86_399_999], "value": "%H:%M\n%-d %b"},
    {"dtickrange": [86_400_000, None], "value": "%-d %b"},
]
"""Ticks by their distance in milliseconds; what follows the line break is written where it changes."""
MEANS = {"hour": gettext_lazy("{unit}, mean of an hour"), "day": gettext_lazy("{unit}, mean of a day")}
HOVER_FORMATS = {"hour": "%a %-d %b, %H:%M", "day": "%a %-d %b %Y"}


def top_edge(ends: list[str], borrowed: list[float], entitled: list[float]) -> Figure:
    """The upper edge of what was borrowed, so that it ends clearly; nothing where nothing was."""
    tops: list[float | None] = [
        base + height if height else None for base, height in zip(entitled, borrowed, strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": ends,
        "y": [*tops, *tops[-1:]],
        "line": {"color": "role:delivered", "width": 1.5, "shape": "hv"},
        "hoverinfo": "skip",
    }


def share_changes(steps: Sequence[tuple[date, Fraction]], series: Series, size_milli: int) -> list[tuple[str, str]]:
    """Where the entitlement changed inside the chart, with the units from and to; the last NOTES_MAX."""
    if not series.points:
        return []
    first, last = series.points[0].start, series.points[-1].end
    units = Fraction(size_milli, MILLI)
    found = [
        (
            wall(midnight(day)),
            f"{formats.short_day(day)}: {formats.entitled_units(old * units)} → {formats.entitled_units(new * units)}",
        )
        for (_, old), (day, new) in pairwise(steps)
        if first < midnight(day) < last
    ]
    return found[-NOTES_MAX:]


def unit_title(words: str) -> Figure:
    """The axis' unit, once, at the top left."""
    return {
        "text": words, "xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom",
        "xshift": -40, "yshift": 8, "showarrow": False,
    }  # fmt: skip


def note_line(at: str) -> Figure:
    """A dotted upright line."""
    return {
        "type": "line", "x0": at, "x1": at, "xref": "x", "yref": "paper", "y0": 0, "y1": 1,
        "line": {"color": "role:ink-3", "width": 1, "dash": "dot"},
    }  # fmt: skip


def note_text(at: str, words: str) -> Figure:
    """What a dotted line stands for."""
    return {
        "text": f"<b>{words}</b>", "x": at, "xref": "x", "yref": "paper", "y": 1, "xanchor": "left",
        "yanchor": "bottom", "showarrow": False, "font": {"color": "role:ink"}, "name": "edge",
    }  # fmt: skip


def edge_labels(entitled: list[float], within: list[float], short: list[float], borrowed: list[float]) -> list[Figure]:
    """Labels at the right edge, where the last point ends, pushed apart; the legend below says all of them again."""
    if not entitled:
        return []
    top = max(max(entitled), *(e + b for e, b in zip(entitled, borrowed, strict=True)), 1e-9) * 1.05
    wanted = [
        (
            entitled[-1],
            gettext("<b>{number} entitled</b>").format(number=formats.half_up(Fraction(entitled[-1]), 1)),
            "role:ink",
        ),
        (within[-1] / 2, gettext("delivered"), "role:ink-2"),
    ]
    if short[-1]:
        wanted.append((within[-1] + short[-1] / 2, gettext("owed, not<br>delivered"), "role:short"))
    if borrowed[-1]:
        wanted.append((entitled[-1] + borrowed[-1], gettext("borrowed"), "role:ink-2"))
    labels: list[Figure] = []
    floor = 0.0
    for at, words, colour in sorted(wanted):
        at = max(at, floor)
        floor = at + top * (0.15 if "<br>" in words else 0.08)
        labels.append({
            "text": words, "xref": "paper", "x": 1, "yref": "y", "y": at, "xanchor": "left", "xshift": 8,
            "align": "left",
            "showarrow": False, "font": {"color": colour}, "name": "edge",
        })  # fmt: skip
    return labels
