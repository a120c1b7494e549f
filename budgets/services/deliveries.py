"""What is to be posted to webhooks: written down with the change that it is about, tried until it is taken or given up.

A delivery is taken by one worker for a while (a lease), posted outside of any transaction, and what came of it is
written down. Only a worker that dies between the two posts something twice; it then carries the same id, by which
receivers know it. After a failure a webhook is left alone for a while, longer each time, so that a receiver that is
away costs little and is not overrun when it comes back; one that fails on and on is turned off, and its people told.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone

from budgets.models import Kind, LedgerEntry, Person, Role, RoleGrant, Webhook, WebhookDelivery, WebhookTry
from budgets.queries import in_force, today
from budgets.services import messages
from budgets.services.webhooks import EVENT_HEADER, ID_HEADER, Answer, send

log = structlog.get_logger(__name__)

State = WebhookDelivery.State

TRIES_MAX = 12
"""Of one delivery: with the back-off below for a good day."""
FAILURES_MAX = 20
"""Of a webhook, in a row: with the back-off below that is a good three days of failing."""
FIRST_BACK_OFF = timedelta(seconds=30)
BACK_OFF_MAX = timedelta(hours=6)
JITTER = 0.2
"""A back-off is up to so much shorter or longer by chance, so that many do not come at once."""
LEASE = timedelta(seconds=60)
"""For so long a delivery is one worker's; longer than a post can take."""
GONE = 410
"""A receiver that answers this wants nothing any more."""
BATCH = 200
KEPT = timedelta(days=30)
"""How long what was posted is kept, for people to look at and to send again."""
BODY_LENGTH = 200_000

chance = Random()


# --- written down -----------------------------------------------------------------------------------------------------


def queue(
    *, webhooks: Iterable[Webhook], event: str, key: str, said: Mapping[str, Any], at: datetime
) -> list[WebhookDelivery]:
    """Have something posted to these webhooks, once this transaction is committed. `key` names the occasion: what was
    queued under it before is not queued again. What is queued now, in the order of the webhooks.
    """
    rows = [_row(each, event, key, said, at) for each in webhooks if each.is_on]
    if not rows:
        return []
    ids = [row.webhook_id for row in rows]
    known = set(WebhookDelivery.objects.filter(webhook__in=ids, key=key).values_list("webhook_id", flat=True))
    WebhookDelivery.objects.bulk_create(rows, ignore_conflicts=True)
    messages.send_soon()
    return list(
        WebhookDelivery.objects.filter(webhook__in=[pk for pk in ids if pk not in known], key=key).order_by("webhook")
    )


def queue_all(*, webhook: Webhook, said: Iterable[tuple[str, str, Mapping[str, Any]]], at: datetime) -> int:
    """Have several things posted to one webhook: (event, key, what) of each. One statement, however many there are."""
    rows = [_row(webhook, event, key, what, at) for event, key, what in said]
    if rows and webhook.is_on:
        WebhookDelivery.objects.bulk_create(rows, ignore_conflicts=True)
        messages.send_soon()
    return len(rows)


def _row(webhook: Webhook, event: str, key: str, said: Mapping[str, Any], at: datetime) -> WebhookDelivery:
    body = json.dumps({"id": key, "event": event, "at": at.isoformat(), **said}, ensure_ascii=False)
    if len(body) > BODY_LENGTH:
        body = json.dumps({"id": key, "event": event, "at": at.isoformat(), "is_too_long": True})
    return WebhookDelivery(webhook=webhook, key=key, event=event, body=body, made_at=at, next_try_at=at)


def wants(webhook: Webhook, event: str) -> bool:
    """Whether this is posted there: all, or what it names."""
    return not webhook.events or event.partition(".")[0] in webhook.events


ENTRY_SQL = """
SELECT id FROM budgets_webhook
WHERE scope = 'organisation' AND turned_off_at IS NULL AND (events = '{}' OR %s = ANY(events))"""
POSTED_VERBS = ("share", "request", "reallocation", "review", "node", "cluster")
"""What of the ledger the organisation's webhooks are told; roles and people's accounts are nobody else's."""


def tell_of_entry(entry: LedgerEntry) -> None:
    """Have an entry of the ledger posted to the organisation's webhooks that want it, in its own transaction."""
    subject, _, verb = entry.verb.partition(".")
    if subject not in POSTED_VERBS:
        return
    event = f"budget.{verb}" if subject == "node" else entry.verb
    with connection.cursor() as cursor:
        cursor.execute(ENTRY_SQL, [event.partition(".")[0]])
        ids = [pk for (pk,) in cursor.fetchall()]
    if not ids:
        return
    said = {
        "budget": entry.node_code,
        "name": entry.node_name,
        "cluster": entry.cluster_name or None,
        "before": entry.before,
        "after": entry.after,
        "reason": entry.reason,
        "request": entry.request_id,
        "reallocation": entry.reallocation_id,
        "review": entry.review_id,
        "url": f"{settings.URL}/budget/{entry.node_code}/",
    }
    hooks = Webhook.objects.filter(pk__in=ids).order_by("pk")
    queue(webhooks=hooks, event=event, key=f"entry:{entry.pk}", said=said, at=timezone.now())


def send_again(*, delivery: WebhookDelivery, now: datetime | None = None) -> bool:
    """Post it once more, taken or not; the same body under the same id. Whether it can be: its webhook is on."""
    at = now or timezone.now()
    with transaction.atomic():
        if not Webhook.objects.filter(pk=delivery.webhook_id, turned_off_at=None).update(paused_until=None):
            return False
        WebhookDelivery.objects.filter(pk=delivery.pk).update(
            state=State.WAITING, tries=0, next_try_at=at, ended_at=None
        )
        messages.send_soon()
    return True


