"""When operators stopped a whole cluster, and when they let it go on."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from budgets.models import Cluster, Person
from scheduler.models.fields import SecondField


class EmergencyStop(models.Model):
    """From `started_at` to `ended_at` nothing starts on the cluster; what ran there was told to stop."""

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="emergency_stops")
    started_at = SecondField()
    started_by = models.ForeignKey(Person, models.PROTECT, related_name="+")
    reason = models.CharField(max_length=200)
    ended_at = SecondField(null=True, blank=True)
    ended_by = models.ForeignKey(Person, models.PROTECT, null=True, blank=True, related_name="+")
    end_reason = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["cluster"], name="stopped_once_at_a_time", condition=Q(ended_at=None)),
            models.CheckConstraint(
                name="stop_ends_after_it_began", condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at"))
            ),
        ]

    def __str__(self) -> str:
        return f"stop of {self.cluster_id} at {self.started_at}"
