"""The study of low GPU utilization behind the advisor: what its fixes were measured to bring, and that we did not."""

from __future__ import annotations

from collections.abc import Sequence

from .told import Numbers, System, SystemRow, nothing

MODELS = "BERT-large and Swin on 8 V100"
NOT_HERE = "needs those models and GPUs; where the advisor runs, each rule's precision is measured from its warnings"
PUBLISHED = (
    (
        "issues that small changes to code or scripts fix",
        "84.99 % of 706",
        "counted by the authors on 400 jobs of their platform",
    ),
    (f"larger batch, {MODELS}", "4.92x, 3.41x", NOT_HERE),
    (f"asynchronous checkpoints, {MODELS}", "1.20x, 1.02x", NOT_HERE),
    (f"pinned memory, {MODELS}", "1.15x, 1.03x", NOT_HERE),
    (f"all three, {MODELS}", "7.52x, 3.95x", NOT_HERE),
)


def rows(_: Sequence[Numbers]) -> list[SystemRow]:
    """The published figures alone."""
    return [SystemRow(figure, published, "–", remark=remark) for figure, published, remark in PUBLISHED]


ADVISOR = System("Low GPU utilization (Gao et al., ICSE 2024)", 0, nothing, rows)
