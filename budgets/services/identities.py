"""People who sign in by an OpenID provider: who they are here, and the roles that their groups there give them.

Everything that the provider's word changes is on the record, done by the system itself. What its groups gave ends when
they no longer do, or when it has not been confirmed for a while; what was given by hand stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256

import structlog
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import BudgetNode, ClaimedRole, Identity, Person, RoleGrant
from budgets.queries import in_force, today
from budgets.services import checks, ledger, roles

log = structlog.get_logger(__name__)

NAME_LENGTH, USERNAME_LENGTH, EMAIL_LENGTH = 120, 150, 254
SUBJECT_LENGTH = 255

Place = tuple[str, str]
"""A role, and the code of the node at which it is."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a provider says of somebody who has just signed in there.

    Attributes:
        issuer, subject: who they are.
        username, display_name, email: what they are called; any may be empty.
        is_email_verified: whether the provider has seen that the address is theirs.
        groups: those that it lists them in.
    """

    issuer: str
    subject: str
    username: str = ""
    display_name: str = ""
    email: str = ""
    is_email_verified: bool = False
    groups: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What a provider's word counts for.

    Attributes:
        creates: whether somebody whom nobody has linked gets an account.
        links_by: "username" or "email": an account with the same one is taken to be theirs; else none is.
        roles: by group, which roles at which nodes.
    """

    creates: bool = False
    links_by: str = "nothing"
    roles: Mapping[str, Iterable[Place]] = field(default_factory=dict)


def arrive(*, said: Said, rules: Rules) -> Person:
    """Whoever this is here, with the roles that the provider's groups give them as of now.

    Raises:
        NotAllowed: nobody here is this, or their account is disabled; the message is for them.
    """
    if not said.subject or len(said.subject) > SUBJECT_LENGTH:
        raise NotAllowed("sign_in", gettext("The sign-in service does not say who you are."))
    try:
        return _arrived(said, rules)
    except IntegrityError:  # the same person for the first time, twice at once: now they are known
        return _arrived(said, rules)


def _arrived(said: Said, rules: Rules) -> Person:
    with transaction.atomic():
        identity = _known(said) or _linked(said, rules) or _created(said, rules)
        if identity is None:
            raise NotAllowed(
                "sign_in",
                gettext(
                    "Nobody here is linked to this sign-in ({subject}) yet. Ask an administrator of Allotment."
                ).format(subject=said.subject),
            )
        if not identity.person.is_active:
            raise NotAllowed("sign_in", gettext("Your account here is disabled. Ask an administrator of Allotment."))
        identity.seen_at = timezone.now()
        identity.save(update_fields=["seen_at"])
        _settle_roles(identity, _wanted(said.groups, rules))
    return identity.person


def link(*, person: Person, issuer: str, subject: str, by: Person | None, reason: str = "") -> Identity:
    """Take whoever signs in there as `subject` to be this person from now on; an earlier link of theirs ends.

    People link themselves: the caller has seen that they are signed in on both sides.

    Raises:
        InputError: no such subject. ConflictError: it is somebody else's. NotAllowed: `by` is neither the person nor an
            administrator.
    """
    clean = checks.text("subject", subject, length=SUBJECT_LENGTH)
    with transaction.atomic():
        if by is None or by.pk != person.pk:
            checks.allowed(by, "person.change", person)
        row = Person.objects.select_for_update(no_key=True).get(pk=person.pk)
        holder = Identity.objects.filter(issuer=issuer, subject=clean).select_related("person").first()
        if holder is not None:
            if holder.person_id == row.pk:
                return holder
            raise ConflictError(gettext("this subject is linked to {person}").format(person=holder.person))
        for earlier in Identity.objects.filter(issuer=issuer, person=row):
            _unlink(earlier, by, reason)
        identity = Identity.objects.create(person=row, issuer=issuer, subject=clean)
        ledger.record_of_all(
            verb="person.linked", by=by, before=None, after=_plain(identity), reason=checks.reason(reason, by)
        )
    return identity


def unlink(*, identity: Identity, by: Person | None, reason: str = "") -> None:
    """Know nobody by it any more; the roles that it gave end."""
    with transaction.atomic():
        checks.allowed(by, "person.change", identity.person)
        _unlink(identity, by, reason)


def end_stale(days: int) -> int:
    """Beat's: end the roles that groups gave to people who have not signed in for so many days. How many ended."""
    since = timezone.now() - timedelta(days=days)
    found = 0
    stale = Identity.objects.filter(seen_at__lt=since, roles__grant__in=RoleGrant.objects.filter(in_force(today())))
    for identity in stale.distinct().select_related("person"):
        with transaction.atomic():
            locked = Identity.objects.select_for_update(no_key=True, of=("self",)).filter(pk=identity.pk)
            row = locked.filter(seen_at__lt=since).select_related("person").first()
            if row is not None:
                found += _end(_held(row).values(), f"not confirmed by a sign-in for {days} days")
    return found


# --- who it is --------------------------------------------------------------------------------------------------------


def _known(said: Said) -> Identity | None:
    found = Identity.objects.select_for_update(no_key=True, of=("self",)).select_related("person")
    return found.filter(issuer=said.issuer, subject=said.subject).first()


