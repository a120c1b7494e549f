"""Shares from a file: laid beside the books, applied whole or not at all, once."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets import queries
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import BudgetNode, LedgerEntry, Person, Share, ShareImport
from budgets.services import imports, roles, tree
from budgets.services.imports import Fault, Row
from tests.budgets.laboratory import FOUNDED, LONG_AGO, Lab


@pytest.fixture
def today() -> date:
    """The organisation's day."""
    return queries.today()


def row(child: str, points: int, start: date, end: date | None = None, **more) -> Row:
    """A row of the file, in line 2 unless it says otherwise."""
    said = {"line": 2, "parent": "A", "cluster": "north", **more}
    return Row(child=child, basis_points=points, start=start, end=end, **said)


def faults(rows: list[Row], by: Person) -> list[tuple[int, str, str]]:
    """What is wrong with these rows."""
    return [(each.line, each.column, each.message) for each in imports.plan(rows, by).faults]


def books() -> list[tuple]:
    """All that a file could have changed."""
    return [
        *Share.objects.order_by("pk").values_list("node__code", "basis_points", "valid_from", "valid_until"),
        *LedgerEntry.objects.order_by("pk").values_list("pk"),
        *BudgetNode.objects.order_by("pk").values_list("pk", "version"),
    ]


def apply(rows: list[Row], by: Person, reason: str = "spring") -> int:
    """Preview and apply."""
    found, stored = imports.preview(name="shares.csv", rows=rows, by=by)
    assert stored is not None, found.faults
    return imports.apply(stored=stored, by=by, reason=reason, seen=imports.mark_of(found))


# --- what it changes --------------------------------------------------------------------------------------------------


def test_a_file_is_applied_whole_with_entries(lab: Lab, today: date) -> None:
    tomorrow, later = today + timedelta(days=1), today + timedelta(days=30)
    rows = [row("A1", 4000, tomorrow, line=2), row("A2", 6000, tomorrow, later, line=3)]
    found, stored = imports.preview(name="shares.csv", rows=rows, by=lab.pi)
    assert [(change.row.child, change.before, change.on) for change in found.changes] == [
        ("A1", 5000, tomorrow), ("A2", 0, tomorrow),
    ]  # fmt: skip
    assert imports.apply(stored=stored, by=lab.pi, reason="spring", seen=imports.mark_of(found)) == 2
    assert list(
        Share.objects.filter(parent=lab.a).values_list("node__code", "basis_points", "valid_from", "valid_until")
    ) == [("A1", 5000, LONG_AGO, tomorrow), ("A1", 4000, tomorrow, None), ("A2", 6000, tomorrow, later)]
    entries = LedgerEntry.objects.all()[:2]
    assert {(entry.node_code, entry.person_id, entry.reason) for entry in entries} == {
        ("A1", lab.pi.pk, "spring"), ("A2", lab.pi.pk, "spring"),
    }  # fmt: skip
    assert entries[0].evidence == {"import": stored.pk, "file": "shares.csv"}


def test_only_what_comes_out_in_the_end_has_to_fit(lab: Lab, today: date) -> None:
    """A2 rises before A1 falls, in the order of the file."""
    later = today + timedelta(days=9)
    rows = [row("A2", 7000, today, line=2), row("A1", 3000, today, later, line=3), row("A1", 1000, later, line=4)]
    assert apply(rows, lab.pi) == 3
    assert queries.tree_on(lab.north, later)[1].unassigned == 2000


def test_what_is_in_force_already_changes_nothing(lab: Lab) -> None:
    rows = [row("A1", 5000, LONG_AGO), row("A", 7000, LONG_AGO, parent="LAB"), row("B", 3000, LONG_AGO, parent="LAB")]
    before = books()
    found, stored = imports.preview(name="again.csv", rows=rows, by=lab.stranger)
    assert (found.faults, found.changes, found.unchanged, stored) == ([], [], 3, None)
    assert books() == before
    assert not ShareImport.objects.exists()


def test_the_past_of_a_moved_and_a_closed_node_is_no_fault_either(lab: Lab) -> None:
    lab.give(lab.a, {lab.a2: 1000})
    tree.move(node=lab.a1, parent=lab.b, by=None)
    tree.close(node=lab.a2, by=None)
    tomorrow = queries.today() + timedelta(days=1)
    rows = [row("A1", 5000, LONG_AGO, tomorrow), row("A2", 1000, LONG_AGO, tomorrow)]
    assert faults(rows, lab.stranger) == []


# --- what is wrong with a row -----------------------------------------------------------------------------------------


def test_every_fault_is_named_by_its_row(lab: Lab, today: date) -> None:
    tree.close(node=lab.a2, by=None)
    yesterday = today - timedelta(days=1)
    rows = [
        row("A1", 1, today, line=2, cluster="moon"),
        row("A1", 1, today, line=3, parent="X"),
        row("X", 1, today, line=4),
        row("B", 1, today, line=5),
        row("A1", 1, yesterday, line=6),
        row("A2", 1, today, line=7),
        row("A1", 1, today, today, line=8),
        row("A1", 1, today, line=9, name="another name"),
        row("B", 1, today, line=10, parent="LAB"),
    ]
    before = books()
    assert faults(rows, lab.pi) == [
        (2, "cluster", "there is no cluster 'moon'"),
        (3, "parent", "there is no node 'X'"),
        (4, "child", "there is no node 'X'"),
        (5, "child", "B is no child of A"),
        (6, "from", "can't be a day that is over, where it changes something"),
        (7, "child", "A2 is closed"),
        (8, "until", "must be later than from; it is the first day without this share"),
        (9, "name", "A1 is called name of A1; a file of shares renames nothing"),
        (10, "from", f"B has a share on {today} in row 5 already"),
        (10, "parent", "the shares of LAB are for its managers to change"),
    ]
    found, stored = imports.preview(name="bad.csv", rows=rows, by=lab.pi)
    assert (len(found.faults), stored) == (10, None)
    assert books() == before


