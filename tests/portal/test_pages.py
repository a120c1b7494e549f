"""What the pages say, to whom, and how they take what is sent to them."""

from __future__ import annotations

import json
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.models import Workload
from scheduler.queries import moments


def text_of(answer) -> str:
    """What a page says, without its marks."""
    assert answer.status_code == 200, answer.content.decode()[:500]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def hidden(answer, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'name="{name}" value="([^"]*)"', answer.content.decode())
    assert found is not None
    return found[1]


# --- what is inside, and for whom -------------------------------------------------------------------------------------


def test_command_output_owner_and_name_are_for_those_inside(lab, as_person):
    path = f"/workloads/{lab.taker.code}/"
    secrets = ("--secret-flag", "loss 0.42", "taker-one", "Owner")
    assert all(each in text_of(as_person(lab.ada).get(path)) for each in secrets)
    outside = text_of(as_person(lab.ben).get(path))
    assert not any(each in outside for each in secrets)
    assert lab.taker.code in outside
    assert not any(each in as_person(lab.ben).get(f"{path}text/").content.decode() for each in secrets)
    told = as_person(lab.ben).get(f"/api/v1/workloads/{lab.taker.code}/explain/").content.decode()
    assert not any(each in told for each in secrets[:3])


def test_names_cannot_be_found_out_by_searching_for_them(lab, as_person):
    assert lab.waits.code in text_of(as_person(lab.ada).get("/queue/north/?find=waiting-o"))
    assert lab.waits.code not in text_of(as_person(lab.nil).get("/queue/north/?find=waiting-o"))
    assert lab.waits.code in text_of(as_person(lab.nil).get(f"/queue/north/?find={lab.waits.code}"))


def test_pages_stop_asking_when_a_workload_is_over(lab, as_person):
    client, htmx = as_person(lab.ada), {"HX-Request": "true"}
    paths = [f"/workloads/{lab.waits.code}/", f"/workloads/{lab.waits.code}/log/"]
    assert [client.get(path, headers=htmx).status_code for path in paths] == [200, 200]
    assert "every 10s" in client.get(paths[0]).content.decode()
    client.post(f"/workloads/{lab.waits.code}/cancel/", {"reason": ""})
    assert [client.get(path, headers=htmx).status_code for path in paths] == [286, 286]
    assert "every 10s" not in client.get(paths[0]).content.decode()


# --- reasons ----------------------------------------------------------------------------------------------------------


def test_a_waiting_workload_is_explained_from_the_root_down(lab, as_person):
    said = text_of(as_person(lab.ada).get(f"/workloads/{lab.waits.code}/"))
    assert lab.waits.reason_text.rstrip(".")[:30] in said
    for words in ("LAB Laboratory", "Team A", "Team B", "Who is ahead", "Waiting in A1", lab.waits.reason_code):
        assert words in said


def test_a_preemption_names_the_taker_the_rule_and_both_sides(lab, as_person):
    said = text_of(as_person(lab.ben).get(f"/workloads/{lab.taken.code}/"))
    for words in (
        f"{lab.taker.code} took its 8 GPUs",
        "preempted_fair_share",
        "B Team B",
        "A Team A",
        "Served",
        "may take",
    ):
        assert words in said


def test_the_copied_text_says_what_the_page_says(lab, as_person):
    answer = as_person(lab.ada).get(f"/workloads/{lab.taken.code}/text/")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    said = answer.content.decode()
    assert said.startswith(f"{lab.taken.code} on north, B1 Team B1: queued")
    assert lab.taken.reason_text in said
    assert "preempted_fair_share" in said


# --- parts of pages ---------------------------------------------------------------------------------------------------


def test_htmx_gets_the_part_and_a_restored_history_the_whole(lab, as_person):
    client = as_person(lab.ada)
    whole = client.get("/queue/north/")
    part = client.get("/queue/north/", headers={"HX-Request": "true"})
    restored = client.get("/queue/north/", headers={"HX-Request": "true", "HX-History-Restore-Request": "true"})
    assert [b"<html" in each.content for each in (whole, part, restored)] == [True, False, True]
    assert all("HX-Request" in each.headers["Vary"] for each in (whole, part, restored))


def test_no_page_has_a_script_of_its_own_in_its_text(lab, as_person):
    client = as_person(lab.ada)
    for path in ("/", "/tree/", "/budget/A/", f"/workloads/{lab.taker.code}/", "/workloads/new/", "/queue/"):
        page = client.get(path).content.decode()
        for attributes in re.findall(r"<script([^>]*)>", page):
            assert "src=" in attributes or 'type="application/json"' in attributes
        assert not re.search(r'\son\w+="', page)
        assert "https://" not in page
        assert "http://www.w3.org" in page or "http://" not in page


