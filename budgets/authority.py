"""Who may do or see what (governance.md). Every page, route, command and service asks `may`.

A person's rights are their dated roles, on the organisation's days, at a node or above it. Django's superuser flag
gives none of them: governance is not an administration screen. Packages above add their actions with `register`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from typing import Any

import rules
from django.db.models import Exists, OuterRef

from budgets import hooks
from budgets.models import BudgetNode, Delegation, Person, Reallocation, Request, Review, Role, RoleGrant, State
from budgets.queries import in_force, today

_RULES = rules.RuleSet()

Held = frozenset[tuple[int, str]]
"""(node id, role) pairs in force."""

INSIDE_ROLES = (Role.MANAGER, Role.MEMBER, Role.REVIEWER, Role.OPERATOR)
"""Who sees command, environment, logs and owner of what is at or below their node."""

EVERYWHERE_ROLES = (Role.OPERATOR, Role.ADMINISTRATOR)
"""Roles that count for all clusters and all people, wherever they are held: so they are given at the organisation
alone, or an administrator of one project could make operators of everything.
"""


class UnknownAction(LookupError):
    """An action that nobody registered: a mistake in the code, never a "no"."""


def register(action: str, predicate: rules.Predicate) -> None:
    """Make an action known; `predicate` takes the person and the thing.

    Raises:
        KeyError: it is known already.
    """
    _RULES.add_rule(action, predicate)


def actions() -> list[str]:
    """Every action that is known, in alphabetical order."""
    return sorted(_RULES)


def may(person: Any, action: str, thing: Any = None) -> bool:
    """Whether the person may do `action` to `thing` now. Nobody signed out, and nobody disabled, may do anything.

    A person's roles are read once for each Person object, so once a request.

    Raises:
        UnknownAction: no such action.
    """
    if not _RULES.rule_exists(action):
        raise UnknownAction(action)
    if person is None or not person.is_authenticated or not person.is_active:
        return False
    return bool(_RULES.test_rule(action, person, thing))


def roles_of(person: Person) -> Held:
    """The person's roles in force today, read once and kept on the object."""
    day = today()
    kept: tuple[date, Held] | None = person.__dict__.get("_roles_held")
    if kept is None or kept[0] != day:
        grants = RoleGrant.objects.filter(person=person.pk).filter(in_force(day))
        kept = (day, frozenset(grants.values_list("node_id", "role")))
        person.__dict__["_roles_held"] = kept
    return kept[1]


def read_roles(people: Iterable[Person]) -> None:
    """Read the roles of several people at once, before each of them is asked about. One query."""
    asked, day = list(people), today()
    held: dict[int, set[tuple[int, str]]] = {person.pk: set() for person in asked}
    grants = RoleGrant.objects.filter(in_force(day), person__in=list(held))
    for pk, node, role in grants.values_list("person_id", "node_id", "role"):
        held[pk].add((node, role))
    for person in asked:
        person.__dict__["_roles_held"] = (day, frozenset(held[person.pk]))


def stands_in_at(person: Person) -> frozenset[int]:
    """Ids of the nodes at which, and below, the person decides for somebody who is away today: for a manager there, now
    and in their own right, who can sign in. Read once, as `roles_of`.
    """
    day = today()
    kept: tuple[date, frozenset[int]] | None = person.__dict__.get("_stands_in")
    if kept is None or kept[0] != day:
        manages = RoleGrant.objects.filter(in_force(day), person=OuterRef("giver"), role=Role.MANAGER)
        held = Delegation.objects.filter(in_force(day), delegate=person.pk, ended_at=None, giver__is_active=True)
        held = held.filter(Exists(manages.filter(node__path__contained_by=OuterRef("node__path"))))
        kept = (day, frozenset(held.values_list("node", flat=True)))
        person.__dict__["_stands_in"] = kept
    return kept[1]


