"""Charts as SVG: a line over time, medians with their spread, dots with intervals. The page's style colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

WIDTH = 480
LEFT, RIGHT, TOP, BOTTOM = 40, 16, 10, 30
PLOT_HEIGHT = 170
ROW_HEIGHT = 24
LABEL_WIDTH = 100
VALUE_WIDTH = 64
DOT_VALUE = 76
"""What the values beside dots take."""


class Series(NamedTuple):
    """A line: its name, the class that colours it, and its points (x, y)."""

    name: str
    look: str
    points: Sequence[tuple[float, float]]


class Spread(NamedTuple):
    """A row of `spreads`: least, median and most; None where nothing is known."""

    label: str
    values: Sequence[float] | None


class Dot(NamedTuple):
    """A row of `dots`: an estimate with its interval, None where there is none.

    Attributes:
        label: whose it is.
        value, low, high: the estimate and its bounds.
        side: "base" for what others are compared with, "better" or "worse" where one clearly is, else "".
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    side: str


def look_of(side: str) -> str:
    """The class that colours a dot of that side."""
    return {"base": "base", "better": "good", "worse": "bad"}.get(side, "open")


def lines(title: str, series: Sequence[Series], say_x: Callable[[float], str], say_y: Callable[[float], str]) -> str:
    """Lines over a common axis; y begins at 0, and both axes have round marks."""
    points = [point for each in series for point in each.points]
    if not points:
        return "<p>Nothing to draw.</p>"
    most_x, most_y = max(x for x, _ in points) or 1.0, max(y for _, y in points) or 1.0
    step_x, step_y = _step(most_x, 5), _step(most_y, 4)
    most_y = step_y * -(-most_y // step_y)
    height = TOP + PLOT_HEIGHT + BOTTOM

    def at(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / most_x * (WIDTH - LEFT - RIGHT), TOP + PLOT_HEIGHT * (1 - y / most_y)

    parts = [_open(title, height)]
    for mark in _marks(step_y, most_y):
        _, y = at(0, mark)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(say_y(mark))}</text>')
    for mark in _marks(step_x, most_x):
        x, _ = at(mark, 0)
        parts.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{escape(say_x(mark))}</text>')
    for each in series:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in (at(*point) for point in each.points))
        parts.append(f'<path class="line {each.look}" d="M{path}"><title>{escape(each.name)}</title></path>')
    legend = "".join(f'<li><span class="key {each.look}"></span>{escape(each.name)}</li>' for each in series)
    return f'{"".join(parts)}</svg><ul class="legend">{legend}</ul>'


