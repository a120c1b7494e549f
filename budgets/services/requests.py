"""A request's life: draft > submitted > (returned > submitted) > approved | denied | withdrawn, then applied.

Approving is a reallocation (`reallocations.apply_directly(request=...)`), since every plus names its minus.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets import desks, queries
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import (
    WHOLE_BASIS_POINTS,
    BudgetNode,
    Cluster,
    House,
    Kind,
    Person,
    Reallocation,
    Request,
    Share,
    State,
)
from budgets.services import checks, ledger, messages

TEXT_LENGTH = 4_000


def house() -> House:
    """How the organisation decides."""
    return House.objects.filter(pk=1).first() or House(pk=1)


def draft(
    *,
    node: BudgetNode,
    cluster: Cluster,
    more_basis_points: int,
    starts_on: date,
    why: str,
    otherwise: str,
    by: Person,
    ends_on: date | None = None,
    useless_on: date | None = None,
) -> Request:
    """Write a request down; nobody but its author sees it yet.

    Args:
        more_basis_points: of the node's parent, on top of what the node has.
        starts_on, ends_on: the organisation's days [starts_on, ends_on); no end is for good.
        useless_on: from this day on it would be of no use.

    Raises:
        InputError: a root, a closed node, a bad amount, dates or texts. NotAllowed: they have no part in the node.
    """
    with transaction.atomic():
        new = Request(author=by)
        _place(new, node, cluster, by)
        _fill(new, more_basis_points, starts_on, ends_on, why, otherwise, useless_on)
        new.save()
        return new


def edit(
    *,
    request: Request,
    node: BudgetNode,
    cluster: Cluster,
    more_basis_points: int,
    starts_on: date,
    why: str,
    otherwise: str,
    by: Person,
    ends_on: date | None = None,
    useless_on: date | None = None,
    version: int | None = None,
) -> Request:
    """Change a draft, or one that was returned. Its author alone may.

    Raises:
        InputError, NotAllowed: as for `draft`. ConflictError: it was changed or submitted meanwhile.
    """
    with transaction.atomic():
        row = locked(request, version, among=(State.DRAFT, State.RETURNED))
        _only_author(row, by)
        if row.state == State.RETURNED and (node.pk != row.node_id or cluster.pk != row.cluster_id):
            raise InputError(
                "node",
                gettext("{row} is about {node} on {cluster}: ask for another in a new request").format(
                    row=row, node=row.node.code, cluster=row.cluster
                ),
            )
        _place(row, node, cluster, by)
        _fill(row, more_basis_points, starts_on, ends_on, why, otherwise, useless_on)
        return _save(row)


def submit(
    *,
    request: Request,
    by: Person,
    version: int | None = None,
    figures: ledger.State | None = None,
    now: datetime | None = None,
) -> Request:
    """Lay it on the nearest desk at which somebody may decide it; their time to answer begins.

    `figures` are the asker's own, as the form showed them: entitled, delivered, owed, useful.
    """
    now = now or timezone.now()
    with transaction.atomic():
        row = locked(request, version, among=(State.DRAFT, State.RETURNED))
        _only_author(row, by)
        checks.allowed(by, "request.make", row.node)
        _check_days(row.starts_on, row.ends_on, row.useless_on)
        again = row.submitted_at is not None
        row.state, row.submitted_at = State.SUBMITTED, now
        row.figures = figures
        parent = row.node.parent
        assert parent is not None  # the root asks for nothing
        row.parent = parent  # where the node hangs now
        row.desk = desks.nearest_desk(row.parent, desks.matter_of(row))
        row.answer_by = now + timedelta(days=house().answer_days)
        _save(row)
        entry(row, "request.submitted", by, None, plain(row), row.why)
        tell_desk(row, "again" if again else "", key=f"request:{row.pk}:submitted:{row.version}")
        return row


def give_back(
    *, request: Request, by: Person, reason: str, acting_for: Person | None = None, version: int | None = None
) -> Request:
    """Return it to its author, with a question or what is missing."""
    with transaction.atomic():
        row = locked(request, version, among=(State.SUBMITTED,))
        desks.check_decider(by, acting_for, desks.matter_of(row))
        why = checks.reason(reason, by)
        row.state, row.answer_by = State.RETURNED, None
        _save(row)
        entry(row, "request.returned", by, {"state": "submitted"}, {"state": "returned"}, why, acting_for)
        _tell_author(row, f"{row} was returned to you: {why}", f"request:{row.pk}:returned:{row.version}")
        return row


def withdraw(*, request: Request, by: Person, reason: str = "", version: int | None = None) -> Request:
    """Take it back. Its author may, as long as it is not decided."""
    with transaction.atomic():
        row = locked(request, version, among=(State.DRAFT, State.SUBMITTED, State.RETURNED))
        _only_author(row, by)
        was_draft = row.state == State.DRAFT
        row.state, row.answer_by = State.WITHDRAWN, None
        _save(row)
        if not was_draft:
            entry(row, "request.withdrawn", by, None, {"state": "withdrawn"}, reason or "withdrawn by its author")
            tell_desk(row, "withdrawn", key=f"request:{row.pk}:withdrawn")
        return row


def deny(
    *,
    request: Request,
    by: Person,
    reason: str,
    acting_for: Person | None = None,
    version: int | None = None,
    about: ledger.About = ledger.NOTHING_ELSE,
) -> Request:
    """Say no, and why. `about` names the review in which it was said, if it was.

    Raises:
        NotAllowed: it isn't theirs to decide (their own, by whatever road, is not). ConflictError: decided already.
    """
    with transaction.atomic():
        row = locked(request, version, among=(State.SUBMITTED,))
        desks.check_decider(by, acting_for, desks.matter_of(row))
        why = checks.reason(reason, by)
        decided(row, State.DENIED, by, acting_for, why)
        entry(row, "request.denied", by, {"state": "submitted"}, {"state": "denied"}, why, acting_for, about)
        _tell_author(row, f"{row} was denied: {why}", f"request:{row.pk}:denied")
        _tell_lower(row)
        return row


def pass_up(
    *,
    request: Request,
    more_basis_points: int,
    by: Person,
    reason: str,
    acting_for: Person | None = None,
    version: int | None = None,
) -> Request:
    """It needs more than the node has: ask the level above in one's turn, with a request that is linked to it.

    Returns:
        the new request, submitted: more of the grandparent for the parent. The first one waits for it on its desk.

    Raises:
        InputError: it lies at the root already, it was passed up before, or the amount is bad.
        NotAllowed, ConflictError: as for `deny`.
    """
    with transaction.atomic():
        row = locked(request, version, among=(State.SUBMITTED,))
        desks.check_decider(by, acting_for, desks.matter_of(row))
        if row.parent.parent is None:
            raise InputError(
                "", gettext("{parent} is the organisation: there is nobody above to ask").format(parent=row.parent.code)
            )
        if row.desk_id != row.parent_id:
            raise InputError(
                "",
                gettext("{row} lies with {desk} already, above {parent}").format(
                    row=row, desk=row.desk.code, parent=row.parent.code
                ),
            )
        if row.upper is not None and row.upper.is_open:
            raise ConflictError(gettext("{row} was passed up already, as {upper}").format(row=row, upper=row.upper))
        why = checks.reason(reason, by)
        asker = acting_for or by
        upper = Request(
            node=row.parent, parent=row.parent.parent, desk=row.parent.parent, cluster=row.cluster, author=asker
        )
        otherwise = row.otherwise
        _fill(upper, more_basis_points, row.starts_on, row.ends_on, f"{why}\n\nFor {row}: {row.why}"[:TEXT_LENGTH],
              otherwise, row.useless_on)  # fmt: skip
        upper.save()
        submit(request=upper, by=asker, figures=row.figures)
        row.upper = upper
        _save(row)
        entry(row, "request.passed_up", by, None, {"upper": upper.pk}, why, acting_for)
        _tell_author(row, f"{row} needs more than {row.parent.code} has: {upper} asks for it",
                     f"request:{row.pk}:passed_up:{upper.pk}", Kind.COMMENT)  # fmt: skip
        upper.refresh_from_db()
        return upper


def upper_share_for(request: Request, day: date) -> int:
    """What `pass_up` would have to ask for, so that the parent could give all of it without taking from anybody:
    basis points of the grandparent, rounded up.
    """
    held = Share.objects.filter(queries.in_force(day), node=request.parent, cluster=request.cluster).first()
    return max(1, -(-request.more_basis_points * (held.basis_points if held else 0) // WHOLE_BASIS_POINTS))


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
    is_empty = not desks.sitting_at(row.desk, matter) and not desks.standing_in(_managers(row.desk), row.desk, matter)
    start = row.desk.parent if is_late and row.desk.parent is not None else row.desk
    if not (is_late or is_empty):
        return False
    target = desks.nearest_desk(start, matter)
    if target.pk == row.desk_id:
        if is_late:  # the root: there is nobody above
            row.answer_by = now + timedelta(days=house().answer_days)
            _save(row)
            tell_desk(row, "still waits", key=f"request:{row.pk}:reminder:{row.version}")
        return False
    before, row.desk = row.desk, target
    row.answer_by = now + timedelta(days=house().answer_days)
    _save(row)
    why = "nobody answered by its deadline" if is_late else f"nobody at {before.code} may decide it"
    entry(row, "request.went_up", None, {"desk": before.pk}, {"desk": target.pk}, why)
    tell_desk(row, "went up to you", key=f"request:{row.pk}:desk:{target.pk}:{row.version}")
    _tell_author(row, f"{row} went up to {target.code}: {why}", f"request:{row.pk}:went_up:{row.version}", Kind.COMMENT)
    return True


# --- shared with reallocations ------------------------------------------------------------------------------------


def locked(request: Request, version: int | None, among: Iterable[str]) -> Request:
    """The request's row as it is now, locked until the end of the transaction.

    Raises:
        ConflictError: it is in none of these states (which says what happened), or was changed since `version`.
    """
    row = (
        Request.objects.select_for_update(of=("self",), no_key=True)
        .select_related("node", "parent", "desk", "cluster", "author", "decided_by", "upper")
        .get(pk=request.pk)
    )
    refuse_late(row, version, among)
    return row


def refuse_late(row: Request | Reallocation, version: int | None, among: Iterable[str]) -> None:
    """Nothing, if the locked row is in one of these states, and as it was at `version`.

    Raises:
        ConflictError: it is not; it says what happened.
    """
    if row.state not in among:
        raise ConflictError(gettext("{row} {row_2}; nothing was changed").format(row=row, row_2=what_happened(row)))
    if version is not None and version != row.version:
        raise ConflictError(gettext("{row} was changed meanwhile; look at it again").format(row=row))


def what_happened(row: Any) -> str:
    """What was decided on a request or a reallocation, when and by whom, for whoever comes too late."""
    if row.decided_at is None:
        return f"is {row.state} now"
    at = timezone.localtime(row.decided_at, timezone.get_default_timezone())
    by = f" by {row.decided_by}" if row.decided_by else ""
    return f"was {'denied' if row.state == State.DENIED else 'approved'} on {at:%Y-%m-%d at %H:%M}{by}"


def decided(row: Request, state: State, by: Person, acting_for: Person | None, why: str) -> None:
    """Write the decision on a locked request."""
    row.state, row.decided_at, row.decided_by, row.decided_for = state, timezone.now(), by, acting_for
    row.decision_reason, row.answer_by = why, None
    _save(row)


def approved(row: Request, by: Person, acting_for: Person | None, why: str, about: ledger.About, given: int) -> None:
    """The part of a reallocation that answers a request: its new state, its entry, and word to its author."""
    decided(row, State.APPROVED, by, acting_for, why)
    after = {"state": "approved", "given_basis_points": given}
    entry(row, "request.approved", by, {"state": "submitted"}, after, why, acting_for, about)
    _tell_author(row, f"{row} was approved: {_per_cent(given)} more from {row.starts_on}", f"request:{row.pk}:approved")
    _tell_lower(row)


def applied(row: Request) -> bool:
    """It is in force now; whether this call made it so."""
    return bool(Request.objects.filter(pk=row.pk, state=State.APPROVED).update(state=State.APPLIED))


def entry(
    row: Request,
    verb: str,
    by: Person | None,
    before: ledger.State | None,
    after: ledger.State | None,
    why: str,
    acting_for: Person | None = None,
    about: ledger.About = ledger.NOTHING_ELSE,
) -> None:
    """One entry about a request."""
    ledger.record(
        verb=verb,
        node=row.node,
        cluster=row.cluster,
        by=by,
        before=before,
        after=after,
        reason=why,
        about=ledger.About(acting_for, row, about.reallocation, about.review, about.evidence),
    )


def plain(row: Request) -> ledger.State:
    """A request as the ledger keeps it."""
    return {
        "more_basis_points": row.more_basis_points,
        "from": row.starts_on.isoformat(),
        "until": row.ends_on.isoformat() if row.ends_on else None,
        "useless_on": row.useless_on.isoformat() if row.useless_on else None,
        "otherwise": row.otherwise,
        "desk": row.desk_id,
        "figures": row.figures,
    }


def tell_desk(row: Request, happened: str, *, key: str) -> None:
    """Tell who may decide it, and who stands in for them."""
    matter = desks.matter_of(row)
    managers = desks.sitting_at(row.desk, matter)
    to = {person.pk: person for person in [*managers, *desks.standing_in(_managers(row.desk), row.desk, matter)]}
    said = f" ({happened})" if happened else ""
    messages.tell(
        to=to.values(),
        kind=Kind.TO_DECIDE,
        subject=f"{row}{said}: {row.node.code} asks for {_per_cent(row.more_basis_points)} more of {row.parent.code}",
        text=row.why,
        path=f"/requests/{row.pk}/",
        key=key,
    )


def _tell_author(row: Request, subject: str, key: str, kind: Kind = Kind.DECISION) -> None:
    messages.tell(to=[row.author], kind=kind, subject=subject[:200], path=f"/requests/{row.pk}/", key=key)


def _tell_lower(row: Request) -> None:
    """Whoever waits for this answer at a lower desk can go on."""
    lower = Request.objects.filter(upper=row, state=State.SUBMITTED).select_related("node", "parent", "desk").first()
    if lower is None:
        return
    lower.answer_by = timezone.now() + timedelta(days=house().answer_days)
    _save(lower)
    tell_desk(lower, f"{row} was {row.state}", key=f"request:{lower.pk}:upper:{row.pk}")


def _waits_for_upper(row: Request) -> bool:
    return row.upper is not None and row.upper.is_open


def _managers(desk: BudgetNode) -> list[Person]:
    """Whoever manages the desk or a node above it, by whose right a delegate may stand in."""
    people = Person.objects.filter(grants__node__in=desk.path, grants__role="manager", is_active=True)
    return list(people.filter(grants__valid_from__lte=queries.today()).distinct())


def _only_author(row: Request, by: Person) -> None:
    if row.author_id != by.pk:
        raise NotAllowed("request.change", gettext("only its author may do that"))


def _place(row: Request, node: BudgetNode, cluster: Cluster, by: Person) -> None:
    asking = BudgetNode.objects.select_related("parent").get(pk=node.pk)
    if asking.parent is None:
        raise InputError("node", gettext("the organisation has all there is"))
    if asking.is_closed:
        raise InputError("node", gettext("{asking} is closed").format(asking=asking.code))
    checks.allowed(by, "request.make", asking)
    row.node, row.parent, row.desk, row.cluster = asking, asking.parent, asking.parent, cluster


def _fill(
    row: Request,
    more_basis_points: int,
    starts_on: date,
    ends_on: date | None,
    why: str,
    otherwise: str,
    useless_on: date | None,
) -> None:
    if type(more_basis_points) is not int or not 1 <= more_basis_points <= WHOLE_BASIS_POINTS:
        raise InputError(
            "more_basis_points",
            gettext("must be a whole number of basis points from 1 to {whole_basis_points:,}").format(
                whole_basis_points=WHOLE_BASIS_POINTS
            ),
        )
    _check_days(starts_on, ends_on, useless_on)
    row.more_basis_points, row.starts_on, row.ends_on, row.useless_on = (
        more_basis_points, starts_on, ends_on, useless_on,
    )  # fmt: skip
    row.why = checks.text("why", why, length=TEXT_LENGTH)
    row.otherwise = checks.text("otherwise", otherwise, length=TEXT_LENGTH)


def _check_days(starts_on: date, ends_on: date | None, useless_on: date | None) -> None:
    if starts_on < queries.today():
        raise InputError("starts_on", gettext("can't be a day that is over"))
    if ends_on is not None and ends_on <= starts_on:
        raise InputError("ends_on", gettext("must be later than the first day"))
    if useless_on is not None and useless_on <= queries.today():
        raise InputError("useless_on", gettext("must be a day to come"))


def _save(row: Request) -> Request:
    row.version += 1
    row.save()
    return row


def _per_cent(basis_points: int) -> str:
    return f"{basis_points // 100}.{basis_points % 100:02d} %"
