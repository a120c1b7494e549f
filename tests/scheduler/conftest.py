"""A small organisation with clusters on invented nodes, and ways to live through time on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from budgets.models import BudgetNode, Cluster, Person
from budgets.services import shares, tree
from scheduler.loop import live_on, look_at
from scheduler.models import Device, Holding, Node, Run, Workload
from scheduler.services import clusters, nodes, policies, workloads

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
DAY = date(2026, 3, 1)


def at(second: int) -> datetime:
    """An instant of the tests' time."""
    return START + timedelta(seconds=second)


def second_of(instant: datetime | None) -> int | None:
    """The other way round."""
    return None if instant is None else int((instant - START).total_seconds())


def add_nodes(cluster: Cluster, sizes: Mapping[str, int], rack: str = "", **more: int) -> None:
    """Nodes with so many devices, and maybe `cpu_milli` and `memory_mib`."""
    for name, devices in sizes.items():
        nodes.register(cluster=cluster, name=name, devices=devices, rack=rack, now=at(-86_400), **more)


class World:
    """One organisation and one cluster. `tree` is {code: basis points} or {code: (basis points, {...})}."""

    def __init__(
        self, tree_of: Mapping[str, Any], nodes: Mapping[str, int], executor: str, knobs: Mapping[str, Any]
    ) -> None:
        self.cluster = clusters.create(name="north", executor=executor)
        if knobs:
            policies.change(cluster=self.cluster, knobs=knobs)
        add_nodes(self.cluster, nodes)
        self.root = tree.create_root(code="lab", name="Laboratory", at=at(-86_400))
        self.leaves: dict[str, BudgetNode] = {}
        self._grow(self.root, tree_of)

    def _grow(self, parent: BudgetNode, below: Mapping[str, Any]) -> None:
        given: dict[BudgetNode, int] = {}
        for code, value in below.items():
            amount, children = value if isinstance(value, tuple) else (value, {})
            kind = BudgetNode.Kind.PROGRAM if parent is self.root else BudgetNode.Kind.PROJECT
            node = tree.add_child(parent=parent, kind=kind, code=code, name=f"Project {code}", by=None, at=at(-86_400))
            self.leaves[code] = node
            given[node] = amount
            if children:
                self._grow(node, children)
        parent.refresh_from_db()
        shares.set_shares(parent=parent, cluster=self.cluster, shares=given, valid_from=DAY, by=None)
        for node in self.leaves.values():
            node.refresh_from_db()

    def submit(self, leaf: str, gpus: float = 1, min_runtime_s: int = 3_600, now: int = 0, **more: Any) -> Workload:
        """Submit a workload of so many devices, or of a part of one."""
        sim = more.pop("sim", {})
        environment = {f"SIM_{name.upper()}": str(value) for name, value in sim.items()}
        return workloads.submit(
            cluster=self.cluster,
            leaf=self.leaves[leaf],
            owner=more.pop("owner", None),
            size_milli=int(gpus * 1_000),
            min_runtime_s=min_runtime_s,
            command=more.pop("command", ["train"]),
            environment=more.pop("environment", environment),
            now=at(now),
            **more,
        )

    def live(self, until: int, since: int = 0, every: int = 10) -> None:
        """Live through time in steps, as beat does."""
        for second in range(since, until + 1, every):
            self.step(second)

    def step(self, second: int) -> None:
        """What is due at an instant, then passes until nothing is left to do."""
        live_on(self.cluster, at(second))
        look_at(self.cluster.pk, now=at(second), is_due=True)
        while live_on(self.cluster, at(second)):
            look_at(self.cluster.pk, now=at(second), is_due=True)

    def node(self, name: str) -> Node:
        """A node of the cluster."""
        return Node.objects.get(cluster=self.cluster, name=name)

    def runs(self, workload: Workload) -> list[tuple[int | None, int | None]]:
        """(start, end) of its runs."""
        rows = Run.objects.filter(workload=workload).order_by("number")
        return [(second_of(run.started_at), second_of(run.ended_at)) for run in rows]


def check_books() -> None:
    """What must hold in every state: devices held as their holdings say, gangs whole, one run a workload."""
    for device in Device.objects.prefetch_related("holdings"):
        held = sum(holding.milli for holding in device.holdings.all() if holding.released_at is None)
        assert device.held_milli == held <= 1_000
    for run in Run.objects.exclude(started_in=None).prefetch_related("holdings"):
        holdings = list(run.holdings.all())
        assert sum(holding.milli for holding in holdings) == run.size_milli
        open_ones = [holding for holding in holdings if holding.released_at is None]
        assert len(open_ones) == (0 if run.state == Run.State.ENDED else len(holdings))
    for workload in Workload.objects.prefetch_related("runs"):
        going = [run for run in workload.runs.all() if run.state != Run.State.ENDED]
        assert len(going) == (1 if workload.state in ("starting", "running", "leaving", "unreachable") else 0)
    assert not Holding.objects.filter(released_at=None, run__state=Run.State.ENDED).exists()


@pytest.fixture
def make_world(transactional_db: None) -> Iterator[Callable[..., World]]:
    """Makes the test's world; what must hold is checked at its end."""

    def make(
        tree_of: Mapping[str, Any] | None = None,
        nodes: Mapping[str, int] | None = None,
        executor: str = "simulated",
        **knobs: Any,
    ) -> World:
        return World(tree_of or {"A": 5_000, "B": 5_000}, nodes or {"h1": 8}, executor, knobs)

    yield make
    check_books()


@pytest.fixture
def person(db: None) -> Person:
    """Somebody without any role."""
    return Person.objects.create(username="ana", display_name="Ana")
