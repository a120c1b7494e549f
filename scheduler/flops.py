"""Model FLOPs utilization (MFU): what a training run makes of what its devices could do at most.

A dense decoder takes about 6 floating-point operations for each parameter and token, forward and backward, without
those of attention (Kaplan et al., 2020; PaLM, appendix B). MFU is 6 x parameters x tokens a second, by devices x peak.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

FLOPS_PER_PARAMETER_AND_TOKEN = 6
TERA = 10**12

PEAK_TFLOPS: Mapping[tuple[str, ...], Fraction] = {
    tuple(model.split()): Fraction(peak)
    for model, peak in {
        "V100": "125", "T4": "65",
        "A100": "312", "A30": "165", "A10": "125", "A40": "149.7", "A6000": "154.8",
        "L4": "121", "L40": "181", "L40S": "362", "4090": "165.2",
        "H100": "989", "H100 PCIE": "756", "H100 NVL": "835", "H200": "989", "GH200": "989", "H800": "989",
        "B200": "2250", "GB200": "2500",
        "MI250X": "383", "MI300X": "1307", "MI325X": "1307",
    }.items()
}  # fmt: skip
"""Dense peaks of 16-bit matrix units (bfloat16; float16 where there is none), without sparsity, by the words that a
model's name has: from the vendors' data sheets."""


def peak_flops(model: str) -> Fraction | None:
    """Operations a second at most of a device of that model; None where the table has none.

    The name may say more ("NVIDIA A100-SXM4-80GB"); of several that fit, the one with most words counts.
    """
    words = set(re.findall(r"[A-Z0-9]+", model.upper()))
    fitting = [key for key in PEAK_TFLOPS if words.issuperset(key)]
    return PEAK_TFLOPS[max(fitting, key=len)] * TERA if fitting else None


def mfu(*, parameters: int, tokens_per_s: Fraction, devices: Fraction, peak: Fraction) -> Fraction:
    """As a part of 1. `peak` is that of one device, in operations a second; it and `devices` are above 0."""
    return FLOPS_PER_PARAMETER_AND_TOKEN * parameters * tokens_per_s / (devices * peak)
