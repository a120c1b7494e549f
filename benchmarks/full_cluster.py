"""A full cluster in rows: 512 nodes of 8 GPUs, 4,000 workloads running, 5,000 queued, a week of ended runs behind it.

The laboratory has 15 programs of 4 projects, every other project with 4 members: 105 leaves in trees of two and three
levels. Nodes are invented; workloads end only when they are told to.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count

from budgets import queries
from budgets.models import BudgetNode, Cluster
from budgets.services import shares, tree
from scheduler.services import clusters, history
from scheduler.services.history import PastNode, PastRun, PastWorkload

GPUS_PER_NODE = 8
NODES_PER_RACK = 16
PROGRAMS = 15
PROJECTS = 4
MEMBERS = 4
DAY_S = 86_400
WEEK_S = 7 * DAY_S
RUNNING_GPUS = [16] * 4 + [8] * 3 + [4] * 5 + [1] * 3_988
"""Of 4,000 running workloads on 4,096 GPUs nearly all have one."""
QUEUED_GPUS = (1, 1, 2, 4, 8, 16, 64)
FOREVER = {"SIM_STARTUP_S": "0", "SIM_DURATION_S": "100000000", "SIM_EXIT_DELAY_S": "5"}
"""How the workloads behave: they start at once, end only when they are told to, and then leave soon."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    nodes: int = 512
    running_gpus: Sequence[int] = tuple(RUNNING_GPUS)
    queued: int = 5_000
    ended: int = 20_000


def make_cluster(nodes: int, now: datetime) -> tuple[Cluster, list[BudgetNode]]:
    """An empty cluster with its tree; and the leaves that take workloads."""
    cluster = clusters.create(name="full", executor=Cluster.Executor.SIMULATED)
    long_ago = now - timedelta(days=30)
    history.add_nodes(
        cluster,
        [
            PastNode(
                name_of(index), GPUS_PER_NODE, [("healthy", long_ago, None)], rack=f"r{index // NODES_PER_RACK:02}"
            )
            for index in range(nodes)
        ],
    )
    return cluster, make_tree(cluster, long_ago)


def name_of(index: int) -> str:
    """Of a node."""
    return f"n{index:05}"


def make_tree(cluster: Cluster, at: datetime) -> list[BudgetNode]:
    """The laboratory; its leaves."""
    root = tree.create_root(code="lab", name="Laboratory", at=at)
    programs = grow(cluster, root, "program", [f"P{number:02}" for number in range(PROGRAMS)], at)
    leaves = []
    for program in programs:
        projects = grow(cluster, program, "project", [f"{program.code}.{number}" for number in range(PROJECTS)], at)
        for number, project in enumerate(projects):
            members = [f"{project.code}m{member}" for member in range(MEMBERS)]
            leaves += grow(cluster, project, "member", members, at) if number % 2 else [project]
    return list(BudgetNode.objects.filter(pk__in=[leaf.pk for leaf in leaves]).order_by("code"))


def grow(cluster: Cluster, parent: BudgetNode, kind: str, codes: Sequence[str], at: datetime) -> list[BudgetNode]:
    """Children of a node with shares that differ, of nine tenths of it in all."""
    children = [
        tree.add_child(parent=parent, kind=kind, code=code, name=f"Group {code}", by=None, at=at) for code in codes
    ]
    whole = sum(range(3, 3 + len(children)))
    given = {child: 9_000 * weight // whole for weight, child in enumerate(children, start=3)}
    parent.refresh_from_db()
    shares.set_shares(parent=parent, cluster=cluster, shares=given, valid_from=queries.day_of(at), by=None)
    return children


def fill(cluster: Cluster, leaves: Sequence[BudgetNode], size: Size, now: datetime, chance: random.Random) -> None:
    """Everything that runs, waits and has ended by `now`; a fifth of it unallocated, half of the contracts over."""
    past = [*running(leaves, size, now, chance), *waiting(leaves, size.queued, now, chance)]
    history.add(cluster, [*past, *ended(leaves, size.ended, now, chance)])


def running(leaves: Sequence[BudgetNode], size: Size, now: datetime, chance: random.Random) -> Iterator[PastWorkload]:
    """What holds devices: the large ones first, node after node, until all nodes are full."""
    free = count()
    for gpus in size.running_gpus:
        devices = [next(free) for _ in range(gpus)]
        holdings: dict[str, int] = {}
        for device in devices:
            name = name_of(device // GPUS_PER_NODE)
            holdings[name] = holdings.get(name, 0) + 1_000
        started_at = now - timedelta(seconds=chance.randint(60, 14_400))
        min_runtime_s = 7_200 if chance.random() < 0.8 else 0
        run = PastRun(
            started_at=started_at,
            ended_at=None,
            size_milli=gpus * 1_000,
            is_funded=min_runtime_s > 0,
            running_at=started_at,
            contract_ends_at=started_at + timedelta(seconds=min_runtime_s) if min_runtime_s else None,
            holdings=holdings,
        )
        yield past_workload(chance.choice(leaves), gpus, min_runtime_s, "running", started_at, chance, [run])


def waiting(leaves: Sequence[BudgetNode], amount: int, now: datetime, chance: random.Random) -> Iterator[PastWorkload]:
    """What queues: of all sizes and contracts, a fifth of it unallocated."""
    for _ in range(amount):
        submitted_at = now - timedelta(seconds=chance.randint(0, DAY_S))
        min_runtime_s = chance.choice((0, 900, 3_600, 7_200, 14_400))
        yield past_workload(
            chance.choice(leaves), chance.choice(QUEUED_GPUS), min_runtime_s, "queued", submitted_at, chance, []
        )


def ended(leaves: Sequence[BudgetNode], amount: int, now: datetime, chance: random.Random) -> Iterator[PastWorkload]:
    """What ran in the last week and is over."""
    for _ in range(amount):
        ended_at = now - timedelta(seconds=chance.randint(1, WEEK_S))
        started_at = ended_at - timedelta(seconds=chance.randint(600, 28_800))
        gpus = chance.choice(QUEUED_GPUS)
        is_funded = chance.random() < 0.8
        run = PastRun(started_at, ended_at, gpus * 1_000, is_funded, running_at=started_at, end_reason="finished")
        yield past_workload(
            chance.choice(leaves), gpus, 3_600 if is_funded else 0, "finished", started_at, chance, [run], ended_at
        )


def past_workload(
    leaf: BudgetNode,
    gpus: int,
    min_runtime_s: int,
    state: str,
    submitted_at: datetime,
    chance: random.Random,
    runs: Sequence[PastRun],
    ended_at: datetime | None = None,
) -> PastWorkload:
    """One of them."""
    return PastWorkload(
        leaf=leaf,
        owner=None,
        size_milli=gpus * 1_000,
        min_runtime_s=min_runtime_s,
        state=state,
        submitted_at=submitted_at,
        ended_at=ended_at,
        runs=runs,
        priority=chance.choice((0, 0, 0, 1)),
        environment=FOREVER,
    )
