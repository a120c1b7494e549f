"""Sending what people were told: e-mail, webhooks, and one digest a day.

A parcel's row is locked while it goes out (`skip_locked`: another worker passes it by), and each way is noted as soon
as it is done, so that what was sent is sent once. Only a crash between the mail server's "yes" and our commit can
repeat a letter; it then has the same Message-ID, by which receivers know it. To webhooks a parcel is handed over as
deliveries (services.deliveries), which are tried by themselves.
"""

from __future__ import annotations

import hashlib
import smtplib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from datetime import time as time_of_day
from typing import Any

import structlog
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone, translation
from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext

from budgets import glossary, queries
from budgets.models import Digest, Message, Person, Webhook
from budgets.sentences import said
from budgets.services import deliveries

log = structlog.get_logger(__name__)

TRIES_MAX = 16
"""With the back-off below, for a good two days."""
FIRST_BACK_OFF = timedelta(minutes=1)
BACK_OFF_MAX = timedelta(hours=6)
RUN_S = 25
"""How long one run goes on; what is left is the next one's, a minute later."""
RUN_PARCELS = 1_000
ERROR_LENGTH = 200
NO_WAY = "no e-mail address or mail server, and no webhook"


@dataclass(frozen=True, slots=True)
class Letter:
    """A parcel in words. `key` is the same at every try."""

    key: str
    subject: str
    text: str


@dataclass
class Round:
    """One run of the sender: its clock, its connection to the mail server, and what has failed in it."""

    now: datetime
    ends_at_s: float = field(default_factory=lambda: time.monotonic() + RUN_S)
    mailer: BaseEmailBackend | None = None
    mail_is_down: bool = False

    @property
    def is_over(self) -> bool:
        """Whether its time is up."""
        return time.monotonic() >= self.ends_at_s


def send_due(now: datetime | None = None) -> int:
    """Send what is due: messages to be sent at once, digests, and posts to webhooks. How many messages and digests were
    sent whole, and how many posts were taken.
    """
    this = Round(now or timezone.now())
    leave_on_portal()
    make_digests(this.now)
    sent = 0
    try:
        for model in (Message, Digest):
            for pk in _due(model, this.now):
                if this.is_over:
                    break
                sent += _send(model, pk, this)
    finally:
        if this.mailer is not None:
            this.mailer.close()
    return sent + deliveries.send_due(this.now, this.ends_at_s)


def leave_on_portal() -> int:
    """What has no way to go out stands on the portal only, from now on: nobody gets a heap of old letters on the day
    on which a mail server is set up.
    """
    hooks = Webhook.objects.filter(person=OuterRef("person"), scope=Webhook.Scope.PERSON, turned_off_at=None)
    nowhere = Q(~Exists(hooks))
    if settings.HAS_MAIL_SERVER:
        nowhere &= Q(person__email="")
    waiting = Message.objects.filter(nowhere, sent_at=None, digest=None).exclude(mode=Message.Mode.OFF)
    return waiting.update(mode=Message.Mode.OFF, last_error=NO_WAY)


def make_digests(now: datetime) -> int:
    """Once the day's hour has come: put what waits for the digest into one for each person. How many were made.

    What comes later that day waits for the next.
    """
    day = queries.day_of(now)
    hour = timezone.make_aware(
        datetime.combine(day, time_of_day(settings.DIGEST_HOUR)), timezone.get_default_timezone()
    )
    if now < hour:
        return 0
    waiting = Message.objects.filter(mode=Message.Mode.DIGEST, sent_at=None, digest=None, at__lt=hour)
    people = waiting.filter(person__is_active=True).exclude(person__digests__day=day)
    made = 0
    for pk in list(people.order_by("person").values_list("person", flat=True).distinct()):
        with transaction.atomic():
            digest, is_new = Digest.objects.get_or_create(person_id=pk, day=day)
            if is_new:
                waiting.filter(person=pk).update(digest=digest)
                made += 1
    return made


def _due(model: type[Message] | type[Digest], now: datetime) -> list[int]:
    due = Q(sent_at=None, tries__lt=TRIES_MAX, person__is_active=True)
    due &= Q(try_again_at=None) | Q(try_again_at__lte=now)
    if model is Message:
        due &= Q(mode=Message.Mode.NOW)
    return list(model.objects.filter(due).order_by("pk").values_list("pk", flat=True)[:RUN_PARCELS])


def _send(model: type[Message] | type[Digest], pk: int, this: Round) -> bool:
    """One parcel, each way in a transaction of its own; whether nothing of it is left."""
    _one_way(model, pk, this, "emailed_at")
    _one_way(model, pk, this, "posted_at")
    with transaction.atomic():
        row = _locked(model, pk)
        if row is None or any(_is_left(row, way) for way in ("emailed_at", "posted_at")):
            return False
        row.sent_at, row.last_error = this.now, ""
        row.save(update_fields=["sent_at", "last_error"])
        if isinstance(row, Digest):
            row.messages.update(sent_at=this.now)
        return True


