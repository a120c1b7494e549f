"""Webhooks of people and of the organisation: set up, changed, given a new secret, turned off and on, removed."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import Kind, Person, Webhook, WebhookDelivery
from budgets.services import deliveries
from budgets.services.webhooks import SECRET_BYTES, NotDelivered, check_url, look_up

Scope = Webhook.Scope

MOST = {Scope.PERSON: 5, Scope.ORGANISATION: 10}
"""How many a person may have, and the organisation."""
NAME_LENGTH = 60
OVERLAP = timedelta(hours=24)
"""For so long after a change of secret posts are signed with the old one too."""
ORGANISATION_EVENTS = {
    "workload": gettext_lazy("workloads: submitted, refused, held, released, failed, cancelled"),
    "run": gettext_lazy("runs: started, running, told to stop, ended, unreachable"),
    "node": gettext_lazy("nodes: health, drains, windows"),
    "share": gettext_lazy("shares that were changed"),
    "request": gettext_lazy("requests for more, and their answers"),
    "reallocation": gettext_lazy("reallocations: proposed, decided, in force"),
    "review": gettext_lazy("budget reviews: planned, opened, closed"),
    "budget": gettext_lazy("the tree: budgets created, renamed, moved, closed"),
    "cluster": gettext_lazy("rules of clusters"),
}
"""What the organisation's webhooks may ask for: the word before the dot of an event, and what it covers."""


def events_of(scope: str) -> dict[str, str]:
    """What a webhook of this scope may ask for, and in words."""
    if scope == Scope.ORGANISATION:
        return {name: str(words) for name, words in ORGANISATION_EVENTS.items()}
    return {kind.value: str(kind.label) for kind in Kind}


def visible_to(person: Person) -> QuerySet[Webhook]:
    """Their own, and the organisation's for those who see to them."""
    own = Q(scope=Scope.PERSON, person=person.pk)
    if may(person, "webhook.organisation"):
        own |= Q(scope=Scope.ORGANISATION)
    return Webhook.objects.filter(own).order_by("scope", "pk")


def create(*, by: Person, url: str, scope: str = Scope.PERSON, name: str = "", events: Iterable[str] = ()) -> Webhook:
    """Have things posted there from now on. Its secret is new.

    Args:
        by: whose messages; for the organisation's, who sets it up.
        url: an https address that this portal posts to.
        scope: of `Webhook.Scope`.
        name: what it is called on pages; nothing is its address.
        events: which kinds of messages or events; none is all.

    Raises:
        InputError: no such address or event, or too many webhooks.
        NotAllowed: the organisation's are not theirs to set up.
    """
    if scope not in Scope.values:
        raise InputError("scope", gettext("must be one of {choices}").format(choices=", ".join(Scope.values)))
    if scope == Scope.ORGANISATION and not may(by, "webhook.organisation"):
        raise NotAllowed("webhook.organisation")
    where, called, wanted = _address(url), _name(name), _events(scope, events)
    with transaction.atomic():
        Person.objects.select_for_update(no_key=True).get(pk=by.pk)
        others = Webhook.objects.filter(scope=scope, **({"person": by} if scope == Scope.PERSON else {}))
        most = MOST[Scope(scope)]
        if others.count() >= most:
            raise InputError("url", gettext("there are {most} already, which is the most").format(most=most))
        return Webhook.objects.create(
            person=by, scope=scope, name=called, url=where, events=wanted, secret=new_secret()
        )


def change(
    *, webhook: Webhook, url: str | None = None, name: str | None = None, events: Iterable[str] | None = None
) -> Webhook:
    """Post elsewhere, call it otherwise, or post other events; what is None stays. The secret stays.

    Raises:
        InputError: no such address or event.
    """
    with transaction.atomic():
        row = _locked(webhook)
        if url is not None:
            where = _address(url)
            if where != row.url:
                row.url, row.failures, row.paused_until = where, 0, None
        if name is not None:
            row.name = _name(name)
        if events is not None:
            row.events = _events(row.scope, events)
        row.save(update_fields=["url", "failures", "paused_until", "name", "events"])
    return row


def rotate(*, webhook: Webhook, now: datetime | None = None) -> Webhook:
    """Give it a new secret. The old one signs too for OVERLAP, so that the receiver can change over meanwhile."""
    with transaction.atomic():
        row = _locked(webhook)
        row.old_secret, row.old_secret_until = row.secret, (now or timezone.now()) + OVERLAP
        row.secret = new_secret()
        row.save(update_fields=["secret", "old_secret", "old_secret_until"])
    return row


def turn_off(*, webhook: Webhook, why: str = "", now: datetime | None = None) -> bool:
    """Post nothing there any more; what waits is given up. Whether it was on."""
    with transaction.atomic():
        row = _locked(webhook)
        if not row.is_on:
            return False
        deliveries.stop(row, why or "turned off by hand", now or timezone.now())
    return True


def turn_on(*, webhook: Webhook) -> bool:
    """Post there again what happens from now on. Whether it was off."""
    with transaction.atomic():
        row = _locked(webhook)
        if row.is_on:
            return False
        row.turned_off_at, row.turned_off_why, row.failures, row.paused_until = None, "", 0, None
        row.save(update_fields=["turned_off_at", "turned_off_why", "failures", "paused_until"])
    return True


def remove(*, webhook: Webhook) -> bool:
    """Forget it, its secret, and what was posted there. Whether there was one."""
    return bool(Webhook.objects.filter(pk=webhook.pk).delete()[0])


def ping(*, webhook: Webhook, now: datetime | None = None) -> WebhookDelivery:
    """Post something that means nothing, to see whether it arrives.

    Raises:
        InputError: it is turned off.
    """
    if not webhook.is_on:
        raise InputError("webhook", gettext("is turned off; turn it on first"))
    at = now or timezone.now()
    key = f"ping:{secrets.token_hex(6)}"
    (made,) = deliveries.queue(
        webhooks=[webhook], event="ping", key=key, said={"subject": "A test of this webhook"}, at=at
    )
    return made


def new_secret() -> str:
    """A secret nobody guesses."""
    return secrets.token_urlsafe(SECRET_BYTES)


def _locked(webhook: Webhook) -> Webhook:
    return Webhook.objects.select_for_update(no_key=True).get(pk=webhook.pk)


def _address(url: str) -> str:
    where = url.strip()
    try:
        look_up(check_url(where))
    except NotDelivered as error:
        raise InputError("url", str(error)) from None
    return where


def _name(name: str) -> str:
    called = " ".join(name.split())
    if len(called) > NAME_LENGTH or not called.isprintable():
        raise InputError("name", gettext("must be at most {most} readable characters").format(most=NAME_LENGTH))
    return called


def _events(scope: str, events: Iterable[str]) -> list[str]:
    known: Collection[str] = events_of(scope)
    wanted = list(dict.fromkeys(events))
    for each in wanted:
        if each not in known:
            raise InputError(
                "events",
                gettext("there is no event {each!r}; there are {known}").format(each=each, known=", ".join(known)),
            )
    return wanted if len(wanted) < len(known) else []
