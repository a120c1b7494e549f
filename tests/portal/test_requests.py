"""The pages of requests, delegations and people: they do what the services do, once, for whom it is theirs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from budgets import authority
from budgets.models import Attachment, Comment, Delegation, House, Person, Request, Role, RoleGrant
from budgets.queries import today
from budgets.services import comments, requests
from tests.portal.conftest import Laboratory
from tests.portal.test_pages import hidden, text_of

Sign = Callable[..., Client]


def fill(page: Any, **more: str) -> dict[str, str]:
    """The one-use id and the version of a page's first form, and what is typed."""
    found = re.search(r'name="version" value="(\d+)"', page.content.decode())
    return {"action": hidden(page, "action"), **({"version": found[1]} if found else {}), **more}


def asked_of(lab: Laboratory, **fields: Any) -> Request:
    """A submitted request of Ada's for A1."""
    asks = {
        "more_basis_points": 500,
        "starts_on": today(),
        "why": "the spring runs",
        "otherwise": "they wait",
        **fields,
    }
    new = requests.draft(node=lab.node["A1"], cluster=lab.cluster, by=lab.ada, **asks)
    return requests.submit(request=new, by=lab.ada)


def copied(row: Request) -> Request:
    """Another row that says the same."""
    values = {
        field.attname: getattr(row, field.attname) for field in Request._meta.concrete_fields if field.name != "id"
    }
    return Request(**values)


def typed(**changed: str) -> dict[str, str]:
    """What somebody types into the form of a new request."""
    return {
        "node": "A1", "cluster": "north", "more": "5.00", "starts_on": today().isoformat(), "ends_on": "",
        "useless_on": "", "why": "spring", "otherwise": "we wait", "version": "", **changed,
    }  # fmt: skip


def test_a_researcher_asks_and_sees_where_it_lies(calm: Laboratory, as_person: Sign) -> None:
    client = as_person(calm.ada)
    page = client.get("/requests/new/")
    assert "70.00" in text_of(page)  # its share
    form = fill(page, **typed(), submit="yes")
    answer = client.post("/requests/new/", form)
    asked = Request.objects.get()
    assert answer.headers["Location"] == f"/requests/{asked.pk}/"
    assert (asked.more_basis_points, asked.state, asked.desk) == (500, "submitted", calm.node["A"])
    assert asked.figures["basis_points"] == 7_000
    assert "had been sent already" in text_of(client.post("/requests/new/", form, follow=True))
    assert Request.objects.count() == 1
    assert "It lies with A;" in text_of(client.get(f"/requests/{asked.pk}/"))
    assert str(asked) in text_of(as_person(calm.mia).get("/desk/"))
    assert str(asked) in text_of(client.get("/"))
    assert str(asked) not in text_of(as_person(calm.ben).get("/requests/?state=all"))


@pytest.mark.parametrize(
    "changed",
    [
        {"more": "0"},
        {"more": "5.005"},
        {"why": ""},
        {"node": "B1"},
        {"cluster": "west"},
        {"ends_on": today().isoformat()},
        {"useless_on": today().isoformat()},
        {"status": "approved"},
        {"approved_by": "1"},
        {"submitter": "1"},
        {"decided_by": "1"},
    ],
)
def test_bad_input_asks_for_nothing(calm: Laboratory, as_person: Sign, changed: dict[str, str]) -> None:
    client = as_person(calm.ada)
    form = fill(client.get("/requests/new/"), **typed(**changed), submit="yes")
    assert client.post("/requests/new/", form).status_code == 400
    assert not Request.objects.exists()


def test_a_returned_one_is_changed_and_submitted_again(calm: Laboratory, as_person: Sign) -> None:
    asked, chief, ada = asked_of(calm), as_person(calm.mia), as_person(calm.ada)
    page = chief.get(f"/requests/{asked.pk}/")
    assert chief.post(f"/requests/{asked.pk}/return/", fill(page, reason="which runs?")).status_code == 302
    said = text_of(ada.get(f"/requests/{asked.pk}/"))
    assert "Returned to its author" in said
    assert "which runs?" in said
    edit = f"/requests/{asked.pk}/edit/"
    form = {**typed(more="4.00", why="runs 7 to 9"), **fill(ada.get(edit)), "submit": "yes"}
    assert ada.post(edit, form).status_code == 302
    asked.refresh_from_db()
    assert (asked.state, asked.more_basis_points, asked.why) == ("submitted", 400, "runs 7 to 9")


