"""Celery tasks of governance: deadlines, first days, people who went.

Whatever is lost or doubled, the next one sets right.
"""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from budgets.services import (
    balances,
    deliveries,
    endings,
    follow_ups,
    identities,
    kept_answers,
    people,
    reallocation_deadlines,
    request_deadlines,
    sending,
    tokens,
)

UNCONFIRMED_DAYS = 30
"""Where no OpenID provider is set up any more, the roles that one gave end after so long."""


@shared_task(ignore_result=True)
def keep_deadlines() -> int:
    """Beat's, each minute: what is due is applied or goes up, whoever was disabled loses what they held.

    Answers that were kept for requests sent again are forgotten in time.
    """
    changed = people.sweep()
    changed += identities.end_stale(settings.OPEN_ID.roles_days if settings.OPEN_ID else UNCONFIRMED_DAYS)
    changed += reallocation_deadlines.apply_due()
    changed += reallocation_deadlines.settle()
    changed += follow_ups.ask_due()
    kept_answers.sweep()
    return changed + request_deadlines.escalate()


@shared_task(ignore_result=True)
def send_messages() -> int:
    """Beat's, each minute, and a wake-up: send what people were told, and the day's digests."""
    return sending.send_due()


@shared_task(ignore_result=True)
def forget_deliveries() -> int:
    """Beat's, hourly: drop what was posted to webhooks long ago."""
    return deliveries.forget()


@shared_task(ignore_result=True)
def check_books() -> int:
    """Beat's, hourly: compare shares and tree with the ledger, and sums with the whole."""
    return balances.check()


@shared_task(ignore_result=True)
def tell_of_endings() -> int:
    """Beat's, hourly: tell managers of the budgets that end soon, each day of ending once; people of their tokens."""
    return endings.tell_of_endings() + tokens.tell_of_ends()
