"""Decisions on shares: a set of changes among the children of one node on one cluster, from a day on.

Whoever may decide applies one directly; whoever has a part in what it would raise proposes it to the level above. The
shares are stored, with their dates, when it is decided; on its first day a task calls it applied, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext

from budgets import desks, queries
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import (
    BudgetNode,
    Cluster,
    FollowUp,
    House,
    Kind,
    LedgerEntry,
    Person,
    Reallocation,
    ReallocationLine,
    Request,
    Review,
    Role,
    Share,
    State,
)  # fmt: skip
from budgets.services import checks, ledger, messages, requests
from budgets.services.shares import set_shares

NOTICE = timedelta(days=3)
"""How long managers of the root are told ahead, where the organisation chose notice (governance.md)."""

Shares = Mapping[BudgetNode, int]
"""Basis points of the parent by child; children that are not named keep theirs."""


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
    _check_days(starts_on, ends_on)
    with transaction.atomic():
        row = checks.locked(parent, version)
        lines = _lines(row, cluster, shares, starts_on)
        if draft is not None:
            _discard(draft, by)
        if look_again_on is not None and look_again_on <= starts_on:
            raise InputError("look_again_on", gettext("must be later than the first day"))
        new = Reallocation(
            parent=row, cluster=cluster, author=by, author_for=acting_for, starts_on=starts_on, ends_on=ends_on,
            base=_base(row, cluster, starts_on), base_version=row.version, desk=row, request=request, review=review,
            evidence=evidence, reason=checks.reason(reason, by),
        )  # fmt: skip
        new.save()
        _keep_lines(new, lines)
        _approve(new, by, acting_for, new.reason, request, look_again_on)
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
    _check_days(starts_on, ends_on)
    with transaction.atomic():
        row = checks.locked(parent, version)
        checks.allowed(acting_for or by, "share.change", row)
        lines = _lines(row, cluster, shares, starts_on, may_be_none=True)
        new = Reallocation(
            parent=row, cluster=cluster, author=by, author_for=acting_for, starts_on=starts_on, ends_on=ends_on,
            base=_base(row, cluster, starts_on), base_version=row.version, desk=row, request=request, reason=reason,
        )  # fmt: skip
        new.save()
        _keep_lines(new, lines)
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
    _check_days(starts_on, ends_on)
    with transaction.atomic():
        parent = checks.locked(reallocation.parent)
        row = locked(reallocation, version, State.DRAFT)
        _only_author(row, by)
        lines = _lines(parent, row.cluster, shares, starts_on, may_be_none=True)
        row.starts_on, row.ends_on, row.reason = starts_on, ends_on, reason
        row.base, row.base_version = _base(parent, row.cluster, starts_on), parent.version
        _save(row)
        row.lines.all().delete()
        _keep_lines(row, lines)
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
        row = locked(reallocation, version, State.DRAFT)
        _only_author(row, by)
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
        _save(row)
        _entry(row, "reallocation.proposed", by, None, plain(row), row.reason, row.author_for)
        _tell_desk(row, "for your decision" if not row.by_notice else "takes effect unless one of you objects")
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
        row = locked(reallocation, version, State.SUBMITTED)
        desks.check_decider(by, acting_for, desks.matter_of(row))
        _refuse_stale(row, parent)
        row.starts_on = max(row.starts_on, queries.today())
        _approve(row, by, acting_for, checks.reason(reason, by), row.request)
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
        row = locked(reallocation, version, State.SUBMITTED)
        desks.check_decider(by, acting_for, desks.matter_of(row))
        why = checks.reason(reason, by)
        row.state, row.decided_at, row.decided_by, row.decided_for = State.DENIED, timezone.now(), by, acting_for
        row.decision_reason, row.answer_by = why, None
        _save(row)
        _entry(row, "reallocation.denied", by, {"state": "submitted"}, {"state": "denied"}, why, acting_for)
        _tell_author(row, f"{row} was denied: {why}", "denied")
        return row


def withdraw(*, reallocation: Reallocation, by: Person, version: int | None = None) -> Reallocation:
    """Take a draft or a proposal back. Its author may, as long as it is not decided."""
    with transaction.atomic():
        row = locked(reallocation, version, State.DRAFT, State.SUBMITTED)
        _only_author(row, by)
        was_draft = row.state == State.DRAFT
        row.state, row.answer_by = State.WITHDRAWN, None
        _save(row)
        if not was_draft:
            _entry(row, "reallocation.withdrawn", by, None, {"state": "withdrawn"}, "withdrawn by its author")
        return row


def apply_due(*, now: datetime | None = None) -> int:
    """Beat's: call applied what has come to its first day, once, and have the loops look. How many.

    The shares have their dates in them since the decision, so the order changes with the day whether or not this runs.
    """
    day = queries.day_of(now or timezone.now())
    due = Reallocation.objects.filter(state=State.APPROVED, starts_on__lte=day).order_by("pk")
    return sum(_apply(row) for row in due.select_related("parent", "cluster", "request", "author"))


def settle(*, now: datetime | None = None) -> int:
    """Beat's: what nobody objected to within its notice is approved; what nobody answered goes one level up. How many
    changed.
    """
    now = now or timezone.now()
    late = Reallocation.objects.filter(state=State.SUBMITTED, answer_by__lte=now).order_by("pk")
    return sum(_settle_one(row, now) for row in late)


# --- parts --------------------------------------------------------------------------------------------------------


def locked(reallocation: Reallocation, version: int | None, *among: State) -> Reallocation:
    """The row as it is now, locked until the end of the transaction.

    Raises:
        ConflictError: it is in none of these states (which says what happened), or was changed since `version`.
    """
    row = (
        Reallocation.objects.select_for_update(of=("self",), no_key=True)
        .select_related("parent", "cluster", "desk", "author", "author_for", "decided_by", "request")
        .get(pk=reallocation.pk)
    )
    requests.refuse_late(row, version, among)
    return row


def plain(row: Reallocation) -> ledger.State:
    """A reallocation as the ledger keeps it."""
    return {
        "from": row.starts_on.isoformat(),
        "until": row.ends_on.isoformat() if row.ends_on else None,
        "lines": {line.node.code: [line.before, line.after] for line in row.lines.select_related("node")},
    }


def _approve(
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
        asked = requests.locked(request, None, among=(State.SUBMITTED,))
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
    _save(row)
    _entry(row, "reallocation.approved", by, None, plain(row), why, acting_for)
    if asked is not None:
        assert by is not None
        requests.approved(asked, by, acting_for, why, about, given)
    weeks = requests.house().look_again_weeks
    FollowUp.objects.create(reallocation=row, due_on=look_again_on or row.starts_on + timedelta(weeks=weeks))
    _tell_concerned(row, lines)
    if row.starts_on <= queries.today():
        _apply(row)


def _apply(row: Reallocation) -> bool:
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
            requests.applied(request)
        _entry(
            row, "reallocation.applied", None, None, {"state": "applied"}, f"its first day, {row.starts_on}, has come"
        )
        checks.announce([row.cluster_id])
        return True


def _settle_one(late: Reallocation, now: datetime) -> bool:
    with transaction.atomic():
        parent = checks.locked(late.parent)
        try:
            row = locked(late, None, State.SUBMITTED)
        except ConflictError:
            return False  # decided while this one waited for the lock
        if row.by_notice:
            try:
                with transaction.atomic():
                    _refuse_stale(row, parent)
                    row.starts_on = max(row.starts_on, queries.today())
                    _approve(row, None, None, f"nobody objected within {NOTICE.days} days' notice: {row.reason}", None)
            except InputError as fault:
                row = locked(late, None, State.SUBMITTED)
                row.state, row.decided_at, row.decision_reason, row.answer_by = State.DENIED, now, str(fault), None
                _save(row)
                _entry(row, "reallocation.denied", None, None, {"state": "denied"}, str(fault))
                _tell_author(row, f"{row} can't be applied: {fault}", "denied")
            return True
        target = desks.nearest_desk(row.desk.parent or row.desk, desks.matter_of(row))
        moved, before = target.pk != row.desk_id, row.desk_id
        row.desk, row.answer_by = target, now + timedelta(days=requests.house().answer_days)
        _save(row)
        if moved:
            why = "nobody answered by its deadline"
            _entry(row, "reallocation.went_up", None, {"desk": before}, {"desk": target.pk}, why)
        _tell_desk(row, "went up to you" if moved else "still waits")
        return moved


def _lines(
    parent: BudgetNode, cluster: Cluster, shares: Shares, day: date, *, may_be_none: bool = False
) -> list[tuple[BudgetNode, int, int]]:
    """(child, before, after) of the children whose share on the day would be another one."""
    children = {child.pk: child for child in parent.children.all()}
    now = shares_on(parent, cluster, day)
    found = []
    for child, after in shares.items():
        if child.pk not in children:
            raise InputError(
                f"shares[{child.code}]",
                gettext("{child} is no child of {parent}").format(child=child.code, parent=parent.code),
            )
        if type(after) is not int or not 0 <= after <= 10_000:
            raise InputError(
                f"shares[{child.code}]", gettext("must be a whole number of basis points from 0 to 10,000")
            )
        if after != now.get(child.pk, 0):
            found.append((child, now.get(child.pk, 0), after))
    if not found and not may_be_none:
        raise InputError("shares", gettext("nothing changes"))
    return found


def _check_days(starts_on: date, ends_on: date | None) -> None:
    if starts_on < queries.today():
        raise InputError("starts_on", gettext("can't be a day that is over"))
    if ends_on is not None and ends_on <= starts_on:
        raise InputError("ends_on", gettext("must be later than the first day"))


def shares_on(parent: BudgetNode, cluster: Cluster, day: date) -> dict[int, int]:
    """Basis points in force on the day, by child id."""
    rows = Share.objects.filter(queries.in_force(day), parent=parent, cluster=cluster)
    return dict(rows.values_list("node_id", "basis_points"))


def _base(parent: BudgetNode, cluster: Cluster, day: date) -> dict[str, int]:
    return {str(pk): points for pk, points in sorted(shares_on(parent, cluster, day).items())}


def _keep_lines(row: Reallocation, lines: list[tuple[BudgetNode, int, int]]) -> None:
    ReallocationLine.objects.bulk_create(
        ReallocationLine(reallocation=row, node=child, before=before, after=after) for child, before, after in lines
    )


def _discard(draft: Reallocation, by: Person) -> None:
    """A draft that became a decision is gone; nobody but its author ever saw it."""
    row = locked(draft, None, State.DRAFT)
    _only_author(row, by)
    row.delete()


def _refuse_stale(row: Reallocation, parent: BudgetNode) -> None:
    now = shares_on(parent, row.cluster, max(row.starts_on, queries.today()))
    for line in row.lines.select_related("node"):
        if now.get(line.node_id, 0) != line.before:
            raise ConflictError(
                gettext(
                    "{node} has {node_id:,} basis points now, and had {before:,} when {row} was proposed; it "
                    "has to be proposed again"
                ).format(node=line.node.code, node_id=now.get(line.node_id, 0), before=line.before, row=row)
            )


def _only_author(row: Reallocation, by: Person) -> None:
    if row.author_id != by.pk:
        raise NotAllowed("reallocation.change", gettext("only its author may do that"))


def _save(row: Reallocation) -> None:
    row.version += 1
    row.save()


def _entry(
    row: Reallocation,
    verb: str,
    by: Person | None,
    before: ledger.State | None,
    after: ledger.State | None,
    why: str,
    acting_for: Person | None = None,
) -> None:
    ledger.record(
        verb=verb, node=row.parent, cluster=row.cluster, by=by, before=before, after=after, reason=why,
        about=ledger.About(acting_for, row.request, row, row.review, row.evidence),
    )  # fmt: skip


def _path(row: Reallocation) -> str:
    return f"/reallocations/{row.pk}/"


def _tell_desk(row: Reallocation, happened: str) -> None:
    matter = desks.matter_of(row)
    managers = desks.sitting_at(row.desk, matter)
    to = {person.pk: person for person in [*managers, *desks.standing_in(managers, row.desk, matter)]}
    messages.tell(
        to=to.values(),
        kind=Kind.TO_DECIDE,
        subject=f"{row}: shares of {row.parent.code} on {row.cluster}, {happened}",
        text=row.reason,
        path=_path(row),
        key=f"reallocation:{row.pk}:desk:{row.version}",
    )


def _tell_author(row: Reallocation, subject: str, happened: str) -> None:
    messages.tell(
        to=[row.author], kind=Kind.DECISION, subject=subject[:200], path=_path(row),
        key=f"reallocation:{row.pk}:{happened}",
    )  # fmt: skip


def _tell_concerned(row: Reallocation, lines: list[ReallocationLine]) -> None:
    """Tell the managers of every child whose share changes, and the author where another decided."""
    people: dict[int, Person] = {}
    nodes = [line.node_id for line in lines]
    managers = Person.objects.filter(
        grants__role=Role.MANAGER, grants__node__in=nodes, grants__valid_from__lte=row.starts_on
    ).exclude(grants__valid_until__lte=queries.today())
    for person in [*managers, row.author]:
        if row.decided_by is None or person.pk != row.decided_by.pk:
            people[person.pk] = person
    changes = ", ".join(f"{line.node.code} {line.before / 100:.2f} > {line.after / 100:.2f} %" for line in lines)
    messages.tell(
        to=people.values(),
        kind=Kind.DECISION,
        subject=f"Shares of {row.parent.code} on {row.cluster} change on {row.starts_on}",
        text=f"{changes}\n\n{row.decision_reason}",
        path=_path(row),
        key=f"reallocation:{row.pk}:approved",
    )