def _one_way(model: type[Message] | type[Digest], pk: int, this: Round, way: str) -> None:
    """Send one parcel one way, if that is left to do and can be done now."""
    with transaction.atomic():
        row = _locked(model, pk)
        if row is None or not _is_left(row, way):
            return
        if way == "posted_at":
            _hand_over(row, this.now)
        elif this.mail_is_down:
            return
        else:
            try:
                _mail(row.person, letter_of(row), this)
            except (OSError, smtplib.SMTPException, ValueError) as error:
                _note_failure(row, this, error)
                return
        setattr(row, way, this.now)
        row.save(update_fields=[way])


def _hand_over(row: Message | Digest, now: datetime) -> None:
    """Have it posted to each of the person's webhooks, as far as they want it."""
    for hook in _webhooks_of(row.person_id):
        with translation.override(row.person.language or settings.LANGUAGE_CODE):
            if isinstance(row, Message):
                said: dict[str, Any] = _posted(row) if deliveries.wants(hook, row.kind) else {}
                event = row.kind
            else:
                each = [_posted(one) for one in row.messages.order_by("id") if deliveries.wants(hook, one.kind)]
                said, event = ({"digest": row.day.isoformat(), "messages": each} if each else {}), "digest"
        if said:
            deliveries.queue(webhooks=[hook], event=event, key=letter_key(row), said=said, at=now)


def _webhooks_of(person_id: int) -> QuerySet[Webhook]:
    return Webhook.objects.filter(person=person_id, scope=Webhook.Scope.PERSON, turned_off_at=None).order_by("pk")


def _note_failure(row: Message | Digest, this: Round, error: Exception) -> None:
    said = " ".join(f"e-mail: {error}".split())
    row.tries += 1
    row.try_again_at = this.now + min(BACK_OFF_MAX, FIRST_BACK_OFF * 2 ** (row.tries - 1))
    row.last_error = said[:ERROR_LENGTH]
    row.save(update_fields=["tries", "try_again_at", "last_error"])
    log.warning("not_sent", parcel=letter_key(row), tries=row.tries, error=row.last_error)


def _locked(model: type[Message] | type[Digest], pk: int) -> Any:
    """The row, locked, with its person; None if another worker has it or nothing is left to do."""
    rows = model.objects.select_for_update(skip_locked=True, of=("self",)).select_related("person")
    return rows.filter(pk=pk, sent_at=None, tries__lt=TRIES_MAX).first()


def _is_left(row: Message | Digest, way: str) -> bool:
    if getattr(row, way) is not None:
        return False
    if way == "emailed_at":
        return settings.HAS_MAIL_SERVER and bool(row.person.email)
    return _webhooks_of(row.person_id).exists()


def _mail(person: Person, letter: Letter, this: Round) -> None:
    """Hand one letter to the mail server. A server that can't be reached is left alone for the rest of the round."""
    if this.mailer is None:
        this.mailer = get_connection()
    try:
        this.mailer.open()
    except (OSError, smtplib.SMTPException):
        this.mail_is_down = True
        raise
    host = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip(">")
    headers = {
        "Message-ID": f"<{hashlib.sha256(letter.key.encode()).hexdigest()[:32]}@{host}>",
        "Auto-Submitted": "auto-generated",
    }
    try:
        EmailMessage(
            subject=letter.subject, body=letter.text, to=[person.email], headers=headers, connection=this.mailer
        ).send()
    except (OSError, smtplib.SMTPException):
        this.mailer.close()  # whatever state it is in: the next letter gets a new one
        this.mailer = None
        raise


# --- what is said -----------------------------------------------------------------------------------------------------


def letter_key(row: Message | Digest) -> str:
    """What names a parcel for its receivers."""
    return f"digest:{row.day}:{row.person_id}" if isinstance(row, Digest) else row.key


def letter_of(row: Message | Digest) -> Letter:
    """A message, or a digest with all that is in it, in words of the person's language."""
    with translation.override(row.person.language or settings.LANGUAGE_CODE):
        return _letter_of(row)


def _letter_of(row: Message | Digest) -> Letter:
    key = letter_key(row)
    if isinstance(row, Message):
        return Letter(key, said(row.subject), _text([row]))
    messages = list(row.messages.order_by("id"))
    subject = ngettext("{number} message up to {day}", "{number} messages up to {day}", len(messages))
    subject = subject.format(number=len(messages), day=date_format(row.day, "j M Y"))
    return Letter(key, subject, _text(messages))


def _text(messages: Iterable[Message]) -> str:
    parts: list[str] = []
    stored: list[str] = []
    for each in messages:
        address = settings.URL + each.path if each.path else ""
        parts += [part for part in (said(each.subject), said(each.text), address) if part]
        parts.append("")
        stored.append(f"{each.subject}\n{each.text}")
    explained = glossary.mentioned("\n".join(stored))
    if explained:
        parts += [gettext("What the words mean:"), *(f"- {term.word}: {term.meaning}" for term in explained), ""]
    choices = f"{settings.URL}/messages/choices/"
    parts += ["-- ", gettext("How you are told of what: {address}").format(address=choices)]
    return "\n".join(parts)


def _posted(message: Message) -> dict[str, Any]:
    return {
        "kind": message.kind,
        "subject": said(message.subject),
        "text": said(message.text),
        "url": settings.URL + message.path if message.path else None,
        "at": message.at.isoformat(),
    }
