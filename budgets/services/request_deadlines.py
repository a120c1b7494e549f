"""What becomes of requests that nobody answers in time."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from budgets import desks
from budgets.models import (
    Kind,
    Request,
    State,
)
from budgets.services import (
    checks,
    request_messages,
    request_rows,
    requests,
)


def escalate(*, now: datetime | None = None) -> int:
    """Beat's: what nobody has answered by its deadline, or nobody at its desk may answer any more, goes one level up
    by itself; at the root its managers are reminded. How many went up.
    """
    now = now or timezone.now()
    moved = 0
    for pk in Request.objects.filter(state=State.SUBMITTED).order_by("pk").values_list("pk", flat=True):
        with transaction.atomic():
            row = Request.objects.select_for_update(of=("self",), no_key=True).get(pk=pk)
            if row.state == State.SUBMITTED and not _waits_for_upper(row):
                moved += _escalate_one(row, now)
    return moved


def _escalate_one(row: Request, now: datetime) -> bool:
    """Take one request up if it is time. The caller holds its row."""
    matter = desks.matter_of(row)
    is_late = row.answer_by is not None and row.answer_by <= now
    is_empty = not desks.sitting_at(row.desk, matter) and not desks.standing_in(
        request_messages.managers(row.desk), row.desk, matter
    )
    start = row.desk.parent if is_late and row.desk.parent is not None else row.desk
    if not (is_late or is_empty):
        return False
    target = desks.nearest_desk(start, matter)
    if target.pk == row.desk_id:
        if is_late:  # the root: there is nobody above
            row.answer_by = now + timedelta(days=requests.house().answer_days)
            checks.save_changed(row)
            request_messages.tell_desk(row, "still waits", key=f"request:{row.pk}:reminder:{row.version}")
        return False
    before, row.desk = row.desk, target
    row.answer_by = now + timedelta(days=requests.house().answer_days)
    checks.save_changed(row)
    why = "nobody answered by its deadline" if is_late else f"nobody at {before.code} may decide it"
    request_rows.entry(row, "request.went_up", None, {"desk": before.pk}, {"desk": target.pk}, why)
    request_messages.tell_desk(row, "went up to you", key=f"request:{row.pk}:desk:{target.pk}:{row.version}")
    request_messages.tell_author(
        row, f"{row} went up to {target.code}: {why}", f"request:{row.pk}:went_up:{row.version}", Kind.COMMENT
    )
    return True


def _waits_for_upper(row: Request) -> bool:
    return row.upper is not None and row.upper.is_open
