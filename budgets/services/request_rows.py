"""The rows of requests: locked as they are now, decided, and as the ledger keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext

from budgets.errors import ConflictError
from budgets.models import (
    House,
    Person,
    Reallocation,
    Request,
    State,
)
from budgets.sentences import said
from budgets.services import (
    checks,
    ledger,
)


def house() -> House:
    """How the organisation decides."""
    return House.objects.filter(pk=1).first() or House(pk=1)


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
        return gettext("is {state} now").format(state=said(row.state))
    at = timezone.localtime(row.decided_at, timezone.get_default_timezone())
    words = (
        gettext("was denied on {day} at {time}")
        if row.state == State.DENIED
        else gettext("was approved on {day} at {time}")
    )
    by = gettext("by {person}").format(person=row.decided_by) if row.decided_by else ""
    return " ".join(part for part in (words.format(day=f"{at:%Y-%m-%d}", time=f"{at:%H:%M}"), by) if part)


def decided(row: Request, state: State, by: Person, acting_for: Person | None, why: str) -> None:
    """Write the decision on a locked request."""
    row.state, row.decided_at, row.decided_by, row.decided_for = state, timezone.now(), by, acting_for
    row.decision_reason, row.answer_by = why, None
    checks.save_changed(row)


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
