"""What the GPU timeline reads of past days, instead of their runs."""

from __future__ import annotations

from django.db import models

from budgets.models import Cluster


class TimelineTile(models.Model):
    """Cache: one day of a cluster (days since 1970, UTC), summed up in columns of `width_s` by node and leaf.

    `rows` is what scheduler/queries/timeline_tiles.py packs; runs remain the truth.
    """

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    width_s = models.PositiveIntegerField()
    day = models.IntegerField()
    rows = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "width_s", "day"], name="one_tile_of_a_day_and_width")
        ]

    def __str__(self) -> str:
        return f"{self.cluster_id} day {self.day}, {self.width_s} s"