def spreads(
    title: str,
    rows: Sequence[Spread],
    say: Callable[[float], str],
    band: tuple[float, float] | None = None,
    label_width: int = LABEL_WIDTH,
) -> str:
    """A row for each: a bar from least to most, a dot at the median, which is also written beside it.

    Args:
        title: what it shows, for those who can't see it.
        rows: from the top.
        say: how a value is written.
        band: values between these are marked as the ground.
        label_width: what the labels of the rows take.
    """
    known = [value for row in rows for value in row.values or ()] + list(band or ())
    if not known:
        return "<p>Nothing to draw.</p>"
    least, most = min(0.0, *known), max(0.0, *known)
    step = _step(most - least or 1.0, 4)
    least, most = step * (least // step), step * -(-most // step) or step
    height = TOP + ROW_HEIGHT * len(rows) + BOTTOM

    def at(value: float) -> float:
        return label_width + (value - least) / (most - least) * (WIDTH - label_width - RIGHT - VALUE_WIDTH)

    parts = [_open(title, height)]
    if band is not None:
        width, tall = at(band[1]) - at(band[0]), ROW_HEIGHT * len(rows)
        parts.append(f'<rect class="band" x="{at(band[0]):.1f}" y="{TOP}" width="{width:.1f}" height="{tall}"/>')
    for index in range(round((most - least) / step) + 1):
        mark = least + index * step
        parts.append(f'<path class="grid" d="M{at(mark):.1f} {TOP}V{height - BOTTOM}"/>')
        parts.append(f'<text x="{at(mark):.1f}" y="{height - 12}" text-anchor="middle">{escape(say(mark))}</text>')
    for number, row in enumerate(rows):
        y = TOP + ROW_HEIGHT * (number + 0.5)
        parts.append(f'<text class="b" x="0" y="{y + 4:.1f}">{escape(row.label)}</text>')
        if row.values is None:
            parts.append(f'<text x="{label_width}" y="{y + 4:.1f}">–</text>')
            continue
        low, median, high = row.values
        parts.append(f'<path class="range" d="M{at(low):.1f} {y:.1f}H{max(at(high), at(low) + 1):.1f}"/>')
        parts.append(f'<circle class="dot" cx="{at(median):.1f}" cy="{y:.1f}" r="4.5"/>')
        parts.append(f'<text x="{WIDTH}" y="{y + 4:.1f}" text-anchor="end">{escape(say(median))}</text>')
    return "".join(parts) + "</svg>"


def dots(
    title: str,
    rows: Sequence[Dot],
    say: Callable[[float], str],
    *,
    label_width: int = LABEL_WIDTH,
    at: float | None = None,
    from_zero: bool = True,
) -> str:
    """A row for each: a bar over its interval, a dot at the estimate, which is also written beside it.

    No figure is below nought, and no bar is drawn there.

    Args:
        title: what it shows, for those who can't see it.
        rows: from the top.
        say: how a value is written.
        label_width: what the labels of the rows take.
        at: where a dotted line goes down; None is nowhere.
        from_zero: whether the axis begins at nought, or where the figures do.
    """
    known = [max(0.0, each) for row in rows for each in (row.value, row.low, row.high) if each is not None]
    known += [] if at is None else [at]
    if not known:
        return "<p>Nothing to draw.</p>"
    least, most = 0.0 if from_zero else min(known), max(known)
    step = _step(most - least or most or 1.0, 3)
    least, most = step * (least // step), step * -(-most // step)
    most = most if most > least else least + step
    height = TOP + ROW_HEIGHT * len(rows) + BOTTOM

    def x_of(value: float) -> float:
        return label_width + (max(0.0, value) - least) / (most - least) * (WIDTH - label_width - RIGHT - DOT_VALUE)

    parts = [_open(title, height)]
    for index in range(round((most - least) / step) + 1):
        x = x_of(least + index * step)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{height - BOTTOM}"/>')
    for mark in (least, most) if say(least) != say(most) else (least,):
        parts.append(f'<text x="{x_of(mark):.1f}" y="{height - 12}" text-anchor="middle">{escape(say(mark))}</text>')
    if at is not None:
        parts.append(f'<path class="real" d="M{x_of(at):.1f} {TOP}V{height - BOTTOM}"/>')
    for number, row in enumerate(rows):
        y = TOP + ROW_HEIGHT * (number + 0.5)
        parts.append(f'<text class="b" x="0" y="{y + 4:.1f}">{escape(row.label)}</text>')
        if row.value is None:
            parts.append(f'<text x="{label_width}" y="{y + 4:.1f}">–</text>')
            continue
        look = look_of(row.side)
        if row.low is not None and row.high is not None:
            parts.append(f'<path class="interval {look}" d="M{x_of(row.low):.1f} {y:.1f}H{x_of(row.high):.1f}"/>')
        parts.append(f'<circle class="at {look}" cx="{x_of(row.value):.1f}" cy="{y:.1f}" r="4.5"/>')
        parts.append(f'<text x="{WIDTH}" y="{y + 4:.1f}" text-anchor="end">{escape(say(row.value))}</text>')
    return "".join(parts) + "</svg>"


def _open(title: str, height: int) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'


def _step(span: float, number: int) -> float:
    """A round step (1, 2 or 5 times a power of ten) that divides a span into about so many."""
    step = 1.0
    while step * number > span:
        step /= 10
    while step * 10 * number <= span:
        step *= 10
    return next(step * factor for factor in (1, 2, 5, 10) if step * factor * number >= span)


def _marks(step: float, most: float) -> list[float]:
    return [step * index for index in range(int(most / step + 1e-9) + 1)]
