"""Approving a request: the reallocation that answers it, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from django.db import transaction

from budgets import queries
from budgets.models import BudgetNode, Person, Reallocation, Request, State
from budgets.services import checks, ledger, reallocation_rows, reallocations, request_rows


def approve(
    *,
    request: Request,
    by: Person,
    reason: str,
    shares: Mapping[BudgetNode, int] | None = None,
    starts_on: date | None = None,
    ends_on: date | None = None,
    acting_for: Person | None = None,
    version: int | None = None,
    parent_version: int | None = None,
    look_again_on: date | None = None,
    evidence: ledger.State | None = None,
) -> Reallocation:
    """Decide that the request's node gets more.

    Args:
        shares: of the parent's children, as for `reallocations.apply_directly`. None gives what is asked for, out of
            what is unassigned; where that is too little the sum is refused, since every plus names its minus.
        starts_on: none is the day that is asked for, or today where that is over.
        version: the request's, as it was read. parent_version: that of the node whose shares these are.

    Returns:
        the decision.

    Raises:
        InputError, NotAllowed: as `reallocations.apply_directly`. ConflictError: the request was decided or changed,
            or the parent was changed, meanwhile.
    """
    with transaction.atomic():
        parent = checks.locked(request.parent, parent_version)  # before the request, as everywhere
        row = request_rows.locked(request, version, among=(State.SUBMITTED,))
        first = starts_on or max(row.starts_on, queries.today())
        if shares is None:
            held = reallocation_rows.shares_on(parent, row.cluster, first).get(row.node_id, 0)
            shares = {row.node: held + row.more_basis_points}
        return reallocations.apply_directly(
            parent=parent,
            cluster=row.cluster,
            shares=shares,
            starts_on=first,
            ends_on=ends_on,
            by=by,
            reason=reason,
            acting_for=acting_for,
            request=row,
            look_again_on=look_again_on,
            evidence=evidence,
        )
