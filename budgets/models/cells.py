"""Whole nodes and racks that are a budget node's own on a cluster, beside its share: virtual private clusters."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from budgets.models.tree import BudgetNode, Cluster


class CellGrant(models.Model):
    """So many cells of one level of a cluster are a node's own, in force from the next pass on; no row is none.

    Which real nodes they are is settled only while they are used: whatever others hold, so many can be cleared.
    """

    class Level(models.TextChoices):
        NODE = "node", gettext_lazy("whole node")
        RACK = "rack", gettext_lazy("rack")

    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="cell_grants")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="cell_grants")
    level = models.CharField(max_length=8, choices=Level)
    count = models.PositiveIntegerField()

    class Meta:
        ordering = ["node", "cluster", "level"]
        constraints = [
            models.UniqueConstraint(fields=["node", "cluster", "level"], name="one_grant_of_a_level"),
            models.CheckConstraint(name="cells_of_a_known_level", condition=Q(level__in=["node", "rack"])),
            models.CheckConstraint(name="at_least_one_cell", condition=Q(count__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.node.code} on {self.cluster}: {self.count} of level {self.level}"
