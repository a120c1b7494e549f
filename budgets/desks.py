"""Who answers what: the desk at which a request or a reallocation lies, who sits there, and who stands in.

A desk is a node of the tree; its managers decide what lies there, and so may managers above it. Nobody decides what
they asked for, proposed, or have a part in, and nobody for whoever did (governance.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.utils.translation import gettext

from budgets.authority import has_role, parts_of_each, read_roles
from budgets.errors import NotAllowed
from budgets.models import BudgetNode, Delegation, Person, Reallocation, Request, Role, RoleGrant
from budgets.queries import in_force, today


@dataclass(frozen=True, slots=True)
class Matter:
    """What is to be decided, as far as it says who may: where it lies, whose it is, and whom it would raise.

    `plus_basis_points` is what it moves in all, which a delegate's limit bounds.
    """

    desk: BudgetNode
    authors: frozenset[int]
    raised: tuple[BudgetNode, ...]
    plus_basis_points: int


class Known:
    """What was read about people while many matters are looked at: each of them is asked for once."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._people: set[int] = set()
        self._parts: dict[int, frozenset[int]] = {}
        self._delegations: dict[int, list[Delegation]] = {}

    def parts(self, person: Person) -> frozenset[int]:
        """Ids of the nodes in which the person has a part."""
        if person.pk not in self._parts:
            self.expect([person])
            self._parts |= parts_of_each(self._people - self._parts.keys())
        return self._parts[person.pk]

    def expect(self, people: Iterable[Person]) -> None:
        """Read of these people what is read of anybody, when it is."""
        self._people |= {person.pk for person in people}

    def delegations(self, person: Person) -> list[Delegation]:
        """The delegations by which the person may decide somewhere today."""
        if person.pk not in self._delegations:
            rows = Delegation.objects.filter(in_force(today()), delegate=person, ended_at=None)
            held = list(rows.select_related("giver", "node"))
            read_roles(each.giver for each in held)
            self.expect(each.giver for each in held)
            self._delegations[person.pk] = [
                each for each in held if each.giver.is_active and has_role(each.giver, each.node.path, [Role.MANAGER])
            ]
        return self._delegations[person.pk]


def matter_of(thing: Request | Reallocation) -> Matter:
    """The matter of a request, or of a reallocation with its lines."""
    if isinstance(thing, Request):
        return Matter(thing.desk, frozenset({thing.author_id}), (thing.node,), thing.more_basis_points)
    lines = [line for line in thing.lines.all() if line.change > 0]
    authors = frozenset(pk for pk in (thing.author_id, thing.author_for_id) if pk is not None)
    return Matter(thing.desk, authors, tuple(line.node for line in lines), sum(line.change for line in lines))


def delegations_of(person: Person, desk: BudgetNode, known: Known | None = None) -> list[Delegation]:
    """The delegations by which the person may decide at the desk today: given by one who is its manager, or a manager
    above it, now and in their own right, and who can sign in.
    """
    return [each for each in (known or Known()).delegations(person) if each.node_id in desk.path]


def ways_to_decide(person: Person, matter: Matter, known: Known | None = None) -> list[Person | None]:
    """For whom the person may decide it: None is in their own right, a person is as their delegate. Empty: not at all.

    A delegate's limit is not looked at here, since a decision may give less than was asked for.
    """
    known = known or Known()
    if not person.is_active or _is_concerned(person, matter, known):
        return []
    ways: list[Person | None] = [None] if has_role(person, matter.desk.path, [Role.MANAGER]) else []
    givers = {each.giver.pk: each.giver for each in delegations_of(person, matter.desk, known)}
    return [*ways, *(giver for giver in givers.values() if not _is_concerned(giver, matter, known))]


