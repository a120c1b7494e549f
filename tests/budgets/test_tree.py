"""The tree: names, codes, moving, closing, and a leaf that gets children."""

from __future__ import annotations

import threading
from datetime import timedelta
from fractions import Fraction

import pytest
from django.db import IntegrityError, connection, transaction

from budgets import hooks, queries
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import BudgetNode, LedgerEntry, Share
from budgets.services import tree
from tests.budgets.laboratory import Lab


def paths() -> dict[str, str]:
    codes = dict(BudgetNode.objects.values_list("pk", "code"))
    return {node.code: "/".join(codes[pk] for pk in node.path) for node in BudgetNode.objects.all()}


def test_there_is_one_organisation(lab: Lab) -> None:
    with pytest.raises(InputError, match="there is an organisation already"):
        tree.create_root(code="LAB2", name="Another")


@pytest.mark.parametrize(
    "name", ["Ångström", "数据 科学", "مختبر", "👩‍🔬 lab", '=HYPERLINK("x")', "x" * 120, "O'Neill <b>"]
)
def test_names_in_any_script(lab: Lab, name: str) -> None:
    assert tree.add_child(parent=lab.b, kind="project", code="N1", name=f" {name} ", by=None).name == name


@pytest.mark.parametrize("name", ["", "  ", "x" * 121, "a\x00b", "a\nb", "\ud800"])
def test_names_that_are_none(lab: Lab, name: str) -> None:
    with pytest.raises(InputError) as refused:
        tree.add_child(parent=lab.b, kind="project", code="N1", name=name, by=None)
    assert refused.value.field == "name"


@pytest.mark.parametrize("code", ["", "a b", "A1\n", "_x", "x" * 17, "Ä"])
def test_codes_that_are_none(lab: Lab, code: str) -> None:
    with pytest.raises(InputError, match="code: must be 1 to 16"):
        tree.add_child(parent=lab.b, kind="project", code=code, name="x", by=None)


def test_a_code_is_for_one_node(lab: Lab) -> None:
    with pytest.raises(InputError, match="code: A1 is taken"):
        tree.add_child(parent=lab.b, kind="project", code="A1", name="x", by=None)
    with pytest.raises(InputError, match="kind: must be one of program"):
        tree.add_child(parent=lab.b, kind="organisation", code="B1", name="x", by=None)


def test_a_rename_keeps_the_old_name_in_the_ledger(lab: Lab) -> None:
    tree.rename(node=lab.a1, name="Newer", by=lab.lead, reason="clearer", version=1)
    entry = LedgerEntry.objects.first()
    assert (entry.verb, entry.node_name, entry.before, entry.after) == (
        "node.renamed",
        "Newer",
        {"name": "name of A1"},
        {"name": "Newer"},
    )
    with pytest.raises(ConflictError):
        tree.rename(node=lab.a1, name="Newest", by=lab.lead, reason="clearer", version=1)
    with pytest.raises(NotAllowed):
        tree.rename(node=lab.a1, name="Mine", by=lab.member, reason="mine")


def test_a_move_takes_the_subtree_and_leaves_the_past(lab: Lab) -> None:
    inner = tree.add_child(parent=lab.a1, kind="subproject", code="A1x", name="x", by=None)
    day = queries.today()
    tree.move(node=lab.a1, parent=lab.b, by=lab.chief, reason="belongs there")
    assert paths() == {
        "LAB": "LAB",
        "A": "LAB/A",
        "B": "LAB/B",
        "A2": "LAB/A/A2",
        "A1": "LAB/B/A1",
        "A1x": "LAB/B/A1/A1x",
    }
    lab.a1.refresh_from_db()
    assert queries.entitlement_steps(lab.a1, lab.north, day - timedelta(days=9), day + timedelta(days=9)) == [
        (day - timedelta(days=9), Fraction(35, 100)),
        (day + timedelta(days=1), Fraction(0)),
    ]
    before = {row.node.code: row for row in queries.tree_on(lab.north, day - timedelta(days=1), also=[inner.pk])}
    assert (before["A1"].parent_id, before["A1"].entitlement) == (lab.a.pk, Fraction(35, 100))
    now = {row.node.code: row for row in queries.tree_on(lab.north, day)}
    assert (now["A1"].parent_id, now["A1"].basis_points, now["A"].unassigned) == (lab.b.pk, 0, 10_000)
    lab.give(lab.b, {lab.a1: 10_000}, day)
    assert queries.entitlement_steps(lab.a1, lab.north, day, day + timedelta(days=1)) == [(day, Fraction(3, 10))]
    assert sum(s.basis_points for s in Share.objects.filter(parent=lab.a, node=lab.a1, valid_until=day)) == 5000


def test_a_node_is_never_moved_under_itself(lab: Lab) -> None:
    for parent in (lab.a, lab.a1):
        with pytest.raises(InputError, match="can't be moved under itself"):
            tree.move(node=lab.a, parent=parent, by=None)
    with pytest.raises(InputError, match="organisation itself can't be moved"):
        tree.move(node=lab.root, parent=lab.a, by=None)
    with pytest.raises(IntegrityError, match="not_its_own_parent"), transaction.atomic():
        BudgetNode.objects.filter(pk=lab.a.pk).update(parent=lab.a.pk)
    with pytest.raises(NotAllowed):
        tree.move(node=lab.a1, parent=lab.b, by=lab.pi, reason="mine in A only")


