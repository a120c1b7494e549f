"""A small laboratory: two programs, the first with two projects; one cluster, four people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

from budgets.models import BudgetNode, Cluster, Person
from budgets.services import roles, shares, tree

LONG_AGO = date(2026, 1, 1)
FOUNDED = datetime(2025, 12, 31, tzinfo=UTC)


@dataclass
class Lab:
    """The nodes, the people, and the cluster."""

    root: BudgetNode
    a: BudgetNode
    b: BudgetNode
    a1: BudgetNode
    a2: BudgetNode
    north: Cluster
    chief: Person
    pi: Person
    lead: Person
    member: Person
    stranger: Person

    def give(self, parent: BudgetNode, basis_points: dict[BudgetNode, int], start: date = LONG_AGO, end=None) -> None:
        """Set shares as the system does."""
        shares.set_shares(
            parent=parent, cluster=self.north, shares=basis_points, valid_from=start, valid_until=end, by=None
        )


def build() -> Lab:
    """The laboratory, with 70 % for A (of it 50 % for A1) and 30 % for B, since long ago."""
    root = tree.create_root(code="LAB", name="Laboratory", at=FOUNDED)
    nodes = {}
    for parent, kind, code in [
        ("LAB", "program", "A"),
        ("LAB", "program", "B"),
        ("A", "project", "A1"),
        ("A", "project", "A2"),
    ]:
        above = root if parent == "LAB" else nodes[parent]
        nodes[code] = tree.add_child(parent=above, kind=kind, code=code, name=f"name of {code}", by=None, at=FOUNDED)
    north = Cluster.objects.create(name="north")
    people = {
        name: Person.objects.create_user(name, password="x") for name in ("chief", "pi", "lead", "member", "nobody")
    }
    found = Lab(
        root,
        nodes["A"],
        nodes["B"],
        nodes["A1"],
        nodes["A2"],
        north,
        people["chief"],
        people["pi"],
        people["lead"],
        people["member"],
        people["nobody"],
    )
    for person, node, role in [
        (found.chief, root, "manager"),
        (found.pi, found.a, "manager"),
        (found.lead, found.a1, "manager"),
        (found.member, found.a1, "member"),
    ]:
        roles.grant(person=person, node=node, role=role, valid_from=LONG_AGO, by=None)
    found.give(root, {found.a: 7000, found.b: 3000})
    found.give(found.a, {found.a1: 5000})
    return found
