"""Dated roles: to the second of the organisation's midnight, nobody for themselves, and never without a manager."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from budgets import authority, queries
from budgets.errors import InputError, NotAllowed
from budgets.models import LedgerEntry, Person, RoleGrant
from budgets.services import roles
from tests.budgets.laboratory import LONG_AGO, Lab


def fresh(person: Person) -> Person:
    """The person as the next request loads them."""
    return Person.objects.get(pk=person.pk)


def test_a_role_holds_on_its_days_only(lab: Lab, settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.TIME_ZONE = "Europe/Zurich"  # the clocks go back on 2026-10-25
    roles.grant(
        person=lab.stranger,
        node=lab.a1,
        role="reviewer",
        by=None,
        valid_from=date(2026, 10, 25),
        valid_until=date(2026, 10, 26),
    )
    for instant, holds in [
        (datetime(2026, 10, 24, 21, 59, 59, tzinfo=UTC), False),
        (datetime(2026, 10, 24, 22, 0, 0, tzinfo=UTC), True),
        (datetime(2026, 10, 25, 22, 59, 59, tzinfo=UTC), True),  # that day has 25 hours
        (datetime(2026, 10, 25, 23, 0, 0, tzinfo=UTC), False),
    ]:
        monkeypatch.setattr(timezone, "now", lambda instant=instant: instant)
        assert authority.may(fresh(lab.stranger), "node.see_inside", lab.a1) is holds, instant


def test_who_grants_what(lab: Lab) -> None:
    admin = Person.objects.create_user("admin")
    roles.grant(person=admin, node=lab.root, role="administrator", valid_from=LONG_AGO, by=None)
    today = queries.today()

    def tried(by: Person, node, role: str) -> bool:
        try:
            with transaction.atomic():
                roles.grant(person=lab.stranger, node=node, role=role, valid_from=today, by=by, reason="asked")
                raise LookupError
        except InputError:  # or NotAllowed, which is one
            return False
        except LookupError:
            return True

    every = ("manager", "member", "reviewer", "operator", "administrator")
    assert [role for role in every if tried(admin, lab.root, role)] == list(every)
    assert [role for role in every if tried(admin, lab.a1, role)] == ["manager", "member", "reviewer"]
    assert [role for role in every if tried(lab.pi, lab.a1, role)] == ["manager", "member"]
    assert [role for role in every if tried(lab.pi, lab.a, role)] == ["member"]
    assert [role for role in every if tried(lab.pi, lab.b, role)] == []
    assert [role for role in every if tried(lab.member, lab.a1, role)] == []


def test_nobody_grants_themselves(lab: Lab) -> None:
    with pytest.raises(NotAllowed, match="nobody grants themselves a role"):
        roles.grant(person=lab.pi, node=lab.a1, role="member", valid_from=queries.today(), by=lab.pi, reason="me")
    with pytest.raises(IntegrityError, match="nobody_grants_themselves"), transaction.atomic():
        RoleGrant.objects.create(person=lab.pi, node=lab.a1, role="member", valid_from=LONG_AGO, granted_by=lab.pi)


def test_the_last_manager_cannot_leave_without_a_successor(lab: Lab) -> None:
    grant = RoleGrant.objects.get(person=lab.lead)
    day = queries.today() + timedelta(days=10)
    with pytest.raises(InputError, match=f"on: A1 would have no manager on {day}; name a successor first"):
        roles.end(grant=grant, on=day, by=lab.lead, reason="leaving")
    roles.grant(person=lab.stranger, node=lab.a1, role="manager", valid_from=day + timedelta(days=1), by=None)
    with pytest.raises(InputError, match="no manager"):
        roles.end(grant=grant, on=day, by=lab.lead, reason="leaving")
    roles.end(grant=grant, on=day + timedelta(days=1), by=lab.lead, reason="leaving")
    grant.refresh_from_db()
    assert grant.valid_until == day + timedelta(days=1)
    entry = LedgerEntry.objects.first()
    assert (entry.verb, entry.before["until"], entry.after["until"]) == (
        "role.ended",
        None,
        (day + timedelta(days=1)).isoformat(),
    )
    assert (entry.before["person"], "lead" in str(entry.before)) == (lab.lead.pk, False)


def test_a_successor_who_cannot_sign_in_is_none(lab: Lab) -> None:
    roles.grant(person=lab.stranger, node=lab.a1, role="manager", valid_from=LONG_AGO, by=None)
    Person.objects.filter(pk=lab.stranger.pk).update(is_active=False)
    with pytest.raises(InputError, match="no manager"):
        roles.end(grant=RoleGrant.objects.get(person=lab.lead), on=queries.today(), by=lab.pi, reason="moved on")


def test_a_role_that_never_began_leaves_only_its_entries(lab: Lab) -> None:
    later = queries.today() + timedelta(days=5)
    grant = roles.grant(person=lab.stranger, node=lab.a1, role="member", valid_from=later, by=lab.lead, reason="new")
    roles.end(grant=grant, on=later, by=lab.lead, reason="not coming")
    assert not RoleGrant.objects.filter(person=lab.stranger).exists()
    assert [entry.verb for entry in LedgerEntry.objects.all()[:2]] == ["role.ended", "role.granted"]


def test_bad_dates_and_roles(lab: Lab) -> None:
    day = queries.today()
    grant = {"person": lab.member, "node": lab.a1, "role": "member", "by": lab.lead, "reason": "again"}
    with pytest.raises(InputError, match="valid_from: is in a time when the person is member of A1 already"):
        roles.grant(**grant, valid_from=day)
    with pytest.raises(InputError, match="valid_until: must be later"):
        roles.grant(**grant, valid_from=day, valid_until=day)
    with pytest.raises(InputError, match="valid_from: can't be a day that is over"):
        roles.grant(**grant, valid_from=day - timedelta(days=1))
    with pytest.raises(InputError, match="role: must be one of manager, member"):
        roles.grant(**(grant | {"role": "king"}), valid_from=day)
    with pytest.raises(InputError, match="on: can't be a day that is over"):
        roles.end(grant=RoleGrant.objects.get(person=lab.member), on=day - timedelta(days=1), by=lab.lead, reason="x")
