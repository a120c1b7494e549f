"""Access tokens: how they come, are found again, and end.

A token is shown once and kept as a keyed hash alone; its secret is 256 random bits, so that a fast hash is enough. The
key follows from SECRET_KEY: another one ends all tokens, as it ends all sessions. A token makes no tokens, so that
nothing outlives or outdoes it.
"""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Collection
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext

from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import AccessToken, Kind, Message, Person, Scope
from budgets.queries import day_of
from budgets.services import checks, ledger, messages

PREFIX = "allot_"
ALPHABET = string.ascii_letters + string.digits
SECRET_LENGTH = 43
"""Characters of ALPHABET that hold 256 bits."""
SHOWN_LENGTH = len(PREFIX) + 6
"""So much of it is kept and shown; what is not, has still 220 bits."""
SHAPE = re.compile(rf"{PREFIX}[A-Za-z0-9]{{{SECRET_LENGTH}}}")
NAME_LENGTH = 60
ALIVE_MAX = 50
"""Tokens that a person can have at once."""
TOLD_AHEAD = timedelta(days=7)
"""How long before its end a person is told."""
NOTED_EVERY = timedelta(minutes=1)
"""The last use is written down no more often."""


def create(
    *,
    person: Person,
    name: str,
    scopes: Collection[str],
    days: int,
    through: AccessToken | None = None,
    now: datetime | None = None,
) -> tuple[AccessToken, str]:
    """A new token of the person's own, and the text of it, which nobody can see again.

    Args:
        person: who makes it, for themselves.
        name: what they call it.
        scopes: what it may be used for.
        days: until it ends.
        through: the token that this was asked with, if it was one.

    Raises:
        InputError: no name, no or unknown scopes, too long a time, too many tokens.
        NotAllowed: it was asked for with a token.
    """
    if through is not None:
        raise NotAllowed("token.create", gettext("a token makes no tokens; sign in to the portal for that"))
    at = (now or timezone.now()).replace(microsecond=0)
    clean = checks.line("name", name, length=NAME_LENGTH)
    chosen = [scope for scope in Scope.values if scope in scopes]
    unknown = sorted(set(scopes) - set(chosen))
    if unknown or not chosen:
        raise InputError("scopes", gettext("must be some of {choices}").format(choices=", ".join(Scope.values)))
    if type(days) is not int or not 1 <= days <= settings.TOKEN_MAX_DAYS:
        raise InputError(
            "days", gettext("must be a whole number from 1 to {most}").format(most=settings.TOKEN_MAX_DAYS)
        )
    with transaction.atomic():
        row = Person.objects.select_for_update(no_key=True).get(pk=person.pk)
        if not row.is_active:
            raise NotAllowed("token.create", gettext("this account is disabled"))
        if AccessToken.objects.filter(_alive(at), person=row).count() >= ALIVE_MAX:
            raise InputError("", gettext("You have {most} tokens; revoke some first.").format(most=ALIVE_MAX))
        shown = PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(SECRET_LENGTH))
        token = AccessToken.objects.create(
            person=row,
            name=clean,
            prefix=shown[:SHOWN_LENGTH],
            digest=digest(shown),
            scopes=chosen,
            created_at=at,
            expires_at=at + timedelta(days=days),
        )
        ledger.record_of_all(verb="token.created", by=row, before=None, after=_plain(token), reason="")
    return token, shown


def find(shown: str, now: datetime | None = None) -> AccessToken | None:
    """The living token that this is the text of, with its person as they are now; None where there is none.

    That it was used is noted, to the minute.
    """
    if not SHAPE.fullmatch(shown):
        return None
    at = now or timezone.now()
    token = AccessToken.objects.select_related("person").filter(digest=digest(shown)).first()
    if token is None or not token.is_alive(at) or not token.person.is_active:
        return None
    if token.last_used_at is None or token.last_used_at <= at - NOTED_EVERY:
        older = Q(last_used_at=None) | Q(last_used_at__lt=at)
        AccessToken.objects.filter(older, pk=token.pk).update(last_used_at=at)
    return token


