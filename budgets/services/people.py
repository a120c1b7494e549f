"""People who come and go. Nobody with a history is deleted: they are disabled, and their name can be erased.

What a disabled person started goes on, since it is their project's, which pays for it and whose managers may cancel it;
they can't sign in, decide or submit.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets import hooks
from budgets.errors import InputError, NotAllowed
from budgets.models import AccessToken, BudgetNode, Delegation, Identity, Kind, Person, Role, RoleGrant
from budgets.queries import in_force, today
from budgets.services import checks, delegations, ledger, messages, request_deadlines


def choose_language(*, person: Person, language: str) -> None:
    """The language of the person's pages and letters from now on.

    Raises:
        InputError: this portal has no such language.
    """
    codes = [code for code, _ in settings.LANGUAGES]
    if language not in codes:
        raise InputError("language", gettext("must be one of {choices}").format(choices=", ".join(codes)))
    Person.objects.filter(pk=person.pk).update(language=language)
    person.language = language


def disable(*, person: Person, by: Person, reason: str) -> Person:
    """They can't sign in from now on; sessions, tokens and delegations end, and what waits for them is re-routed.

    Raises:
        InputError: they are disabled. NotAllowed: `by` is no administrator, or the person themselves.
    """
    if person.pk == by.pk:
        raise NotAllowed("person.change", gettext("nobody disables themselves; another administrator does"))
    with transaction.atomic():
        checks.allowed(by, "person.change", person)
        row = Person.objects.select_for_update(no_key=True).get(pk=person.pk)
        if not row.is_active:
            raise InputError("person", gettext("is disabled already"))
        row.is_active = False
        row.save(update_fields=["is_active"])
        _entry("person.disabled", row, by, checks.reason(reason, by))
        take_away(row, by)
    request_deadlines.escalate()
    return row


def enable(*, person: Person, by: Person, reason: str) -> Person:
    """They can sign in again; what they had is not given back but their roles, as far as these have not ended."""
    with transaction.atomic():
        checks.allowed(by, "person.change", person)
        row = Person.objects.select_for_update(no_key=True).get(pk=person.pk)
        if row.is_active:
            raise InputError("person", gettext("is not disabled"))
        row.is_active, row.disabled_at = True, None
        row.save(update_fields=["is_active", "disabled_at"])
        _entry("person.enabled", row, by, checks.reason(reason, by))
        return row


def erase_name(*, person: Person, by: Person, reason: str) -> Person:
    """Forget the name and address of somebody who has left (privacy law); no entry is touched, as they hold an id.

    Raises:
        InputError: they can still sign in.
    """
    with transaction.atomic():
        checks.allowed(by, "person.change", person)
        row = Person.objects.select_for_update(no_key=True).get(pk=person.pk)
        if row.is_active:
            raise InputError("person", gettext("can still sign in; disable them first"))
        row.display_name = row.first_name = row.last_name = row.email = ""
        row.username = f"erased-{row.pk}"
        row.set_unusable_password()
        row.save()
        Identity.objects.filter(person=row).delete()
        AccessToken.objects.filter(person=row).update(name="erased")
        _entry("person.erased", row, by, checks.reason(reason, by))
        return row


def sweep() -> int:
    """Beat's, each minute: whoever was made inactive by any road loses what `disable` takes; then what waits for
    somebody who is gone goes up. How many were found.
    """
    found = 0
    for person in Person.objects.filter(is_active=False, disabled_at=None):
        with transaction.atomic():
            row = Person.objects.select_for_update(no_key=True).get(pk=person.pk)
            if not row.is_active and row.disabled_at is None:
                take_away(row, None)
                found += 1
    return found


def take_away(person: Person, by: Person | None) -> None:
    """End the sessions, delegations and whatever else was registered of a person whose row the caller holds."""
    person.disabled_at = now = timezone.now()
    person.save(update_fields=["disabled_at"])
    for session in Session.objects.filter(expire_date__gt=now).iterator():
        if session.get_decoded().get("_auth_user_id") == str(person.pk):
            session.delete()
    for each in Delegation.objects.filter(giver=person, ended_at=None) | Delegation.objects.filter(
        delegate=person, ended_at=None
    ):
        delegations.end(delegation=each, by=None, reason="the account was disabled")
    for call in hooks.person_disabled:
        call(person)
    _tell_managers(person, f"person:{person.pk}:disabled:{int(now.timestamp())}")


def _tell_managers(person: Person, key: str) -> None:
    """Tell those who manage where the person had a role; what waited for the person is theirs to see to."""
    nodes = RoleGrant.objects.filter(in_force(today()), person=person).select_related("node")
    above = {pk for grant in nodes for pk in grant.node.path}
    managers = RoleGrant.objects.filter(in_force(today()), role=Role.MANAGER, node__in=above).exclude(person=person)
    messages.tell(
        to={grant.person_id: grant.person for grant in managers.select_related("person")}.values(),
        kind=Kind.BUDGET,
        subject=f"{person} can't sign in any more",
        text="Their requests and workloads go on; what waited for their decision goes to the level above.",
        path=f"/people/{person.pk}/",
        key=key,
    )


def _entry(verb: str, person: Person, by: Person, reason: str) -> None:
    root = BudgetNode.objects.get(parent=None)
    ledger.record(verb=verb, node=root, by=by, before=None, after={"person": person.pk}, reason=reason)
