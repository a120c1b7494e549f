"""The authority matrix: the committed table is what the code answers, for every action there is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import rules
from django.core.management import call_command
from django.db import connection

from budgets import authority, desks
from budgets.errors import InputError
from budgets.models import BudgetNode, Person, Request, Role, RoleGrant, State
from budgets.queries import today
from budgets.services import requests, roles
from portal import authority_matrix
from scheduler.models import Workload
from tests.conftest import REPOSITORY
from tests.portal.conftest import Laboratory

TABLE = REPOSITORY / "docs" / "authority.md"


def test_the_committed_table_is_what_the_code_answers() -> None:
    said = StringIO()
    call_command("authority_matrix", stdout=said)
    assert said.getvalue() == TABLE.read_text(encoding="utf-8"), "run manage.py documents, and look at what changed"


def test_every_registered_action_is_in_the_table() -> None:
    text = TABLE.read_text(encoding="utf-8")
    assert [action for action in authority.actions() if f"| `{action}` |" not in text] == []


def test_an_action_that_the_matrix_does_not_know_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    authority.register("reactor.open", rules.always_allow)
    try:
        with pytest.raises(LookupError, match=r"what is reactor\.open asked about"):
            authority_matrix.as_markdown()
    finally:
        authority._RULES.remove_rule("reactor.open")
    with pytest.raises(authority.UnknownAction):
        authority.may(Person(pk=1), "reactor.open")


def asked_in_code() -> Iterator[tuple[str, str]]:
    """(place, action) of every question about authority in the source that names its action."""
    for package in ("budgets", "scheduler", "portal"):
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and _name(node.func) in ("may", "allowed") and len(node.args) >= 2:
                    for found in ast.walk(node.args[1]):
                        if isinstance(found, ast.Constant) and isinstance(found.value, str):
                            yield f"{path.relative_to(REPOSITORY)}:{node.lineno}", found.value


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def test_the_code_asks_about_nothing_that_is_not_registered() -> None:
    known = set(authority.actions())
    asked = [(place, action) for place, action in asked_in_code() if "." in action]
    assert len(asked) > 40
    assert [each for each in asked if each[1] not in known] == []


def test_nothing_is_registered_that_nobody_asks_about() -> None:
    everywhere = "".join(
        path.read_text(encoding="utf-8")
        for package in ("budgets", "scheduler", "portal")
        for path in (REPOSITORY / package).rglob("*.py")
        if path.name not in ("authority.py", "authority_matrix.py")
    )
    # Open to all who are signed in, which every page and API view has seen to before it begins.
    open_to_all = {"tree.see", "cluster.see", "workload.see", "simulation.see"}
    unasked = {action for action in authority.actions() if f'"{action}"' not in everywhere}
    assert unasked - open_to_all == set()


def test_the_matrix_is_answered_alike_by_people_and_things_that_are_stored(calm: Laboratory) -> None:
    """The table is made in memory; the same people with the same roles, read from the database, get the same."""
    people = {
        "stranger": calm.nil,
        "member": calm.ada,
        "member elsewhere": calm.ben,
        "lead": calm.person("lena", "A1", Role.MANAGER),
        "PI": calm.mia,
        "PI elsewhere": calm.person("pia", "B", Role.MANAGER),
        "organisation": calm.max,
        "reviewer": calm.person("rita", "A", Role.REVIEWER),
        "operator": calm.ops,
        "administrator": calm.person("adam", "LAB", Role.ADMINISTRATOR),
        "superuser": Person.objects.create_superuser("root"),
        "disabled": calm.person("dina", "LAB", Role.MANAGER),
    }
    Person.objects.filter(username="dina").update(is_active=False)
    people = {who: Person.objects.get(pk=person.pk) for who, person in people.items()}
    places = {code: words for code, words in authority_matrix.PLACES.items() if code != "A9"}
    someone = calm.person("someone")
    workload = {code: Workload(leaf=calm.node[code], owner=someone, cluster=calm.cluster) for code in places}
    table = {(line.action, line.thing): line.answers for line in authority_matrix.lines()}
    columns = list(authority_matrix.PEOPLE)
    compared = 0
    for action in (*(each for each in authority.actions() if each.startswith(("node.", "share."))), "workload.submit"):
        for code, words in places.items():
            if action == "node.operate":
                continue
            for who, person in people.items():
                stored = authority.may(person, action, calm.node[code])
                assert stored == table[action, words][columns.index(who)], (action, code, who)
                compared += 1
    for action in ("workload.see_inside", "workload.cancel"):
        for code, words in places.items():
            for who, person in people.items():
                stored = authority.may(person, action, workload[code])
                assert stored == table[action, f"workload, {words}"][columns.index(who)], (action, code, who)
                compared += 1
    assert compared > 400
    assert connection.vendor == "postgresql"


def test_decisions_in_the_table_are_those_of_stored_requests(calm: Laboratory) -> None:
    someone = calm.person("someone", "A1", Role.MEMBER)
    row = requests.submit(
        request=requests.draft(
            node=calm.node["A1"], cluster=calm.cluster, more_basis_points=500, starts_on=today(), by=someone,
            why="w", otherwise="o",
        ),
        by=someone,
    )  # fmt: skip
    table = {line.thing: line.answers for line in authority_matrix.decisions()}
    columns = list(authority_matrix.PEOPLE)
    people = {"stranger": calm.nil, "member elsewhere": calm.ben, "PI": calm.mia, "organisation": calm.max}
    matter = desks.matter_of(Request.objects.select_related("desk", "node").get(pk=row.pk))
    assert row.state == State.SUBMITTED
    for who, person in people.items():
        stored = bool(desks.ways_to_decide(Person.objects.get(pk=person.pk), matter))
        assert stored == table["a member's request for A1, at the desk of A"][columns.index(who)], who


@pytest.mark.parametrize("role", authority.EVERYWHERE_ROLES)
def test_a_role_that_counts_everywhere_is_given_at_the_organisation_alone(calm: Laboratory, role: str) -> None:
    """Else whoever administers one project could make operators of all clusters, or administrators of all people."""
    small = calm.person("small", "A1", Role.ADMINISTRATOR)
    head = calm.person("head", "LAB", Role.ADMINISTRATOR)

    def give(by: Person | None, node: BudgetNode) -> RoleGrant:
        return roles.grant(person=calm.nil, node=node, role=role, valid_from=today(), by=by, reason="r")

    assert not authority.may(small, "role.grant", RoleGrant(person=calm.nil, node=calm.node["A1"], role=role))
    for by in (small, head, None):
        with pytest.raises(InputError, match="given at the organisation alone"):
            give(by, calm.node["A1"])
    assert give(head, calm.node["LAB"]).role == role
    old = RoleGrant.objects.get(person=small)
    assert authority.may(head, "role.end", old)
    assert not authority.may(calm.max, "role.end", old)


def test_no_path_of_the_repository_is_in_the_table() -> None:
    assert str(Path(REPOSITORY)) not in TABLE.read_text(encoding="utf-8")
