"""What time does to reallocations: their first day comes, a notice is over, nobody answers."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from budgets import desks, queries
from budgets.errors import ConflictError, InputError
from budgets.models import (
    Reallocation,
    State,
)
from budgets.services import (
    checks,
    reallocation_deciding,
    reallocation_messages,
    reallocation_rows,
    requests,
)


def apply_due(*, now: datetime | None = None) -> int:
    """Beat's: call applied what has come to its first day, once, and have the loops look. How many.

    The shares have their dates in them since the decision, so the order changes with the day whether or not this runs.
    """
    day = queries.day_of(now or timezone.now())
    due = Reallocation.objects.filter(state=State.APPROVED, starts_on__lte=day).order_by("pk")
    return sum(reallocation_deciding.apply(row) for row in due.select_related("parent", "cluster", "request", "author"))


def settle(*, now: datetime | None = None) -> int:
    """Beat's: what nobody objected to within its notice is approved; what nobody answered goes one level up. How many
    changed.
    """
    now = now or timezone.now()
    late = Reallocation.objects.filter(state=State.SUBMITTED, answer_by__lte=now).order_by("pk")
    return sum(_settle_one(row, now) for row in late)


def _settle_one(late: Reallocation, now: datetime) -> bool:
    with transaction.atomic():
        parent = checks.locked(late.parent)
        try:
            row = reallocation_rows.locked(late, None, State.SUBMITTED)
        except ConflictError:
            return False  # decided while this one waited for the lock
        if row.by_notice:
            try:
                with transaction.atomic():
                    reallocation_rows.refuse_stale(row, parent)
                    row.starts_on = max(row.starts_on, queries.today())
                    reallocation_deciding.approve(
                        row,
                        None,
                        None,
                        f"nobody objected within {reallocation_rows.NOTICE.days} days' notice: {row.reason}",
                        None,
                    )
            except InputError as fault:
                row = reallocation_rows.locked(late, None, State.SUBMITTED)
                row.state, row.decided_at, row.decision_reason, row.answer_by = State.DENIED, now, str(fault), None
                checks.save_changed(row)
                reallocation_rows.entry(row, "reallocation.denied", None, None, {"state": "denied"}, str(fault))
                reallocation_messages.tell_author(row, f"{row} can't be applied: {fault}", "denied")
            return True
        target = desks.nearest_desk(row.desk.parent or row.desk, desks.matter_of(row))
        moved, before = target.pk != row.desk_id, row.desk_id
        row.desk, row.answer_by = target, now + timedelta(days=requests.house().answer_days)
        checks.save_changed(row)
        if moved:
            why = "nobody answered by its deadline"
            reallocation_rows.entry(row, "reallocation.went_up", None, {"desk": before}, {"desk": target.pk}, why)
        reallocation_messages.tell_desk(row, "went up to you" if moved else "still waits")
        return moved
