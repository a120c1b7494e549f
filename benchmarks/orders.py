"""What orders among siblings and inside a leaf cost: the Philly week in each, beside the contracts order as it is.

    python -m benchmarks.orders

The week is simulated in this process, in one order after the other, and the better of each counts: so the ratios say
the same on any machine.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks import Row, at_most, plain
from benchmarks.locality import timed_both
from benchmarks.philly_week import DAYS, GPUS, import_philly
from scheduler.simulator import parse

AMONG_SIBLINGS = ("fair", "drf")
INSIDE_A_LEAF = ("tiresias", "gittins", "shortest", "themis")
REPEATS = 2
MOST_TIMES = 2.0


def measure() -> list[Row]:
    """Seconds of the week in the contracts order, and how many times as long it takes in each other."""
    with tempfile.TemporaryDirectory() as folder:
        week = parse(import_philly(Path(folder), GPUS, ["--from", DAYS[0], "--until", DAYS[1]]).read_text("utf-8"))
    policies = [replace(week.policy, tree_order=order) for order in AMONG_SIBLINGS]
    policies += [replace(week.policy, leaf_order=order) for order in INSIDE_A_LEAF]
    weeks = [week, *(replace(week, policy=policy) for policy in policies)]
    took_s = [min(each) for each in zip(*(timed_both(*weeks) for _ in range(REPEATS)), strict=True)]
    rows = [plain("the Philly week in the contracts order, simulation alone", took_s[0], "s")]
    for order, each_s in zip((*AMONG_SIBLINGS, *INSIDE_A_LEAF), took_s[1:], strict=True):
        rows.append(at_most(f"the same by {order}: times as long", each_s / took_s[0], "", MOST_TIMES))
    return rows


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: {row.value:,.2f} {row.unit}  {row.target}")
