"""The books are checked: the ledger against what is in force, by whatever road that was changed."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budgets import queries
from budgets.errors import InputError
from budgets.models import BooksCheck, BudgetNode, Share
from budgets.services import balances, tree
from tests.budgets.laboratory import LONG_AGO, Lab

NOW = datetime(2026, 7, 2, 12, tzinfo=UTC)
JUNE = date(2026, 6, 1)
FINDERS = (balances.shares_against_ledger, balances.sums_on_every_date, balances.tree_against_ledger)


def differences() -> list[str]:
    """All that the checks find."""
    return [each for find in FINDERS for each in find().differences]


def test_the_tick_after_a_busy_life(lab: Lab) -> None:
    lab.give(lab.a, {lab.a2: 2000}, JUNE, date(2026, 8, 1))
    lab.give(lab.a, {lab.a1: 0}, date(2026, 7, 1))
    tree.rename(node=lab.a2, name="other", by=None)
    tree.move(node=lab.a2, parent=lab.b, by=None)
    lab.give(lab.b, {lab.a2: 5000}, queries.today())
    tree.close(node=lab.a1, by=None)
    assert balances.check(NOW) == 0
    found = {row.book: row for row in BooksCheck.objects.all()}
    assert {book: (row.checked_at, row.differing, row.differences) for book, row in found.items()} == {
        book: (NOW, 0, []) for book in ("shares", "sums", "tree")
    }
    assert {book: row.compared for book, row in found.items()} == {"shares": 5, "sums": 6, "tree": 5}
    assert balances.check(NOW + timedelta(hours=1)) == 0
    assert BooksCheck.objects.count() == 3


def test_a_node_that_was_moved_and_shared_again_the_same_day(lab: Lab) -> None:
    """Its old parent's share is cut short by the new one's: that is written too."""
    tree.move(node=lab.a1, parent=lab.b, by=None)
    lab.give(lab.b, {lab.a1: 1000}, queries.today())
    assert list(Share.objects.filter(node=lab.a1).values_list("parent__code", "valid_until")) == [
        ("A", queries.today()), ("B", None),
    ]  # fmt: skip
    assert differences() == []


def test_a_share_that_changed_by_another_road_is_named(lab: Lab) -> None:
    Share.objects.filter(node=lab.a1).update(basis_points=6000)
    Share.objects.create(node=lab.a2, parent=lab.a, cluster=lab.north, basis_points=100, valid_from=JUNE)
    assert differences() == [
        "A1, a share of A on north: from 2026-01-01 the ledger says 50.00 %, and 60.00 % is in force",
        "A2, a share of A on north: from 2026-06-01 the ledger says 0.00 %, and 1.00 % is in force",
    ]
    assert balances.check(NOW) == 2
    row = BooksCheck.objects.get(book="shares")
    assert (row.differing, len(row.differences)) == (2, 2)


def test_a_share_that_went_by_another_road_is_named(lab: Lab) -> None:
    Share.objects.filter(node=lab.a1).update(valid_until=JUNE)
    assert differences() == [
        "A1, a share of A on north: from 2026-06-01 the ledger says 50.00 %, and 0.00 % is in force"
    ]


def test_a_name_and_a_parent_that_changed_by_another_road_are_named(lab: Lab) -> None:
    BudgetNode.objects.filter(pk=lab.a1.pk).update(name="=HYPERLINK(1)", parent=lab.b)
    assert differences() == [
        "A1: its name is '=HYPERLINK(1)', and by the ledger 'name of A1'",
        f"A1: its parent is {lab.b.pk}, and by the ledger {lab.a.pk}",
    ]


def test_a_sum_over_the_whole_is_named_from_its_first_day(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database lets none in, so the check is shown shares that it would not."""
    kept = balances._in_force()
    line = (lab.a2.pk, "north", lab.a.pk)
    monkeypatch.setattr(balances, "_in_force", lambda: {**kept, line: [balances.Spell(JUNE, None, 5001)]})
    assert balances.sums_on_every_date().differences == ["the children of A on north sum to 100.01 % from 2026-06-01"]


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["a1", "a2", "b", "a"]),
        st.integers(0, 6_000),
        st.integers(0, 60),
        st.none() | st.integers(1, 40),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHANGES)
def test_any_changes_in_any_order_of_dates_balance(lab: Lab, changes) -> None:
    for name, points, start, days in changes:
        node = getattr(lab, name)
        first = LONG_AGO + timedelta(days=start)
        try:
            lab.give(node.parent, {node: points}, first, first + timedelta(days=days) if days else None)
        except InputError:
            continue
    assert differences() == []
