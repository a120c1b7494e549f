"""Messages: told once, as each person chose, and sent once through a real mail server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from budgets.errors import InputError
from budgets.models import Digest, Kind, Message, MessageChoice
from budgets.services import messages, sending
from tests.budgets.laboratory import Lab
from tests.budgets.servers import Mailbox, mail_server

NOON = datetime(2026, 7, 2, 12, tzinfo=UTC)


@pytest.fixture
def mailbox(settings) -> Iterator[Mailbox]:
    """The portal's mail server."""
    with mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.HAS_MAIL_SERVER = True
        yield server


@pytest.fixture
def people(lab: Lab) -> Lab:
    """The laboratory, whose people have addresses."""
    for person in (lab.chief, lab.pi, lab.lead, lab.member):
        person.email = f"{person.username}@example.org"
        person.save()
    return lab


def tell(people, **more) -> int:
    """Tell them something, as a service does."""
    said = {"kind": Kind.BUDGET, "subject": "A1 has changed", "text": "By 5 %.", "path": "/budget/A1/", "key": "k:1"}
    with transaction.atomic():
        return messages.tell(to=people, **{**said, **more})


# --- told -------------------------------------------------------------------------------------------------------------


def test_each_is_told_once_whatever_is_tried_again(lab: Lab) -> None:
    assert tell([lab.pi, lab.lead, lab.pi]) == 2
    assert tell([lab.pi, lab.lead, lab.chief]) == 1
    assert tell([lab.pi], subject="other words, same occasion") == 0
    rows = list(Message.objects.order_by("person").values_list("person", "key", "subject", "mode"))
    assert rows == [
        (person.pk, f"k:1:{person.pk}", "A1 has changed", "now") for person in (lab.chief, lab.pi, lab.lead)
    ]