def revoke(*, token: AccessToken, by: Person, reason: str = "", now: datetime | None = None) -> AccessToken:
    """End a token at once. Its person may, and operators and administrators, who say why.

    Raises:
        ConflictError: it had ended. InputError: no reason where one is due. NotAllowed: it is not theirs to end.
    """
    at = (now or timezone.now()).replace(microsecond=0)
    with transaction.atomic():
        checks.allowed(by, "token.revoke", token.person)
        row = AccessToken.objects.select_for_update(no_key=True, of=("self",)).select_related("person").get(pk=token.pk)
        if not row.is_alive(at):
            raise ConflictError(gettext("This token has ended already."))
        why = checks.reason(reason, by) if reason or by.pk != row.person_id else ""
        row.ended_at, row.ended_by = at, by
        row.save(update_fields=["ended_at", "ended_by"])
        ledger.record_of_all(
            verb="token.revoked", by=by, before=_plain(row), after={"person": row.person_id}, reason=why
        )
        if by.pk != row.person_id:
            messages.tell(
                to=[row.person],
                kind=Kind.ACCESS,
                subject=f"Your access token {row.prefix} was revoked",
                text=f"{by}: {why}",
                path="/tokens/",
                key=f"token:{row.pk}:revoked",
            )
    return row


def end_all(person: Person) -> None:
    """End all tokens of a person who was disabled, in the caller's transaction. Enabling gives none back."""
    alive = AccessToken.objects.select_for_update(no_key=True).filter(_alive(timezone.now()), person=person)
    for token in alive:
        token.ended_at = timezone.now().replace(microsecond=0)
        token.save(update_fields=["ended_at"])
        ledger.record_of_all(
            verb="token.revoked",
            by=None,
            before=_plain(token),
            after={"person": person.pk},
            reason="the account was disabled",
        )


def tell_of_ends(now: datetime | None = None) -> int:
    """Beat's, hourly: tell people once of each token that ends within TOLD_AHEAD. How many are told now.

    One that was made for a short time needs no telling.
    """
    at = now or timezone.now()
    ending = AccessToken.objects.filter(_alive(at), expires_at__gt=F("created_at") + 2 * TOLD_AHEAD)
    ending = ending.filter(
        Q(expires_at__lte=at + TOLD_AHEAD)
        | Q(created_at__lte=at + TOLD_AHEAD - timedelta(days=settings.TOKEN_MAX_DAYS))
    )
    rows = {f"token:{token.pk}:ends": token for token in ending.select_related("person")}
    told = set(
        Message.objects.filter(key__in=[f"{key}:{row.person_id}" for key, row in rows.items()]).values_list(
            "key", flat=True
        )
    )
    new = {key: row for key, row in rows.items() if f"{key}:{row.person_id}" not in told}
    with transaction.atomic():
        for key, token in new.items():
            messages.tell(
                to=[token.person],
                kind=Kind.ACCESS,
                subject=f"Your access token {token.prefix} ends on {day_of(token.ends_at)}",
                text=f"{token.name}: what uses it stops then. Make another one before.",
                path="/tokens/",
                key=key,
            )
    return len(new)


def digest(shown: str) -> str:
    """What is kept of a token."""
    return salted_hmac("budgets.tokens", shown, algorithm="sha256").hexdigest()


def _alive(at: datetime) -> Q:
    created_after = at - timedelta(days=settings.TOKEN_MAX_DAYS)
    return Q(ended_at=None, expires_at__gt=at, created_at__gt=created_after)


def _plain(token: AccessToken) -> ledger.State:
    return {
        "person": token.person_id,
        "token": token.prefix,
        "scopes": list(token.scopes),
        "until": token.expires_at.isoformat(),
    }
