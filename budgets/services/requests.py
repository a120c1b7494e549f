"""A request's life: draft > submitted > (returned > submitted) > approved | denied | withdrawn, then applied.

Approving is a reallocation (`reallocations.apply_directly(request=...)`), since every plus names its minus.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets import desks, queries
from budgets.errors import ConflictError, InputError
from budgets.models import (
    WHOLE_BASIS_POINTS,
    BudgetNode,
    Cluster,
    Kind,
    Person,
    Request,
    Share,
    State,
)
from budgets.services import (
    checks,
    ledger,
    request_messages,
    request_rows,
)
from budgets.services.request_rows import house

TEXT_LENGTH = 4_000


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
        row = request_rows.locked(request, version, among=(State.DRAFT, State.RETURNED))
        checks.only_author(row, by)
        if row.state == State.RETURNED and (node.pk != row.node_id or cluster.pk != row.cluster_id):
            raise InputError(
                "node",
                gettext("{row} is about {node} on {cluster}: ask for another in a new request").format(
                    row=row, node=row.node.code, cluster=row.cluster
                ),
            )
        _place(row, node, cluster, by)
        _fill(row, more_basis_points, starts_on, ends_on, why, otherwise, useless_on)
        return checks.save_changed(row)


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
        row = request_rows.locked(request, version, among=(State.DRAFT, State.RETURNED))
        checks.only_author(row, by)
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
        checks.save_changed(row)
        request_rows.entry(row, "request.submitted", by, None, request_rows.plain(row), row.why)
        request_messages.tell_desk(row, "again" if again else "", key=f"request:{row.pk}:submitted:{row.version}")
        return row


def give_back(
    *, request: Request, by: Person, reason: str, acting_for: Person | None = None, version: int | None = None
) -> Request:
    """Return it to its author, with a question or what is missing."""
    with transaction.atomic():
        row = request_rows.locked(request, version, among=(State.SUBMITTED,))
        desks.check_decider(by, acting_for, desks.matter_of(row))
        why = checks.reason(reason, by)
        row.state, row.answer_by = State.RETURNED, None
        checks.save_changed(row)
        request_rows.entry(row, "request.returned", by, {"state": "submitted"}, {"state": "returned"}, why, acting_for)
        request_messages.tell_author(
            row, f"{row} was returned to you: {why}", f"request:{row.pk}:returned:{row.version}"
        )
        return row


def withdraw(*, request: Request, by: Person, reason: str = "", version: int | None = None) -> Request:
    """Take it back. Its author may, as long as it is not decided."""
    with transaction.atomic():
        row = request_rows.locked(request, version, among=(State.DRAFT, State.SUBMITTED, State.RETURNED))
        checks.only_author(row, by)
        was_draft = row.state == State.DRAFT
        row.state, row.answer_by = State.WITHDRAWN, None
        checks.save_changed(row)
        if not was_draft:
            request_rows.entry(
                row, "request.withdrawn", by, None, {"state": "withdrawn"}, reason or "withdrawn by its author"
            )
            request_messages.tell_desk(row, "withdrawn", key=f"request:{row.pk}:withdrawn")
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
        row = request_rows.locked(request, version, among=(State.SUBMITTED,))
        desks.check_decider(by, acting_for, desks.matter_of(row))
        why = checks.reason(reason, by)
        request_rows.decided(row, State.DENIED, by, acting_for, why)
        request_rows.entry(
            row, "request.denied", by, {"state": "submitted"}, {"state": "denied"}, why, acting_for, about
        )
        request_messages.tell_author(row, f"{row} was denied: {why}", f"request:{row.pk}:denied")
        request_messages.tell_lower(row)
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
        row = request_rows.locked(request, version, among=(State.SUBMITTED,))
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
        checks.save_changed(row)
        request_rows.entry(row, "request.passed_up", by, None, {"upper": upper.pk}, why, acting_for)
        request_messages.tell_author(row, f"{row} needs more than {row.parent.code} has: {upper} asks for it",
                     f"request:{row.pk}:passed_up:{upper.pk}", Kind.COMMENT)  # fmt: skip
        upper.refresh_from_db()
        return upper


def upper_share_for(request: Request, day: date) -> int:
    """What `pass_up` would have to ask for, so that the parent could give all of it without taking from anybody:
    basis points of the grandparent, rounded up.
    """
    held = Share.objects.filter(queries.in_force(day), node=request.parent, cluster=request.cluster).first()
    return max(1, -(-request.more_basis_points * (held.basis_points if held else 0) // WHOLE_BASIS_POINTS))


def approved(row: Request, by: Person, acting_for: Person | None, why: str, about: ledger.About, given: int) -> None:
    """The part of a reallocation that answers a request: its new state, its entry, and word to its author."""
    request_rows.decided(row, State.APPROVED, by, acting_for, why)
    after = {"state": "approved", "given_basis_points": given}
    request_rows.entry(row, "request.approved", by, {"state": "submitted"}, after, why, acting_for, about)
    more = request_messages.per_cent(given)
    said = f"{row} was approved: {more} more from {row.starts_on}"
    request_messages.tell_author(row, said, f"request:{row.pk}:approved")
    request_messages.tell_lower(row)


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
    checks.days(starts_on=starts_on, ends_on=ends_on, useless_on=useless_on)
    if starts_on < queries.today():
        raise InputError("starts_on", gettext("can't be a day that is over"))
    if ends_on is not None and ends_on <= starts_on:
        raise InputError("ends_on", gettext("must be later than the first day"))
    if useless_on is not None and useless_on <= queries.today():
        raise InputError("useless_on", gettext("must be a day to come"))