def forget_roles(person: Person) -> None:
    """Read the person's roles again at the next question; for those who have just changed them."""
    person.__dict__.pop("_roles_held", None)
    person.__dict__.pop("_stands_in", None)


def has_role(person: Person, path: Sequence[int], roles: Collection[str]) -> bool:
    """Whether the person has one of the roles at one of the nodes on `path` (ids from the root down)."""
    return any(node in path for node, role in roles_of(person) if role in roles)


def nodes_with(person: Person, roles: Collection[str]) -> list[int]:
    """Ids of the nodes at which the person has one of the roles; whatever is below them is theirs as well.

    For lists: `leaf__path__overlap=nodes_with(person, INSIDE_ROLES)`.
    """
    return sorted({node for node, role in roles_of(person) if role in roles})


def has_part_in(person: Person, node: BudgetNode) -> bool:
    """Whether the person has a role at the node or below it, today or later, or submits workloads there."""
    return node.pk in parts_of(person)


def parts_of(person: Person) -> frozenset[int]:
    """Ids of all nodes in which the person has a part: at or below which they have a role, today or later, or submit
    workloads. Two queries.
    """
    return parts_of_each([person.pk])[person.pk]


def parts_of_each(people: Collection[int]) -> dict[int, frozenset[int]]:
    """`parts_of` several people, by id. Two queries, however many they are."""
    grants = RoleGrant.objects.filter(person__in=people).exclude(valid_until__lte=today())
    submitted = [pair for ask in hooks.submits_at for pair in ask(people)]
    parts: dict[int, set[int]] = {pk: set() for pk in people}
    for pk, path in [*grants.values_list("person_id", "node__path"), *submitted]:
        parts[pk].update(path)
    return {pk: frozenset(nodes) for pk, nodes in parts.items()}


# --- predicates ---------------------------------------------------------------------------------------------------


def _somewhere_above(*roles: str) -> rules.Predicate:
    """One of the roles at the node or above it."""

    def test(person: Person, node: BudgetNode | None) -> bool:
        return node is not None and has_role(person, node.path, roles)

    return rules.Predicate(test, name=f"has {'/'.join(roles)} at or above")


def _strictly_above(*roles: str) -> rules.Predicate:
    """One of the roles above the node itself."""

    def test(person: Person, node: BudgetNode | None) -> bool:
        return node is not None and has_role(person, node.path[:-1], roles)

    return rules.Predicate(test, name=f"has {'/'.join(roles)} above")


def _grants(person: Person, grant: RoleGrant | None) -> bool:
    """People and roles are the administrators'; a manager names members here and below, and managers below. What counts
    everywhere is given at the organisation.

    Nobody gives themselves a role, or takes part in giving it.
    """
    if grant is None or grant.person_id == person.pk:
        return False
    path = grant.node.path
    if grant.role in EVERYWHERE_ROLES and len(path) > 1:
        return False
    if has_role(person, path, [Role.ADMINISTRATOR]):
        return True
    if grant.role == Role.MEMBER:
        return has_role(person, path, [Role.MANAGER])
    return grant.role == Role.MANAGER and has_role(person, path[:-1], [Role.MANAGER])


def _ends(person: Person, grant: RoleGrant | None) -> bool:
    """Who may grant it may end it, administrators may end any, and everyone may lay down their own."""
    if grant is None:
        return False
    is_administrator = has_role(person, grant.node.path, [Role.ADMINISTRATOR])
    return grant.person_id == person.pk or is_administrator or _grants(person, grant)


def _sees_request(person: Person, request: Request | None) -> bool:
    """Its author, the node's people, the managers above it, reviewers and operators, and who stands in at its desk; a
    draft is its author's alone.
    """
    if request is None:
        return False
    if request.author_id == person.pk:
        return True
    if request.state == State.DRAFT:
        return False
    return has_role(person, request.node.path, INSIDE_ROLES) or _operates(person) or _stands_in(person, request)


