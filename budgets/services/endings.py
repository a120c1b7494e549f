"""Telling managers of budgets that end: one message for each manager and day of ending, however many end on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef

from budgets.models import Kind, Person, Request, Role, RoleGrant, Share, State
from budgets.queries import in_force, today
from budgets.services import messages

TOLD_AHEAD = timedelta(days=14)
"""How long before its end; what is shortened later than that is known from the decision itself."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A share that ends with nothing after it, and the open request that would renew it, if there is one."""

    share: Share
    renewal: Request | None

    def line(self) -> str:
        """As it stands in the message."""
        node, points = self.share.node, self.share.basis_points
        said = (
            f"{node.code} {node.name}: {points // 100}.{points % 100:02d} % of {self.share.parent.code} on "
            f"{self.share.cluster.name}"
        )
        if self.renewal is None:
            return f"{said}; nobody has asked for more"
        return f"{said}; {self.renewal} asks for more and has no answer yet"


def tell_of_endings(day: date | None = None) -> int:
    """Tell the managers of each budget that ends within TOLD_AHEAD, and those of its parent, who can give it more. How
    many people are told now; the same day of ending is told each of them once.
    """
    first = day or today()
    by_end: dict[date, list[Ending]] = {}
    for ending in endings(first, first + TOLD_AHEAD):
        assert ending.share.valid_until is not None
        by_end.setdefault(ending.share.valid_until, []).append(ending)
    managers = _managers({pk for found in by_end.values() for each in found for pk in _concerned(each)}, first)
    told = 0
    for end, found in sorted(by_end.items()):
        theirs: dict[int, tuple[Person, list[Ending]]] = {}
        for ending in found:
            people = {person.pk: person for pk in _concerned(ending) for person in managers.get(pk, [])}
            for person in people.values():
                theirs.setdefault(person.pk, (person, []))[1].append(ending)
        for person, lines in theirs.values():
            told += _tell(person, end, lines)
    return told


def endings(first: date, last: date) -> list[Ending]:
    """The shares of open nodes whose last day lies in [first, last], with no share of the node on that cluster after
    it, in the order of the tree. Two queries.
    """
    after = Share.objects.filter(node=OuterRef("node"), cluster=OuterRef("cluster"), valid_from=OuterRef("valid_until"))
    rows = Share.objects.filter(valid_until__gt=first, valid_until__lte=last + timedelta(days=1))
    rows = rows.filter(~Exists(after), basis_points__gt=0, node__closed_at=None)
    shares = list(rows.select_related("node", "parent", "cluster").order_by("node__path", "cluster__position"))
    asked = Request.objects.filter(node__in=[share.node_id for share in shares], state__in=[State.SUBMITTED])
    renewals = {(request.node_id, request.cluster_id): request for request in asked.order_by("pk")}
    return [Ending(share, renewals.get((share.node_id, share.cluster_id))) for share in shares]


def _concerned(ending: Ending) -> tuple[int, int]:
    return ending.share.node_id, ending.share.parent_id


def _managers(nodes: set[int], day: date) -> dict[int, list[Person]]:
    """The managers of these very nodes, by node. One query."""
    found: dict[int, list[Person]] = {}
    grants = RoleGrant.objects.filter(in_force(day), node__in=nodes, role=Role.MANAGER, person__is_active=True)
    for grant in grants.select_related("person").order_by("person"):
        found.setdefault(grant.node_id, []).append(grant.person)
    return found


def _tell(person: Person, end: date, found: Sequence[Ending]) -> int:
    last = end - timedelta(days=1)
    what = f"The budget of {found[0].share.node.code} ends" if len(found) == 1 else f"{len(found)} budgets end"
    with transaction.atomic():
        return messages.tell(
            to=[person],
            kind=Kind.BUDGET,
            subject=f"{what} with {last:%a} {last.day} {last:%b %Y}",
            text="\n".join(ending.line() for ending in found),
            path=f"/budget/{found[0].share.node.code}/" if len(found) == 1 else "/tree/",
            key=f"ending:{end}",
        )
