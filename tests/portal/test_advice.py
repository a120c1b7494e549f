"""Advice on pages and by the API: at submission, with the workload, and which rules an operator has refuse programs."""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from budgets.models import LedgerEntry
from scheduler.models import Advice, AdviceFinding, BlockingRule, Run, UtilizationHour, Workload
from scheduler.services import advice
from tests.portal.conftest import Laboratory
from tests.portal.test_pages import hidden
from tests.portal.test_tokens import client_of

SLOW = "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=64)\n"
FINE = SLOW.replace("64)", "64, num_workers=8)")
WORKERS = "HOST_GPU.workers"
SUBMIT, CHECK, RULES = "/workloads/new/", "/workloads/new/advice/", "/clusters/north/advice/"
FORM = {
    "cluster": "north", "project": "A1", "name": "", "size": "1", "contract": "1 h", "priority": "0",
    "command": "python train.py", "time_limit": "", "tasks": "1", "checkpoint": "", "checkpoint_every": "",
    "save_command": "", "restore_command": "", "secrets": "",
}  # fmt: skip


def file(name: str, content: str | bytes) -> SimpleUploadedFile:
    """A file as a browser sends it."""
    return SimpleUploadedFile(name, content.encode() if isinstance(content, str) else content)


def text_of(answer: Any) -> str:
    """What a page or a part says, whatever its status."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())))


def archive(members: dict[str, str | bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of these."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", method) as into:
        for name, content in members.items():
            into.writestr(name, content)
    return whole.getvalue()


def sent(client: Client, *files: SimpleUploadedFile, to: str = SUBMIT, htmx: bool = False, **more: str) -> Any:
    """The form with these files."""
    said = {**FORM, **more, "program": list(files)} if files else {**FORM, **more}
    return client.post(to, said, headers={"HX-Request": "true"} if htmx else {})


@pytest.fixture
def ada(calm: Laboratory, as_person: Callable[..., Client]) -> Client:
    """Signed in, before anybody has submitted anything."""
    return as_person(calm.ada)


# --- the form ---------------------------------------------------------------------------------------------------------


def test_a_program_is_checked_without_submitting_or_keeping_anything(ada: Client) -> None:
    part = sent(ada, file("train.py", SLOW), to=CHECK, htmx=True)
    said = text_of(part)
    assert part.status_code == 200
    assert "<html" not in part.content.decode()
    assert "1 warning." in said
    assert "HOST_GPU.workers train.py, line 3" in said
    assert "loader = DataLoader(data, batch_size=64)" in said
    assert "To do: num_workers=4 to 8 for each GPU" in said
    assert "Published: Inefficient transfer between host and GPU" in said
    assert not Workload.objects.exists()
    assert not Advice.objects.exists()


def test_without_scripts_the_page_says_it_and_keeps_what_was_typed(ada: Client) -> None:
    page = sent(ada, file("train.py", SLOW), to=CHECK, name="my-run")
    said = text_of(page)
    assert page.status_code == 200
    assert "HOST_GPU.workers" in said
    assert "choose the files once more" in said
    assert 'value="my-run"' in page.content.decode()
    assert not Workload.objects.exists()


def test_what_cant_be_read_of_the_form_is_said_in_its_place(ada: Client) -> None:
    part = sent(ada, file("train.py", SLOW), to=CHECK, htmx=True, size="many")
    assert part.status_code == 200
    assert "GPUs: " in text_of(part)
    assert sent(ada, file("train.py", SLOW), to=CHECK, size="many").status_code == 400


def test_it_is_submitted_with_its_findings_and_its_page_has_them(ada: Client) -> None:
    answer = sent(ada, file("train.py", SLOW), file("model.py", FINE))
    workload = Workload.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/workloads/{workload.code}/")
    said = text_of(ada.get(answer["Location"]))
    assert "The advisor found 1 thing in its program: it stands below." in said
    assert "It read 2 files and the command when it was submitted" in said
    assert "HOST_GPU.workers train.py, line 3" in said
    assert "loader = DataLoader(data, batch_size=64)" in said


def test_only_those_inside_see_what_was_found(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    workload = calm.submit("A1", 1, owner=calm.ada, program={"train.py": SLOW})
    for person, sees in ((calm.ada, True), (calm.mia, True), (calm.ops, True), (calm.ben, False), (calm.nil, False)):
        page = as_person(person).get(f"/workloads/{workload.code}/").content.decode()
        assert (WORKERS in page, "batch_size=64" in page) == (sees, sees)
        answer = as_person(person).get(f"/api/v1/workloads/{workload.code}/advice/")
        assert answer.status_code == (200 if sees else 404)


def test_a_zip_is_read_in_memory_and_what_hides_in_it_is_left_out(ada: Client) -> None:
    whole = archive(
        {
            "lab/train.py": "from lab.parts import w\nimport torch\nmodel = w(model)\n",
            "lab/parts.py": "from torch.nn.parallel import DistributedDataParallel as D\nw = D\n",
            "lab/.venv/bad.py": "input()\n",
            "site-packages/bad.py": "input()\n",
            "weights.bin": b"\x00" * 900_000,
            "../../etc/run.sh": "jupyter lab\n",
        }
    )
    sent(ada, file("lab.zip", whole), size="8")
    told = Advice.objects.get()
    assert told.files == 2
    assert not AdviceFinding.objects.exclude(rule="READ").exists()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        pytest.param([("big.py", "x" * 10_000_000)], "big.py: 10.0 MB; at most 0.5 MB are read", id="10 MB"),
        pytest.param([("a.zip", b"PK\x03\x04 and nothing")], "a.zip: is no zip archive that can be read", id="broken"),
        pytest.param([("a.zip", archive({"a.py": b"\x00" * 90_000_000})[:80_000])], "a.zip: is no zip", id="cut off"),
        pytest.param([("a.zip", archive({"a.py": b"x" * 90_000_000}))], "a.zip: a.py is too large", id="bomb"),
        pytest.param(
            [("a.zip", archive({f"m{number}.py": "" for number in range(501)}))], "a.zip: more than 500 files",
            id="many",
        ),
        pytest.param([("a.py", ""), ("a.py", "")], "there are two files a.py", id="twice"),
        pytest.param(
            [(f"m{number}.py", "x" * 400_000) for number in range(3)], "these files have more than 1 MB", id="in all"
        ),
    ],
)  # fmt: skip
def test_what_is_no_program_is_one_line_beside_the_field(
    ada: Client, files: list[tuple[str, str | bytes]], said: str
) -> None:
    chosen = [file(*each) for each in files]
    page = sent(ada, *chosen)
    assert page.status_code == 400
    assert page.content.decode().count('id="id_program_error"') == 1
    assert said in text_of(page)
    assert not Workload.objects.exists()


@pytest.mark.parametrize(
    "content", [pytest.param("def f(:\n", id="syntax error"), pytest.param(b"\x89PNG\xff\x00", id="binary")]
)
def test_what_cant_be_parsed_is_a_finding_and_is_submitted(ada: Client, content: str | bytes) -> None:
    assert sent(ada, file("train.py", content)).status_code == 302
    assert AdviceFinding.objects.get(file="train.py").rule == "READ"


def test_a_refused_program_says_which_rule_where_and_who_beside_the_field(calm: Laboratory, ada: Client) -> None:
    advice.block(cluster=calm.cluster, rules=[WORKERS], by=calm.ops, reason="loaders starve our GPUs")
    page = sent(ada, file("train.py", SLOW))
    said = text_of(page)
    assert page.status_code == 400
    assert "train.py, line 3: This loader has no num_workers" in said
    assert "HOST_GPU.workers is not taken on north, as Ops decided: “loaders starve our GPUs”." in said
    assert 'id="id_program_error"' in page.content.decode()
    assert not Workload.objects.exists()


def test_a_spanish_reader_reads_spanish(calm: Laboratory, ada: Client) -> None:
    ada.post("/language/", {"language": "es", "next": "/"})
    part = text_of(sent(ada, file("train.py", SLOW), to=CHECK, htmx=True))
    assert "This loader" not in part
    assert "num_workers" in part
    assert "Published" not in part
    page = text_of(ada.get(RULES))
    assert "warning" not in page


# --- what was measured ------------------------------------------------------------------------------------------------


def measured(calm: Laboratory, workload: Workload, *, percent: int, memory: int | None) -> None:
    """It ran for an hour, ended, and nodes measured it."""
    Workload.objects.filter(pk=workload.pk).update(state="finished", ended_at=calm.now)
    run = Run.objects.create(
        workload=workload, number=1, cluster=calm.cluster, leaf=workload.leaf, path=workload.leaf.path,
        size_milli=1_000, funded=True, min_runtime_s=3_600, state="ended", started_at=workload.submitted_at,
        ended_at=calm.now, end_reason="finished",
    )  # fmt: skip
    UtilizationHour.objects.create(
        cluster=calm.cluster, run=run, hour=calm.now.replace(minute=0, second=0), measured_milli_s=3_600_000,
        busy_milli_s=36_000 * percent, memory_milli=memory,
    )  # fmt: skip


def test_what_was_measured_is_for_the_owner_and_the_managers_above(
    calm: Laboratory, as_person: Callable[..., Client]
) -> None:
    workload = calm.submit("A1", 1, owner=calm.ada, ago=90, program={"train.py": SLOW})
    measured(calm, workload, percent=30, memory=200)
    mate = calm.person("mate", "A1", "member")
    for person, sees in ((calm.ada, True), (calm.mia, True), (calm.ops, False), (mate, False)):
        said = text_of(as_person(person).get(f"/workloads/{workload.code}/"))
        assert WORKERS in said
        assert ("MEASURED.batch" in said, "busy for 30.0" in said) == (sees, sees)
        body = as_person(person).get(f"/api/v1/workloads/{workload.code}/advice/").json()
        assert (body["measured"] is not None) == sees


def test_memory_that_was_not_measured_is_not_said_to_be_empty(calm: Laboratory, as_person: Callable) -> None:
    workload = calm.submit("A1", 1, owner=calm.ada, ago=90)
    measured(calm, workload, percent=30, memory=None)
    said = text_of(as_person(calm.ada).get(f"/workloads/{workload.code}/"))
    assert "How full their memory was is not known." in said
    assert "MEASURED." not in said


# --- how often rules were right, and what refuses ---------------------------------------------------------------------


def test_everybody_reads_how_often_rules_were_right(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    for percent in (20, 40, 90):
        measured(calm, calm.submit("A1", 1, owner=calm.ada, ago=90, program={"a.py": SLOW}), percent=percent, memory=9)
    measured(calm, calm.submit("A1", 1, owner=calm.ada, ago=90, program={"a.py": FINE}), percent=95, memory=9)
    calm.submit("A1", 1, owner=calm.ada, ago=90, program={"a.py": SLOW})
    client = as_person(calm.nil)
    page = client.get(RULES)
    said = text_of(page)
    assert "The advisor read 5 submissions with their programs." in said
    assert "4 of them have ended and were measured: 2 used at most half of their GPUs' time" in said
    assert "is invented, and says nothing of the rules" in said
    assert "2 of 3, 66.7 % 21 to 94 %" in said.replace("\u202f", " ")
    assert "0 of 1, 0.0 % 0 to 79 %" in said.replace("\u202f", " ")
    assert "too few to say" in said
    assert "Have a rule refuse programs" not in said
    body = client.get("/api/v1/clusters/north/advice/").json()
    (rule,) = [each for each in body["rules"] if each["rule"] == WORKERS]
    assert (body["read"], body["is_invented"]) == (5, True)
    assert (rule["warned"], rule["unknown"], rule["is_blocking"]) == (4, 0, False)
    assert (rule["with_warning"]["low"], rule["with_warning"]["measured"]) == (2, 3)
    assert rule["with_warning"]["interval"] == pytest.approx([0.2077, 0.9385], abs=1e-4)
    assert rule["without"] == {
        "measured": 1,
        "low": 0,
        "share": [0, 1],
        "interval": pytest.approx([0, 0.7935], abs=1e-4),
    }
    assert [each["with_warning"] for each in body["rules"] if each["rule"] == "READ"] == [None]


def test_operators_choose_on_the_page(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.ops)
    said = {"rule": WORKERS, "reason": "loaders starve our GPUs"}
    answer = client.post(f"{RULES}block/", {"action": hidden(client.get(RULES), "action"), **said})
    assert (answer.status_code, answer["Location"]) == (302, RULES)
    page = text_of(client.get(RULES))
    assert "loaders starve our GPUs" in page
    assert LedgerEntry.objects.filter(verb="cluster.advice").count() == 1
    assert "rules that refuse programs changed" in text_of(client.get("/audit/"))
    client.post(f"{RULES}unblock/", {"action": "0" * 32, "rule": WORKERS, "reason": "enough"})
    assert not BlockingRule.objects.exists()
    assert "Nothing: every rule warns only." in text_of(client.get(RULES))


def test_nobody_else_chooses(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    said = {"rule": WORKERS, "reason": "I may"}
    for person in (calm.ada, calm.mia, calm.max):
        assert as_person(person).post(f"{RULES}block/", said).status_code == 403
        body = {"rules": [WORKERS], "reason": "I may"}
        client = client_of(person, "operate")
        assert client.post("/api/v1/clusters/north/advice/block/", body, "application/json").status_code == 403
    assert not BlockingRule.objects.exists()


@pytest.mark.parametrize(("rule", "reason"), [("NO_SUCH", "why"), ("", "why"), (WORKERS, ""), (WORKERS, "x" * 201)])
def test_what_cant_be_chosen_stands_beside_its_field(
    calm: Laboratory, as_person: Callable[..., Client], rule: str, reason: str
) -> None:
    answer = as_person(calm.ops).post(f"{RULES}block/", {"rule": rule, "reason": reason})
    assert answer.status_code == 400
    assert 'class="error"' in answer.content.decode()
    assert not BlockingRule.objects.exists()


def test_by_the_api(calm: Laboratory) -> None:
    ops, ada = client_of(calm.ops, "read", "operate"), client_of(calm.ada, "read", "submit")
    address = "/api/v1/clusters/north/advice/"
    body = {"rules": [WORKERS, "BATCH"], "reason": "loaders starve our GPUs"}
    answer = ops.post(f"{address}block/", body, "application/json").json()
    assert answer["changed"] == ["BATCH", WORKERS]
    assert [(each["rule"], each["by"], each["reason"]) for each in answer["blocking"]] == [
        ("BATCH", "Ops", body["reason"]),
        (WORKERS, "Ops", body["reason"]),
    ]
    assert ops.post(f"{address}block/", body, "application/json").json()["changed"] == []
    asked = {
        "cluster": "north",
        "leaf": "A1",
        "size_milli": 1_000,
        "min_runtime_s": 3_600,
        "command": ["python", "a.py"],
    }
    refused = ada.post("/api/v1/workloads/", {**asked, "program": {"a.py": SLOW}}, "application/json")
    assert refused.status_code == 400
    (error,) = refused.json()["errors"]
    assert error["field"] == "program"
    assert "a.py, line 3: " in error["message"]
    assert "HOST_GPU.workers is not taken on north, as Ops decided" in error["message"]
    assert ops.post(f"{address}unblock/", body, "application/json").json()["blocking"] == []
    made = ada.post("/api/v1/workloads/", {**asked, "program": {"a.py": SLOW}}, "application/json")
    assert made.status_code == 201
    told = ada.get(f"/api/v1/workloads/{made.json()[0]['code']}/advice/").json()
    assert (told["files"], told["overrode"], told["counts"], told["measured"]) == (
        1, [], {"error": 0, "warn": 1, "info": 0, "unknown": 0}, None,
    )  # fmt: skip
    (finding,) = told["findings"]
    assert (finding["rule"], finding["line"], finding["fix"][:14]) == (WORKERS, 3, "num_workers=4 ")


def test_where_nothing_was_given_there_is_nothing(calm: Laboratory) -> None:
    workload = calm.submit("A1", 1, owner=calm.ada)
    told = client_of(calm.ada, "read").get(f"/api/v1/workloads/{workload.code}/advice/").json()
    assert (told["read_at"], told["files"], told["findings"], told["measured"]) == (None, 0, [], None)
