"""A laboratory with two programs, one cluster that really schedules, and the same few people on every page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from budgets.models import BudgetNode, Cluster, Person, Role, RoleGrant
from budgets.queries import today
from budgets.services import shares, tree
from scheduler.loop import live_on, look_at
from scheduler.models import LogChunk, Rank, Workload
from scheduler.services import clusters, nodes, usage, workloads
from tests.portal.openid_elsewhere import elsewhere, provider_process  # noqa: F401 (fixtures)

BEGAN = timedelta(days=2)
SHARES = {"LAB": {"A": 6_000, "B": 3_500}, "A": {"A1": 7_000, "A2": 2_500}, "B": {"B1": 10_000}}
NODES = {"n01": 8, "n02": 8}


class Laboratory:
    """Ada is a member of A1 and owns its workloads, Ben of B1; Mia manages A, Max the whole; Ops operates.

    Nil has no role.
    """

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)
        born = self.now - timedelta(days=40)
        self.cluster = clusters.create(name="north", executor=Cluster.Executor.SIMULATED)
        for name, devices in NODES.items():
            nodes.register(cluster=self.cluster, name=name, devices=devices, rack="r1", now=born)
        self.node: dict[str, BudgetNode] = {"LAB": tree.create_root(code="LAB", name="Laboratory", at=born)}
        for parent, below in SHARES.items():
            kind = BudgetNode.Kind.PROGRAM if parent == "LAB" else BudgetNode.Kind.PROJECT
            for code in below:
                self.node[code] = tree.add_child(
                    parent=self.node[parent], kind=kind, code=code, name=f"Team {code}", by=None, at=born
                )
        for parent, below in SHARES.items():
            given = {self.node[code]: points for code, points in below.items()}
            shares.set_shares(
                parent=self.node[parent],
                cluster=self.cluster,
                shares=given,
                valid_from=today() - timedelta(days=30),
                by=None,
            )
        for number, code in enumerate(("A", "B", "A1", "A2", "B1"), 1):
            BudgetNode.objects.filter(code=code).update(colour=number)
        for node in self.node.values():
            node.refresh_from_db()
        self.ada = self.person("ada", "A1", Role.MEMBER)
        self.ben = self.person("ben", "B1", Role.MEMBER)
        self.mia = self.person("mia", "A", Role.MANAGER)
        self.max = self.person("max", "LAB", Role.MANAGER)
        self.ops = self.person("ops", "LAB", Role.OPERATOR)
        self.nil = self.person("nil")

    def person(self, username: str, code: str = "", role: str = "") -> Person:
        """Somebody, with a role where one is named."""
        person = Person.objects.create_user(username, password="sesame-open-42", display_name=username.capitalize())
        if code:
            RoleGrant.objects.create(
                person=person, node=self.node[code], role=role, valid_from=today() - timedelta(days=30)
            )
        return person

    def submit(
        self, leaf: str, gpus: float, *, minutes: int = 60, owner: Person | None = None, **more: Any
    ) -> Workload:
        """Submit a workload, so many minutes ago."""
        ago = more.pop("ago", 0)
        return workloads.submit(
            cluster=self.cluster,
            leaf=self.node[leaf],
            owner=owner,
            size_milli=int(gpus * 1_000),
            min_runtime_s=minutes * 60,
            command=more.pop("command", ["python", "train.py", "--secret-flag"]),
            now=self.now - timedelta(minutes=ago),
            **more,
        )

    def step(self, ago: int = 0) -> None:
        """What is due so many minutes ago, and passes until nothing is left to do."""
        at = self.now - timedelta(minutes=ago)
        live_on(self.cluster, at)
        look_at(self.cluster.pk, now=at, is_due=True)
        while live_on(self.cluster, at):
            look_at(self.cluster.pk, now=at, is_due=True)

    def print_something(self, workload: Workload, text: str) -> None:
        """Let rank 0 of its last run have printed something."""
        rank = Rank.objects.filter(run__workload=workload).order_by("-run__number", "index").first()
        assert rank is not None
        LogChunk.objects.create(rank=rank, offset=0, length=len(text), text=text)

    def close_books(self) -> None:
        """Make the hourly figures of the last days."""
        hour = self.now.replace(minute=0, second=0)
        usage.rebuild(self.cluster, hour - timedelta(days=3), hour, now=self.now)


def busy() -> Laboratory:
    """B1 holds the cluster, its contract over on one node; A1 has two that wait, B1 one; books are closed."""
    lab = Laboratory()
    lab.holder = lab.submit("B1", 8, minutes=120, owner=lab.ben, name="fold-batch", ago=200)
    lab.step(ago=200)
    lab.taken = lab.submit("B1", 8, minutes=10, owner=lab.ben, name="taken-one", resumable=True, ago=190)
    lab.step(ago=190)
    lab.step(ago=100)
    lab.taker = lab.submit("A1", 8, minutes=120, owner=lab.ada, name="taker-one", ago=60)
    for minutes in (60, 59, 58):
        lab.step(ago=minutes)
    lab.waits = lab.submit("A1", 8, minutes=60, owner=lab.ada, name="waiting-one", ago=30)
    lab.second = lab.submit("A1", 4, minutes=60, owner=lab.ada, priority=5, ago=20)
    lab.free = lab.submit("A2", 2, minutes=0, ago=10)
    lab.step(ago=1)
    lab.print_something(lab.taker, "epoch 1: loss 0.42\n")
    lab.close_books()
    for name in ("holder", "taken", "taker", "waits", "second", "free"):
        getattr(lab, name).refresh_from_db()
    return lab


@pytest.fixture
def lab(transactional_db: None) -> Laboratory:
    """The laboratory with work in every state."""
    return busy()


@pytest.fixture
def calm(db: None) -> Laboratory:
    """The laboratory before anybody has submitted anything."""
    return Laboratory()


@pytest.fixture
def as_person() -> Callable[[Person], Client]:
    """`as_person(lab.ada)` gives a client that is signed in as her."""

    def sign_in(person: Person) -> Client:
        client = Client()
        client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return sign_in
