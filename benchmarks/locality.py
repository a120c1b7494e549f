"""What levels of locality cost: the Philly week with them beside without, and one large gang on a large cluster.

    python -m benchmarks.locality

The week is simulated in this process, without and with levels in turn, and the better of each counts: so the ratio says
the same on any machine. With levels, workloads allow every level from 0 to 3 in turn, and the thresholds are those of
the published rule; what spreading costs is left out, so that both simulate the same work.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks import Row, at_most, plain
from benchmarks.philly_week import DAYS, GPUS, import_philly
from scheduler.engine import BudgetNode, Explains, Node, Policy, Run, Snapshot, Workload, decide, locality
from scheduler.simulator import Scenario, parse, simulate

WAITS_S = (1_800, 3_600, 7_200)
REPEATS = 2
MOST_TIMES = 2.0
NODES, GPUS_PER_NODE, PER_RACK = 12_500, 8, 16
LARGE_RACK = 250
GANG_GPUS = 1_000
GANG_MS = 50
NOW_S = 1_800_000_000


def measure() -> list[Row]:
    """The ratio of the week's times, and milliseconds of one pass by level."""
    with tempfile.TemporaryDirectory() as folder:
        week = import_philly(Path(folder), GPUS, ["--from", DAYS[0], "--until", DAYS[1]])
        plain_week = parse(week.read_text(encoding="utf-8"))
    leveled = with_levels(plain_week)
    took_s = [min(each) for each in zip(*(timed_both(plain_week, leveled) for _ in range(REPEATS)), strict=True)]
    rows = [
        plain("the Philly week without levels of locality, simulation alone", took_s[0], "s"),
        at_most("the same with them: times as long", took_s[1] / took_s[0], "", MOST_TIMES),
    ]
    for level in locality.LEVELS_OF_LOCALITY:
        name = f"place {GANG_GPUS:,} GPUs on {NODES:,} nodes, level {level}"
        rows.append(at_most(name, gang_ms(level), "ms", GANG_MS))
    return rows


def with_levels(scenario: Scenario) -> Scenario:
    """The same with waits that relax, and owners that allow one level after the other."""
    jobs = [replace(job, locality=number % 4) for number, job in enumerate(scenario.jobs)]
    policy = replace(scenario.policy, locality_waits_s=WAITS_S)
    return replace(scenario, jobs=jobs, policy=policy, spreading_cost=False)


def timed_both(*scenarios: Scenario) -> list[float]:
    """CPU seconds of each."""
    took_s = []
    for scenario in scenarios:
        began_s = time.process_time()
        simulate(scenario)
        took_s.append(time.process_time() - began_s)
    return took_s


def gang_ms(level: int) -> float:
    """CPU time of a pass that places one gang at a level, the better of two.

    Below level 2 every third node is empty, and at level 0 the last rack; above none is, and three of four have a part
    free.
    """
    return min(_timed(level) for _ in range(2))


def _timed(level: int) -> float:
    snapshot = build(level)
    policy = Policy(locality_waits_s=WAITS_S)
    began_s = time.process_time()
    plan = decide(snapshot, policy, Explains.NEWS)
    took_ms = 1_000 * (time.process_time() - began_s)
    assert [each.action for each in plan.decisions] == ["start"], plan.decisions
    return took_ms


def build(level: int) -> Snapshot:
    """A cluster with one gang in its queue; racks are large at level 0, where one has to be found."""
    per_rack = LARGE_RACK if level == locality.ONE_RACK else PER_RACK
    names = [f"n{number:05}" for number in range(NODES)]
    nodes = [Node(name, GPUS_PER_NODE * 1_000, f"r{number // per_rack:04}") for number, name in enumerate(names)]
    held = [_held_milli(level, number) for number in range(NODES)]
    runs = [
        Run(f"{name}/1", name, "B", {name: milli}, True, 28_800, NOW_S - 60, NOW_S - 60)
        for name, milli in zip(names, held, strict=True)
        if milli
    ]
    waited_s = (0, *WAITS_S)[level]
    gang = Workload("gang", "A", GANG_GPUS * 1_000, 3_600, NOW_S - waited_s, locality=3)
    return Snapshot.build(
        now_s=NOW_S,
        tree=[BudgetNode("", None, 1, 1), BudgetNode("A", "", 1, 2), BudgetNode("B", "", 1, 2)],
        use={},
        nodes=nodes,
        runs=runs,
        queue=[gang],
        locality_waits_s=WAITS_S,
    )


def _held_milli(level: int, number: int) -> int:
    if level < locality.TWICE:
        is_empty = number % 3 == 0 or (level == locality.ONE_RACK and number >= NODES - LARGE_RACK)
        return 0 if is_empty else 8_000
    half_milli = 4_000 if level == locality.TWICE else 7_000
    return half_milli if number % 4 else 8_000


if __name__ == "__main__":
    for row in measure():
        print(f"{row.name}: {row.value:,.2f} {row.unit}  {row.target}")