@pytest.mark.django_db(transaction=True)
def test_two_beats_at_once_tell_once(transactional_db) -> None:
    from tests.budgets.laboratory import build

    lab = build()
    barrier = threading.Barrier(2)

    def beat() -> None:
        with transaction.atomic():
            barrier.wait()
            messages.tell(to=[lab.pi], kind=Kind.BUDGET, subject="once", key="k:2")
        connection.close()

    threads = [threading.Thread(target=beat) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Message.objects.filter(key=f"k:2:{lab.pi.pk}").count() == 1


def test_nobody_is_told_of_what_was_rolled_back(lab: Lab) -> None:
    with transaction.atomic():
        messages.tell(to=[lab.pi], kind=Kind.BUDGET, subject="x", key="k:3")
        transaction.set_rollback(True)
    assert not Message.objects.exists()


def test_whoever_cannot_sign_in_is_told_nothing(lab: Lab) -> None:
    lab.pi.is_active = False
    lab.pi.save()
    assert tell([lab.pi, lab.lead]) == 1
    assert not Message.objects.filter(person=lab.pi).exists()


def test_each_chooses_by_kind_and_decisions_are_never_off(lab: Lab) -> None:
    messages.choose(person=lab.pi, modes={Kind.BUDGET: "off", Kind.COMMENT: "digest", Kind.DECISION: "digest"})
    tell([lab.pi, lab.lead])
    tell([lab.pi], kind=Kind.COMMENT, key="k:2")
    tell([lab.pi], kind=Kind.DECISION, key="k:3")
    found = dict(Message.objects.filter(person=lab.pi).values_list("kind", "mode"))
    assert found == {"budget": "off", "comment": "digest", "decision": "digest"}
    assert Message.objects.get(person=lab.lead).mode == "now"
    with pytest.raises(InputError, match="decisions are always told"):
        messages.choose(person=lab.pi, modes={Kind.BUDGET: "now", Kind.DECISION: "off"})
    assert MessageChoice.objects.get(person=lab.pi, kind=Kind.BUDGET).mode == "off"  # nothing of it was stored
    with pytest.raises(IntegrityError, match="decisions_are_told"), transaction.atomic():
        MessageChoice.objects.filter(person=lab.pi, kind=Kind.DECISION).update(mode="off")
    for kind, mode in (("weather", "now"), (Kind.BUDGET, "loudly")):
        with pytest.raises(InputError):
            messages.choose(person=lab.pi, modes={kind: mode})


def test_a_subject_is_one_line_that_fits(lab: Lab) -> None:
    tell([lab.pi], subject="one\r\nBcc: everybody@example.org " + "x" * 300)
    said = Message.objects.get().subject
    assert said.startswith("one Bcc: everybody@example.org xxx")
    assert (len(said), said[-1]) == (200, "…")


@pytest.mark.parametrize(("more", "words"), [({"key": ""}, "a key"), ({"path": "https://elsewhere.example"}, "a path")])
def test_what_only_a_mistake_of_ours_would_say(lab: Lab, more, words) -> None:
    with pytest.raises(ValueError, match=words):
        tell([lab.pi], **more)


# --- e-mail -----------------------------------------------------------------------------------------------------------


def test_a_letter_goes_out_once(people: Lab, mailbox: Mailbox) -> None:
    tell([people.pi], subject="Ümlaut: A1 has changed")
    assert sending.send_due() == 1
    assert sending.send_due() == 0
    (letter,) = mailbox.letters
    assert (letter["To"], letter["Subject"]) == ("pi@example.org", "Ümlaut: A1 has changed")
    assert letter["Auto-Submitted"] == "auto-generated"
    body = letter.get_content()
    assert "By 5 %." in body
    assert "http://127.0.0.1:8000/budget/A1/" in body
    row = Message.objects.get()
    assert row.emailed_at is not None
    assert (row.sent_at is not None, row.tries, row.last_error) == (True, 0, "")


@pytest.mark.django_db(transaction=True)
def test_two_senders_at_once_send_once(transactional_db, mailbox: Mailbox) -> None:
    from tests.budgets.laboratory import build

    lab = build()
    lab.pi.email = "pi@example.org"
    lab.pi.save()
    for number in range(20):
        tell([lab.pi], key=f"k:{number}")
    barrier = threading.Barrier(3)
    sent: list[int] = []

    def send() -> None:
        barrier.wait()
        sent.append(sending.send_due())
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sending.send_due()  # what one left aside because another had it
    assert len(mailbox.letters) == 20
    assert len({letter["Message-ID"] for letter in mailbox.letters}) == 20
    assert sum(sent) >= 15
    assert not Message.objects.filter(sent_at=None).exists()


def test_a_refusal_is_tried_again_later_and_the_next_letter_goes_out(people: Lab, mailbox: Mailbox) -> None:
    mailbox.answers = ["451 try later"]
    tell([people.pi])
    tell([people.lead], key="k:2")
    assert sending.send_due(NOON) == 1
    row = Message.objects.get(person=people.pi)
    assert (row.tries, row.try_again_at, row.sent_at) == (1, NOON + timedelta(minutes=1), None)
    assert "try later" in row.last_error
    assert sending.send_due(NOON + timedelta(seconds=59)) == 0
    assert sending.send_due(NOON + timedelta(seconds=60)) == 1
    assert [letter["To"] for letter in mailbox.letters] == ["lead@example.org", "pi@example.org"]


def test_the_back_off_doubles_up_to_six_hours_and_ends(people: Lab, mailbox: Mailbox) -> None:
    tell([people.pi])
    now, waits = NOON, []
    while True:
        mailbox.answers = ["451 no"]
        sending.send_due(now)
        row = Message.objects.get()
        if row.tries == len(waits):
            break
        waits.append(row.try_again_at - now)
        now = row.try_again_at
    assert waits[:4] == [timedelta(minutes=minutes) for minutes in (1, 2, 4, 8)]
    assert (len(waits), max(waits)) == (sending.TRIES_MAX, timedelta(hours=6))
    assert timedelta(days=2) < sum(waits, timedelta()) < timedelta(days=4)


def test_a_mail_server_that_is_away_costs_one_try_a_round(people: Lab, settings, mailbox: Mailbox) -> None:
    settings.EMAIL_PORT = 9  # nobody listens
    for number in range(5):
        tell([people.pi], key=f"k:{number}")
    assert sending.send_due(NOON) == 0
    assert sorted(Message.objects.values_list("tries", flat=True)) == [0, 0, 0, 0, 1]
    settings.EMAIL_PORT = mailbox.port
    assert sending.send_due(NOON + timedelta(minutes=1)) == 5
    assert len(mailbox.letters) == 5


def test_without_a_way_it_stands_on_the_portal_and_is_not_sent_later(people: Lab, settings) -> None:
    assert not settings.HAS_MAIL_SERVER
    messages.choose(person=people.pi, modes={Kind.COMMENT: "digest"})
    tell([people.pi, people.lead])
    tell([people.pi], kind=Kind.COMMENT, key="k:2")
    assert sending.send_due() == 0
    assert set(Message.objects.values_list("mode", "last_error")) == {("off", sending.NO_WAY)}
    settings.HAS_MAIL_SERVER = True
    assert sending.send_due() == 0


# --- the daily digest -------------------------------------------------------------------------------------------------


def at(row: str, when: datetime) -> None:
    """Let a message have been told then."""
    Message.objects.filter(key__startswith=row).update(at=when)


def test_one_digest_a_day_at_its_hour(people: Lab, mailbox: Mailbox, settings) -> None:
    settings.DIGEST_HOUR = 8
    eight = datetime(2026, 7, 2, 8, tzinfo=UTC)
    messages.choose(person=people.pi, modes={Kind.BUDGET: "digest"})
    for number in range(3):
        tell([people.pi], key=f"k:{number}", subject=f"thing {number}")
    at("k:", eight - timedelta(hours=1))
    sending.send_due(eight - timedelta(seconds=1))
    assert mailbox.letters == []
    sending.send_due(eight)
    sending.send_due(eight + timedelta(minutes=1))
    tell([people.pi], key="late")
    at("late", eight + timedelta(hours=2))
    sending.send_due(eight + timedelta(hours=3))
    (letter,) = mailbox.letters
    assert letter["Subject"] == "3 messages up to 2 Jul 2026"
    assert all(f"thing {number}" in letter.get_content() for number in range(3))
    assert Message.objects.filter(sent_at=None).get().key == f"late:{people.pi.pk}"
    sending.send_due(eight + timedelta(days=1))
    assert [each["Subject"] for each in mailbox.letters][1:] == ["1 message up to 3 Jul 2026"]
    assert Digest.objects.filter(person=people.pi).count() == 2


def test_a_day_without_news_has_no_digest(people: Lab, mailbox: Mailbox) -> None:
    sending.send_due(NOON)
    assert (mailbox.letters, Digest.objects.count()) == ([], 0)


def test_a_digest_that_was_refused_is_the_same_digest_later(people: Lab, mailbox: Mailbox) -> None:
    messages.choose(person=people.pi, modes={Kind.BUDGET: "digest"})
    tell([people.pi])
    at("k:", NOON - timedelta(days=1))
    mailbox.answers = ["451 no"]
    sending.send_due(NOON)
    tell([people.pi], key="new")
    at("new", NOON - timedelta(days=1))
    sending.send_due(NOON + timedelta(minutes=2))
    (letter,) = mailbox.letters
    assert letter["Subject"].startswith("1 message ")
    assert Digest.objects.get().messages.get().sent_at is not None


@pytest.mark.parametrize(
    ("day", "utc_hour"), [((2026, 3, 28), 7), ((2026, 3, 29), 6), ((2026, 10, 24), 6), ((2026, 10, 25), 7)]
)
def test_its_hour_is_the_organisations_across_a_clock_change(people: Lab, settings, day, utc_hour) -> None:
    settings.TIME_ZONE, settings.HAS_MAIL_SERVER = "Europe/Berlin", True
    hour = datetime(*day, utc_hour, tzinfo=UTC)
    messages.choose(person=people.pi, modes={Kind.BUDGET: "digest"})
    tell([people.pi])
    at("k:", hour - timedelta(hours=1))
    assert sending.make_digests(hour - timedelta(seconds=1)) == 0
    assert sending.make_digests(hour) == 1
    assert sending.make_digests(hour) == 0


# --- read, and in words ---------------------------------------------------------------------------------------------


def test_reading_is_for_ones_own_up_to_what_was_seen(people: Lab) -> None:
    for number in range(3):
        tell([people.pi, people.lead], key=f"k:{number}")
    second = Message.objects.filter(person=people.pi).order_by("pk")[1]
    assert messages.mark_read(person=people.pi, up_to=second.pk) == 2
    assert messages.mark_read(person=people.pi, up_to=second.pk) == 0
    assert Message.objects.filter(read_at=None).count() == 4


def test_a_letter_is_in_the_persons_language_and_explains_its_words(people: Lab, mailbox: Mailbox) -> None:
    people.pi.language = "es"
    people.pi.save()
    tell([people.pi], subject="A1-0007 was preempted by A2-0012; it waits in the queue again", text="")
    tell([people.lead], subject="A1-0007 was preempted by A2-0012; it waits in the queue again", text="", key="k:2")
    assert sending.send_due() == 2
    spanish, english = sorted(mailbox.letters, key=lambda each: each["To"] != "pi@example.org")
    assert spanish["Subject"] == "A1-0007 fue desalojada por A2-0012; vuelve a esperar en la cola"
    said = spanish.get_content().replace("\r\n", "\n")
    assert "Qué significan las palabras:\n- desalojada: Se le pidió parar" in said
    assert english["Subject"] == "A1-0007 was preempted by A2-0012; it waits in the queue again"
    assert "What the words mean:\n- preempted: Told to stop" in english.get_content().replace("\r\n", "\n")


def test_a_letter_without_words_to_explain_explains_none(people: Lab, mailbox: Mailbox) -> None:
    tell([people.pi], subject="Hello", text="Nothing special.")
    assert sending.send_due() == 1
    assert "What the words mean" not in mailbox.letters[0].get_content()