def test_two_rows_for_a_day_are_a_fault_of_the_later_one(lab: Lab, today: date) -> None:
    days = [today + timedelta(days=number) for number in range(9)]
    rows = [
        row("A1", 10, days[4], line=2), row("A1", 20, days[0], days[2], line=3),
        row("A1", 30, days[1], days[4], line=4),
        row("A2", 40, days[0], days[8], line=5), row("A2", 50, days[1], days[2], line=6),
        row("A2", 60, days[5], days[6], line=7), row("A2", 70, days[8], line=8),
    ]  # fmt: skip
    assert faults(rows, lab.pi) == [
        (4, "from", f"A1 has a share on {days[1]} in row 3 already"),
        (6, "from", f"A2 has a share on {days[1]} in row 5 already"),
        (7, "from", f"A2 has a share on {days[5]} in row 5 already"),
    ]


def test_a_sum_over_the_whole_names_a_row_and_its_first_day(lab: Lab, today: date) -> None:
    later = today + timedelta(days=9)
    rows = [row("A1", 6000, later, line=2), row("A2", 5000, today, line=3)]
    assert faults(rows, lab.pi) == [
        (3, "share %", f"the children of A on north would sum to 110.00 % on {later}, 10.00 too much"),
    ]


def test_nobody_raises_what_they_have_a_part_in(lab: Lab, today: date) -> None:
    roles.grant(person=lab.pi, node=lab.a2, role="member", valid_from=LONG_AGO, by=None)
    message = "you have a part in A2: to raise it is for another manager, or the level above"
    assert faults([row("A2", 100, today)], lab.pi) == [(2, "child", message)]
    assert faults([row("A2", 100, today)], lab.chief) == []
    lab.give(lab.a, {lab.a2: 1000})
    assert faults([row("A2", 100, today)], lab.pi) == []


# --- once -------------------------------------------------------------------------------------------------------------


def test_the_same_rows_are_noticed_whatever_the_file_is_called(lab: Lab, today: date) -> None:
    rows = [row("A1", 4000, today, line=2), row("A2", 6000, today, line=3)]
    _, first = imports.preview(name="a.csv", rows=rows, by=lab.pi)
    turned = [row("A2", 6000, today, line=2), row("A1", 4000, today, line=3)]
    _, second = imports.preview(name="b.csv", rows=turned, by=lab.pi)
    assert first == second
    apply(rows, lab.pi)
    found, stored = imports.preview(name="c.csv", rows=turned, by=lab.chief)
    assert (found.faults, found.changes, stored) == ([], [], None)  # it says what is in force
    lab.give(lab.a, {lab.a1: 100}, today)
    found, stored = imports.preview(name="c.csv", rows=turned, by=lab.chief)
    said = f"these rows were applied on {today} by {lab.pi}, as a.csv; the same file is applied once"
    assert (found.faults, stored) == ([Fault(0, "", said)], None)


def test_a_second_click_applies_nothing_again(lab: Lab, today: date) -> None:
    found, stored = imports.preview(name="a.csv", rows=[row("A1", 4000, today)], by=lab.pi)
    seen = imports.mark_of(found)
    imports.apply(stored=stored, by=lab.pi, reason="x", seen=seen)
    before = books()
    with pytest.raises(ConflictError, match="applied already"):
        imports.apply(stored=stored, by=lab.pi, reason="x", seen=seen)
    assert books() == before


def test_shares_that_changed_since_the_preview_are_a_conflict(lab: Lab, today: date) -> None:
    found, stored = imports.preview(name="a.csv", rows=[row("A1", 4000, today)], by=lab.pi)
    lab.give(lab.a, {lab.a1: 4500}, today)
    before = books()
    with pytest.raises(ConflictError, match="changed since this preview"):
        imports.apply(stored=stored, by=lab.pi, reason="x", seen=imports.mark_of(found))
    assert books() == before


def test_only_its_author_applies_it_with_a_reason_and_the_right(lab: Lab, today: date) -> None:
    found, stored = imports.preview(name="a.csv", rows=[row("A1", 4000, today)], by=lab.pi)
    seen = imports.mark_of(found)
    with pytest.raises(NotAllowed):
        imports.apply(stored=stored, by=lab.chief, reason="x", seen=seen)
    with pytest.raises(InputError, match="reason"):
        imports.apply(stored=stored, by=lab.pi, reason=" ", seen=seen)
    roles.grant(person=lab.chief, node=lab.a, role="manager", valid_from=LONG_AGO, by=None)
    roles.end(grant=lab.pi.grants.get(), on=today, by=None)
    with pytest.raises(ConflictError):
        imports.apply(stored=ShareImport.objects.get(), by=Person.objects.get(pk=lab.pi.pk), reason="x", seen=seen)
    assert ShareImport.objects.get().applied_at is None


def test_questions_do_not_grow_with_rows(lab: Lab, today: date) -> None:
    for number in range(40):
        tree.add_child(parent=lab.a, kind="project", code=f"P{number}", name="p", by=None, at=FOUNDED)

    def asked(count: int) -> int:
        rows = [row(f"P{number}", 10, today, line=number + 2) for number in range(count)]
        with CaptureQueriesContext(connection) as caught:
            assert imports.plan(rows, Person.objects.get(pk=lab.pi.pk)).faults == []
        return len(caught)

    assert asked(40) == asked(2) <= 8
