"""The running totals of a review: what each child has on the stated day, and would have with the pencil marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from budgets import queries
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Cluster, Review, ReviewItem, Share


@dataclass(frozen=True, slots=True)
class Place:
    """A child in the running total: what it has on the stated day, what it would have, and its item if it has one."""

    node: BudgetNode
    now: int
    item: ReviewItem | None

    @property
    def after(self) -> int:
        """The pencil mark, or what it has."""
        return self.now if self.item is None or self.item.pencil is None else self.item.pencil

    @property
    def change(self) -> int:
        """Basis points more, or less."""
        return self.after - self.now


@dataclass(frozen=True, slots=True)
class Standing:
    """The locked total of one cluster: its children's shares with the pencil marks, in basis points."""

    cluster: Cluster
    places: Sequence[Place]

    @property
    def total(self) -> int:
        """Of all children; the meeting can't be closed while it is over the whole."""
        return sum(place.after for place in self.places)

    @property
    def total_now(self) -> int:
        """Without the marks."""
        return sum(place.now for place in self.places)

    @property
    def over(self) -> int:
        """How much too much is given."""
        return max(0, self.total - WHOLE_BASIS_POINTS)

    @property
    def unassigned(self) -> int:
        """What is left."""
        return max(0, WHOLE_BASIS_POINTS - self.total)

    @property
    def unassigned_now(self) -> int:
        """What is left without the marks."""
        return max(0, WHOLE_BASIS_POINTS - self.total_now)


def standing(review: Review, day: date | None = None) -> list[Standing]:
    """The running totals with the pencil marks, a cluster each, in the order of pages. Four queries."""
    children = list(review.node.children.filter(closed_at=None).order_by("code"))
    held = shares_on(review, day or day_of(review))
    items = {(item.node_id, item.cluster_id): item for item in review.items.select_related("node", "cluster")}
    concerned = {cluster for _, cluster in (*held, *items)}
    return [
        Standing(
            cluster,
            [
                Place(child, held.get((child.pk, cluster.pk), 0), items.get((child.pk, cluster.pk)))
                for child in children
            ],
        )
        for cluster in Cluster.objects.filter(pk__in=concerned).order_by("position", "name")
    ]


def day_of(review: Review) -> date:
    """The stated day, or today where that is over."""
    today = queries.today()
    return max(review.applies_from or today, today)


def shares_on(review: Review, day: date) -> dict[tuple[int, int], int]:
    """Basis points of the node's children on the day, by child and cluster id."""
    rows = Share.objects.filter(queries.in_force(day), parent=review.node, node__closed_at=None)
    return {(node, cluster): points for node, cluster, points in rows.values_list("node", "cluster", "basis_points")}
