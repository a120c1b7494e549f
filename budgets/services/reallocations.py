"""Decisions on shares: a set of changes among the children of one node on one cluster, from a day on.

Whoever may decide applies one directly; whoever has a part in what it would raise proposes it to the level above. The
shares are stored, with their dates, when it is decided; on its first day a task calls it applied, once.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets import desks, queries
from budgets.errors import InputError
from budgets.models import (
    BudgetNode,
    Cluster,
    House,
    Person,
    Reallocation,
    Request,
    Review,
    State,
)
from budgets.services import (
    checks,
    ledger,
    reallocation_deciding,
    reallocation_messages,
    reallocation_rows,
    requests,
)
from budgets.services.reallocation_rows import NOTICE, Shares


def apply_directly(
    *,
    parent: BudgetNode,
    cluster: Cluster,
    shares: Shares,
    starts_on: date,
    by: Person,
    reason: str,
    ends_on: date | None = None,
    acting_for: Person | None = None,
    version: int | None = None,
    request: Request | None = None,
    review: Review | None = None,
    evidence: ledger.State | None = None,
    draft: Reallocation | None = None,
    look_again_on: date | None = None,
) -> Reallocation:
    """Decide these shares now, from `starts_on` on. With `request` it is the answer to it, which approves it; with
    `draft`, an own one, that is what becomes of it.

    Args:
        version: the parent's, as it was read: somebody else's change since then is a conflict.
        acting_for: who is away, whose delegate `by` is.
        evidence: figures that were looked at, kept with the ledger's entries.
        look_again_on: when it is to be asked whether it worked; none is the organisation's usual time.

    Raises:
        InputError: nothing changes, shares that are none or sum to too much on some day, or the request's node isn't
            raised. NotAllowed: it isn't theirs, they have a part in what it raises, or a delegate's limit is passed.
        ConflictError: the parent was changed, or the request decided, meanwhile.
    """
    reallocation_rows.check_days(starts_on, ends_on)
    with transaction.atomic():
        row = checks.locked(parent, version)
        lines = reallocation_rows.lines(row, cluster, shares, starts_on)
        if draft is not None:
            reallocation_rows.discard(draft, by)
        if look_again_on is not None and look_again_on <= starts_on:
            raise InputError("look_again_on", gettext("must be later than the first day"))
        new = Reallocation(
            parent=row, cluster=cluster, author=by, author_for=acting_for, starts_on=starts_on, ends_on=ends_on,
            base=reallocation_rows.base(row, cluster, starts_on), base_version=row.version, desk=row, request=request,
            review=review, evidence=evidence, reason=checks.reason(reason, by),
        )  # fmt: skip
        new.save()
        reallocation_rows.keep_lines(new, lines)
        reallocation_deciding.approve(new, by, acting_for, new.reason, request, look_again_on)
        return new


def draft(
    *,
    parent: BudgetNode,
    cluster: Cluster,
    shares: Shares,
    starts_on: date,
    by: Person,
    ends_on: date | None = None,
    acting_for: Person | None = None,
    reason: str = "",
    request: Request | None = None,
    version: int | None = None,
) -> Reallocation:
    """Keep a set of changes for later; nobody but its author sees it, and sums are not looked at yet.

    Raises:
        InputError: shares that are none. NotAllowed: the parent's shares are not theirs to divide.
        ConflictError: the parent was changed since `version`.
    """
    reallocation_rows.check_days(starts_on, ends_on)
    with transaction.atomic():
        row = checks.locked(parent, version)
        checks.allowed(acting_for or by, "share.change", row)
        lines = reallocation_rows.lines(row, cluster, shares, starts_on, may_be_none=True)
        new = Reallocation(
            parent=row, cluster=cluster, author=by, author_for=acting_for, starts_on=starts_on, ends_on=ends_on,
            base=reallocation_rows.base(row, cluster, starts_on), base_version=row.version, desk=row, request=request,
            reason=reason,
        )  # fmt: skip
        new.save()
        reallocation_rows.keep_lines(new, lines)
        return new


def save_draft(
    *,
    reallocation: Reallocation,
    shares: Shares,
    starts_on: date,
    by: Person,
    ends_on: date | None = None,
    reason: str = "",
    version: int | None = None,
) -> Reallocation:
    """Change a draft. Raises as `draft` does, and ConflictError: it is no draft any more, or another tab changed it."""
    reallocation_rows.check_days(starts_on, ends_on)
    with transaction.atomic():
        parent = checks.locked(reallocation.parent)
        row = reallocation_rows.locked(reallocation, version, State.DRAFT)
        checks.only_author(row, by)
        lines = reallocation_rows.lines(parent, row.cluster, shares, starts_on, may_be_none=True)
        row.starts_on, row.ends_on, row.reason = starts_on, ends_on, reason
        row.base, row.base_version = reallocation_rows.base(parent, row.cluster, starts_on), parent.version
        checks.save_changed(row)
        row.lines.all().delete()
        reallocation_rows.keep_lines(row, lines)
        return row


def propose(
    *, reallocation: Reallocation, by: Person, version: int | None = None, now: datetime | None = None
) -> Reallocation:
    """Lay a draft before the level above, since its author has a part in what it raises; at the root before another
    manager there or, if the organisation chose that, before all of them for three days.

    Raises:
        InputError: it says no reason, changes nothing, or nobody at all could decide it. NotAllowed, ConflictError: as
            for `save_draft`.
    """
    now = now or timezone.now()
    with transaction.atomic():
        parent = checks.locked(reallocation.parent)
        row = reallocation_rows.locked(reallocation, version, State.DRAFT)
        checks.only_author(row, by)
        checks.allowed(row.author_for or by, "share.change", parent)
        row.reason = checks.reason(row.reason, by)
        if not row.lines.exists():
            raise InputError("shares", gettext("nothing changes"))
        if row.starts_on < queries.today():
            raise InputError("starts_on", gettext("can't be a day that is over"))
        matter = desks.matter_of(row)
        row.desk = desks.nearest_desk(parent.parent or parent, matter)
        row.by_notice = parent.parent is None and requests.house().root_rule == House.RootRule.NOTICE
        if not row.by_notice and not desks.sitting_at(row.desk, matter):
            raise InputError(
                "",
                gettext("nobody but those who have a part in it could decide this at {desk}").format(
                    desk=row.desk.code
                ),
            )
        row.state, row.submitted_at = State.SUBMITTED, now
        row.answer_by = now + (NOTICE if row.by_notice else timedelta(days=requests.house().answer_days))
        checks.save_changed(row)
        reallocation_rows.entry(
            row, "reallocation.proposed", by, None, reallocation_rows.plain(row), row.reason, row.author_for
        )
        reallocation_messages.tell_desk(
            row, "for your decision" if not row.by_notice else "takes effect unless one of you objects"
        )
        return row


def approve(
    *,
    reallocation: Reallocation,
    by: Person,
    reason: str,
    acting_for: Person | None = None,
    version: int | None = None,
) -> Reallocation:
    """Decide what somebody else proposed.

    Raises:
        NotAllowed: it isn't theirs to decide, or they have a part in it. ConflictError: decided already, or a share it
            changes is not what it was when it was proposed. InputError: it would sum to too much by now.
    """
    with transaction.atomic():
        parent = checks.locked(reallocation.parent)
        row = reallocation_rows.locked(reallocation, version, State.SUBMITTED)
        desks.check_decider(by, acting_for, desks.matter_of(row))
        reallocation_rows.refuse_stale(row, parent)
        row.starts_on = max(row.starts_on, queries.today())
        reallocation_deciding.approve(row, by, acting_for, checks.reason(reason, by), row.request)
        return row


def deny(
    *,
    reallocation: Reallocation,
    by: Person,
    reason: str,
    acting_for: Person | None = None,
    version: int | None = None,
) -> Reallocation:
    """Say no to what somebody else proposed, or object to it within its notice. Raises as `approve` does."""
    with transaction.atomic():
        row = reallocation_rows.locked(reallocation, version, State.SUBMITTED)
        desks.check_decider(by, acting_for, desks.matter_of(row))
        why = checks.reason(reason, by)
        row.state, row.decided_at, row.decided_by, row.decided_for = State.DENIED, timezone.now(), by, acting_for
        row.decision_reason, row.answer_by = why, None
        checks.save_changed(row)
        reallocation_rows.entry(
            row, "reallocation.denied", by, {"state": "submitted"}, {"state": "denied"}, why, acting_for
        )
        reallocation_messages.tell_author(row, f"{row} was denied: {why}", "denied")
        return row


def withdraw(*, reallocation: Reallocation, by: Person, version: int | None = None) -> Reallocation:
    """Take a draft or a proposal back. Its author may, as long as it is not decided."""
    with transaction.atomic():
        row = reallocation_rows.locked(reallocation, version, State.DRAFT, State.SUBMITTED)
        checks.only_author(row, by)
        was_draft = row.state == State.DRAFT
        row.state, row.answer_by = State.WITHDRAWN, None
        checks.save_changed(row)
        if not was_draft:
            reallocation_rows.entry(
                row, "reallocation.withdrawn", by, None, {"state": "withdrawn"}, "withdrawn by its author"
            )
        return row