def _linked(said: Said, rules: Rules) -> Identity | None:
    """Whose account is taken to be theirs, where the rules say by what. Never one that is linked already."""
    people = Person.objects.exclude(identities__issuer=said.issuer)
    if rules.links_by == "username" and said.username:
        people = people.filter(username=said.username)
    elif rules.links_by == "email" and said.email and said.is_email_verified:
        people = people.filter(email__iexact=said.email)
    else:
        return None
    found = list(people[:2])
    if len(found) != 1 or not found[0].is_active:
        return None
    why = f"the same {'user name' if rules.links_by == 'username' else 'e-mail address'}"
    return link(person=found[0], issuer=said.issuer, subject=said.subject, by=None, reason=why)


def _created(said: Said, rules: Rules) -> Identity | None:
    if not rules.creates:
        return None
    username = _username(said)
    if Person.objects.filter(username__iexact=username).exists():
        if (known := _known(said)) is not None:  # their own, of another window a moment ago
            return known
        raise NotAllowed(
            "sign_in",
            gettext("There is an account {name!r} here already, and nobody has said that it is yours. Ask an "
                    "administrator of Allotment to link it.").format(name=username),
        )  # fmt: skip
    person = Person(username=username, display_name=_display_name(said) or username, email=_email(said))
    person.set_unusable_password()
    person.save()
    ledger.record_of_all(
        verb="person.created", by=None, before=None, after={"person": person.pk}, reason="signed in for the first time"
    )
    return link(person=person, issuer=said.issuer, subject=said.subject, by=None)


def _username(said: Said) -> str:
    """What the provider calls them, if an account can be called that; else something that follows from the subject."""
    try:
        clean = checks.text("username", said.username, length=USERNAME_LENGTH)
        UnicodeUsernameValidator()(clean)
    except (InputError, ValidationError):
        return f"openid-{sha256(f'{said.issuer} {said.subject}'.encode()).hexdigest()[:12]}"
    return clean


def _display_name(said: Said) -> str:
    try:
        return " ".join(checks.text("display_name", said.display_name, length=NAME_LENGTH).split())
    except InputError:
        return ""


def _email(said: Said) -> str:
    try:
        validate_email(said.email)
    except ValidationError:
        return ""
    return said.email if len(said.email) <= EMAIL_LENGTH else ""


# --- roles by groups --------------------------------------------------------------------------------------------------


def _wanted(groups: Collection[str], rules: Rules) -> dict[Place, str]:
    """The roles that these groups give, and the group that gives each."""
    return {place: group for group, places in rules.roles.items() if group in groups for place in places}


def _held(identity: Identity) -> dict[Place, ClaimedRole]:
    """The roles in force that groups gave."""
    rows = ClaimedRole.objects.filter(identity=identity, grant__in=RoleGrant.objects.filter(in_force(today())))
    rows = rows.select_related("grant__node", "grant__person")
    return {(str(row.grant.role), row.grant.node.code): row for row in rows}


def _settle_roles(identity: Identity, wanted: Mapping[Place, str]) -> None:
    """Give what the groups give and is not held; end what they gave and no longer give."""
    held = _held(identity)
    _end((row for place, row in held.items() if place not in wanted), "")
    for (role, code), group in wanted.items():
        if (role, code) not in held:
            _give(identity, role, code, group)


def _give(identity: Identity, role: str, code: str, group: str) -> None:
    """A role by a group, unless somebody gave it by hand. What can't be given is logged, and keeps nobody out."""
    node = BudgetNode.objects.filter(code=code).first()
    person = identity.person
    if node is None:
        log.warning("claimed_role_not_given", role=role, node=code, group=group, reason="there is no such node")
        return
    if RoleGrant.objects.filter(in_force(today()), person=person, node=node, role=role).exists():
        return
    try:
        grant = roles.grant(
            person=person,
            node=node,
            role=role,
            valid_from=today(),
            by=None,
            reason=f"the sign-in service lists them in {group}",
        )
    except InputError as error:
        log.warning("claimed_role_not_given", role=role, node=code, group=group, reason=str(error))
        return
    ClaimedRole.objects.create(identity=identity, grant=grant, group=group[:SUBJECT_LENGTH])


def _end(rows: Iterable[ClaimedRole], reason: str) -> int:
    """End roles that groups gave, from today on. A node keeps its last manager, which is logged. How many ended."""
    ended = 0
    for row in rows:
        why = reason or f"the sign-in service no longer lists them in {row.group}"
        try:
            roles.end(grant=row.grant, on=today(), by=None, reason=why)
            ended += 1
        except InputError as error:
            log.warning("claimed_role_not_ended", role=row.grant.role, node=row.grant.node.code, reason=str(error))
    return ended


def _unlink(identity: Identity, by: Person | None, reason: str) -> None:
    _end(_held(identity).values(), "their sign-in was unlinked")
    ledger.record_of_all(
        verb="person.unlinked", by=by, before=_plain(identity), after=None, reason=checks.reason(reason, by)
    )
    identity.delete()


def _plain(identity: Identity) -> ledger.State:
    """Without the subject: a ledger keeps for ever what it holds, and people's names are not in it."""
    return {"person": identity.person_id, "issuer": identity.issuer}
