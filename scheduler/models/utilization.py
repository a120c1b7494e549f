"""What nodes measured of their devices' activity, and how far each rank has been measured."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from budgets.models import Cluster
from scheduler.models.fields import SecondField
from scheduler.models.work import Run


class UtilizationHour(models.Model):
    """What was measured of one run in one hour: device time that was measured, and of it, activity.

    Not a cache: nobody could measure it again. Time without a row was not measured, which is not the same as idle.
    """

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    run = models.ForeignKey(Run, models.PROTECT, related_name="utilization")
    hour = SecondField()
    measured_milli_s = models.BigIntegerField(help_text="held device time over which activity was measured")
    busy_milli_s = models.BigIntegerField(help_text="activity of these devices, added up over that time")
    memory_milli = models.PositiveIntegerField(null=True, help_text="the most of their memory, in thousandths")

    class Meta:
        # With what figures of a window are made of, so that the rows themselves need not be read.
        indexes = [
            models.Index(
                fields=["cluster", "hour"],
                include=["run", "measured_milli_s", "busy_milli_s"],
                name="utilization_figures",
            )
        ]
        constraints = [
            models.UniqueConstraint(fields=["run", "hour"], name="one_utilization_row_per_hour"),
            models.CheckConstraint(
                name="busy_within_measured",
                condition=Q(busy_milli_s__gte=0, busy_milli_s__lte=F("measured_milli_s")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.hour}"


class UtilizationMark(models.Model):
    """Up to when a rank has been measured: what is said of the time before it counts no more."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="+")
    rank_index = models.PositiveIntegerField()
    until_at = SecondField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "rank_index"], name="one_mark_per_rank")]

    def __str__(self) -> str:
        return f"{self.run_id}:{self.rank_index}"
