"""As of a past date: names, parents, shares and what was closed are as they were when that day ended."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from budgets import past, queries
from budgets.models import BudgetNode, LedgerEntry
from budgets.services import tree
from tests.budgets.laboratory import Lab


def at(month: int, day: int, hour: int = 12) -> datetime:
    """An instant of this year."""
    return datetime(2026, month, day, hour, tzinfo=UTC)


def changed(node: BudgetNode, verb: str, when: datetime, key: str, before: object) -> None:
    """An entry as the service writes it, at an instant of the past."""
    LedgerEntry.objects.create(
        at=when, verb=verb, node_id=node.pk, node_code=node.code, node_name=node.name, before={key: before}, after={}
    )


@pytest.fixture
def moved(lab: Lab) -> Lab:
    """A1 was "first" until 10 March 12:00, then "second" until 10 April; it hung under B until 20 March, and was closed
    on 1 May.
    """
    changed(lab.a1, "node.renamed", at(4, 10), "name", "second")
    changed(lab.a1, "node.renamed", at(3, 10), "name", "first")  # an import may be written later than it is dated
    changed(lab.a1, "node.moved", at(3, 20), "parent", lab.b.pk)
    BudgetNode.objects.filter(pk=lab.a1.pk).update(name="third", closed_at=at(5, 1))
    return lab


@pytest.mark.parametrize(
    ("day", "name", "parent", "is_closed"),
    [
        (date(2026, 3, 9), "first", "b", False),
        (date(2026, 3, 10), "second", "b", False),
        (date(2026, 3, 19), "second", "b", False),
        (date(2026, 3, 20), "second", "a", False),
        (date(2026, 4, 9), "second", "a", False),
        (date(2026, 4, 10), "third", "a", False),
        (date(2026, 4, 30), "third", "a", False),
        (date(2026, 5, 1), "third", "a", True),
    ],
)
def test_what_was_so_when_that_day_ended(moved: Lab, day: date, name: str, parent: str, is_closed: bool) -> None:
    row = next(row for row in queries.tree_on(moved.north, day) if row.node.code == "A1")
    assert (row.node.name, row.parent_id, row.is_closed) == (name, getattr(moved, parent).pk, is_closed)


def test_a_past_day_costs_one_query_more(moved: Lab) -> None:
    def asked(day: date) -> int:
        with CaptureQueriesContext(connection) as caught:
            queries.tree_on(moved.north, day)
        return len(caught)

    assert (asked(queries.today()), asked(date(2026, 3, 1))) == (2, 3)


def test_a_rename_of_today_changes_no_day_before(lab: Lab) -> None:
    tree.rename(node=lab.a1, name="new name", by=lab.pi, reason="clearer")
    tree.move(node=lab.a1, parent=lab.b, by=None)
    today = queries.today()
    was, is_now = (
        next(row for row in queries.tree_on(lab.north, day) if row.node.code == "A1")
        for day in (today - timedelta(days=1), today)
    )
    assert (was.node.name, was.parent_id, was.basis_points) == ("name of A1", lab.a.pk, 5000)
    assert (is_now.node.name, is_now.parent_id, is_now.basis_points) == ("new name", lab.b.pk, 0)


@pytest.mark.parametrize(
    ("last", "hours", "over"),
    [
        (date(2027, 3, 28), 23, datetime(2027, 3, 28, 22, tzinfo=UTC)),
        (date(2027, 10, 31), 25, datetime(2027, 10, 31, 23, tzinfo=UTC)),
    ],
)
def test_the_last_day_of_a_period_ends_with_the_organisations_day(
    lab: Lab, settings, last: date, hours: int, over: datetime
) -> None:
    """Clocks change on it: it has 23 or 25 hours, and the share holds through all of them and not a second longer."""
    settings.TIME_ZONE = "Europe/Berlin"
    lab.give(lab.a, {lab.a1: 0}, last + timedelta(days=1))
    assert queries.midnight(last + timedelta(days=1)) == over
    assert over - queries.midnight(last) == timedelta(hours=hours)
    before, after = queries.day_of(over - timedelta(seconds=1)), queries.day_of(over)
    assert (before, after) == (last, last + timedelta(days=1))
    entitled = [queries.entitlement_on(lab.a1, lab.north, day) for day in (before, after)]
    assert entitled == [Fraction(35, 100), 0]


@given(st.lists(st.tuples(st.integers(1, 30), st.text("xyz", min_size=1, max_size=2)), max_size=6), st.integers(1, 31))
def test_any_history_of_names(changes: list[tuple[int, str]], day: int) -> None:
    """Replaying the names from the first on gives what taking them back from the last gives."""
    changes.sort(key=lambda change: change[0])
    names = [name for _, name in changes]
    node = BudgetNode(pk=1, name="now")
    befores = names  # the name that each change replaced; after the last, it is "now"
    then = past.Past({1: ([at(1, on) for on, _ in changes], list(befores))} if changes else {}, {})
    expected = next((name for on, name in changes if on >= day), "now")
    assert then.name_at(node, at(1, day)) == expected
