"""The tree of the load laboratory, its shares, and who is in it: 20 programs of 100 projects each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from budgets.models import BudgetNode, Cluster, Person, Role, RoleGrant, Share
from budgets.queries import today
from budgets.split import evenly
from scheduler.services import bulk, clusters

PROGRAMS, PROJECTS = 20, 100
RESEARCHERS, LEADS = 1_000, 400
GIVEN_TO_PROGRAMS, GIVEN_TO_PROJECTS = 9_500, 9_000
"""Of their parents, in basis points."""
TEAM_COLOURS = 8


@dataclass(slots=True)
class House:
    """Who and what there is before any work. `members` and `leads` are by project, in the order of `projects`."""

    clusters: list[Cluster] = field(default_factory=list)
    root: BudgetNode = field(default_factory=BudgetNode)
    programs: list[BudgetNode] = field(default_factory=list)
    projects: list[BudgetNode] = field(default_factory=list)
    people: dict[str, Person] = field(default_factory=dict)
    members: list[list[Person]] = field(default_factory=list)
    leads: list[Person] = field(default_factory=list)


def found(born: datetime) -> House:
    """The whole of it, stored in bulk."""
    house = House()
    for position, name in enumerate(("north", "south")):
        house.clusters.append(
            clusters.create(name=name, title=f"{name} hall", model="H100", executor="simulated", position=position)
        )
    _grow(house, born)
    _share(house)
    _appoint(house)
    return house


def _grow(house: House, born: datetime) -> None:
    root = BudgetNode(kind="organisation", code="LAB", name="Load Laboratory", created_at=born)
    house.root = _stored([root])[0]
    house.programs = _stored(
        [
            BudgetNode(
                kind="program", code=f"P{number:02d}", name=f"Program {number}", parent=house.root, created_at=born,
                colour=number % TEAM_COLOURS + 1,
            )
            for number in range(PROGRAMS)
        ]
    )  # fmt: skip
    house.projects = _stored(
        [
            BudgetNode(
                kind="project", code=f"{program.code}.{number:02d}", name=f"Project {number} of {program.name}",
                parent=program, created_at=born, colour=number % TEAM_COLOURS + 1,
            )
            for program in house.programs
            for number in range(PROJECTS)
        ]
    )  # fmt: skip


def _stored(nodes: Sequence[BudgetNode]) -> list[BudgetNode]:
    for node, pk in zip(nodes, bulk.keys(BudgetNode, len(nodes)), strict=True):
        node.pk = pk
        node.path = [*(node.parent.path if node.parent else []), pk]
    return BudgetNode.objects.bulk_create(nodes)


def _share(house: House) -> None:
    """The same on both clusters since 40 days; every third program was given more ten days ago."""
    first, later = today() - timedelta(days=40), today() - timedelta(days=10)
    rows: list[Share] = []

    def give(parent: BudgetNode, children: Sequence[BudgetNode], total: int, since: object, until: object) -> None:
        points = evenly(total, len(children))
        rows.extend(
            Share(node=child, parent=parent, cluster=cluster, basis_points=given, valid_from=since, valid_until=until)
            for cluster in house.clusters
            for child, given in zip(children, points, strict=True)
        )

    give(house.root, house.programs, GIVEN_TO_PROGRAMS, first, None)
    for number, program in enumerate(house.programs):
        children = house.projects[number * PROJECTS : (number + 1) * PROJECTS]
        if number % 3:
            give(program, children, GIVEN_TO_PROJECTS, first, None)
        else:
            give(program, children, GIVEN_TO_PROJECTS, first, later)
            give(program, children, GIVEN_TO_PROJECTS + 500, later, None)
    Share.objects.bulk_create(rows)


def _appoint(house: House) -> None:
    """One of each role at the top, a head of each program, leads of five projects, researchers in two."""
    top = {"chief": Role.MANAGER, "second": Role.MANAGER, "ops": Role.OPERATOR, "rev": Role.REVIEWER,
           "adm": Role.ADMINISTRATOR}  # fmt: skip
    names = [*top, *(f"pi{number:02d}" for number in range(PROGRAMS)), *(f"lead{n:03d}" for n in range(LEADS)),
             *(f"res{number:04d}" for number in range(RESEARCHERS))]  # fmt: skip
    rows = [Person(username=name, display_name=name.capitalize(), password="!") for name in names]
    house.people = {person.username: person for person in Person.objects.bulk_create(rows)}
    since = today() - timedelta(days=40)
    grants = [(house.people[name], house.root, role) for name, role in top.items()]
    grants += [(house.people[f"pi{n:02d}"], program, Role.MANAGER) for n, program in enumerate(house.programs)]
    for number, project in enumerate(house.projects):
        lead = house.people[f"lead{number % LEADS:03d}"]
        member = house.people[f"res{number % RESEARCHERS:04d}"]
        house.leads.append(lead)
        house.members.append([member, lead])
        grants += [(lead, project, Role.MANAGER), (member, project, Role.MEMBER)]
    RoleGrant.objects.bulk_create(
        RoleGrant(person=person, node=node, role=role, valid_from=since) for person, node, role in grants
    )
