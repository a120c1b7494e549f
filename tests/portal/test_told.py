"""My messages, and how I want to be told: everybody their own only."""

from __future__ import annotations

import re

import pytest
from django.db import transaction

from budgets.models import Kind, Message, MessageChoice
from budgets.services import messages
from tests.portal.test_pages import hidden, queries_of, text_of


def tell(person, subject="R1 was approved", **more) -> None:
    """Tell somebody something."""
    said = {"kind": Kind.DECISION, "text": "From 1 July on.", "path": "/tree/", "key": subject[:60], **more}
    with transaction.atomic():
        messages.tell(to=[person], subject=subject, **said)


def chosen(**changed) -> dict[str, str]:
    """The form of choices, filled."""
    return {**{kind.value: "now" for kind in Kind}, **changed}


def test_each_reads_their_own(calm, as_person):
    tell(calm.ada)
    tell(calm.ben, "R2 was denied", kind=Kind.COMMENT)
    page = text_of(as_person(calm.ada).get("/messages/"))
    assert "R1 was approved" in page
    assert "From 1 July on." in page
    assert "R2" not in page
    assert "no e-mail address" in page
    assert "You have not been told anything yet" in text_of(as_person(calm.mia).get("/messages/"))


def test_a_subject_is_text(calm, as_person):
    tell(calm.ada, "<script>alert(1)</script>", text="<b>=HYPERLINK(1)</b>")
    page = as_person(calm.ada).get("/messages/").content.decode()
    assert "<script>alert" not in page
    assert "&lt;b&gt;=HYPERLINK(1)&lt;/b&gt;" in page


def test_reading_all_up_to_what_was_shown(calm, as_person):
    client = as_person(calm.ada)
    tell(calm.ada)
    assert "One is new." in text_of(client.get("/messages/"))
    assert re.search(r"Messages <span class=\"count\">1<", client.get("/").content.decode())
    seen = hidden(client.get("/messages/"), "up_to")
    tell(calm.ada, "R3 was denied")
    tell(calm.ben, "R4 was denied")
    assert client.post("/messages/", {"up_to": seen}).status_code == 302
    assert "One is new." in text_of(client.get("/messages/"))
    new = text_of(client.get("/messages/?show=new"))
    assert ("R3 was denied" in new, "R1 was approved" in new) == (True, False)
    assert Message.objects.get(person=calm.ben).read_at is None


@pytest.mark.parametrize(
    ("form", "words"), [({}, "up_to"), ({"up_to": "x"}, "up_to"), ({"up_to": "1", "person": "2"}, "up_to")]
)
def test_what_cannot_be_read_marks_nothing(calm, as_person, form, words):
    tell(calm.ada)
    answer = as_person(calm.ada).post("/messages/", form)
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert Message.objects.get().read_at is None


@pytest.mark.parametrize(
    ("path", "status"), [("?show=odd", 400), ("?kind=odd", 400), ("?page=0", 400), ("?page=99", 200)]
)
def test_what_a_url_cannot_mean(calm, as_person, path, status):
    assert as_person(calm.ada).get(f"/messages/{path}").status_code == status


def test_choosing_how_to_be_told(calm, as_person):
    client = as_person(calm.ada)
    assert "This portal has no mail server" in text_of(client.get("/messages/choices/"))
    assert client.post("/messages/choices/", chosen(comment="off", decision="digest")).status_code == 302
    kept = dict(MessageChoice.objects.filter(person=calm.ada).values_list("kind", "mode"))
    assert (kept["comment"], kept["decision"], kept["budget"]) == ("off", "digest", "now")
    page = client.get("/messages/choices/").content.decode()
    assert re.search(r'name="comment" value="off"[^>]*checked', page)
    assert 'name="decision" value="off"' not in page


@pytest.mark.parametrize("changed", [{"decision": "off"}, {"comment": "loud"}, {"weather": "now"}, {"person": "1"}])
def test_choices_that_there_are_not(calm, as_person, changed):
    answer = as_person(calm.ada).post("/messages/choices/", chosen(**changed))
    assert answer.status_code == 400
    assert not MessageChoice.objects.exists()


def test_queries_do_not_grow_with_messages(calm, as_person):
    client = as_person(calm.ada)
    tell(calm.ada)
    few = queries_of(client, "/messages/")
    for number in range(60):
        tell(calm.ada, f"R{number} was denied")
    assert queries_of(client, "/messages/") == few <= 12
    assert "Page 1 of 2, 61 messages" in text_of(client.get("/messages/"))
