"""What cannot be asked of the API's governance half: one clear line that names the field, and nothing is changed."""

from __future__ import annotations

from budgets.models import Request
from budgets.services import tree
from tests.portal.governing import API, TODAY, asking, at, fields, post
from tests.portal.test_api_governance import shares_now

A_REQUEST_THAT_CANNOT_BE = [
    ({"more_basis_points": "NaN"}, "more_basis_points"),
    ({"more_basis_points": -1}, "more_basis_points"),
    ({"more_basis_points": 0}, "more_basis_points"),
    ({"more_basis_points": 10_001}, "more_basis_points"),
    ({"more_basis_points": 1.5}, "more_basis_points"),
    ({"more_basis_points": None}, "more_basis_points"),
    ({"node": "ZZ"}, "node"),
    ({"node": "LAB"}, "node"),
    ({"node": "A9"}, "node"),
    ({"cluster": "moon"}, "cluster"),
    ({"starts_on": at(-1)}, "starts_on"),
    ({"starts_on": "2026-02-30"}, "starts_on"),
    ({"starts_on": "9999-12-31"}, "starts_on"),
    ({"ends_on": TODAY}, "ends_on"),
    ({"useless_on": TODAY}, "useless_on"),
    ({"why": ""}, "why"),
    ({"why": "x" * 4_001}, "why"),
    ({"otherwise": "\x07"}, "otherwise"),
    ({"author": "mia"}, "author"),
    ({"state": "approved"}, "state"),
]


def test_a_request_that_cannot_be(calm, as_person):
    closed = tree.add_child(parent=calm.node["A"], kind="project", code="A9", name="over", by=None)
    tree.close(node=closed, by=None)
    clients = {"LAB": as_person(calm.max), "A9": as_person(calm.mia), None: as_person(calm.ada)}
    found = {}
    for changed, _ in A_REQUEST_THAT_CANNOT_BE:
        client = clients.get(changed.get("node"), clients[None])
        found[str(changed)[:60]] = fields(post(client, "/requests/", asking(calm, **changed)))
    assert found == {str(changed)[:60]: [named] for changed, named in A_REQUEST_THAT_CANNOT_BE}
    assert not Request.objects.exists()


def test_what_is_no_number_in_json_is_refused(calm, as_person):
    for body in ('{"more_basis_points": NaN}', '{"more_basis_points": Infinity}'):
        answer = as_person(calm.ada).post(f"{API}/requests/", body, content_type="application/json")
        assert answer.status_code == 400


def test_for_anothers_budget_nobody_asks(calm, as_person):
    assert fields(post(as_person(calm.ada), "/requests/", asking(calm, node="B1")), 403) == [""]


SHARES_THAT_CANNOT_BE = [
    ({"A1": 8_000}, "shares"),
    ({"A1": -1}, "shares.A1"),
    ({"A1": "NaN"}, "shares.A1"),
    ({"A1": 10_001}, "shares.A1"),
    ({"B1": 10}, "shares.B1"),
    ({"ZZ": 10}, "shares.ZZ"),
    ({"A9": 10}, "shares.A9"),
    ({"A1": 7_000}, "shares"),
    ({}, "shares"),
]


def test_shares_that_cannot_be(calm, as_person):
    closed = tree.add_child(parent=calm.node["A"], kind="project", code="A9", name="over", by=None)
    tree.close(node=closed, by=None)
    mia, found = as_person(calm.mia), {}
    for shares, _ in SHARES_THAT_CANNOT_BE:
        body = {"shares": shares, "valid_from": TODAY, "reason": "r"}
        found[str(shares)] = fields(post(mia, "/clusters/north/shares/A/", body, If_Match="*"))
    assert found == {str(shares): [named] for shares, named in SHARES_THAT_CANNOT_BE}
    assert shares_now(calm, "A") == {"A1": 7_000, "A2": 2_500}


AN_ADDRESS_THAT_CANNOT_BE = [
    ("/requests/?state=odd", "state"),
    ("/requests/?node=ZZ", "node"),
    ("/requests/?cluster=moon", "cluster"),
    ("/requests/?author=nobody", "author"),
    ("/requests/?desk=yours", "desk"),
    ("/requests/?cursor=zzz", "cursor"),
    ("/requests/?fields=number,odd", "fields"),
    ("/reallocations/?state=odd", "state"),
    ("/decisions/?from=soon", "from"),
    ("/decisions/?until=9999-12-31", "until"),
    ("/decisions/?by=nobody", "by"),
    ("/decisions/?cursor=WzAsMSwyLDNd", "cursor"),
    ("/reviews/?node=ZZ", "node"),
    ("/people/?role=king", "role"),
    ("/budget/A/children/?closed=perhaps", "closed"),
]


def test_an_address_that_cannot_be(calm, as_person):
    mia = as_person(calm.mia)
    found = {path: fields(mia.get(API + path)) for path, _ in AN_ADDRESS_THAT_CANNOT_BE}
    assert found == {path: [named] for path, named in AN_ADDRESS_THAT_CANNOT_BE}
