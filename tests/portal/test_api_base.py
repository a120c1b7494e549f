"""What every address of the API shares: pages, fields, versions, and requests that are sent again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from budgets.models import KeptAnswer, LedgerEntry
from budgets.services import kept_answers
from scheduler.models import JoinToken, Workload
from scheduler.services import nodes
from tests.portal.conftest import Laboratory
from tests.portal.test_api import WORKLOADS, ask, fields_of

NODES = "/api/v1/clusters/north/nodes/"
POLICY = "/api/v1/clusters/north/policy/"


def send(client: Client, path: str, body: Any, *, method: str = "post", **headers: str) -> Any:
    """Send JSON with headers."""
    return getattr(client, method)(path, body, content_type="application/json", headers=headers)


# --- pages ------------------------------------------------------------------------------------------------------------


def walked(client: Client, address: str | None, which: str = "next") -> list[str]:
    """The codes on a page and on those that follow it one way."""
    codes: list[str] = []
    while address:
        page = client.get(address).json()
        codes += [each["code"] for each in page["results"]]
        address = page[which]
    return codes


def test_pages_neither_lose_nor_repeat_rows_of_one_instant(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.ada)
    send(client, WORKLOADS, ask(count=23, idempotency_key=""))
    Workload.objects.update(submitted_at=calm.now)
    there = [f"A1-{number:04d}" for number in range(23, 0, -1)]
    assert walked(client, f"{WORKLOADS}?limit=5") == there


def test_pages_stay_as_they_are_while_rows_come_in(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.ada)
    send(client, WORKLOADS, ask(count=6, idempotency_key=""))
    first = client.get(f"{WORKLOADS}?limit=2").json()
    send(client, WORKLOADS, ask(count=3, idempotency_key=""))
    assert walked(client, first["next"]) == ["A1-0004", "A1-0003", "A1-0002", "A1-0001"]
    second = client.get(first["next"]).json()
    back = client.get(second["previous"]).json()
    assert [each["code"] for each in back["results"]] == ["A1-0006", "A1-0005"]
    newer = client.get(back["previous"]).json()
    assert [each["code"] for each in newer["results"]] == ["A1-0008", "A1-0007"]
    assert client.get(newer["previous"]).json()["previous"] is None


@pytest.mark.parametrize("cursor", ["zzz", "WzBd", "WzAsMSwyXQ", "WzAsIm5vIiwxXQ", "WzAsWzFdLDFd", "%F0%9F%98%80"])
def test_a_strange_cursor_is_refused_by_name(calm: Laboratory, as_person: Callable, cursor: str) -> None:
    assert fields_of(as_person(calm.ada).get(f"{WORKLOADS}?cursor={cursor}")) == ["cursor"]


# --- fields -----------------------------------------------------------------------------------------------------------


def test_only_the_fields_that_are_asked_for(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.ada)
    send(client, WORKLOADS, ask(count=2, idempotency_key=""))
    page = client.get(f"{WORKLOADS}?fields=code,state").json()
    assert page == {
        "next": None,
        "previous": None,
        "results": [{"code": "A1-0002", "state": "queued"}, {"code": "A1-0001", "state": "queued"}],
    }
    assert client.get(f"{WORKLOADS}A1-0001/?fields=code").json() == {"code": "A1-0001"}
    assert client.get("/api/v1/clusters/?fields=name,unit").json() == [{"name": "north", "unit": "gpu"}]


def test_an_unknown_field_is_refused_by_name(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.ada)
    answer = client.get(f"{WORKLOADS}?fields=code,colour")
    assert fields_of(answer) == ["fields"]
    assert "'colour'" in answer.json()["detail"]
    assert fields_of(client.get(f"{WORKLOADS}?fields=")) == ["fields"]
    assert fields_of(send(client, f"{WORKLOADS}?fields=code", ask())) == ["fields"]


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_policy_is_changed_from_the_version_that_was_read(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.ops)
    read = client.get(POLICY)
    tag = read.headers["ETag"]
    assert (read.json()["version"], tag) == (1, '"1"')
    assert client.get(POLICY, headers={"If-None-Match": tag}).status_code == 304
    change = {"knobs": {"grace_s": 90}, "reason": "slow disks"}
    assert fields_of(send(client, POLICY, change, method="patch"), 428) == []
    made = send(client, POLICY, change, method="patch", **{"If-Match": tag})
    assert (made.status_code, made.headers["ETag"], made.json()["knobs"]["grace_s"]) == (200, '"2"', 90)
    assert fields_of(send(client, POLICY, change, method="patch", **{"If-Match": tag}), 412) == []
    assert fields_of(send(client, POLICY, {**change, "version": 1}, method="patch"), 409) == ["version"]
    again = send(client, POLICY, {"knobs": {"reservations": 2}, "reason": "r", "version": 2}, method="patch")
    assert [each["version"] for each in again.json()["history"]] == [3, 2, 1]
    entry = LedgerEntry.objects.filter(verb="cluster.policy").order_by("pk")[0]
    assert (entry.person_id, entry.before, entry.after) == (calm.ops.pk, {"grace_s": 60}, {"grace_s": 90})


@pytest.mark.parametrize(
    ("knobs", "field"),
    [
        ({"colour": 1}, "knobs.colour"),
        ({"grace_s": 10**12}, "knobs.grace_s"),
        ({"grace_s": -1}, "knobs.grace_s"),
        ({"swap_margin": "many"}, "swap_margin"),
        ({"swap_margin": "1/0"}, "swap_margin"),
        ({"lost_after_s": 10}, "self_fence_s"),
    ],
)
def test_a_knob_that_cannot_be_is_named(calm: Laboratory, as_person: Callable, knobs: dict, field: str) -> None:
    body = {"knobs": knobs, "reason": "r", "version": 1}
    assert fields_of(send(as_person(calm.ops), POLICY, body, method="patch")) == [field]


def test_a_node_that_changed_meanwhile_is_not_drained(calm: Laboratory, as_person: Callable) -> None:
    client = as_person(calm.ops)
    tag = client.get(f"{NODES}n01/").headers["ETag"]
    assert nodes.set_health(node=calm.cluster.nodes.get(name="n01"), health="unhealthy", reason="fan")
    body = {"reason": "maintenance"}
    assert fields_of(send(client, f"{NODES}n01/drain/", body, **{"If-Match": tag}), 412) == []
    now = client.get(f"{NODES}n01/").headers["ETag"]
    assert send(client, f"{NODES}n01/drain/", body, **{"If-Match": now}).json()["changed"] is True


# --- sent again -------------------------------------------------------------------------------------------------------


def test_a_post_with_a_key_is_done_once_and_answered_alike(calm: Laboratory, as_person: Callable) -> None:
    client, body = as_person(calm.ada), ask(idempotency_key="")
    first = send(client, WORKLOADS, body, **{"Idempotency-Key": "abc"})
    second = send(client, WORKLOADS, body, **{"Idempotency-Key": "abc"})
    assert (first.status_code, second.status_code) == (201, 201)
    assert (first.json(), first.headers["Location"]) == (second.json(), second.headers["Location"])
    assert ("Idempotency-Replayed" in first.headers, second.headers["Idempotency-Replayed"]) == (False, "true")
    assert Workload.objects.count() == 1


def test_a_key_belongs_to_one_request_of_one_person(calm: Laboratory, as_person: Callable) -> None:
    client, key = as_person(calm.ada), {"Idempotency-Key": "abc"}
    assert send(client, WORKLOADS, ask(idempotency_key=""), **key).status_code == 201
    assert fields_of(send(client, WORKLOADS, ask(idempotency_key="", priority=3), **key), 422) == []
    assert fields_of(send(client, f"{WORKLOADS}A1-0001/cancel/", {}, **key), 422) == []
    assert send(as_person(calm.ben), WORKLOADS, ask(idempotency_key="", leaf="B1"), **key).status_code == 201
    assert Workload.objects.count() == 2
    assert fields_of(send(client, WORKLOADS, ask(), **{"Idempotency-Key": "a b"})) == ["Idempotency-Key"]


def test_a_refusal_leaves_the_key_free_and_changes_nothing(calm: Laboratory, as_person: Callable) -> None:
    client, key = as_person(calm.ada), {"Idempotency-Key": "abc"}
    assert fields_of(send(client, WORKLOADS, ask(cluster="moon"), **key)) == ["cluster"]
    assert KeptAnswer.objects.count() == 0
    assert send(client, WORKLOADS, ask(), **key).status_code == 201


def test_kept_answers_hold_no_secret_and_are_forgotten(calm: Laboratory, as_person: Callable) -> None:
    calm.cluster.executor = "agent"
    calm.cluster.save()
    client, key = as_person(calm.ops), {"Idempotency-Key": "abc"}
    path = "/api/v1/clusters/north/join-tokens/"
    first, second = (send(client, path, {"valid_for_s": 60}, **key) for _ in range(2))
    assert first.json()["token"].startswith("join-")
    assert second.json() == {**first.json(), "token": None}
    assert JoinToken.objects.count() == 1
    assert first.json()["token"] not in str(list(KeptAnswer.objects.values()))
    now = datetime.now(UTC)
    assert kept_answers.sweep(now + timedelta(hours=47)) == 0
    assert kept_answers.sweep(now + timedelta(hours=49)) == 1


def test_an_old_key_is_as_new(calm: Laboratory, as_person: Callable) -> None:
    client, key = as_person(calm.ada), {"Idempotency-Key": "abc"}
    send(client, WORKLOADS, ask(idempotency_key=""), **key)
    KeptAnswer.objects.update(made_at=datetime.now(UTC) - timedelta(hours=49))
    assert send(client, WORKLOADS, ask(idempotency_key="", priority=1), **key).status_code == 201


def test_two_at_once_do_it_once(lab: Laboratory, as_person: Callable) -> None:
    before, found = Workload.objects.count(), []

    def post() -> None:
        try:
            answer = send(as_person(lab.ada), WORKLOADS, ask(idempotency_key=""), **{"Idempotency-Key": "abc"})
            found.append((answer.status_code, answer.json()))
        finally:
            connection.close()

    threads = [threading.Thread(target=post) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert Workload.objects.count() == before + 1
    assert found == [found[0]] * 4
    assert found[0][0] == 201


def test_who_waits_too_long_for_the_first_is_told_so(
    lab: Laboratory, as_person: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "WAITS_FOR_MS", 100)
    answers = []

    def post() -> None:
        try:
            answers.append(send(as_person(lab.ada), WORKLOADS, ask(), **{"Idempotency-Key": "abc"}))
        finally:
            connection.close()

    with transaction.atomic():
        kept_answers.claim(person=lab.ada, key="abc", route="POST /", digest="x")
        thread = threading.Thread(target=post)
        thread.start()
        thread.join()
    assert fields_of(answers[0], 409) == []
    assert answers[0].headers["Retry-After"] == "5"


# --- what can't be stored ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"command": ["a\\u0000b"]}', "command[0]"),
        ('{"environment": {"A": "\\ud800"}}', "environment.A"),
        ('{"\\ud800": 1}', "\\ud800"),
        ("[" * 100 + "]" * 100, ""),
        ("[" * 100_000, ""),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name(calm: Laboratory, as_person: Callable, body: str, field: str) -> None:
    answer = as_person(calm.ada).post(WORKLOADS, body, content_type="application/json")
    assert fields_of(answer) in ([field], [])


def test_what_is_no_json_is_not_taken(calm: Laboratory, as_person: Callable) -> None:
    assert fields_of(as_person(calm.ada).post(WORKLOADS, {"leaf": "A1"}), 415) == []
