"""How long one pass of the engine takes on a snapshot that is built already, with the reason of everybody who waits.

    python -m benchmarks.decide_curve

A cluster of nodes with 8 GPUs each, full of runs of one GPU or a few, as passes leave one that has more to do than
room: hardly anything can be taken over, and no run is unallocated. What waits is of all sizes and contracts. A pass
that preempts much costs more. First twice as many nodes and twice as much that waits at every step, to see how the cost
grows; then the two sizes that have a target, the larger of them measured once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from math import log2

from benchmarks import Row, at_most, plain
from scheduler.engine import BudgetNode, LeafUse, Node, Policy, Run, Snapshot, Workload, decide

SEED = 1
NOW_S = 1_800_000_000
GPUS_PER_NODE = 8
PROGRAMS, PROJECTS, MEMBERS = 15, 4, 4
LEAST_SERVED = "P14.3m3"
"""The leaf that nobody has been served less than: its runs go on when their contract is over."""
USED_MILLI_S = (("P14.3", 10**9), ("P14", 10**11), ("P", 10**13))
"""Up to nine times so much, on 64 nodes, was used by the leaves whose name begins so; the first that fits counts."""
QUEUED_GPUS = (1, 1, 2, 4, 8, 16, 64)
CONTRACTS_S = (0, 900, 3_600, 7_200, 14_400)
CURVE = ((64, 625), (128, 1_250), (256, 2_500), (512, 5_000), (1_024, 10_000))
FULL = (512, 5_000)
FULL_MS = 250
HUGE = (12_500, 100_000)
HUGE_MS = 2_000


def measure() -> list[Row]:
    """Milliseconds by size, the exponent that the curve comes to, and the two sizes with a target."""
    rows = []
    took_ms: dict[tuple[int, int], float] = {}
    for nodes, queued in (*CURVE, HUGE):
        took_ms[nodes, queued] = decide_ms(nodes, queued)
    for size in CURVE:
        if size != FULL:
            rows.append(plain(named(*size), took_ms[size], "ms"))
    rows.append(at_most(named(*FULL), took_ms[FULL], "ms", FULL_MS))
    rows.append(at_most(named(*HUGE), took_ms[HUGE], "ms", HUGE_MS))
    # n log n alone doubles to a little more than twice: from the first size of the curve to the last, this many times.
    first, last = CURVE[0], CURVE[-1]
    bound = last[1] * log2(last[1]) / (first[1] * log2(first[1]))
    grown = took_ms[last] / took_ms[first]
    rows.append(at_most(f"decide, {last[1] // first[1]} times the cluster: times the cost", grown, "", round(bound, 1)))
    return rows


def named(nodes: int, queued: int) -> str:
    """A size in words."""
    return f"decide: {nodes * GPUS_PER_NODE:,} GPUs on {nodes:,} nodes, {queued:,} queued"


def decide_ms(nodes: int, queued: int) -> float:
    """CPU time of one pass, the better of two, each on a snapshot of its own."""
    return min(timed(build(nodes, queued)) for _ in range(1 if (nodes, queued) == HUGE else 2))


def timed(snapshot: Snapshot) -> float:
    """Milliseconds of one pass."""
    began_s = time.process_time()
    plan = decide(snapshot, Policy())
    took_ms = 1_000 * (time.process_time() - began_s)
    assert len(plan.decisions) >= len(snapshot.queued), "everybody is told"
    return took_ms


def build(nodes: int, queued: int) -> Snapshot:
    """A full cluster with a queue."""
    chance = random.Random(SEED)
    tree = list(laboratory())
    parents = {node.parent for node in tree}
    leaves = [node.id for node in tree if node.id not in parents]
    others = [leaf for leaf in leaves if leaf != LEAST_SERVED]
    names = [f"n{index:05}" for index in range(nodes)]
    return Snapshot.build(
        now_s=NOW_S,
        tree=tree,
        use={leaf: LeafUse(nodes // 64 * chance.randint(1, 9) * used_milli_s(leaf), 0) for leaf in others},
        nodes=[Node(name, GPUS_PER_NODE * 1_000, f"r{index // 16:03}") for index, name in enumerate(names)],
        runs=runs(names, leaves, chance),
        queue=queue(queued, leaves, chance),
    )


def used_milli_s(leaf: str) -> int:
    """What `USED_MILLI_S` says of a leaf."""
    return next(amount for start, amount in USED_MILLI_S if leaf.startswith(start))


def laboratory() -> Iterator[BudgetNode]:
    """15 programs of 4 projects, every other one with 4 members: 150 leaves."""
    yield BudgetNode("lab", None, 1, 1)
    for program in range(PROGRAMS):
        yield BudgetNode(f"P{program:02}", "lab", 500 + 10 * program, 10_000)
        for project in range(PROJECTS):
            name = f"P{program:02}.{project}"
            yield BudgetNode(name, f"P{program:02}", 1_500 + 300 * project, 10_000)
            for member in range(MEMBERS if project % 2 else 0):
                yield BudgetNode(f"{name}m{member}", name, 2_000 + 200 * member, 10_000)


def runs(names: list[str], leaves: list[str], chance: random.Random) -> Iterator[Run]:
    """Every node full: nearly all of it with runs of one GPU."""
    for name in names:
        free = GPUS_PER_NODE
        while free:
            gpus = min(free, 1 if chance.random() < 0.95 else chance.choice((2, 4, 8)))
            free -= gpus
            is_over = chance.random() < 0.05
            started_s = NOW_S - (7_300 if is_over else chance.randint(60, 7_100))
            yield Run(
                id=f"{name}-{free}/1",
                workload=f"{name}-{free}",
                leaf=LEAST_SERVED if is_over else chance.choice(leaves),
                holdings={name: gpus * 1_000},
                funded=True,
                min_runtime_s=7_200,
                started_s=started_s,
                running_s=started_s,
                priority=1,
            )


def queue(number: int, leaves: list[str], chance: random.Random) -> Iterator[Workload]:
    """What waits, submitted during the last day."""
    for index in range(number):
        yield Workload(
            id=f"w{index:06}",
            leaf=chance.choice(leaves),
            size_milli=chance.choice(QUEUED_GPUS) * 1_000,
            min_runtime_s=chance.choice(CONTRACTS_S),
            submitted_s=NOW_S - chance.randint(0, 86_400),
            priority=chance.choice((0, 0, 0, 1)),
        )


if __name__ == "__main__":
    for each in measure():
        print(each.name, round(each.value, 1), each.unit, each.target)