def test_the_chart_has_its_table_and_the_same_numbers(lab, as_person):
    page = as_person(lab.ada).get("/budget/B1/?window=1d").content.decode()
    page, _, _pace = page.partition('id="pace"')
    chart = json.loads(re.search(r'<script type="application/json">(.+?)</script>', page, re.S)[1])
    within = next(trace for trace in chart["data"] if trace.get("name") == "delivered within it")
    shown = [
        float(each)
        for each in re.findall(
            r'<tr><th scope="row" class="nowrap">.*?</td><td class="num">.*?</td><td class="num">([\d.,]+)</td>', page
        )
    ]
    assert len(within["y"]) == len(shown) == 24
    assert shown == pytest.approx(within["y"], abs=0.051)
    assert max(shown) > 0


# --- submitting -------------------------------------------------------------------------------------------------------


def submission(page, **changed):
    """A filled form."""
    return {
        "action": hidden(page, "action"), "cluster": "north", "project": "A1", "name": "try", "size": "4",
        "contract": "30 min", "priority": "0", "command": "python train.py 'two words'", "time_limit": "", "tasks": "1",
        **changed,
    }  # fmt: skip


def test_a_form_sent_twice_submits_once(calm, as_person):
    client = as_person(calm.ada)
    form = submission(client.get("/workloads/new/"))
    first, second = client.post("/workloads/new/", form), client.post("/workloads/new/", form)
    assert first.status_code == second.status_code == 302
    assert first.headers["Location"] == second.headers["Location"]
    made = Workload.objects.get(name="try")
    assert (made.size_milli, made.min_runtime_s, made.command) == (4_000, 1_800, ["python", "train.py", "two words"])
    assert first.headers["Location"] == f"/workloads/{made.code}/"


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"size": "lots"}, "size", "is not a number such as 8"),
        ({"size": "0"}, "size", "must"),
        ({"size": "0.25"}, "size", "north gives out whole devices only"),
        ({"size": "2.5"}, "size", "neither a number of whole devices nor a part of one"),
        ({"contract": "soon"}, "contract", "is not a duration"),
        ({"project": "B1"}, "project", "Select a valid choice"),
        ({"cluster": "moon"}, "cluster", "Select a valid choice"),
        ({"command": "echo 'open"}, "command", "split into arguments"),
        ({"command": ""}, "command", "required"),
        ({"priority": "9999"}, "priority", "less than or equal"),
        ({"tasks": "0"}, "tasks", "greater than or equal"),
        ({"time_limit": "1 min"}, "time_limit", "less than the contract"),
        ({"cpus": "many"}, "cpus", "is not a number such as 8"),
        ({"memory": "much"}, "memory", "is not an amount of memory"),
        ({"memory": "9999999 TiB"}, "memory", "must be"),
    ],
)
def test_an_error_stands_beside_its_field(calm, as_person, changed, field, words):
    client = as_person(calm.ada)
    before = Workload.objects.count()
    answer = client.post("/workloads/new/", submission(client.get("/workloads/new/"), **changed))
    assert answer.status_code == 400
    error = re.search(rf'<span class="error" id="id_{field}_error">([^<]*)</span>', answer.content.decode())
    assert error is not None
    assert words in error[1].replace("&#x27;", "'")
    assert Workload.objects.count() == before


def test_the_form_asks_for_cores_and_memory_too(calm, as_person):
    client = as_person(calm.ada)
    page = client.get("/workloads/new/")
    assert "A node has at most:" not in text_of(page)
    calm.cluster.nodes.update(cpu_milli=64_000, memory_mib=524_288)
    page = client.get("/workloads/new/")
    assert "A node has at most: north 64 cores, 512 GiB." in text_of(page)
    answer = client.post("/workloads/new/", submission(page, cpus="8.5", memory="96 GiB"), follow=True)
    made = Workload.objects.get(name="try")
    assert (made.cpu_milli_per_rank, made.memory_mib_per_rank) == (8_500, 98_304)
    assert "On each node 8.5 cores, 96 GiB" in text_of(answer)
    said = client.get(f"/api/v1/workloads/{made.code}/").json()
    assert (said["cpu_milli_per_rank"], said["memory_mib_per_rank"]) == (8_500, 98_304)