def test_closing_ends_all_below_with_the_day_and_keeps_it(lab: Lab) -> None:
    lab.give(lab.a, {lab.a2: 5000}, queries.today() + timedelta(days=5))
    tree.close(node=lab.a, by=lab.chief, reason="ended")
    tomorrow = queries.today() + timedelta(days=1)
    assert {node.code: node.is_closed for node in BudgetNode.objects.all()} == {
        "LAB": False,
        "A": True,
        "A1": True,
        "A2": True,
        "B": False,
    }
    assert list(Share.objects.filter(node__in=[lab.a, lab.a1, lab.a2]).values_list("node__code", "valid_until")) == [
        ("A", tomorrow),
        ("A1", tomorrow),
    ]
    assert {row.node.code for row in queries.tree_on(lab.north, tomorrow)} == {"LAB", "A", "A1", "A2", "B"}
    much_later = tomorrow + timedelta(days=queries.WEIGHING_DAYS + 1)
    assert {row.node.code for row in queries.tree_on(lab.north, much_later)} == {"LAB", "B"}
    kept = queries.tree_on(lab.north, much_later, also=[lab.a1.pk])
    assert {row.node.code for row in kept} == {"LAB", "A", "A1", "B"}
    with pytest.raises(InputError, match="A is closed"):
        tree.close(node=lab.a, by=None)
    with pytest.raises(InputError, match="organisation itself can't be closed"):
        tree.close(node=lab.root, by=None)
    for call in (
        lambda: tree.add_child(parent=lab.a, kind="project", code="A9", name="x", by=None),
        lambda: tree.move(node=lab.b, parent=lab.a, by=None),
        lambda: tree.move(node=lab.a, parent=lab.b, by=None),
    ):
        with pytest.raises(InputError, match="A is closed"):
            call()


def test_only_those_above_close(lab: Lab) -> None:
    with pytest.raises(NotAllowed):
        tree.close(node=lab.a1, by=lab.lead, reason="done")
    tree.close(node=lab.a1, by=lab.pi, reason="done")


def test_a_leaf_with_a_past_keeps_it_in_a_closed_child(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = []
    monkeypatch.setattr(hooks, "has_past", [lambda leaf: leaf.code == "A1"])
    monkeypatch.setattr(hooks, "past_moves", [lambda leaf, child, by: moved.append((leaf.code, child.code, by))])
    tree.add_child(parent=lab.a1, kind="member", code="A1x", name="x", by=lab.lead, reason="two of us")
    tree.add_child(parent=lab.a1, kind="member", code="A1y", name="y", by=lab.lead, reason="three of us")
    assert moved == [("A1", "A1_0", lab.lead)]
    kept = BudgetNode.objects.get(code="A1_0")
    assert (kept.name, kept.is_closed, kept.parent_id) == ("earlier work of name of A1", True, lab.a1.pk)
    assert [row.code for row in queries.open_leaves().filter(parent=lab.a1)] == ["A1x", "A1y"]


def test_the_closed_child_gets_the_first_code_that_is_free(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "has_past", [lambda leaf: leaf.code == "A2"])
    monkeypatch.setattr(hooks, "past_moves", [])
    tree.add_child(parent=lab.b, kind="project", code="A2_0", name="other", by=None)
    tree.move(node=lab.a1, parent=lab.a2, by=None)
    assert paths()["A2_1"] == "LAB/A/A2/A2_1"
    assert paths()["A1"] == "LAB/A/A2/A1"
    long = tree.add_child(parent=lab.b, kind="project", code="A234567890123456", name="long", by=None)
    monkeypatch.setattr(hooks, "has_past", [lambda leaf: leaf.pk == long.pk])
    tree.add_child(parent=long, kind="project", code="new", name="new", by=None)
    assert paths()["A23456789012345_0"[:14] + "_0"] == "LAB/B/A234567890123456/A2345678901234_0"


def test_those_who_registered_hear_of_a_change_after_its_commit(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks
) -> None:
    heard: list[list[int]] = []
    monkeypatch.setattr(hooks, "tree_changed", [lambda clusters: heard.append(list(clusters))])
    with django_capture_on_commit_callbacks(execute=True):
        lab.give(lab.a, {lab.a1: 1})
        tree.close(node=lab.b, by=None)
        assert heard == []
    assert heard == [[lab.north.pk], [lab.north.pk]]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE budgets_ledgerentry SET reason = 'nicer'",
        "DELETE FROM budgets_ledgerentry",
        "TRUNCATE budgets_ledgerentry",
    ],
)
def test_the_ledger_only_grows(lab: Lab, statement: str) -> None:
    with pytest.raises(IntegrityError, match="budgets_ledgerentry is append-only"), transaction.atomic():
        connection.cursor().execute(statement)


@pytest.mark.django_db(transaction=True)
def test_two_moves_at_once_never_make_a_circle(transactional_db: None, lab: Lab) -> None:
    b1 = tree.add_child(parent=lab.b, kind="project", code="B1", name="x", by=None)
    outcomes: list[str] = []
    ready = threading.Barrier(2)

    def move(node: BudgetNode, parent: BudgetNode) -> None:
        ready.wait(10)
        try:
            tree.move(node=node, parent=parent, by=None)
            outcomes.append("moved")
        except InputError as error:
            outcomes.append(error.message)
        finally:
            connection.close()

    threads = [threading.Thread(target=move, args=pair) for pair in ((lab.a, b1), (lab.b, lab.a1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes)[1] == "moved"
    assert "a node can't be moved under itself" in sorted(outcomes)[0]
    for node in BudgetNode.objects.exclude(parent=None).select_related("parent"):
        assert node.path == [*node.parent.path, node.pk]
