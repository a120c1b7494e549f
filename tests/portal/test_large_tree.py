"""At 2,000 nodes: an editor's cell and an approval within 200 ms, the tree page within 300 ms.

What counts is processor time, the best of five, since a test can't know who else is on the machine; by the clock it may
take some times as long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from budgets.models import BudgetNode, Cluster, Person, Role, RoleGrant, Share
from budgets.queries import today
from budgets.services import reallocations
from budgets.split import evenly
from scheduler.services import clusters, nodes, usage
from tests.portal.test_reallocate import hidden_or

PROGRAMS, PROJECTS, MEMBERS = 20, 5, 19
"""1 + 20 + 100 + 1,900 nodes."""


CROWDED = 5
"""How many times as long it may take by the clock, with the database and whatever else runs here."""


def best_ms(call: Callable[[], object], times: int = 5) -> tuple[float, float]:
    """The least processor time, and the least time by the clock, of several calls, in milliseconds."""
    took = []
    for _ in range(times):
        began, busy = time.perf_counter(), time.process_time()
        call()
        took.append((time.process_time() - busy, time.perf_counter() - began))
    return min(each for each, _ in took) * 1_000, min(each for _, each in took) * 1_000


@pytest.fixture
def large(db: None) -> tuple[Cluster, Person]:
    """The cluster, and the manager of program P0."""
    cluster = clusters.create(name="north", executor=Cluster.Executor.SIMULATED)
    born = datetime.now(UTC).replace(microsecond=0) - timedelta(days=20)
    nodes.register(cluster=cluster, name="n1", devices=8, now=born)
    levels: list[list[BudgetNode]] = [[BudgetNode(kind="organisation", code="LAB", name="Laboratory", created_at=born)]]
    for kind, count in (("program", PROGRAMS), ("project", PROJECTS), ("member", MEMBERS)):
        levels[-1] = BudgetNode.objects.bulk_create(levels[-1])
        for node in levels[-1]:
            node.path = [*(node.parent.path if node.parent else []), node.pk]
        BudgetNode.objects.bulk_update(levels[-1], ["path"])
        levels.append(
            [
                BudgetNode(
                    kind=kind,
                    code=f"{node.code if node.parent else 'P'}{'.' if node.parent else ''}{number}",
                    name=f"{kind} {number}",
                    parent=node,
                    created_at=born,
                )
                for node in levels[-1]
                for number in range(count)
            ]
        )
    levels[-1] = BudgetNode.objects.bulk_create(levels[-1])
    for node in levels[-1]:
        assert node.parent is not None
        node.path = [*node.parent.path, node.pk]
    BudgetNode.objects.bulk_update(levels[-1], ["path"], batch_size=500)
    day = today() - timedelta(days=10)
    Share.objects.bulk_create(
        Share(node=node, parent=node.parent, cluster=cluster, basis_points=points, valid_from=day)
        for level, count in zip(levels[1:], (PROGRAMS, PROJECTS, MEMBERS), strict=True)
        for first in range(0, len(level), count)
        for node, points in zip(level[first : first + count], evenly(9_000, count), strict=True)
    )
    manager = Person.objects.create_user("manager")
    RoleGrant.objects.create(person=manager, node=levels[1][0], role=Role.MANAGER, valid_from=day)
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    usage.rebuild(cluster, hour - timedelta(hours=3), hour)
    return cluster, manager


def test_a_cell_an_approval_and_the_tree_answer_in_time(
    large: tuple[Cluster, Person], as_person: Callable[[Person], Client]
) -> None:
    cluster, manager = large
    assert BudgetNode.objects.count() == 2_021
    client = as_person(manager)
    program = BudgetNode.objects.get(code="P0")
    children = list(program.children.order_by("code"))
    address = "/budget/P0/reallocate/?cluster=north"
    page = client.get(address)
    names = [f"{what}_{child.pk}" for child in children for what in ("share", "base")]
    form = {name: hidden_or(page, name) for name in ("action", "version", "starts_on", *names)}
    form |= {"do": "recount", f"share_{children[0].pk}": "21.00"}

    def cell() -> None:
        assert client.post(address, form, headers={"HX-Request": "true"}).status_code == 200

    chief = Person.objects.create_user("chief")
    RoleGrant.objects.create(
        person=chief, node=BudgetNode.objects.get(parent=None), role=Role.MANAGER, valid_from=today()
    )

    def approve() -> None:
        """A whole decision on one level: lock, check, store, tell, and what the loops hear of it."""
        points[0] += 1
        reallocations.apply_directly(
            parent=program,
            cluster=cluster,
            shares={children[0]: points[0]},
            starts_on=today(),
            by=Person.objects.get(pk=chief.pk),
            reason="measured",
        )

    points = [1_800]
    with CaptureQueriesContext(connection) as told:
        cell()
        asked = len(told)
    took = {
        "cell": best_ms(cell),
        "approval": best_ms(approve),
        "tree": best_ms(lambda: client.get("/tree/north/")),
        "budget": best_ms(lambda: client.get("/budget/P0/?cluster=north")),
    }
    assert asked < 30
    for name, most_ms in (("cell", 200), ("approval", 200), ("tree", 300), ("budget", 300)):
        busy_ms, by_the_clock_ms = took[name]
        assert busy_ms < most_ms, took
        assert by_the_clock_ms < most_ms * CROWDED, took
