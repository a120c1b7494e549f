"""What people are told, and how each of them wants to be told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import structlog
from celery import current_app
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets.errors import InputError
from budgets.models import ALWAYS_SENT, Kind, Message, MessageChoice, Person

log = structlog.get_logger(__name__)

KEY_LENGTH = 100
"""Of what a caller names; the person's id is added to it."""
SUBJECT_LENGTH = 200
SEND_EXPIRES_S = 60
"""A wake-up that is older has been overtaken by beat's own."""

Mode = Message.Mode


def tell(*, to: Iterable[Person], kind: Kind, subject: str, text: str = "", path: str = "", key: str) -> int:
    """Tell these people one thing, in the transaction of the change that it is about.

    `key` names the occasion ("request.denied:17"): whoever was told of it before is not told again, so that a retry or
    a second beat may call this with the same key. People who can't sign in are left out. Each gets it as they chose
    for this kind; decisions reach everybody. `path` is an address of the portal, `text` is plain.

    Returns:
        how many are told now.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("people are told in the transaction of the change that it is about")
    if not key or len(key) > KEY_LENGTH:
        raise ValueError(f"a key has 1 to {KEY_LENGTH} characters: {key!r}")
    if path and not path.startswith("/"):
        raise ValueError(f"a path is an address of the portal: {path!r}")
    people = {person.pk: person for person in to if person.is_active}
    keys = {f"{key}:{pk}": pk for pk in people}
    told = set(Message.objects.filter(key__in=list(keys)).values_list("key", flat=True))
    new = {each: pk for each, pk in keys.items() if each not in told}
    if not new:
        return 0
    modes = modes_of(list(new.values()), kind)
    line = shortened(" ".join(subject.split()))
    rows = [
        Message(key=each, person_id=pk, kind=kind, subject=line, text=text, path=path, mode=modes[pk])
        for each, pk in sorted(new.items(), key=lambda item: item[1])
    ]
    Message.objects.bulk_create(rows, ignore_conflicts=True)
    if any(row.mode == Mode.NOW for row in rows):
        send_soon()
    return len(rows)


def modes_of(people: Sequence[int], kind: Kind) -> dict[int, str]:
    """How each of these people (ids) wants to hear of this kind: at once, unless they chose otherwise. One query."""
    chosen = MessageChoice.objects.filter(person__in=people, kind=kind).values_list("person", "mode")
    modes = {pk: str(Mode.NOW) for pk in people} | dict(chosen)
    if kind in ALWAYS_SENT:
        return {pk: str(Mode.NOW) if mode == Mode.OFF else mode for pk, mode in modes.items()}
    return modes


def choose(*, person: Person, modes: Mapping[str, str]) -> None:
    """How the person wants to be told of each of these kinds from now on.

    Raises:
        InputError: no such kind or way; decisions can't be turned off.
    """
    for kind, mode in modes.items():
        if kind not in Kind.values:
            raise InputError("kind", gettext("there is no kind {kind!r}").format(kind=kind))
        if mode not in Mode.values:
            raise InputError(kind, gettext("must be one of {choices}").format(choices=", ".join(Mode.values)))
        if kind in ALWAYS_SENT and mode == Mode.OFF:
            raise InputError(kind, gettext("decisions are always told: at once, or in the daily digest"))
    with transaction.atomic():
        for kind, mode in modes.items():
            MessageChoice.objects.update_or_create(person=person, kind=kind, defaults={"mode": mode})


def mark_read(*, person: Person, up_to: int) -> int:
    """The person has read their messages up to this one (id). How many were new."""
    return Message.objects.filter(person=person, read_at=None, pk__lte=up_to).update(read_at=timezone.now())


def shortened(subject: str) -> str:
    """A subject that fits its column."""
    return subject if len(subject) <= SUBJECT_LENGTH else f"{subject[: SUBJECT_LENGTH - 1]}…"


def send_soon() -> None:
    """Once the transaction is committed, have a worker send what is due. Beat does the same each minute."""
    if not any(entry[1] is _wake for entry in connection.run_on_commit):  # once a transaction is enough
        transaction.on_commit(_wake, robust=True)


def _wake() -> None:
    if not settings.CELERY_BROKER_URL:
        return
    try:
        current_app.send_task("budgets.tasks.send_messages", expires=SEND_EXPIRES_S, ignore_result=True, retry=False)
    except Exception as error:  # whatever kombu or the socket raises: the change stands, and beat comes
        log.warning("wake_up_not_sent", task="budgets.tasks.send_messages", error=str(error))