def test_denied_from_an_old_tab_after_it_was_withdrawn(calm: Laboratory, as_person: Sign) -> None:
    asked, mia, ada = asked_of(calm), as_person(calm.mia), as_person(calm.ada)
    old = mia.get(f"/requests/{asked.pk}/")
    assert ada.post(f"/requests/{asked.pk}/withdraw/", fill(ada.get(f"/requests/{asked.pk}/"))).status_code == 302
    answer = mia.post(f"/requests/{asked.pk}/deny/", fill(old, reason="no"))
    assert answer.status_code == 409
    assert "is withdrawn now; nothing was changed" in answer.content.decode()


def test_nobody_answers_their_own(calm: Laboratory, as_person: Sign) -> None:
    asked = asked_of(calm)
    RoleGrant.objects.create(person=calm.ada, node=calm.node["A"], role=Role.MANAGER, valid_from=today())
    client = as_person(Person.objects.get(pk=calm.ada.pk))
    page = client.get(f"/requests/{asked.pk}/")
    for verb in ("deny", "return"):
        assert client.post(f"/requests/{asked.pk}/{verb}/", fill(page, reason="mine")).status_code == 403
    asked.refresh_from_db()
    assert asked.state == "submitted"


def test_what_is_for_reviewers_only_its_author_never_reads(calm: Laboratory, as_person: Sign) -> None:
    asked, mia, ada = asked_of(calm), as_person(calm.mia), as_person(calm.ada)
    address = f"/requests/{asked.pk}/"
    page = mia.get(address)
    for text, audience in (("fine by me", "all"), ("they had twice that", "reviewers")):
        form = {"action": hidden(page, "action"), "text": text, "audience": audience}
        mia.post(f"{address}comment/", form)
        page = mia.get(address)
    assert set(Comment.objects.values_list("audience", flat=True)) == {"all", "reviewers"}
    assert "they had twice that" in text_of(mia.get(address))
    said = text_of(ada.get(address))
    assert "fine by me" in said
    assert "they had twice that" not in said
    form = {"action": hidden(ada.get(address), "action"), "text": "psst", "audience": "reviewers"}
    assert ada.post(f"{address}comment/", form).status_code == 403


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("plan.exe", b"MZ", "must be one of"),
        ("plan.pdf", b"<html>", "does not begin like"),
        ("plan.txt", b"\xff\xfe\x00", "is not text"),
        ("plan.txt", b"", "empty"),
        ("big.txt", b"x" * (comments.MOST_BYTES + 1), "at most 5"),
        (".txt", b"x", "plain name"),
    ],
)
def test_files_are_checked(calm: Laboratory, as_person: Sign, name: str, content: bytes, said: str) -> None:
    asked, ada = asked_of(calm), as_person(calm.ada)
    action = hidden(ada.get(f"/requests/{asked.pk}/"), "action")
    upload = {"action": action, "file": SimpleUploadedFile(name, content)}
    answer = ada.post(f"/requests/{asked.pk}/attach/", upload)
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert not Attachment.objects.exists()


def test_a_file_is_only_ever_a_download(calm: Laboratory, as_person: Sign) -> None:
    asked, ada = asked_of(calm), as_person(calm.ada)
    action = hidden(ada.get(f"/requests/{asked.pk}/"), "action")
    upload = {"action": action, "file": SimpleUploadedFile("../résumé.txt", b"<script>alert(1)</script>")}
    assert ada.post(f"/requests/{asked.pk}/attach/", upload).status_code == 302
    file = Attachment.objects.get()
    assert file.name == "résumé.txt"
    answer = ada.get(f"/requests/{asked.pk}/files/{file.pk}/")
    assert answer.content == b"<script>alert(1)</script>"
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert as_person(calm.ben).get(f"/requests/{asked.pk}/files/{file.pk}/").status_code == 404
    other = asked_of(calm, why="other")
    assert ada.get(f"/requests/{other.pk}/files/{file.pk}/").status_code == 404


@pytest.mark.parametrize("path", ["/requests/?state=all", "/desk/", "/people/"])
def test_as_many_queries_for_many_rows_as_for_few(calm: Laboratory, as_person: Sign, path: str) -> None:
    client = as_person(calm.mia)

    def queries() -> int:
        client.get(path)
        with CaptureQueriesContext(connection) as told:
            client.get(path)
        return len(told)

    for _ in range(10):
        asked_of(calm)
    few = queries()
    some = Request.objects.first()
    assert some is not None
    Request.objects.bulk_create([copied(some) for _ in range(490)])
    people = Person.objects.bulk_create([Person(username=f"somebody{number}") for number in range(490)])
    RoleGrant.objects.bulk_create(
        [RoleGrant(person=each, node=calm.node["A1"], role=Role.MEMBER, valid_from=today()) for each in people]
    )
    assert queries() <= few