def test_an_unknown_field_is_refused(calm, as_person):
    client = as_person(calm.ada)
    answer = client.post("/workloads/new/", submission(client.get("/workloads/new/"), owner="max"))
    assert answer.status_code == 400
    assert "There is no field &#x27;owner&#x27; in this form." in answer.content.decode()


# --- cancel, drain ----------------------------------------------------------------------------------------------------


def test_cancelling_twice_cancels_once(lab, as_person):
    client = as_person(lab.ada)
    path = f"/workloads/{lab.waits.code}/cancel/"
    assert "is cancelled" in text_of(client.post(path, {"reason": "typo"}, follow=True))
    assert "nothing was changed" in text_of(client.post(path, {"reason": "typo"}, follow=True))
    lab.waits.refresh_from_db()
    assert lab.waits.state == "cancelled"


def test_an_operator_drains_and_resumes_with_a_reason(calm, as_person):
    client = as_person(calm.ops)
    for verb, is_asked in (("drain", True), ("resume", False)):
        path = f"/nodes/north/n02/{verb}/"
        page = client.get(path)
        form = {"action": hidden(page, "action"), "version": hidden(page, "version")}
        assert client.post(path, form).status_code == 400
        assert client.post(path, {**form, "reason": "fan"}).status_code == 302
        assert (calm.cluster.nodes.get(name="n02").drain_asked_at is not None) == is_asked


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/queue/moon/", 404, "There is no cluster"),
        ("/queue/north/?page=two", 400, "page:"),
        ("/queue/north/?page=0", 400, "page:"),
        ("/queue/north/?project=Z", 400, "project:"),
        ("/queue/north/?class=gold", 400, "class:"),
        ("/tree/moon/", 404, "There is no cluster"),
        ("/tree/north/?as_of=soon", 400, "as_of:"),
        ("/tree/north/?open=Z", 400, "open:"),
        ("/budget/Z/", 404, "There is no budget node"),
        ("/budget/A/?window=1y", 400, "window:"),
        ("/budget/A/?cluster=moon", 404, "There is no cluster"),
        ("/workloads/A1-9999/", 404, "There is no workload"),
        ("/workloads/?state=odd", 400, "state:"),
        ("/workloads/?owner=max", 400, "owner:"),
        ("/nodes/north/n99/drain/", 404, "There is no node"),
        ("/nowhere/", 404, "There is no such page"),
    ],
)
def test_what_a_url_cannot_mean_gets_one_clear_line(calm, as_person, path, status, words):
    answer = as_person(calm.ops).get(path)
    assert answer.status_code == status
    assert words in answer.content.decode()
    assert "Traceback" not in answer.content.decode()


def test_a_form_without_its_token_is_refused_in_our_words(calm):
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/login/", {"username": "ada", "password": "x"})
    assert answer.status_code == 403
    assert "This form is too old" in answer.content.decode()


def test_signing_in_and_choosing_a_look(calm):
    client = Client()
    assert client.post("/login/", {"username": "ada", "password": "wrong"}).status_code == 400
    assert client.post("/login/", {"username": "ada", "password": "sesame-open-42"}).headers["Location"] == "/"
    answer = client.post("/theme/", {"theme": "dark", "next": "https://elsewhere.example/"})
    assert answer.headers["Location"] == "/"
    assert 'data-theme="dark"' in client.get("/").content.decode()


# --- cost -------------------------------------------------------------------------------------------------------------


def queries_of(client, path) -> int:
    """How many queries a page makes."""
    with CaptureQueriesContext(connection) as caught:
        assert client.get(path).status_code == 200
    return len(caught)


def test_queries_do_not_grow_with_rows(lab, as_person, monkeypatch):
    monkeypatch.setattr(moments, "SLOT_S", 10**9)  # what is shared is made anew by what happens alone
    client = as_person(lab.ada)
    paths = [
        "/", "/queue/north/", "/workloads/", "/nodes/north/", "/tree/north/", "/budget/A/",
        f"/workloads/{lab.waits.code}/", "/api/v1/workloads/", "/api/v1/clusters/north/queue/",
        "/api/v1/clusters/north/nodes/", "/api/v1/clusters/north/tree/",
    ]  # fmt: skip
    for path in paths:
        client.get(path)
    few = {path: queries_of(client, path) for path in paths}
    for number in range(3):
        lab.submit("A1", 2, owner=lab.ada, name=f"more-{number}")
    lab.step()
    for path in paths:
        client.get(path)  # the first to look after a pass has its figures read
    many = {path: queries_of(client, path) for path in paths}
    assert many == few
    assert max(many.values()) <= 30
