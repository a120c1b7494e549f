"""Celery tasks of governance: deadlines, first days, people who went.

Whatever is lost or doubled, the next one sets right.
"""

from __future__ import annotations

from celery import shared_task

from budgets.services import people, reallocations, requests, sending


@shared_task(ignore_result=True)
def keep_deadlines() -> int:
    """Beat's, each minute: what is due is applied or goes up, and whoever was disabled loses what they held."""
    changed = people.sweep()
    changed += reallocations.apply_due()
    changed += reallocations.settle()
    return changed + requests.escalate()


@shared_task(ignore_result=True)
def send_messages() -> int:
    """Beat's, each minute, and a wake-up: send what people were told, and the day's digests."""
    return sending.send_due()
