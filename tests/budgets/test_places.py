"""Where one node stands, looked up by itself: what the whole tree says of it."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from budgets import queries
from budgets.models import BudgetNode
from budgets.queries import WEIGHING_DAYS, Place, place_on
from budgets.services import tree
from tests.budgets.laboratory import Lab


def as_the_tree_says(lab: Lab) -> dict[str, Place]:
    """By code; closed is who is closed, or hangs below one that is."""
    nodes = list(BudgetNode.objects.all())
    rows = queries.tree_on(lab.north, queries.today(), also=[node.pk for node in nodes if node.code != "OLD"])
    closed = {row.node.pk for row in rows if row.is_closed}
    return {
        row.node.code: Place(row.entitlement, row.has_children, not closed.isdisjoint(row.node.path)) for row in rows
    }


def as_looked_up(lab: Lab) -> dict[str, Place]:
    """The same, node by node."""
    nodes = BudgetNode.objects.exclude(code="OLD")
    return {node.code: place_on(node, lab.north, queries.today()) for node in nodes}


def test_every_node_stands_where_the_tree_says(lab: Lab) -> None:
    assert as_looked_up(lab) == as_the_tree_says(lab)
    tree.close(node=lab.a1, by=None, reason="over")
    assert as_looked_up(lab) == as_the_tree_says(lab)
    assert place_on(BudgetNode.objects.get(pk=lab.a1.pk), lab.north, queries.today()).is_closed
    tree.close(node=lab.b, by=None, reason="over")
    assert as_looked_up(lab) == as_the_tree_says(lab)


def test_a_child_that_weighs_no_more_is_none(lab: Lab) -> None:
    leaf = BudgetNode.objects.get(pk=lab.a1.pk)
    gone = timezone.now() - timedelta(days=WEIGHING_DAYS + 2)
    old = tree.add_child(parent=leaf, kind="member", code="OLD", name="Long ago", by=None, at=gone - timedelta(days=9))
    assert place_on(leaf, lab.north, queries.today()).has_children
    BudgetNode.objects.filter(pk=old.pk).update(closed_at=gone)
    assert not place_on(leaf, lab.north, queries.today()).has_children
    assert as_looked_up(lab) == as_the_tree_says(lab)


def test_it_takes_two_queries(lab: Lab) -> None:
    leaf = BudgetNode.objects.get(pk=lab.a1.pk)
    with CaptureQueriesContext(connection) as seen:
        place_on(leaf, lab.north, queries.today())
    assert len(seen) == 2
