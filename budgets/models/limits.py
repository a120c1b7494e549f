"""What a budget node should, and may, hold at once on a cluster, beside its share."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from budgets.models.tree import BudgetNode, Cluster


class Limit(models.Model):
    """Minimum, maximum and weight of a node on one cluster, in force from the next pass on; no row is none of them.

    Amounts are thousandths of the cluster's unit. A maximum bounds what starts, whatever the order among siblings; a
    minimum, and what shares count times (`factor_milli`, in thousandths), count in the order "fair".
    """

    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="limits")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="limits")
    minimum_milli = models.PositiveBigIntegerField(default=0)
    maximum_milli = models.PositiveBigIntegerField(null=True, blank=True)
    factor_milli = models.PositiveIntegerField(default=1_000)

    class Meta:
        ordering = ["node", "cluster"]
        constraints = [
            models.UniqueConstraint(fields=["node", "cluster"], name="one_limit_of_a_node"),
            models.CheckConstraint(
                name="minimum_at_most_the_maximum",
                condition=Q(maximum_milli__isnull=True) | Q(maximum_milli__gte=F("minimum_milli")),
            ),
            models.CheckConstraint(name="weight_above_zero", condition=Q(factor_milli__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.node.code} on {self.cluster}: {self.minimum_milli} to {self.maximum_milli}"