def _sees_reallocation(person: Person, reallocation: Reallocation | None) -> bool:
    """What is in force everyone sees, like the tree's figures; a draft its author; a proposal the node's people, and
    who stands in at its desk.
    """
    if reallocation is None:
        return False
    if reallocation.author_id == person.pk or reallocation.state in (State.APPROVED, State.APPLIED):
        return True
    if reallocation.state == State.DRAFT:
        return False
    inside = has_role(person, reallocation.parent.path, INSIDE_ROLES) or _operates(person)
    return inside or _stands_in(person, reallocation)


def _stands_in(person: Person, thing: Request | Reallocation) -> bool:
    """Whether the person decides for somebody where it lies."""
    at = stands_in_at(person)
    return bool(at) and bool(at.intersection(thing.desk.path))


def _hears_reviewers(person: Person, thing: Request | Reallocation | None) -> bool:
    """Those who decide it, also for somebody who is away, and the reviewers of its place, but never its author."""
    if thing is None or thing.author_id == person.pk:
        return False
    return has_role(person, thing.parent.path, [Role.MANAGER, Role.REVIEWER]) or _stands_in(person, thing)


def _sees_review(person: Person, review: Review | None) -> bool:
    """Its node's people, the managers and reviewers above, and operators."""
    return review is not None and (has_role(person, review.node.path, INSIDE_ROLES) or _operates(person))


def _at_review(*roles: str) -> rules.Predicate:
    """One of the roles at the review's node or above it."""

    def test(person: Person, review: Review | None) -> bool:
        return review is not None and has_role(person, review.node.path, roles)

    return rules.Predicate(test, name=f"has {'/'.join(roles)} at the review")


def _operates(person: Person) -> bool:
    return any(role == Role.OPERATOR for _, role in roles_of(person))


def _administers(person: Person) -> bool:
    return any(role == Role.ADMINISTRATOR for _, role in roles_of(person))


def _sees_to_tokens(person: Person, owner: Person | None) -> bool:
    """Everybody to their own; to others' operators, and administrators, who see to people."""
    return owner is not None and (owner.pk == person.pk or _operates(person) or _administers(person))


def _sees_to_webhooks(person: Person) -> bool:
    """Operators and administrators see to the organisation's webhooks."""
    return _operates(person) or _administers(person)


signed_in: rules.Predicate = rules.always_allow
"""Everyone signed in: `may` has seen to that."""

register("tree.see", signed_in)
register("node.see_inside", _somewhere_above(*INSIDE_ROLES))
register("node.see_ledger", _somewhere_above(*INSIDE_ROLES, Role.ADMINISTRATOR))
register("node.add_child", _somewhere_above(Role.MANAGER))
register("node.rename", _somewhere_above(Role.MANAGER))
register("node.close", _strictly_above(Role.MANAGER))
register("share.change", _somewhere_above(Role.MANAGER))
register("role.grant", rules.Predicate(_grants, name="grants"))
register("role.end", rules.Predicate(_ends, name="ends"))
register("request.make", _somewhere_above(Role.MANAGER, Role.MEMBER))
register("request.see", rules.Predicate(_sees_request, name="sees the request"))
register("reallocation.see", rules.Predicate(_sees_reallocation, name="sees the reallocation"))
register("review.plan", _somewhere_above(Role.MANAGER))
register("review.see", rules.Predicate(_sees_review, name="sees the review"))
register("review.present", _at_review(Role.MANAGER, Role.REVIEWER))
register("review.decide", _at_review(Role.MANAGER))
register("comment.see_reviewers", rules.Predicate(_hears_reviewers, name="decides it or reviews"))
register("person.change", rules.Predicate(lambda person, _thing: _administers(person), name="is an administrator"))
register("token.revoke", rules.Predicate(_sees_to_tokens, name="sees to tokens"))
register("webhook.organisation", rules.Predicate(lambda person, _thing: _sees_to_webhooks(person), name="sees to all"))
register("house.change", _somewhere_above(Role.MANAGER))
