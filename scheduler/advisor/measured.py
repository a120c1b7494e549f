"""What the advisor says after the fact: of how busy devices were, and how full their memory, and of its own record.

The study's two runtime rules (section 4: batch size, insufficient memory), and the interval that a share of few has.
"""

from __future__ import annotations

from math import sqrt

from scheduler.advisor.findings import PAPER, Finding, Severity

LOW_PERCENT = 50
"""Utilization up to here is low: the study's bound of the jobs that it looked at."""
MUCH_MEMORY_PERCENT = 80
Z_95 = 1.959964
"""Standard deviations of a normal distribution around which 95 % of it lies."""

BATCH, MEMORY = "MEASURED.batch", "MEASURED.memory"
FIXES = {
    BATCH: "Take larger batches: the memory has room for them.",
    MEMORY: "Make room in the memory: mixed precision, recomputed activations, or the model sharded over more GPUs.",
}
EFFECTS = {
    BATCH: "Improper batch size: 181 of 706 issues (25.64%). From 32 to 768: 4.92x on BERT-large; from 8 to 256: "
    "3.41x on Swin (8 V100-32GB).",
    MEMORY: "Insufficient GPU memory: 22 of 706 issues (3.12%).",
}


def is_low(busy_milli_s: int, measured_milli_s: int) -> bool:
    """Whether devices that were measured for so long were busy for at most half of it."""
    return busy_milli_s * 100 <= measured_milli_s * LOW_PERCENT


def after_the_fact(*, busy_milli_s: int, measured_milli_s: int, memory_milli: int | None) -> list[Finding]:
    """What a run's measurements say: low utilization with memory that is at most half full, or nearly full.

    Args:
        busy_milli_s, measured_milli_s: activity, and the device time over which it was measured.
        memory_milli: the most of a device's memory that was in use, in thousandths; None is not measured.

    Returns:
        one finding or none; none where anything was not measured.
    """
    if not measured_milli_s or memory_milli is None or not is_low(busy_milli_s, measured_milli_s):
        return []
    if memory_milli * 100 <= LOW_PERCENT * 1_000:
        code = BATCH
    elif memory_milli * 100 > MUCH_MEMORY_PERCENT * 1_000:
        code = MEMORY
    else:
        return []
    busy = busy_milli_s * 1_000 // measured_milli_s
    what = (
        f"Its GPUs were busy for {busy / 10:.1f} % of the time, and at most {memory_milli / 10:.1f} % of a GPU's "
        "memory was in use."
    )
    return [Finding(code, Severity.WARN, "", 0, "", what, FIXES[code], EFFECTS[code], PAPER)]


def wilson(part: int, whole: int) -> tuple[float, float] | None:
    """Between which bounds the share lies of which `part` of `whole` is a sample, at 95 %; None of nothing.

    E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927: it holds for few as well,
    and for none or all.
    """
    if not whole:
        return None
    share, square = part / whole, Z_95 * Z_95
    middle = (share + square / (2 * whole)) / (1 + square / whole)
    reach = Z_95 / (1 + square / whole) * sqrt(share * (1 - share) / whole + square / (4 * whole * whole))
    return max(0.0, middle - reach), min(1.0, middle + reach)
