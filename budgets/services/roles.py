"""Changes to people's roles."""

from __future__ import annotations

from datetime import date

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from budgets import authority, queries
from budgets.errors import InputError, NotAllowed
from budgets.models import BudgetNode, Person, Role, RoleGrant
from budgets.services import checks, ledger


def grant(
    *,
    person: Person,
    node: BudgetNode,
    role: str,
    valid_from: date,
    by: Person | None,
    reason: str = "",
    valid_until: date | None = None,
) -> RoleGrant:
    """Give the person a role at the node on the organisation's days [valid_from, valid_until).

    Raises:
        InputError: no such role, or one that is given at the organisation alone; dates in no order or over already,
            a closed node, or the person has that role there on some of these days.
        NotAllowed: it isn't theirs to give; nobody grants themselves a role.
    """
    if role not in Role.values:
        raise InputError("role", gettext("must be one of {choices}").format(choices=", ".join(Role.values)))
    if valid_until is not None and valid_until <= valid_from:
        raise InputError("valid_until", gettext("must be later than the first day"))
    if by is not None and valid_from < queries.today():
        raise InputError("valid_from", gettext("can't be a day that is over"))
    if by is not None and by.pk == person.pk:
        raise NotAllowed("role.grant", gettext("nobody grants themselves a role"))
    with transaction.atomic():
        row = checks.locked(node)
        if row.is_closed:
            raise InputError("node", gettext("{row} is closed").format(row=row.code))
        if role in authority.EVERYWHERE_ROLES and row.parent_id is not None:
            raise InputError("role", gettext("counts everywhere, so it is given at the organisation alone"))
        new = RoleGrant(
            person=person, node=row, role=role, valid_from=valid_from, valid_until=valid_until, granted_by=by
        )
        checks.allowed(by, "role.grant", new)
        try:
            with transaction.atomic():
                new.save()
        except IntegrityError:
            raise InputError(
                "valid_from",
                gettext("is in a time when the person is {role} of {row} already").format(role=role, row=row.code),
            ) from None
        _entry("role.granted", new, by, None, _plain(new), reason)
    authority.forget_roles(person)
    return new


def end(*, grant: RoleGrant, on: date, by: Person | None, reason: str = "") -> RoleGrant:
    """End a role before the day `on`: that is the first day without it.

    A grant that would have begun later is ended on its first day, so that it never holds: its row goes, and the
    ledger keeps it. The last manager of a node can't leave without a successor who is there on that day.

    Raises:
        InputError: a day that is over, a role that has ended by then, or the last manager.
        NotAllowed: it isn't theirs to end.
    """
    with transaction.atomic():
        checks.locked(grant.node)
        row = RoleGrant.objects.select_for_update(no_key=True).get(pk=grant.pk)
        checks.allowed(by, "role.end", row)
        if by is not None and on < queries.today():
            raise InputError("on", gettext("can't be a day that is over"))
        if row.valid_until is not None and row.valid_until <= on:
            raise InputError(
                "on",
                gettext("must be before {valid_until}, when the role ends anyhow").format(valid_until=row.valid_until),
            )
        if row.role == Role.MANAGER:
            _refuse_last(row, max(on, row.valid_from))
        before = _plain(row)
        if on <= row.valid_from:
            row.delete()
            after = None
        else:
            row.valid_until = on
            row.save(update_fields=["valid_until"])
            after = _plain(row)
        _entry("role.ended", row, by, before, after, reason)
    authority.forget_roles(grant.person)
    return row


def _refuse_last(grant: RoleGrant, day: date) -> None:
    """Refuse, unless another person who can sign in manages the node on that day (or the node is closed)."""
    others = RoleGrant.objects.filter(node=grant.node, role=Role.MANAGER, person__is_active=True)
    others = others.exclude(person=grant.person_id)
    if not grant.node.is_closed and not others.filter(queries.in_force(day)).exists():
        code = grant.node.code
        raise InputError(
            "on", gettext("{code} would have no manager on {day}; name a successor first").format(code=code, day=day)
        )


def _entry(
    verb: str, grant: RoleGrant, by: Person | None, before: ledger.State | None, after: ledger.State | None, reason: str
) -> None:
    ledger.record(verb=verb, node=grant.node, by=by, before=before, after=after, reason=checks.reason(reason, by))


def _plain(grant: RoleGrant) -> ledger.State:
    return {
        "person": grant.person_id,
        "role": str(grant.role),
        "from": grant.valid_from.isoformat(),
        "until": grant.valid_until.isoformat() if grant.valid_until else None,
    }
