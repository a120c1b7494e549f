""" "Try 4 instead of 8": what the engine says of a waiting workload that asks for something else. Nothing changes."""

from __future__ import annotations

from scheduler.models import Claim, Decision, Event, Pass, Reservation, Run, Workload
from scheduler.queries.trying import try_other
from tests.portal.test_pages import queries_of, text_of


def everything() -> list[object]:
    """What may not change."""
    counts = [model.objects.count() for model in (Claim, Decision, Event, Pass, Reservation, Run)]
    return [counts, list(Workload.objects.order_by("pk").values())]


def test_fewer_start_where_many_wait(lab):
    before = everything()
    found = try_other(lab.waits, size_milli=2_000, min_runtime_s=None)
    assert (found.as_it_is.action, found.as_it_is.place is not None) == ("wait", True)
    assert found.tried.starts_now
    assert found.tried.nodes
    assert (found.tried.size_milli, found.tried.min_runtime_s) == (2_000, 3_600)
    assert everything() == before


def test_what_it_asks_for_already_changes_nothing(lab):
    found = try_other(lab.waits, size_milli=None, min_runtime_s=None)
    same = ("action", "code", "text", "size_milli", "min_runtime_s", "certain_at")
    assert {name: getattr(found.tried, name) for name in same} == {name: getattr(found.as_it_is, name) for name in same}
    assert found.as_it_is.text == lab.waits.reason_text


def test_the_door_refuses_as_it_would(lab):
    found = try_other(lab.waits, size_milli=None, min_runtime_s=9 * 3_600).tried
    assert (found.action, found.code) == ("refuse", "contract_too_long")
    assert try_other(lab.waits, size_milli=400_000, min_runtime_s=None).tried.code == "too_large"


def test_who_would_be_preempted_is_named(lab):
    """Unallocated work holds what is free; the waiting one could start on two of it."""
    lab.submit("A2", 2, minutes=0, ago=1)
    lab.step()
    found = try_other(lab.waits, size_milli=4_000, min_runtime_s=None).tried
    assert found.action == "claim"
    assert {rule for _, rule in found.takes_from} <= {"preempted_unallocated", "preempted_priority"}
    assert found.takes_from


def test_the_page_answers_at_once_with_and_without_scripts(lab, as_person):
    client = as_person(lab.ben)
    path = f"/workloads/{lab.waits.code}/try/"
    said = text_of(client.get(f"{path}?size=2&contract=30+min"))
    assert "As it is: 8 GPUs, 1 h" in said.replace("\xa0", " ")
    assert "Tried: 2 GPUs, 30 min" in said.replace("\xa0", " ")
    assert "Nothing is changed." in said
    assert queries_of(client, f"{path}?size=2") <= 30
    part = client.get(f"{path}?size=2", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part
    assert "Tried" in part


def test_bad_input_gets_one_line(lab, as_person):
    client = as_person(lab.ben)
    wanted = {
        "size=many": "size: &#x27;many&#x27; is not a number such as 8",
        "size=0": "size: must be more than 0",
        "size=1.5": "size: must be a whole number",
        "contract=soon": "contract: &#x27;soon&#x27; is not a duration",
        "contract=9999999+d": "contract: must not be negative",
    }
    for query, words in wanted.items():
        path = f"/workloads/{lab.waits.code}/try/?{query}"
        answer = client.get(path)
        assert (answer.status_code, words in answer.content.decode()) == (400, True), query
        part = client.get(path, headers={"HX-Request": "true"})
        assert (part.status_code, words in part.content.decode()) == (200, True), query


def test_one_that_runs_cannot_be_tried(lab, as_person):
    answer = as_person(lab.ben).get(f"/workloads/{lab.taker.code}/try/?size=2")
    assert (answer.status_code, "does not wait: it is running" in answer.content.decode()) == (400, True)
    assert as_person(lab.ben).get("/workloads/A1-9999/try/").status_code == 404


def test_the_api_answers_the_same(lab, as_person):
    client = as_person(lab.ben)
    path = f"/api/v1/workloads/{lab.waits.code}/try/"
    given = client.get(f"{path}?size_milli=2000").json()
    assert given["as_it_is"]["size_milli"] == 8_000
    assert given["tried"]["size_milli"] == 2_000
    assert given["tried"]["action"] in ("start", "claim")
    assert client.get(f"{path}?size_milli=x").status_code == 400
    assert client.get(f"{path}?size_milli=0").status_code == 400
    assert client.get(f"{path}?size=4").status_code == 400
    assert client.get("/api/v1/workloads/A1-9999/try/").status_code == 404