def check_decider(person: Person, acting_for: Person | None, matter: Matter) -> None:
    """Nothing, if the person may decide the matter so.

    Raises:
        NotAllowed: it is their own (or that of whoever they act for), they are neither manager there nor delegate, or
            it moves more than the delegation allows.
    """
    if acting_for is not None and acting_for.pk == person.pk:
        acting_for = None
    for who in (person, acting_for):
        if who is not None and who.pk in matter.authors:
            raise NotAllowed("request.decide", gettext("nobody decides their own request; it is for another manager"))
        if who is not None and (mine := _parts(who, matter, Known())):
            message = gettext("you have a part in {code}: it is for another manager, or the level above").format(
                code=mine[0].code
            )
            raise NotAllowed("request.decide", message)
    if acting_for is None:
        if not has_role(person, matter.desk.path, [Role.MANAGER]):
            raise NotAllowed(
                "request.decide", gettext("this is for the managers of {desk} to decide").format(desk=matter.desk.code)
            )
        return
    check_limit(person, acting_for, matter.desk, matter.plus_basis_points)


def check_limit(person: Person, acting_for: Person, desk: BudgetNode, plus_basis_points: int) -> None:
    """Nothing, if the person may move so much at the desk for the other.

    Raises:
        NotAllowed: there is no such delegation today, or its limit is lower.
    """
    limits = [each.limit_basis_points for each in delegations_of(person, desk) if each.giver_id == acting_for.pk]
    if not limits:
        raise NotAllowed(
            "request.decide",
            gettext("you are no delegate of {acting_for} at {desk} today").format(
                acting_for=acting_for, desk=desk.code
            ),
        )
    if plus_basis_points > max(limits):
        over = plus_basis_points - max(limits)
        raise NotAllowed(
            "request.decide",
            gettext(
                "as a delegate of {acting_for} you may move {limits:,} basis points at once; this is {over:,} more"
            ).format(acting_for=acting_for, limits=max(limits), over=over),
        )


def sitting_at(desk: BudgetNode, matter: Matter, known: Known | None = None) -> list[Person]:
    """The managers of the very desk who can sign in and may decide the matter."""
    grants = RoleGrant.objects.filter(in_force(today()), node=desk, role=Role.MANAGER, person__is_active=True)
    people = [grant.person for grant in grants.select_related("person").order_by("person")]
    known = known or Known()
    known.expect(people)
    return [person for person in people if not _is_concerned(person, matter, known)]


def nearest_desk(desk: BudgetNode, matter: Matter) -> BudgetNode:
    """The desk itself, or the nearest above it at which somebody may decide the matter; the root at the last."""
    known = Known()
    for node in _upwards(desk):
        if sitting_at(node, matter, known):
            return node
    return _upwards(desk)[-1]


def standing_in(managers: Collection[Person], desk: BudgetNode, matter: Matter) -> list[Person]:
    """Who may decide it today for one of these managers."""
    held = Delegation.objects.filter(
        in_force(today()), giver__in=[person.pk for person in managers], node__in=desk.path, ended_at=None,
        delegate__is_active=True,
    )  # fmt: skip
    people = {each.delegate_id: each.delegate for each in held.select_related("delegate").order_by("delegate")}
    known = Known()
    known.expect(people.values())
    return [person for person in people.values() if not _is_concerned(person, matter, known)]


def above(desk: BudgetNode) -> BudgetNode | None:
    """The next desk up, or None at the root."""
    return desk.parent


def _upwards(desk: BudgetNode) -> list[BudgetNode]:
    nodes = {node.pk: node for node in BudgetNode.objects.filter(pk__in=desk.path)}
    return [nodes[pk] for pk in reversed(desk.path)]


def _is_concerned(person: Person, matter: Matter, known: Known) -> bool:
    return person.pk in matter.authors or bool(_parts(person, matter, known))


def _parts(person: Person, matter: Matter, known: Known) -> list[BudgetNode]:
    """The raised nodes in which the person has a part."""
    return [node for node in matter.raised if node.pk in known.parts(person)]
