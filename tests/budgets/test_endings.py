"""Budgets that end: one message for each manager and day, once, whatever beat does."""

from __future__ import annotations

from datetime import date, timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from budgets import queries
from budgets.models import BudgetNode, Message, Request
from budgets.services import endings, roles, tree
from tests.budgets.laboratory import FOUNDED, Lab


def forty(lab: Lab, end: date, count: int = 40) -> list[BudgetNode]:
    """Forty projects of B whose shares all end on one day."""
    made = [
        tree.add_child(parent=lab.b, kind="project", code=f"P{number}", name=f"p {number}", by=None, at=FOUNDED)
        for number in range(count)
    ]
    lab.give(lab.b, dict.fromkeys(made, 100), queries.today(), end)
    return made


def test_forty_budgets_that_end_on_one_day_are_one_message_with_forty_lines(lab: Lab) -> None:
    roles.grant(person=lab.stranger, node=lab.b, role="manager", valid_from=queries.today(), by=None)
    end = queries.today() + timedelta(days=10)
    forty(lab, end)
    assert endings.tell_of_endings() == 1
    message = Message.objects.get()
    last = end - timedelta(days=1)
    assert (message.person, message.subject) == (
        lab.stranger, f"40 budgets end with {last:%a} {last.day} {last:%b %Y}",
    )  # fmt: skip
    assert len(message.text.splitlines()) == 40
    assert "P7 p 7: 1.00 % of B on north; nobody has asked for more" in message.text.splitlines()
    assert endings.tell_of_endings() == 0
    assert endings.tell_of_endings(queries.today() + timedelta(days=1)) == 0


def test_questions_do_not_grow_with_budgets(lab: Lab) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as caught:
            endings.tell_of_endings()
        return len(caught)

    forty(lab, queries.today() + timedelta(days=5))
    assert asked() == 3  # what ends, what would renew it, and the managers, of whom nobody is there


def test_managers_of_the_node_and_of_its_parent_each_hear_of_theirs(lab: Lab) -> None:
    end = queries.today() + timedelta(days=3)
    lab.give(lab.a, {lab.a1: 4000}, queries.today(), end)  # what it had after that stays: it does not end
    lab.give(lab.a, {lab.a1: 0}, end)
    lab.give(lab.root, {lab.b: 0}, end)
    assert endings.tell_of_endings() == 3
    subjects = dict(Message.objects.values_list("person__username", "subject"))
    assert set(subjects) == {"lead", "pi", "chief"}
    assert "The budget of A1 ends" in subjects["lead"]
    assert "The budget of B ends" in subjects["chief"]


def test_what_goes_on_is_no_ending(lab: Lab) -> None:
    end = queries.today() + timedelta(days=3)
    lab.give(lab.a, {lab.a1: 4000}, queries.today(), end)
    assert endings.endings(queries.today(), end) == []


def test_told_on_the_first_day_on_which_it_is_near_and_not_before(lab: Lab) -> None:
    end = date(2027, 6, 1)
    lab.give(lab.a, {lab.a1: 0}, end)
    assert endings.tell_of_endings(date(2027, 5, 16)) == 0
    assert endings.tell_of_endings(date(2027, 5, 17)) == 2
    assert endings.tell_of_endings(date(2027, 5, 18)) == 0


def test_a_budget_that_has_ended_is_told_of_no_more_and_gives_nothing(lab: Lab) -> None:
    """Past its end it is entitled to nothing, also while a renewal waits for its answer."""
    today = queries.today()
    lab.give(lab.a, {lab.a1: 0}, today)
    renewal = Request.objects.create(
        node=lab.a1, parent=lab.a, cluster=lab.north, author=lab.lead, more_basis_points=5000, starts_on=today,
        why="go on", otherwise="stop", state="submitted", submitted_at=timezone.now(), desk=lab.a,
    )  # fmt: skip
    assert endings.tell_of_endings() == 0
    assert queries.entitlement_on(lab.a1, lab.north, today) == 0
    assert queries.entitlement_on(lab.a1, lab.north, today - timedelta(days=1)) > 0
    lab.give(lab.a, {lab.a1: 1000}, today, today + timedelta(days=2))
    assert endings.tell_of_endings() == 2
    assert f"{renewal} asks for more and has no answer yet" in Message.objects.get(person=lab.pi).text


def test_a_closed_node_has_ended_already(lab: Lab) -> None:
    tree.close(node=lab.a1, by=None)
    assert endings.endings(queries.today(), queries.today() + timedelta(days=5)) == []
