"""What pages, API and charts say of failures, retries and delays, and who reads what was printed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from scheduler.models import LogChunk, Rank, Run, Workload
from scheduler.services import events, retries, runs
from tests.portal.conftest import Laboratory
from tests.portal.test_execution_pages import form

LINE = "ConnectionResetError: [Errno 104] Connection reset by peer to store-7"
AsPerson = Callable[..., Client]


@pytest.fixture
def failed(lab: Laboratory) -> Workload:
    """Ada's workload that runs has lost its connection, and may be tried again."""
    Workload.objects.filter(pk=lab.taker.pk).update(retries=2)
    run = Run.objects.exclude(state=Run.State.ENDED).get(workload=lab.taker)
    rank = Rank.objects.filter(run=run).order_by("index").first()
    LogChunk.objects.create(rank=rank, offset=1_000, length=len(LINE), text=LINE)
    assert runs.end(run=run, at=lab.now, code=runs.FAILED, exit_code=1)
    return Workload.objects.get(pk=lab.taker.pk)


def judge(lab: Laboratory) -> None:
    """What failed is judged."""
    assert retries.judge(lab.now + timedelta(seconds=20)) == 1


def held(lab: Laboratory, workload: Workload) -> None:
    """It fails as before, and is held."""
    judge(lab)
    Workload.objects.filter(pk=workload.pk).update(
        state="held", reason_code=events.ALIKE, reason_text="Held: it failed as another run of its owner did."
    )


def test_all_read_why_it_failed_and_only_those_inside_what_it_printed(
    lab: Laboratory, failed: Workload, as_person: AsPerson
) -> None:
    address = f"/workloads/{failed.code}/"
    assert "Why is looked at before it is tried again." in as_person(lab.nil).get(address).content.decode()
    judge(lab)
    for person, sees in ((lab.nil, False), (lab.ben, False), (lab.ada, True), (lab.mia, True), (lab.ops, True)):
        page = as_person(person).get(address).content.decode()
        assert "a network connection failed" in page
        assert "of the infrastructure: another try may pass" in page
        assert "1 of 2 times" in page
        assert ("store-7" in page.split('id="failed"')[1].split("</section>")[0]) == sees, person
        told = as_person(person).get(f"/api/v1/workloads/{failed.code}/explain/").json()
        assert (told["workload"]["retries"], told["workload"]["retried"]) == (2, 1)
        (failure,) = [each["failure"] for each in told["runs"] if each["failure"]]
        assert (failure["failure_class"], failure["origin"]) == ("network", "infrastructure")
        assert failure["line"] == (LINE if sees else None)
        assert "store-7" not in as_person(person).get("/api/v1/clusters/north/runs/").content.decode()


@pytest.mark.long
def test_the_owner_releases_what_is_held_on_its_page(lab: Laboratory, failed: Workload, as_person: AsPerson) -> None:
    held(lab, failed)
    address = f"/workloads/{failed.code}/"
    assert "Try it again" not in as_person(lab.ben).get(address).content.decode()
    assert as_person(lab.ben).post(f"{address}release/").status_code == 404
    client = as_person(lab.ada)
    assert "Try it again" in client.get(address).content.decode()
    answer = client.post(f"{address}release/", follow=True).content.decode()
    assert f"{failed.code} is back in the queue." in answer
    failed.refresh_from_db()
    assert (failed.state, failed.retried, failed.reason_code) == ("queued", 2, "tried_again")
    assert "nothing was changed" in client.post(f"{address}release/", follow=True).content.decode()


def test_the_api_releases_it_once(lab: Laboratory, failed: Workload, as_person: AsPerson) -> None:
    held(lab, failed)
    address = f"/api/v1/workloads/{failed.code}/release/"
    assert as_person(lab.ben).post(address, {}, "application/json").status_code == 404
    for _ in range(2):
        answer = as_person(lab.ada).post(address, {"whole_array": True}, "application/json")
        assert (answer.status_code, answer.json()["state"], answer.json()["retried"]) == (200, "queued", 2)


def test_retries_are_asked_for_by_form_and_api(calm: Laboratory, as_person: AsPerson) -> None:
    client = as_person(calm.ada)
    assert client.post("/workloads/new/", form(client, retries="3")).status_code == 302
    assert Workload.objects.get().retries == 3
    refused = client.post("/workloads/new/", form(client, retries="4"))
    assert (refused.status_code, "id_retries_error" in refused.content.decode()) == (400, True)
    assert client.post("/workloads/new/", form(client, size="4", canary="on")).status_code == 302
    gang = Workload.objects.get(after_passed=True)
    assert (gang.size_milli, gang.state, gang.after.size_milli) == (4_000, "held", 1_000)
    assert f"when its canary {gang.after.code} has passed" in client.get(f"/workloads/{gang.code}/").content.decode()
    refused = client.post("/workloads/new/", form(client, size="4", canary="on", tasks="3")).content.decode()
    assert "id_canary_error" in refused
    body = {"cluster": "north", "leaf": "A1", "size_milli": 1_000, "min_runtime_s": 600, "command": ["true"]}
    answer = client.post("/api/v1/workloads/", {**body, "retries": 1}, "application/json")
    assert (answer.status_code, answer.json()[0]["retries"]) == (201, 1)
    for count in (-1, 4, "x"):
        answer = client.post("/api/v1/workloads/", {**body, "retries": count}, "application/json")
        assert (answer.status_code, "retries" in answer.content.decode()) == (400, True)


@pytest.mark.long
def test_pages_sum_failures_and_delays(lab: Laboratory, failed: Workload, as_person: AsPerson) -> None:
    judge(lab)
    client = as_person(lab.nil)
    address = "/clusters/north/failures/"
    page = client.get(address)
    (line,) = page.context["lines"]
    assert (line.words, line.whose, line.lost.runs) == ("a network connection failed", "the infrastructure's", 1)
    assert page.context["chart"]["data"][0]["name"] == "the infrastructure's"
    assert "store-7" not in page.content.decode()
    assert "No run failed in this time" in client.get(f"{address}?node=B").content.decode()
    told = client.get("/api/v1/clusters/north/failures/").json()
    assert told["classes"][0] | {"held_milli_s": 0} == {
        "failure_class": "network", "why": "a network connection failed", "origin": "infrastructure", "runs": 1,
        "held_milli_s": 0,
    }  # fmt: skip
    waits = client.get("/clusters/north/waits/")
    delays = client.get("/api/v1/clusters/north/waits/").json()
    assert [each["cause"] for each in delays["delays"]] == [
        "fair_share", "contracts", "fragmentation", "nodes", "held", "unseen",
    ]  # fmt: skip
    for key, place in (("delays", 0), ("delays_not_started", 1)):
        assert [each["waited_milli_s"] for each in delays[key]] == [
            pair[place].waited_milli_s for pair in waits.context["delays"]
        ]
    assert sum(each["waited_milli_s"] for each in delays["delays"] + delays["delays_not_started"]) > 0