def test_a_delegation_is_given_and_taken_back_on_the_page(calm: Laboratory, as_person: Sign) -> None:
    client = as_person(calm.mia)
    page = client.get("/delegations/")
    form = {
        "action": hidden(page, "action"), "delegate": "nil", "at": "A", "limit": "5.00",
        "valid_from": today().isoformat(), "valid_until": (today() + timedelta(days=7)).isoformat(),
    }  # fmt: skip
    assert client.post("/delegations/", {**form, "delegate": "mia"}).status_code == 400
    assert client.post("/delegations/", {**form, "delegate": "nobody"}).status_code == 400
    assert client.post("/delegations/", {**form, "at": "LAB"}).status_code == 400
    assert client.post("/delegations/", form).status_code == 302
    given, address = Delegation.objects.get(), f"/requests/{asked_of(calm).pk}/"
    assert "for Mia at A" in text_of(as_person(calm.nil).get("/desk/"))
    assert "the spring runs" in text_of(as_person(calm.nil).get(address))
    end = {"action": hidden(client.get("/delegations/"), "action"), "reason": "back"}
    assert client.post(f"/delegations/{given.pk}/end/", end).status_code == 302
    assert "Nothing waits for you" in text_of(as_person(calm.nil).get("/desk/"))
    assert as_person(calm.nil).get(address).status_code == 404


def test_roles_are_given_and_ended_on_the_page(calm: Laboratory, as_person: Sign) -> None:
    client = as_person(calm.mia)
    address = "/budget/A1/people/"
    form = {
        "action": hidden(client.get(address), "action"), "person": "nil", "role": "member",
        "valid_from": today().isoformat(), "valid_until": "", "reason": "joined",
    }  # fmt: skip
    assert client.post(address, {**form, "person": "mia"}).status_code == 403
    assert client.post(address, {**form, "role": "reviewer"}).status_code == 403
    assert client.post(address, form).status_code == 302
    grant = RoleGrant.objects.get(person=calm.nil)
    later = (today() + timedelta(days=3)).isoformat()
    end = {"action": hidden(client.get(address), "action"), "grant": grant.pk, "on": later, "reason": "left"}
    assert as_person(calm.ben).post(address, end).status_code == 403
    assert client.post(address, end).status_code == 302
    grant.refresh_from_db()
    assert grant.valid_until == today() + timedelta(days=3)


def test_an_administrator_disables_and_erases_on_the_page(calm: Laboratory, as_person: Sign) -> None:
    admin = as_person(calm.person("root", "LAB", Role.ADMINISTRATOR))
    ada, work = as_person(calm.ada), calm.submit("A1", 1, owner=calm.ada)
    assert ada.get("/").status_code == 200
    address = f"/people/{calm.ada.pk}/"
    form = {"action": hidden(admin.get(address), "action"), "reason": "left"}
    assert admin.post(f"{address}disable/", form).status_code == 302
    assert ada.get("/").status_code == 302  # to the log-in
    work.refresh_from_db()
    assert work.state == "queued"  # it is her project's, and goes on; its managers may cancel it
    assert authority.may(calm.mia, "workload.cancel", work)
    form = {"action": hidden(admin.get(address), "action"), "reason": "asked for it"}
    assert admin.post(f"{address}erase/", form).status_code == 302
    assert "Ada" not in text_of(admin.get(address))


def test_how_we_decide_is_the_root_managers_to_choose(calm: Laboratory, as_person: Sign) -> None:
    client = as_person(calm.max)
    form = {
        "action": hidden(client.get("/house/"), "action"), "version": "1", "root_rule": "notice", "answer_days": "5",
        "look_again_weeks": "6", "reason": "we are few",
    }  # fmt: skip
    assert client.post("/house/", {**form, "answer_days": "0"}).status_code == 400
    assert client.post("/house/", form).status_code == 302
    row = House.objects.get()
    assert (row.root_rule, row.answer_days, row.look_again_weeks, row.version) == ("notice", 5, 6, 2)
    assert client.post("/house/", {**form, "action": "0" * 32}).status_code == 409
