"""A reallocation is decided: its shares are stored with their dates, and on its first day it is called applied."""

from __future__ import annotations

from datetime import date, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext

from budgets import desks, queries
from budgets.errors import InputError
from budgets.models import (
    FollowUp,
    LedgerEntry,
    Person,
    Reallocation,
    Request,
    State,
)
from budgets.services import (
    checks,
    ledger,
    reallocation_messages,
    reallocation_rows,
    request_rows,
    requests,
)
from budgets.services.shares import set_shares


def approve(
    row: Reallocation,
    by: Person | None,
    acting_for: Person | None,
    why: str,
    request: Request | None,
    look_again_on: date | None = None,
) -> None:
    """Store the shares of a new or proposed reallocation, and that it is decided."""
    lines = list(row.lines.select_related("node"))
    plus = sum(line.change for line in lines if line.change > 0)
    asked = None
    if request is not None:
        asked = request_rows.locked(request, None, among=(State.SUBMITTED,))
        assert by is not None
        given = next((line.change for line in lines if line.node_id == asked.node_id), 0)
        if given <= 0:
            raise InputError(
                "shares",
                gettext("{asked} asks for more for {node}, and this gives it none").format(
                    asked=asked, node=asked.node.code
                ),
            )
        matter = desks.matter_of(asked)
        desks.check_decider(by, acting_for, desks.Matter(matter.desk, matter.authors, matter.raised, plus))
    elif by is not None and acting_for is not None:
        desks.check_limit(by, acting_for, row.parent, plus)
    about = ledger.About(acting_for, asked, row, row.review, row.evidence)
    set_shares(
        parent=row.parent,
        cluster=row.cluster,
        shares={line.node: line.after for line in lines},
        valid_from=row.starts_on,
        valid_until=row.ends_on,
        by=by,
        reason=why,
        about=about,
    )
    row.state, row.decided_at, row.decided_by, row.decided_for = State.APPROVED, timezone.now(), by, acting_for
    row.submitted_at = row.submitted_at or row.decided_at
    row.decision_reason, row.answer_by = why, None
    checks.save_changed(row)
    reallocation_rows.entry(row, "reallocation.approved", by, None, reallocation_rows.plain(row), why, acting_for)
    if asked is not None:
        assert by is not None
        requests.approved(asked, by, acting_for, why, about, given)
    weeks = requests.house().look_again_weeks
    FollowUp.objects.create(reallocation=row, due_on=look_again_on or row.starts_on + timedelta(weeks=weeks))
    reallocation_messages.tell_concerned(row, lines)
    if row.starts_on <= queries.today():
        apply(row)


def apply(row: Reallocation) -> bool:
    """Call it applied, if it isn't yet."""
    with transaction.atomic():
        now = timezone.now()
        if not Reallocation.objects.filter(pk=row.pk, state=State.APPROVED).update(
            state=State.APPLIED, applied_at=now, version=F("version") + 1
        ):
            return False
        row.refresh_from_db(fields=["state", "applied_at", "version"])
        answered = LedgerEntry.objects.filter(verb="request.approved", reallocation_id=row.pk).values("request_id")
        for request in Request.objects.filter(pk__in=answered):
            request_rows.applied(request)
        reallocation_rows.entry(
            row, "reallocation.applied", None, None, {"state": "applied"}, f"its first day, {row.starts_on}, has come"
        )
        checks.announce([row.cluster_id])
        return True
