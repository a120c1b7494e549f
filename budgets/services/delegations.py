"""Deciding while somebody is away, and how the organisation decides."""

from __future__ import annotations

from datetime import date

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets import authority, queries
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Delegation, House, Kind, Person, Role
from budgets.services import checks, ledger, messages

LONGEST_DAYS = 366


def give(
    *, giver: Person, delegate: Person, node: BudgetNode, limit_basis_points: int, valid_from: date, valid_until: date
) -> Delegation:
    """Let another person decide for the giver, a manager of the node, on the organisation's days [valid_from,
    valid_until), up to so many basis points at once. It can't be passed on: only a role gives the right to give.

    Raises:
        InputError: dates in no order, over, or more than a year; a bad limit; somebody who can't sign in.
        NotAllowed: the giver does not manage the node.
    """
    if valid_until <= valid_from:
        raise InputError("valid_until", gettext("must be later than the first day"))
    if valid_from < queries.today():
        raise InputError("valid_from", gettext("can't be a day that is over"))
    if (valid_until - valid_from).days > LONGEST_DAYS:
        raise InputError(
            "valid_until",
            gettext("must be at most {longest_days} days after the first day").format(longest_days=LONGEST_DAYS),
        )
    if type(limit_basis_points) is not int or not 1 <= limit_basis_points <= WHOLE_BASIS_POINTS:
        raise InputError(
            "limit_basis_points",
            gettext("must be a whole number of basis points from 1 to {whole_basis_points:,}").format(
                whole_basis_points=WHOLE_BASIS_POINTS
            ),
        )
    if delegate.pk == giver.pk or not delegate.is_active:
        raise InputError("delegate", gettext("must be another person who can sign in"))
    with transaction.atomic():
        row = checks.locked(node)
        if not authority.has_role(giver, row.path, [Role.MANAGER]):
            raise NotAllowed(
                "delegation.give", gettext("only a manager of {row} can let somebody decide there").format(row=row.code)
            )
        new = Delegation.objects.create(
            giver=giver, delegate=delegate, node=row, limit_basis_points=limit_basis_points, valid_from=valid_from,
            valid_until=valid_until,
        )  # fmt: skip
        ledger.record(verb="delegation.given", node=row, by=giver, before=None, after=_plain(new), reason="while away")
        messages.tell(
            to=[delegate],
            kind=Kind.TO_DECIDE,
            subject=f"From {valid_from} until {valid_until} you decide for {giver} at {row.code}",
            path="/desk/",
            key=f"delegation:{new.pk}",
        )
        return new


def end(*, delegation: Delegation, by: Person | None, reason: str = "taken back") -> Delegation:
    """Take it back at once. Its giver, its delegate and administrators may.

    Raises:
        NotAllowed: it is none of theirs. ConflictError: it had ended.
    """
    with transaction.atomic():
        row = (
            Delegation.objects.select_for_update(of=("self",), no_key=True).select_related("node").get(pk=delegation.pk)
        )
        if by is not None and by.pk not in (row.giver_id, row.delegate_id):
            checks.allowed(by, "person.change", None)
        if row.ended_at is not None:
            raise ConflictError(gettext("it had been taken back already"))
        row.ended_at = timezone.now()
        row.save(update_fields=["ended_at"])
        ledger.record(verb="delegation.ended", node=row.node, by=by, before=_plain(row), after=None, reason=reason)
        return row


def change_house(
    *, root: BudgetNode, root_rule: str, answer_days: int, look_again_weeks: int, by: Person, reason: str, version: int
) -> House:
    """Choose how the organisation decides; its managers may.

    Raises:
        InputError: a value out of bounds. NotAllowed; ConflictError: changed since `version`.
    """
    if root_rule not in House.RootRule.values:
        raise InputError(
            "root_rule", gettext("must be one of {choices}").format(choices=", ".join(House.RootRule.values))
        )
    for field, value, most in (("answer_days", answer_days, 60), ("look_again_weeks", look_again_weeks, 52)):
        if type(value) is not int or not 1 <= value <= most:
            raise InputError(field, gettext("must be a whole number from 1 to {most}").format(most=most))
    with transaction.atomic():
        node = checks.locked(root)
        checks.allowed(by, "house.change", node)
        row, _ = House.objects.get_or_create(pk=1)
        if row.version != version:
            raise ConflictError(gettext("this was changed by somebody else meanwhile; look at it again"))
        before = _plain_house(row)
        row.root_rule, row.answer_days, row.look_again_weeks = root_rule, answer_days, look_again_weeks
        row.version += 1
        row.save()
        ledger.record(
            verb="house.changed", node=node, by=by, before=before, after=_plain_house(row),
            reason=checks.reason(reason, by),
        )  # fmt: skip
        return row


def _plain(row: Delegation) -> ledger.State:
    return {
        "giver": row.giver_id,
        "delegate": row.delegate_id,
        "limit_basis_points": row.limit_basis_points,
        "from": row.valid_from.isoformat(),
        "until": row.valid_until.isoformat(),
    }


def _plain_house(row: House) -> ledger.State:
    return {"root_rule": row.root_rule, "answer_days": row.answer_days, "look_again_weeks": row.look_again_weeks}
