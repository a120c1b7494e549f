"""Operations by the API: nodes, runs, passes, what ranks print, arrays, use, and the ledger."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets.models import LedgerEntry
from budgets.queries import today
from scheduler.models import Event, JoinToken, LogChunk, MaintenanceWindow, Node, Pass, Rank, Run, Workload
from scheduler.services import join_tokens
from tests.portal.conftest import Laboratory
from tests.portal.test_api import WORKLOADS, ask, fields_of
from tests.portal.test_api_base import NODES, send

NORTH = "/api/v1/clusters/north/"
N01 = f"{NODES}n01/"


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_node_is_drained_and_resumed(calm: Laboratory, as_person: Callable) -> None:
    client, why = as_person(calm.ops), {"reason": "new fan"}
    first, again = (send(client, f"{N01}drain/", why).json() for _ in range(2))
    assert (first["changed"], again["changed"]) == (True, False)
    node = client.get(N01).json()
    assert (node["state"], node["is_drain_asked"], node["drain_reason"]) == ("drained", True, "new fan")
    assert [each["name"] for each in client.get(f"{NODES}?draining=true").json()["results"]] == ["n01"]
    assert [each["name"] for each in client.get(f"{NODES}?draining=false").json()["results"]] == ["n02"]
    first, again = (send(client, f"{N01}resume/", why).json() for _ in range(2))
    assert (first["changed"], again["changed"], first["node"]["state"]) == (True, False, "healthy")
    assert fields_of(send(client, f"{N01}drain/", {"reason": " "})) == ["reason"]
    assert fields_of(send(as_person(calm.max), f"{N01}drain/", why), 403) == []
    assert fields_of(send(client, f"{NODES}n99/drain/", why), 404) == []
    noted = Event.objects.filter(node__name="n01", kind="node_changed").order_by("pk").values_list("data", "person_id")
    assert [(data["what"], person) for data, person in noted][-2:] == [
        ("drain asked", calm.ops.pk),
        ("drain ended", calm.ops.pk),
    ]


def test_health_is_said_and_seen(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.ops)
    body = {"health": "down", "reason": "burnt"}
    assert send(client, f"{N01}health/", body).json()["node"]["health"] == "down"
    assert client.get(f"{NODES}?health=down&fields=name,trouble").json()["results"] == [
        {"name": "n01", "trouble": "burnt"}
    ]
    assert fields_of(send(client, f"{N01}health/", {**body, "health": "odd"})) == ["health"]


def test_a_node_is_added_by_hand_once(calm: Laboratory, as_person: Callable) -> None:
    client, body = as_person(calm.ops), {"name": "n03", "devices": 8, "rack": "r2", "leaf": "L1", "memory_mib": 1_024}
    first, again = (send(client, NODES, body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert client.get(first.headers["Location"]).json() == first.json() == again.json()
    assert [first.json()[key] for key in ("size_milli", "rack", "rail", "leaf")] == [8_000, "r2", None, "L1"]
    assert client.get("/api/v1/clusters/north/").json()["size_milli"] == 24_000
    assert fields_of(send(client, NODES, {**body, "devices": 4})) == ["devices"]
    assert fields_of(send(client, NODES, {**body, "name": "-x"})) == ["node"]
    calm.cluster.executor = "slurm"
    calm.cluster.save()
    assert fields_of(send(client, NODES, {"name": "n04", "devices": 8})) == ["cluster"]


def test_maintenance_is_planned_and_called_off(calm: Laboratory, as_person: Callable) -> None:
    client, path = as_person(calm.ops), f"{N01}windows/"
    starts, ends = calm.now + timedelta(hours=1), calm.now + timedelta(hours=3)
    body = {"starts_at": starts.isoformat(), "ends_at": ends.isoformat(), "reason": "new switch"}
    made = send(client, path, body)
    assert made.status_code == 201
    assert client.get(path).json()["results"] == [made.json()] == client.get(N01).json()["windows"]
    assert fields_of(send(client, path, {**body, "ends_at": body["starts_at"]})) == ["ends_at"]
    assert fields_of(send(client, path, {**body, "ends_at": "2999-01-01T00:00:00Z"})) == ["starts_at"]
    one = f"{path}{made.json()['id']}/"
    assert fields_of(client.delete(one)) == ["reason"]
    assert [client.delete(f"{one}?reason=rain").status_code for _ in range(2)] == [204, 204]
    assert client.get(path).json()["results"] == []
    assert client.get(f"{path}?all=true").json()["results"][0]["cancelled_at"] is not None
    assert MaintenanceWindow.objects.count() == 1


def test_join_tokens_are_shown_once_and_ended(calm: Laboratory, as_person: Callable) -> None:
    calm.cluster.executor = "agent"
    calm.cluster.save()
    client, path = as_person(calm.ops), f"{NORTH}join-tokens/"
    made = send(client, path, {"valid_for_s": 600, "node": "n07"})
    token = made.json()["token"]
    found = join_tokens.find(token=token, cluster=calm.cluster, node_name="n07", agent_token="a" * 20, now=calm.now)
    assert found is not None
    assert made.headers["Cache-Control"] == "no-store"
    assert [each["token"] for each in client.get(path).json()["results"]] == [None]
    assert fields_of(as_person(calm.max).get(path), 403) == []
    assert client.delete(f"{path}{made.json()['id']}/").status_code == 204
    assert not JoinToken.objects.exists()
    entries = LedgerEntry.objects.filter(person_id=calm.ops.pk).order_by("pk").values_list("verb", flat=True)
    assert list(entries) == ["join_token.made", "join_token.revoked"]


# --- workloads --------------------------------------------------------------------------------------------------------


def test_an_array_is_found_and_cancelled_whole(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.ada)
    made = send(client, WORKLOADS, ask(count=3)).json()
    send(client, WORKLOADS, ask(idempotency_key=""))
    array = made[0]["array"]
    assert [each["array_index"] for each in made] == [0, 1, 2]
    found = client.get(f"{WORKLOADS}?array={array}&fields=code").json()["results"]
    assert sorted(each["code"] for each in found) == ["A1-0001", "A1-0002", "A1-0003"]
    send(client, f"{WORKLOADS}A1-0002/cancel/", {"reason": "wrong seed", "whole_array": True})
    states = dict(Workload.objects.values_list("code", "state"))
    assert states == {
        "A1-0001": "cancelled",
        "A1-0002": "cancelled",
        "A1-0003": "cancelled",
        "A1-0004": "queued",
    }
    assert fields_of(send(as_person(calm.ben), f"{WORKLOADS}A1-0004/cancel/", {"whole_array": True}), 404) == []


def test_a_workload_is_pinned_and_comes_after_another(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.ada)
    first = send(client, WORKLOADS, ask(node="n02", idempotency_key="")).json()[0]
    second = send(client, WORKLOADS, ask(after=first["code"], idempotency_key="")).json()[0]
    assert (second["state"], second["reason_code"]) == ("held", "waiting_after")
    assert Workload.objects.get(code=first["code"]).node == Node.objects.get(name="n02")
    assert fields_of(send(client, WORKLOADS, ask(node="n99"))) == ["node"]
    assert fields_of(send(client, WORKLOADS, ask(after="A1-9999"))) == ["after"]


def codes(client, query: str) -> list[str]:
    """The codes of a list of workloads."""
    return [each["code"] for each in client.get(f"{WORKLOADS}?{query}").json()["results"]]


def test_workloads_are_filtered(lab: Laboratory, as_person: Callable) -> None:
    client = as_person(lab.ada)
    every = set(codes(client, "limit=200"))
    assert set(codes(client, "leaf=A")) == {code for code in every if code.startswith("A")}
    assert set(codes(client, "owner=me")) == {lab.taker.code, lab.waits.code, lab.second.code}
    rows = dict(Workload.objects.values_list("code", "state"))
    assert set(codes(client, "state=open")) == {code for code, state in rows.items() if state in Workload.OPEN_STATES}
    assert codes(client, "state=ended") == [code for code, state in rows.items() if state in Workload.ENDED_STATES]
    assert codes(client, f"find={lab.taker.code}") == [lab.taker.code]
    assert codes(client, "class=unallocated") == [lab.free.code]
    since = lab.waits.submitted_at.isoformat().replace("+00:00", "Z")
    assert set(codes(client, f"since={since}")) == {lab.waits.code, lab.second.code, lab.free.code}
    assert set(codes(client, f"until={since}")) == every - {lab.waits.code, lab.second.code, lab.free.code}
    for query, field in (
        ("state=odd", "state"),
        ("cluster=moon", "cluster"),
        ("leaf=Z", "leaf"),
        ("array=7", "array"),
        ("since=soon", "since"),
        ("since=2026-01-01", "since"),
        ("owner=max", "owner"),
        (f"find={'x' * 81}", "find"),
    ):
        assert fields_of(client.get(f"{WORKLOADS}?{query}")) == [field], query


def test_what_a_rank_prints_is_followed(lab: Laboratory, as_person: Callable) -> None:
    client, path = as_person(lab.ada), f"{WORKLOADS}{lab.taker.code}/logs/"
    first = client.get(path).json()
    assert (first["text"], first["offset"], first["is_over"]) == ("epoch 1: loss 0.42\n", 0, False)
    rank = Rank.objects.get(run__workload=lab.taker, index=0)
    LogChunk.objects.create(rank=rank, offset=first["next_offset"], length=6, text="épo 2")
    more = client.get(f"{path}?offset={first['next_offset']}").json()
    assert (more["text"], more["offset"], more["next_offset"]) == ("épo 2", 19, 25)
    nothing = client.get(f"{path}?offset=25").json()
    assert (nothing["text"], nothing["next_offset"], nothing["is_over"]) == ("", 25, False)
    assert client.get(f"{path}?tail=3").json()["text"] == "épo 2"
    Run.objects.filter(pk=rank.run_id).update(state="ended", ended_at=lab.now)
    assert client.get(f"{path}?offset=25").json()["is_over"] is True
    assert fields_of(client.get(f"{path}?rank=7"), 404) == []
    assert fields_of(client.get(f"{path}?run=7"), 404) == []
    assert fields_of(as_person(lab.ben).get(path), 404) == []
    waiting = client.get(f"{WORKLOADS}{lab.waits.code}/logs/").json()
    assert (waiting["run"], waiting["text"], waiting["is_over"]) == (None, "", False)


# --- runs, passes, use, ledger ----------------------------------------------------------------------------------------


def test_runs_are_listed_and_filtered(lab: Laboratory, as_person: Callable) -> None:
    client, path = as_person(lab.nil), f"{NORTH}runs/"
    every = client.get(path).json()["results"]
    assert [(each["workload"], each["number"]) for each in every] == [
        (run.workload.code, run.number) for run in Run.objects.order_by("-pk")
    ]
    going = client.get(f"{path}?state=open").json()["results"]
    assert {each["workload"] for each in going} == set(
        Run.objects.exclude(state="ended").values_list("workload__code", flat=True)
    )
    for node in ("n01", "n02"):
        on_it = client.get(f"{path}?node={node}").json()["results"]
        assert on_it == [each for each in every if node in each["nodes"]]
    assert {each["leaf"] for each in client.get(f"{path}?leaf=B").json()["results"]} == {"B1"}
    own = client.get(f"{WORKLOADS}{lab.taken.code}/runs/").json()["results"]
    assert own == [each for each in every if each["workload"] == lab.taken.code]
    assert {each["preempted_by"] for each in own} >= {lab.taker.code}
    for each in every:
        assert [held["node"] for held in each["holds"]] == sorted(each["nodes"])
        assert sum(len(held["devices"]) * held["milli"] for held in each["holds"]) == each["size_milli"]


def test_the_number_of_queries_does_not_grow_with_rows(lab: Laboratory, as_person: Callable) -> None:
    client = as_person(lab.ops)
    for path in (f"{NORTH}runs/", f"{NORTH}passes/", NODES, WORKLOADS, "/api/v1/audit/"):
        counts = set()
        for limit in (1, 3):
            with CaptureQueriesContext(connection) as found:
                assert client.get(f"{path}?limit={limit}").status_code == 200
            counts.add(len(found))
        assert len(counts) == 1, path


def test_a_pass_says_what_it_decided(lab: Laboratory, as_person: Callable) -> None:
    client, path = as_person(lab.nil), f"{NORTH}passes/"
    listed = client.get(path).json()["results"]
    assert [each["number"] for each in listed] == list(Pass.objects.order_by("-pk").values_list("pk", flat=True)[:50])
    started = Workload.objects.get(pk=lab.taker.pk).runs.get().started_in
    one = client.get(f"{path}{started.pk}/").json()
    said = {(each["workload"], each["action"], each["code"]) for each in one["decisions"]}
    assert (lab.taker.code, "start", "started") in said
    assert one["considered"] == len(one["order"])
    assert fields_of(client.get(f"{path}999999999/"), 404) == []
    soon = (lab.now + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert client.get(f"{path}?since={soon}").json()["results"] == []


def test_use_by_node_and_by_person(lab: Laboratory, as_person: Callable) -> None:
    path = f"{NORTH}usage/?window=7d"
    whole = as_person(lab.nil).get(path).json()
    assert [each["node"] for each in whole["children"]] == ["A", "B"]
    charged = sum(each["charged_milli_s"] for each in whole["children"])
    assert whole["node"]["charged_milli_s"] == charged > 0
    people = as_person(lab.max).get(f"{path}&by=person").json()["people"]
    assert {each["name"] for each in people} == {"Ada", "Ben"}
    assert sum(each["charged_milli_s"] for each in people) == charged
    own = as_person(lab.ada).get(f"{path}&by=person").json()
    assert ([each["name"] for each in own["people"]], own["children"]) == (["Ada"], [])
    before = (today() - timedelta(days=20)).isoformat()
    assert as_person(lab.nil).get(f"{path}&as_of={before}").json()["node"]["charged_milli_s"] == 0
    for query, field in (("as_of=soon", "as_of"), ("by=team", "by"), ("from=2026-01-01", "from and until")):
        assert fields_of(as_person(lab.nil).get(f"{NORTH}usage/?{query}")) == [field]


def test_the_ledger_is_that_of_the_page(lab: Laboratory, as_person: Callable) -> None:
    for person in (lab.ada, lab.mia, lab.nil):
        client = as_person(person)
        page = [line.entry.pk for line in client.get("/audit/").context["lines"]]
        assert [each["number"] for each in client.get("/api/v1/audit/").json()["results"]] == page
    client = as_person(lab.max)
    rows = client.get("/api/v1/audit/?what=share.changed&node=A&fields=verb,node").json()["results"]
    assert {(each["verb"], each["node"][0]) for each in rows} == {("share.changed", "A")}
    assert fields_of(client.get("/api/v1/audit/?what=odd")) == ["what"]
    assert fields_of(as_person(lab.ben).get("/api/v1/audit/?node=A1"), 404) == []


@pytest.mark.parametrize(
    "path",
    [f"{NORTH}", f"{NORTH}policy/", N01, f"{NORTH}usage/", f"{NORTH}runs/", "/api/v1/audit/", f"{NORTH}repairs/"],
)
def test_parameters_that_nobody_reads_are_refused(calm: Laboratory, as_person: Callable, path: str) -> None:
    assert fields_of(as_person(calm.ops).get(f"{path}?colour=red")) == ["colour"]