def forget(now: datetime | None = None) -> int:
    """Drop what was settled long ago. How many deliveries."""
    old = WebhookDelivery.objects.filter(made_at__lt=(now or timezone.now()) - KEPT).exclude(state=State.WAITING)
    return old.delete()[1].get("budgets.WebhookDelivery", 0)


# --- posted -----------------------------------------------------------------------------------------------------------


def send_due(now: datetime, ends_at_s: float) -> int:
    """Post what is due, until the time is up (of the monotonic clock). How many were taken."""
    taken = 0
    for pk in _due(now):
        if time.monotonic() >= ends_at_s:
            break
        taken += _try(pk, now)
    return taken


def _ready(now: datetime) -> Q:
    hook = Q(webhook__scope=Webhook.Scope.ORGANISATION) | Q(webhook__person__is_active=True)
    hook &= Q(webhook__turned_off_at=None)
    hook &= Q(webhook__paused_until=None) | Q(webhook__paused_until__lte=now)
    return Q(state=State.WAITING, next_try_at__lte=now) & hook


def _due(now: datetime) -> Sequence[int]:
    rows = WebhookDelivery.objects.filter(_ready(now)).order_by("next_try_at", "pk")
    return list(rows.values_list("pk", flat=True)[:BATCH])


def _try(pk: int, now: datetime) -> bool:
    """One try, if nobody else makes it, and its webhook has not failed meanwhile; whether it was taken."""
    mine = WebhookDelivery.objects.filter(pk=pk, pk__in=WebhookDelivery.objects.filter(_ready(now)).values("pk"))
    if not mine.update(tries=F("tries") + 1, next_try_at=now + LEASE):
        return False
    row = WebhookDelivery.objects.select_related("webhook").get(pk=pk)
    hook = row.webhook
    keys = [hook.secret]
    if hook.old_secret and hook.old_secret_until is not None and now < hook.old_secret_until:
        keys.append(hook.old_secret)
    answer = send(hook.url, keys, {ID_HEADER: row.key, EVENT_HEADER: row.event}, row.body.encode(), now)
    with transaction.atomic():
        _note(row, answer, now)
    return answer.is_taken


def _note(row: WebhookDelivery, answer: Answer, now: datetime) -> None:
    WebhookTry.objects.create(
        delivery=row, at=now, status=answer.status, ms=answer.ms, error=answer.error[:200], answer=answer.beginning
    )
    hook = Webhook.objects.select_for_update(no_key=True).filter(pk=row.webhook_id).first()
    if hook is None:
        return
    if answer.is_taken:
        row.state, row.ended_at = State.DELIVERED, now
        hook.failures, hook.paused_until, hook.delivered_at = 0, None, now
    else:
        hook.failures += 1
        hook.paused_until = now + back_off(hook.failures)
        row.next_try_at = now + back_off(row.tries)
        if row.tries >= TRIES_MAX:
            row.state, row.ended_at = State.FAILED, now
        log.warning("webhook_failed", webhook=hook.pk, delivery=row.pk, tries=row.tries, error=answer.error[:200])
    row.save(update_fields=["state", "ended_at", "next_try_at"])
    hook.save(update_fields=["failures", "paused_until", "delivered_at"])
    if answer.status == GONE:
        _give_up(hook, f"its receiver answered {GONE}: it wants nothing any more", now)
    elif hook.failures >= FAILURES_MAX:
        _give_up(hook, f"{hook.failures} tries in a row failed, the last: {answer.error}", now)


def back_off(failures: int) -> timedelta:
    """How long to wait after so many failures: doubled each time, up to a bound, a little more or less by chance."""
    wait = min(BACK_OFF_MAX, FIRST_BACK_OFF * 2 ** min(failures - 1, 20))
    return wait * chance.uniform(1 - JITTER, 1 + JITTER)


def stop(hook: Webhook, why: str, now: datetime) -> None:
    """Turn it off, in a transaction: what waits is given up, and can be sent again once it is on."""
    hook.turned_off_at, hook.turned_off_why = now, why[:200]
    hook.save(update_fields=["turned_off_at", "turned_off_why"])
    hook.deliveries.filter(state=State.WAITING).update(state=State.FAILED, ended_at=now)


def _give_up(hook: Webhook, why: str, now: datetime) -> None:
    if not hook.is_on:
        return
    stop(hook, why, now)
    log.warning("webhook_turned_off", webhook=hook.pk, why=why[:200])
    messages.tell(
        to=_people_of(hook),
        kind=Kind.WEBHOOK,
        subject=f"The webhook to {hook.url} was turned off"[:200],
        text=f"Why: {why}. What happens meanwhile is not posted there; its page says what was tried, and turns it on.",
        path=f"/webhooks/{hook.pk}/",
        key=f"webhook:{hook.pk}:off:{int(now.timestamp())}",
    )


def _people_of(hook: Webhook) -> list[Person]:
    """Whose it is; the organisation's is its operators'."""
    if hook.scope == Webhook.Scope.PERSON:
        return [hook.person]
    grants = RoleGrant.objects.filter(in_force(today()), role=Role.OPERATOR)
    return list(Person.objects.filter(Q(grants__in=grants) | Q(pk=hook.person_id), is_active=True).distinct())
