"""What the page of a workload says of the throughput that it reported."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from portal import formats
from scheduler.models import Workload
from scheduler.queries.throughput import of_workload

TERA = 10**12
DRAWN = 60
"""So many reports are drawn, the latest."""


def reported(workload: Workload) -> dict[str, Any]:
    """The context of `workload/_throughput.html`; `throughput` is None where nothing was reported."""
    found = of_workload(workload)
    if found is None:
        return {"throughput": None}
    last = found.over_all
    per_s = round(last.tokens_per_s)
    peak_tflops = None if found.peak is None else formats.half_up(found.peak / TERA, _decimals(found.peak))
    worked = ""
    if last.mfu is not None:
        factors = f"6 × {formats.count(last.parameters)} × {formats.count(per_s)}"
        devices = formats.half_up(last.devices, 0 if last.devices.denominator == 1 else 2)
        worked = f"{factors} / ({devices} × {peak_tflops} × 10¹²) = {_percent(last.mfu)}"
    return {
        "throughput": found,
        "mfu_said": None if last.mfu is None else _percent(last.mfu),
        "tokens_per_s": per_s,
        "size_milli": int(last.devices * 1_000),
        "peak_said": None if peak_tflops is None else f"{peak_tflops}{formats.NBSP}TFLOPS",
        "worked": worked,
        "ratios": [each.mfu for each in found.reports[-DRAWN:] if each.run == last.run],
    }


def _percent(mfu: Fraction) -> str:
    """Two decimals, as the literature has it."""
    return f"{formats.half_up(mfu * 100, 2)}{formats.NARROW_NBSP}%"


def _decimals(peak: Fraction) -> int:
    return 0 if peak % TERA == 0 else 1
