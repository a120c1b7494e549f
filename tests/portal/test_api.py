"""The API: the same rules and numbers as the pages; problems that name the field."""

from __future__ import annotations

import pytest

from budgets.models import Share
from budgets.queries import today
from scheduler.models import Workload
from scheduler.services import policies

WORKLOADS = "/api/v1/workloads/"


def ask(**changed):
    """A submission."""
    return {
        "cluster": "north", "leaf": "A1", "size_milli": 4_000, "min_runtime_s": 1_800,
        "command": ["train", "two words"], "idempotency_key": "k1", **changed,
    }  # fmt: skip


def send(client, path, body):
    """POST as JSON."""
    return client.post(path, body, content_type="application/json")


def fields_of(answer, status=400):
    """The fields that a problem names."""
    assert answer.status_code == status, answer.content
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert (body["type"], body["status"]) == ("about:blank", status)
    return [error["field"] for error in body.get("errors", [])]


def test_submitting_twice_under_one_key_submits_once(calm, as_person):
    client = as_person(calm.ada)
    first, second = send(client, WORKLOADS, ask()), send(client, WORKLOADS, ask())
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert Workload.objects.count() == 1
    assert client.get(first.headers["Location"]).json() == first.json()[0]
    assert first.json()[0]["inside"]["command"] == ["train", "two words"]
    assert as_person(calm.ben).get(first.headers["Location"]).json()["inside"] is None


def test_a_part_of_one_device_is_asked_for_where_the_cluster_gives_out_parts(calm, as_person):
    client = as_person(calm.ada)
    assert fields_of(send(client, WORKLOADS, ask(size_milli=250))) == ["size_milli"]
    policies.change(cluster=calm.cluster, knobs={"fraction_min_milli": 10})
    made = send(client, WORKLOADS, ask(size_milli=250))
    assert (made.status_code, made.json()[0]["size_milli"]) == (201, 250)
    assert fields_of(send(client, WORKLOADS, ask(size_milli=2_500, idempotency_key="k2"))) == ["size_milli"]


def test_an_array_is_all_or_nothing(calm, as_person):
    made = send(as_person(calm.ada), WORKLOADS, ask(count=3)).json()
    assert [each["code"] for each in made] == ["A1-0001", "A1-0002", "A1-0003"]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"owner": "max"}, "owner"),
        ({"state": "running"}, "state"),
        ({"size_milli": "lots"}, "size_milli"),
        ({"size_milli": 1_500}, "size_milli"),
        ({"min_runtime_s": -1}, "min_runtime_s"),
        ({"command": []}, "command"),
        ({"command": ["a", 7, None]}, "command[2]"),
        ({"cluster": "moon"}, "cluster"),
        ({"leaf": "Z"}, "leaf"),
        ({"priority": 10**9}, "priority"),
        ({"time_limit_s": 60}, "time_limit_s"),
        ({"environment": {"LD_PRELOAD": "x"}}, "environment.LD_PRELOAD"),
    ],
)
def test_a_problem_names_the_field_and_nothing_is_submitted(calm, as_person, changed, field):
    fields = fields_of(send(as_person(calm.ada), WORKLOADS, ask(**changed)))
    assert any(each.startswith(field.split("[")[0].split(".")[0]) for each in fields), fields
    assert Workload.objects.count() == 0


def test_nobody_submits_on_anothers_budget(calm, as_person):
    fields_of(send(as_person(calm.ben), WORKLOADS, ask()), 403)
    assert Workload.objects.count() == 0


def test_what_is_no_json_is_a_problem(calm, as_person):
    assert fields_of(send(as_person(calm.ada), WORKLOADS, "{")) in ([], [""])
    assert fields_of(send(as_person(calm.ada), WORKLOADS, "[1]")) == [""]


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("/api/v1/workloads/?colour=red", 400, "colour"),
        ("/api/v1/workloads/?state=odd", 400, "state"),
        ("/api/v1/workloads/?cursor=zzz", 400, "cursor"),
        ("/api/v1/workloads/A1-9999/", 404, None),
        ("/api/v1/clusters/moon/tree/", 404, None),
        ("/api/v1/clusters/north/tree/?as_of=soon", 400, "as_of"),
        ("/api/v1/clusters/north/queue/?page=x", 400, "page"),
        ("/api/v1/budget/Z/usage/", 404, None),
        ("/api/v1/budget/A/usage/?days=9999", 400, "days"),
        ("/api/v1/budget/A/usage/?step=year", 400, "step"),
        ("/api/v1/nowhere/", 404, None),
    ],
)
def test_what_a_url_cannot_mean_is_a_problem(calm, as_person, path, status, field):
    fields = fields_of(as_person(calm.ada).get(path), status)
    assert fields == ([] if field is None else [field])


def test_lists_come_page_by_page_with_a_bound(calm, as_person):
    client = as_person(calm.ada)
    send(client, WORKLOADS, ask(count=5))
    first = client.get(f"{WORKLOADS}?limit=2").json()
    assert len(first["results"]) == 2
    codes = [each["code"] for each in first["results"]]
    address = first["next"]
    while address:
        page = client.get(address).json()
        codes += [each["code"] for each in page["results"]]
        address = page["next"]
    assert sorted(codes) == [f"A1-000{number}" for number in range(1, 6)]
    assert len(client.get(f"{WORKLOADS}?limit=200").json()["results"]) == 5
    assert fields_of(client.get(f"{WORKLOADS}?limit=201"), 400) == ["limit"]


def test_shares_are_set_from_the_version_that_was_read(calm, as_person):
    client = as_person(calm.mia)
    version = next(row for row in client.get("/api/v1/clusters/north/tree/").json() if row["code"] == "A")["version"]
    body = {"shares": {"A1": 6_000}, "valid_from": today().isoformat(), "reason": "spring", "version": version}
    path = "/api/v1/clusters/north/shares/A/"
    assert send(client, path, body).status_code == 200
    assert fields_of(send(client, path, body), 409) == ["version"]
    assert fields_of(send(client, path, {**body, "version": version + 1, "shares": {"B1": 5}})) == ["shares.B1"]
    assert fields_of(send(client, path, {**body, "version": version + 1, "shares": {"A1": 9_000}})) == ["shares"]
    now = dict(Share.objects.filter(parent=calm.node["A"], valid_until=None).values_list("node__code", "basis_points"))
    assert now == {"A1": 6_000, "A2": 2_500}


def test_the_queue_and_the_books_are_the_pages_own(lab, as_person):
    client = as_person(lab.nil)
    rows = client.get("/api/v1/clusters/north/queue/").json()["rows"]
    assert [row["code"] for row in rows] == [row.code for row in client.get("/queue/north/").context["page"].rows]
    usage = client.get("/api/v1/budget/B1/usage/?days=1").json()
    parts = ("within", "not_delivered", "not_asked", "in_repair")
    assert usage["total"]["entitled_milli_s"] == sum(usage["total"][f"{part}_milli_s"] for part in parts) > 0
    assert len(usage["points"]) == 24


def test_the_schema_describes_every_route(calm, as_person):
    answer = as_person(calm.ada).get("/api/v1/schema/?format=json")
    paths = answer.json()["paths"]
    assert "/api/v1/workloads/{code}/explain/" in paths
    assert "requestBody" in paths["/api/v1/workloads/"]["post"]
