"""Runs, contracts and charges of one workload on a time line: an SVG that needs no script, wide and for phones.

Solid inside the contract, striped after it, outlined where unallocated, tinted where the contract is still to come; a
red edge where it was preempted, a dashed outline for what was promised; below, the charge as it grew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from portal import formats
from scheduler.queries.preempted import RunLine
from scheduler.queries.workload import Explanation

WIDE, NARROW = 960, 360
LANE_TOP, LANE_HEIGHT = 24, 30
CHARGE_TOP, CHARGE_HEIGHT = 92, 44
MARGIN = 4
TICKS = {WIDE: 9, NARROW: 4}
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400
STEPS_S = (
    60, 300, 900, 1_800, HOUR_S, 2 * HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, DAY_S, 2 * DAY_S, 7 * DAY_S,
    14 * DAY_S, 28 * DAY_S,
)  # fmt: skip
LEAST_SPAN_S = 600
LEAST_LABEL = 46
"""A bar narrower than this bears no words."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """One SVG, and the class that shows it at its width."""

    css: str
    svg: SafeString


@dataclass(frozen=True, slots=True)
class _Scale:
    """Time to pixels."""

    start: datetime
    end: datetime
    width: int

    def x(self, at: datetime) -> float:
        part = (at - self.start) / (self.end - self.start)
        return round(MARGIN + part * (self.width - 2 * MARGIN), 1)


def drawings(told: Explanation, colour: int) -> list[Drawing]:
    """For both widths; none for a workload that has no run and no promise."""
    if not told.runs and told.certain_at is None:
        return []
    start, end = _span(told)
    return [
        Drawing(css, _svg(told, _Scale(start, end, width), colour, css))
        for css, width in (("wide", WIDE), ("narrow", NARROW))
    ]


def _span(told: Explanation) -> tuple[datetime, datetime]:
    starts = [run.started_at for run in told.runs] or [told.workload.submitted_at]
    ends = [run.ended_at or max(told.now, run.contract_ends_at or told.now) for run in told.runs]
    if told.promised_at is not None:
        ends.append(told.promised_at + timedelta(seconds=told.workload.min_runtime_s))
    if told.workload.ended_at is None:
        ends.append(told.now)
    start, end = min(starts), max(ends)
    room = max(timedelta(seconds=LEAST_SPAN_S), end - start) / 40
    return start - room, max(end, start + timedelta(seconds=LEAST_SPAN_S)) + room


def _svg(told: Explanation, scale: _Scale, colour: int, css: str) -> SafeString:
    is_charged = any(run.funded for run in told.runs)
    bottom = CHARGE_TOP + CHARGE_HEIGHT if is_charged else LANE_TOP + LANE_HEIGHT + 8
    parts = [
        _patterns(colour, css),
        *_ticks(scale, bottom),
        *[bar for run in told.runs for bar in _bars(run, scale, told.now, colour, css)],
        *_promise(told, scale),
    ]
    if is_charged:
        parts += _charges(told, scale)
    if told.workload.ended_at is None:
        parts.append(_now(told.now, scale, bottom))
    return format_html(
        '<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>',
        css,
        scale.width,
        bottom + 22,
        gettext("Runs of {code} on a time line; the table below has the same.").format(code=told.workload.code),
        format_html_join("", "{}", ((part,) for part in parts)),
    )


def _patterns(colour: int, css: str) -> SafeString:
    """Stripes for what is after its contract, and for what is unallocated; ids are of this width alone."""
    return format_html(
        '<defs><pattern id="over-{0}" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect class="f{1}" width="7" height="7"/><path class="h-over" d="M0 3.5H7"/></pattern>'
        '<pattern id="free-{0}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect class="free" width="6" height="6"/><path class="s{1}" d="M0 3H6" stroke-width="1.5"/></pattern></defs>',
        css,
        colour,
    )


def _ticks(scale: _Scale, bottom: int) -> Iterator[SafeString]:
    span_s = (scale.end - scale.start).total_seconds()
    step_s = next((step for step in STEPS_S if span_s / step <= TICKS[scale.width]), STEPS_S[-1])
    at = formats.local(scale.start).replace(hour=0, minute=0, second=0, microsecond=0)
    first = int((scale.start - at).total_seconds() // step_s)
    for number in range(first, first + TICKS[scale.width] + 3):
        instant = at + timedelta(seconds=number * step_s)
        if not scale.start < instant < scale.end:
            continue
        x = scale.x(instant)
        is_midnight = formats.clock(instant) == "00:00"
        words = formats.short_day(formats.local(instant).date()) if is_midnight else formats.clock(instant)
        yield format_html('<line class="g" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>', x, LANE_TOP - 4, bottom)
        if 16 < x < scale.width - 16:
            yield format_html('<text x="{}" y="{}" text-anchor="middle">{}</text>', x, bottom + 16, words)


def _bars(run: RunLine, scale: _Scale, now: datetime, colour: int, css: str) -> Iterator[SafeString]:
    end = run.ended_at or now
    over_at = run.contract_ends_at if run.funded else None
    title = _title(run, end)
    if not run.funded:
        yield _rect(scale, run.started_at, end, f"s{colour}", title, fill=f"url(#free-{css})")
    else:
        split = min(end, over_at) if over_at else end
        yield _rect(scale, run.started_at, split, f"f{colour}", title)
        if over_at and end > over_at:
            yield _rect(scale, over_at, end, "", title, fill=f"url(#over-{css})")
        if over_at and run.ended_at is None and over_at > now:
            yield _rect(scale, now, over_at, f"f{colour} promise", gettext("contract still to come"))
    left, right = scale.x(run.started_at), scale.x(end)
    if run.preempted_by and run.ended_at:
        yield format_html(
            '<line class="taken" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>', right, LANE_TOP, LANE_TOP + LANE_HEIGHT
        )
    if right - left >= LEAST_LABEL:
        words = gettext("Run {number}").format(number=run.number)
        yield format_html('<text class="b" x="{}" y="{}">{}</text>', left, LANE_TOP - 8, words)


def _title(run: RunLine, end: datetime) -> str:
    span_s = int((end - run.started_at).total_seconds())
    when = f"{formats.clock_exact(run.started_at)}–{formats.clock_exact(end)}, {formats.duration(span_s)}"
    return gettext("Run {number}: {when}").format(number=run.number, when=when)


def _rect(scale: _Scale, start: datetime, end: datetime, css: str, title: str, *, fill: str = "") -> SafeString:
    left, right = scale.x(start), scale.x(end)
    style = format_html(' fill="{}"', fill) if fill else mark_safe("")
    return format_html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"{}><title>{}</title></rect>',
        css,
        left,
        LANE_TOP,
        round(max(1.0, right - left), 1),
        LANE_HEIGHT,
        style,
        title,
    )


def _promise(told: Explanation, scale: _Scale) -> list[SafeString]:
    """What was promised: from the reserved instant to the end of the contract."""
    if told.promised_at is None:
        return []
    end = told.promised_at + timedelta(seconds=told.workload.min_runtime_s)
    words = gettext("reserved, {at}").format(at=formats.clock(told.promised_at))
    found = [_rect(scale, told.promised_at, end, "reserved", words)]
    left = scale.x(told.promised_at)
    if scale.width - left > 2 * LEAST_LABEL:
        found.append(
            format_html('<text class="b" x="{}" y="{}">{}</text>', left + 6, LANE_TOP + LANE_HEIGHT / 2 + 4, words)
        )
    return found


def _now(now: datetime, scale: _Scale, bottom: int) -> SafeString:
    x = scale.x(now)
    anchor = "end" if x > scale.width - 30 else "start" if x < 30 else "middle"
    return format_html(
        '<line class="now" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
        '<text class="b halo" x="{0}" y="10" text-anchor="{3}">{4}</text>',
        x,
        LANE_TOP - 10,
        bottom,
        anchor,
        gettext("now"),
    )


def _charges(told: Explanation, scale: _Scale) -> list[SafeString]:
    """The charge as it grew: flat while it waited, rising while a funded run held its devices."""
    points: list[tuple[datetime, Fraction]] = []
    total = Fraction(0)
    for run in told.runs:
        if run.funded:
            points.append((run.started_at, total))
            total += run.charged_milli_s
            points.append((run.ended_at or told.now, total))
    if told.workload.ended_at is None:
        points.append((told.now, total))
    base = CHARGE_TOP + CHARGE_HEIGHT

    def y(amount: Fraction) -> float:
        return round(base - float(amount / total) * CHARGE_HEIGHT, 1) if total else float(base)

    line = " ".join(f"{scale.x(at)},{y(amount)}" for at, amount in points)
    area = f"{scale.x(points[0][0])},{base} {line} {scale.x(points[-1][0])},{base}"
    words = gettext("Charged, up to {amount}").format(
        amount=formats.unit_hours_alone(total, told.workload.cluster.unit)
    )
    return [
        format_html('<polygon class="charged" points="{}"/>', area),
        format_html('<polyline class="m-edge" points="{}"/>', line),
        format_html('<line class="ax" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>', MARGIN, scale.width - MARGIN, base),
        format_html('<text x="{}" y="{}">{}</text>', MARGIN, CHARGE_TOP - 10, words),
    ]
