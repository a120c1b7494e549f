"""The tree, roles, people and the house by the API: the services of the pages, for whom it is theirs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets.models import BudgetNode, Delegation, LedgerEntry, Person, Role, RoleGrant, Share
from budgets.queries import today
from tests.portal.governing import API, TODAY, at, done, fields, get, patch, post, rows_of

# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_node_grows_is_renamed_moves_and_closes(calm, as_person):
    mia, top = as_person(calm.mia), as_person(calm.max)
    body = {"code": "A3", "name": "Folding", "kind": "project", "reason": "new work"}
    made = done(post(mia, "/budget/A/children/", body), 201)
    assert (made["parent"], made["path"], made["children_count"]) == ("A", ["LAB", "A", "A3"], 0)
    assert [row["code"] for row in rows_of(mia, "/budget/A/children/?limit=1")] == ["A1", "A2", "A3"]

    read = mia.get(f"{API}/budget/A3/")
    assert read.json() == made
    name = {"name": "Folding II", "reason": "the second"}
    assert done(post(mia, "/budget/A3/rename/", name, If_Match=read.headers["ETag"]))["name"] == "Folding II"
    assert fields(post(mia, "/budget/A3/rename/", name, If_Match=read.headers["ETag"]), 412) == []
    assert fields(post(mia, "/budget/A3/rename/", {**name, "version": made["version"]}), 409) == ["version"]
    assert fields(post(mia, "/budget/A3/rename/", name), 428) == []

    version = get(mia, "/budget/A3/")["version"]
    move = {"parent": "B", "reason": "joins B", "version": version}
    assert fields(post(mia, "/budget/A3/move/", move), 403) == [""]  # B is not hers
    assert done(post(top, "/budget/A3/move/", move))["path"] == ["LAB", "B", "A3"]
    version = get(top, "/budget/A3/")["version"]
    closed = done(post(top, "/budget/A3/close/", {"reason": "over", "version": version}))
    assert (closed["is_closed"], closed["version"]) == (True, version + 1)
    assert [row["code"] for row in rows_of(top, "/budget/B/children/?closed=true")] == ["A3"]
    assert [row["code"] for row in rows_of(top, "/budget/B/children/?closed=false")] == ["B1"]
    verbs = LedgerEntry.objects.filter(node_code="A3").order_by("id").values_list("verb", "reason")
    assert list(verbs) == [
        ("node.created", "new work"), ("node.renamed", "the second"), ("node.moved", "joins B"),
        ("node.closed", "over"),
    ]  # fmt: skip


A_TREE_THAT_CANNOT_BE = [
    ("/budget/A/children/", {"code": "A1"}, "code"),
    ("/budget/A/children/", {"code": "a b"}, "code"),
    ("/budget/A/children/", {"kind": "organisation"}, "kind"),
    ("/budget/A/children/", {"colour": 9}, "colour"),
    ("/budget/A/children/", {"name": ""}, "name"),
    ("/budget/A/children/", {"reason": ""}, "reason"),
    ("/budget/A/children/", {"parent": "B"}, "parent"),
    ("/budget/A/rename/", {"name": "two\nlines", "version": 1}, "name"),
    ("/budget/A/move/", {"parent": "A1", "version": 1}, "parent"),
    ("/budget/A/move/", {"parent": "ZZ", "version": 1}, "parent"),
    ("/budget/LAB/close/", {"version": 1}, "node"),
]


def test_a_tree_that_cannot_be(calm, as_person):
    top, found = as_person(calm.max), {}
    BudgetNode.objects.update(version=1)
    for path, changed, _ in A_TREE_THAT_CANNOT_BE:
        good = {"code": "A3", "name": "n", "kind": "project"} if path.endswith("children/") else {}
        found[path, str(changed)] = fields(post(top, path, {**good, "reason": "r", **changed}))
    assert found == {(path, str(changed)): [named] for path, changed, named in A_TREE_THAT_CANNOT_BE}
    assert BudgetNode.objects.count() == 6


def test_the_tree_is_for_its_managers(calm, as_person):
    child = {"code": "A3", "name": "n", "kind": "project", "reason": "r"}
    for who in (calm.ada, calm.ben, calm.ops, calm.nil):
        client = as_person(who)
        assert fields(post(client, "/budget/A/children/", child), 403) == [""]
        assert fields(post(client, "/budget/A1/rename/", {"name": "n", "reason": "r"}, If_Match="*"), 403) == [""]
        assert fields(post(client, "/budget/A1/close/", {"reason": "r"}, If_Match="*"), 403) == [""]
    assert fields(post(as_person(calm.mia), "/budget/A/close/", {"reason": "r"}, If_Match="*"), 403) == [""]
    assert as_person(calm.max).get(f"{API}/budget/ZZ/").status_code == 404


# --- shares -----------------------------------------------------------------------------------------------------------


def test_shares_are_set_from_what_was_read(calm, as_person):
    mia, address = as_person(calm.mia), "/clusters/north/shares/A/"
    tag = mia.get(API + address).headers["ETag"]
    body = {"shares": {"A1": 6_000}, "valid_from": at(1), "valid_until": at(8), "reason": "a quiet week"}
    rows = done(post(mia, address, body, If_Match=tag))
    assert [(row["basis_points"], row["valid_from"], row["valid_until"]) for row in rows if row["node"] == "A1"] == [
        (7_000, at(-30), at(1)), (6_000, at(1), at(8)), (7_000, at(8), None),
    ]  # fmt: skip
    assert [row["basis_points"] for row in get(mia, f"{address}?as_of={at(2)}")] == [6_000, 2_500]
    assert fields(post(mia, address, body, If_Match=tag), 412) == []
    assert fields(post(mia, address, body), 428) == []
    assert fields(post(as_person(calm.ada), address, body, If_Match="*"), 403) == []
    decision = next(rows_of(mia, "/decisions/"))
    assert (decision["kind"], decision["reason"], decision["ends_on"]) == ("reallocation", "a quiet week", at(8))


def test_nobody_raises_what_they_have_a_part_in(calm, as_person):
    RoleGrant.objects.create(person=calm.mia, node=calm.node["A1"], role=Role.MEMBER, valid_from=today())
    body = {"shares": {"A1": 7_100}, "valid_from": TODAY, "reason": "mine"}
    assert fields(post(as_person(calm.mia), "/clusters/north/shares/A/", body, If_Match="*"), 403) == [""]
    assert Share.objects.get(node=calm.node["A1"]).basis_points == 7_000


# --- roles ------------------------------------------------------------------------------------------------------------


def test_a_role_is_given_and_ended(calm, as_person):
    mia = as_person(calm.mia)
    body = {"person": "nil", "role": "member", "reason": "joined"}
    made = done(post(mia, "/budget/A1/roles/", body), 201)
    assert made == {
        "number": made["number"], "person": "nil", "node": "A1", "role": "member", "valid_from": TODAY,
        "valid_until": None, "granted_by": "mia",
    }  # fmt: skip
    assert [row["person"] for row in rows_of(mia, "/budget/A1/roles/?limit=1")] == ["nil", "ada"]
    assert [row["person"] for row in rows_of(mia, "/budget/A1/roles/?person=ada&role=member")] == ["ada"]
    end = f"/budget/A1/roles/{made['number']}/end/"
    assert fields(post(as_person(calm.ben), end, {"reason": "r"}), 403) == [""]
    assert post(mia, f"/budget/A2/roles/{made['number']}/end/", {"reason": "r"}).status_code == 404
    assert done(post(mia, end, {"reason": "left", "on": at(3)}))["valid_until"] == at(3)
    assert fields(post(mia, end, {"reason": "left", "on": at(3)})) == ["on"]
    assert done(post(mia, end, {"reason": "at once"})) == {**made, "valid_until": TODAY}  # it never held for a day
    assert not RoleGrant.objects.filter(person=calm.nil).exists()
    assert [row["person"] for row in rows_of(mia, "/budget/A1/roles/?over=true")] == ["ada"]


A_ROLE_THAT_CANNOT_BE = [
    ({"person": "mia"}, 403, ""),
    ({"role": "reviewer"}, 403, ""),
    ({"person": "nobody"}, 400, "person"),
    ({"role": "king"}, 400, "role"),
    ({"valid_from": at(-1)}, 400, "valid_from"),
    ({"valid_until": TODAY}, 400, "valid_until"),
    ({"person": "ada"}, 400, "valid_from"),
    ({"granted_by": "max"}, 400, "granted_by"),
]


def test_a_role_that_cannot_be(calm, as_person):
    mia, before, found = as_person(calm.mia), RoleGrant.objects.count(), {}
    for changed, status, _ in A_ROLE_THAT_CANNOT_BE:
        body = {"person": "nil", "role": "member", "reason": "r", **changed}
        found[str(changed)] = fields(post(mia, "/budget/A1/roles/", body), status)
    assert found == {str(changed): [named] for changed, _, named in A_ROLE_THAT_CANNOT_BE}
    assert RoleGrant.objects.count() == before


def test_the_last_manager_stays(calm, as_person):
    grant = RoleGrant.objects.get(person=calm.mia)
    assert fields(post(as_person(calm.max), f"/budget/A/roles/{grant.pk}/end/", {"reason": "r"})) == ["on"]


# --- people -----------------------------------------------------------------------------------------------------------


def test_who_there_is(calm, as_person):
    nil = as_person(calm.nil)
    names = [row["username"] for row in rows_of(nil, "/people/?limit=2")]
    assert names == sorted(["ada", "ben", "mia", "max", "ops", "nil"])
    [mia] = rows_of(nil, "/people/?find=MI")
    assert mia["roles"] == [{"node": "A", "role": "manager", "valid_from": at(-30), "valid_until": None}]
    assert get(nil, f"/people/{calm.mia.pk}/?fields=name,username") == {"username": "mia", "name": "Mia"}
    assert [row["username"] for row in rows_of(nil, "/people/?role=member")] == ["ada", "ben"]
    assert [row["username"] for row in rows_of(nil, "/people/?node=A")] == ["mia"]
    assert nil.get(f"{API}/people/999999/").status_code == 404


def test_administrators_disable_enable_and_erase(calm, as_person):
    boss = calm.person("adm", "LAB", Role.ADMINISTRATOR)
    admin, ada, address = as_person(boss), as_person(calm.ada), f"/people/{calm.ada.pk}/"
    for who in (calm.max, calm.mia, calm.ops, calm.ada):
        assert fields(post(as_person(who), f"{address}disable/", {"reason": "r"}), 403) == [""]
    assert fields(post(admin, f"/people/{boss.pk}/disable/", {"reason": "r"}), 403) == [""]
    assert fields(post(admin, f"{address}disable/", {"reason": ""})) == ["reason"]
    assert fields(post(admin, f"{address}erase/", {"reason": "too early"})) == ["person"]
    assert done(post(admin, f"{address}disable/", {"reason": "left"}))["is_active"] is False
    assert ada.get(f"{API}/people/").status_code == 401  # her session has ended
    assert fields(post(admin, f"{address}disable/", {"reason": "left"})) == ["person"]
    assert "ada" in [row["username"] for row in rows_of(admin, "/people/?active=false")]
    assert done(post(admin, f"{address}enable/", {"reason": "back"}))["is_active"] is True
    done(post(admin, f"{address}disable/", {"reason": "left"}))
    erased = done(post(admin, f"{address}erase/", {"reason": "asked to"}))
    assert (erased["username"], erased["name"]) == (f"erased-{calm.ada.pk}", f"person {calm.ada.pk}")


# --- delegations and the house ----------------------------------------------------------------------------------------


A_DELEGATION_THAT_CANNOT_BE = [
    ({"delegate": "mia"}, 400, "delegate"),
    ({"delegate": "nobody"}, 400, "delegate"),
    ({"node": "LAB"}, 403, ""),
    ({"node": "ZZ"}, 400, "node"),
    ({"limit_basis_points": 0}, 400, "limit_basis_points"),
    ({"limit_basis_points": "NaN"}, 400, "limit_basis_points"),
    ({"valid_from": at(-1)}, 400, "valid_from"),
    ({"valid_until": TODAY}, 400, "valid_until"),
    ({"valid_until": at(400)}, 400, "valid_until"),
]


def test_a_delegation_that_cannot_be(calm, as_person):
    mia, found = as_person(calm.mia), {}
    for changed, status, _ in A_DELEGATION_THAT_CANNOT_BE:
        body = {"delegate": "nil", "node": "A", "limit_basis_points": 500, "valid_until": at(3), **changed}
        found[str(changed)] = fields(post(mia, "/delegations/", body), status)
    assert found == {str(changed): [named] for changed, _, named in A_DELEGATION_THAT_CANNOT_BE}
    assert not Delegation.objects.exists()


def test_a_delegation_is_between_two(calm, as_person):
    body = {"delegate": "nil", "node": "A", "limit_basis_points": 500, "valid_until": at(3)}
    made = done(post(as_person(calm.mia), "/delegations/", body), 201)
    assert (made["giver"], made["delegate"], made["valid_from"], made["ended_at"]) == ("mia", "nil", TODAY, None)
    for who in (calm.mia, calm.nil):
        assert list(rows_of(as_person(who), "/delegations/?in_force=true")) == [made]
    for who in (calm.ben, calm.max):
        assert list(rows_of(as_person(who), "/delegations/")) == []
        assert post(as_person(who), f"/delegations/{made['number']}/end/").status_code == 404
    assert done(post(as_person(calm.nil), f"/delegations/{made['number']}/end/"))["ended_at"]
    assert list(rows_of(as_person(calm.mia), "/delegations/?in_force=true")) == []


def test_how_the_organisation_decides(calm, as_person):
    top = as_person(calm.max)
    read = top.get(f"{API}/house/")
    assert read.json() == {
        "root_rule": "second_manager", "answer_days": 7, "look_again_weeks": 4, "version": 1,
    }  # fmt: skip
    change = {"answer_days": 3, "reason": "we are slow"}
    assert fields(patch(as_person(calm.mia), "/house/", change, If_Match="*"), 403) == []
    assert fields(patch(top, "/house/", change), 428) == []
    assert done(patch(top, "/house/", change, If_Match=read.headers["ETag"]))["answer_days"] == 3
    assert fields(patch(top, "/house/", change, If_Match=read.headers["ETag"]), 412) == []
    assert fields(patch(top, "/house/", {**change, "answer_days": 61, "version": 2})) == ["answer_days"]
    assert get(top, "/house/") == {**read.json(), "answer_days": 3, "version": 2}


@pytest.mark.parametrize(
    "path",
    ["/people/?limit=200", "/budget/A1/roles/?limit=200", "/budget/A/children/?limit=200", "/delegations/?limit=200"],
)
def test_queries_do_not_grow_with_rows(calm, as_person, path):
    mia, node = as_person(calm.mia), calm.node
    spell = {"valid_from": today(), "valid_until": today() + timedelta(days=3)}
    given = {"giver": calm.mia, "delegate": calm.nil, "node": node["A"], "limit_basis_points": 5, **spell}
    Delegation.objects.create(**given)

    def queries() -> int:
        mia.get(API + path)
        with CaptureQueriesContext(connection) as told:
            assert mia.get(API + path).status_code == 200
        return len(told)

    few = queries()
    people = Person.objects.bulk_create([Person(username=f"somebody{number}") for number in range(60)])
    RoleGrant.objects.bulk_create(
        [RoleGrant(person=each, node=node["A1"], role=Role.MEMBER, valid_from=today()) for each in people]
    )
    Delegation.objects.bulk_create([Delegation(**given) for _ in range(60)])
    rows = [BudgetNode(code=f"X{n}", name="x", kind="project", parent=node["A"], path=[]) for n in range(60)]
    for row in BudgetNode.objects.bulk_create(rows):
        BudgetNode.objects.filter(pk=row.pk).update(path=[*node["A"].path, row.pk])
    assert queries() <= few
