"""Tables of `manage.py compare`: for people at a terminal, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.management.tables import duration_text
from scheduler.simulator.measures import MEASURES, Measure, Measures
from scheduler.simulator.policy_table import COLUMNS, Line, is_better, is_clear, rows

REAL = "what really happened"


def print_comparison(
    write: Callable[[str], object], names: Sequence[str], lines: Sequence[Line], real: Measures | None
) -> None:
    """A block for each figure: policy, value, half the interval's width, and the difference to the first."""
    width = max(len(name) for name in [*names, REAL])
    for each in MEASURES:
        if all(line[each.name] is None for line in lines):
            continue
        write("")
        write(heading(each))
        if real is not None and real.get(each.name) is not None:
            write(f"  {REAL:{width}}{said(each, real[each.name]):>16}")
        for name, line in zip(names, lines, strict=True):
            write(_row(each, name, line[each.name], width).rstrip())


def _row(measure: Measure, name: str, told: Mapping[str, Any] | None, width: int) -> str:
    if told is None:
        return f"  {name:{width}}{'–':>16}"
    cells = f"  {name:{width}}{said(measure, told['value']):>16}{half(measure, told):>18}"
    apart = told["difference"]
    if apart is None:
        return cells
    more = sign(apart) + said(measure, abs(apart["value"]))
    return f"{cells}{more:>18}{half(measure, apart):>18}  {side(measure, apart)}"


def heading(measure: Measure) -> str:
    """What a figure is called, and which way is better, where one is."""
    return measure.label + {"less": "; less is better", "more": "; more is better"}.get(measure.better, "")


def sign(apart: Mapping[str, Any]) -> str:
    """Of a difference; nothing where there is none."""
    return "+" if apart["value"] > 0 else "−" if apart["value"] < 0 else ""


def side(measure: Measure, apart: Mapping[str, Any]) -> str:
    """Better or worse, where a difference clearly is; else nothing."""
    if not is_clear(apart):
        return ""
    return "better" if is_better(measure, apart) else "worse"


def half(measure: Measure, told: Mapping[str, Any]) -> str:
    """Half the width of an interval; nothing where there is none."""
    return "" if told["high"] is None else f"± {said(measure, told['high'] - told['value'])}"


def said(measure: Measure, value: float | None) -> str:
    """A value with its unit; "–" where there is none."""
    if value is None:
        return "–"
    if measure.unit == "s":
        return duration_text(round(value))
    if measure.unit == "part":
        return f"{100 * value:.1f} %"
    if measure.unit == "count":
        return f"{value:,.0f}"
    return f"{value:,.2f}" if measure.unit == "times" else f"{value:,.1f} GPU-h"


def csv_text(names: Sequence[str], lines: Sequence[Line]) -> str:
    """A row for each policy and figure, values exact."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows(names, lines))
    return out.getvalue()
