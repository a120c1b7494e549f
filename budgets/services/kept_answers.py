"""Answers that are kept, so that a request that is sent again is done once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import OperationalError, connection, transaction
from django.utils import timezone

from budgets.models import KeptAnswer, Person

KEPT_FOR = timedelta(hours=48)
WAITS_FOR_MS = 10_000
"""How long a second request of the same key waits for the first one's end."""
LOCK_NOT_AVAILABLE = "55P03"
"""PostgreSQL's code for a lock that did not come in time."""


class StillAnswered(Exception):
    """The first request of this key is still being answered."""


class KeyReused(Exception):
    """The key was used for another request."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The place of an answer; `answered` is the one that was given before, if any."""

    pk: int
    answered: KeptAnswer | None = None


CLAIM_SQL = """
INSERT INTO budgets_keptanswer (person_id, key, route, digest, headers) VALUES (%s, %s, %s, %s, '{}')
ON CONFLICT (person_id, key) DO NOTHING RETURNING id
"""


def claim(*, person: Person, key: str, route: str, digest: str, now: datetime | None = None) -> Claimed:
    """Take the key for this request, in the caller's transaction; of a second one the first's answer, once it is there.

    Whoever comes second waits until the first has been answered; where that failed, nothing was done and the second is
    the first.

    Args:
        person: whose key.
        key, route: as sent.
        digest: of what was sent; the same for the same request only.

    Raises:
        KeyReused: it was another request. StillAnswered: the first one takes long.
    """
    assert transaction.get_connection().in_atomic_block
    at = now or timezone.now()
    KeptAnswer.objects.filter(person=person, key=key, made_at__lt=at - KEPT_FOR).delete()
    pk = _inserted(person, key, route, digest)
    if pk is not None:
        return Claimed(pk)
    row = KeptAnswer.objects.get(person=person, key=key)
    if row.digest != digest:
        raise KeyReused
    return Claimed(row.pk, row)


def _inserted(person: Person, key: str, route: str, digest: str) -> int | None:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = %s", [str(WAITS_FOR_MS)])
            cursor.execute(CLAIM_SQL, [person.pk, key, route, digest])
            row = cursor.fetchone()
            cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == LOCK_NOT_AVAILABLE:
            raise StillAnswered from None
        raise
    return None if row is None else row[0]


def keep(*, claimed: Claimed, status: int, headers: Mapping[str, str], body: Any) -> None:
    """The answer that the request got, in the transaction of what it did."""
    KeptAnswer.objects.filter(pk=claimed.pk).update(status=status, headers=dict(headers), body=body)


def sweep(now: datetime | None = None) -> int:
    """Forget the answers that are old. How many."""
    old = KeptAnswer.objects.filter(made_at__lt=(now or timezone.now()) - KEPT_FOR)
    return old.delete()[0]
