"""What training runs say of their throughput, and what one device of a cluster could do at most."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from budgets.models import Cluster, Person
from scheduler.models.fields import SecondField
from scheduler.models.work import Run


class ThroughputReport(models.Model):
    """So many tokens in so long, up to an instant, by a model of that size; over all devices of the run."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="throughput")
    at = SecondField(help_text="the end of that time")
    tokens = models.PositiveBigIntegerField()
    span_ms = models.PositiveBigIntegerField()
    parameters = models.PositiveBigIntegerField(help_text="of the model")

    class Meta:
        ordering = ["run", "at"]
        constraints = [
            models.UniqueConstraint(fields=["run", "at"], name="one_throughput_report_a_second"),
            models.CheckConstraint(
                name="throughput_over_some_time_of_some_model", condition=Q(span_ms__gt=0, parameters__gt=0)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.at}"


class DevicePeak(models.Model):
    """What one device of a cluster could do at most, as an operator says: it counts in place of the table's."""

    cluster = models.OneToOneField(Cluster, models.PROTECT, related_name="device_peak")
    gflops = models.PositiveBigIntegerField(help_text="10^9 operations a second, with 16-bit numbers, without sparsity")
    said_by = models.ForeignKey(Person, models.PROTECT, null=True, related_name="+")
    said_at = SecondField(db_default=Now())

    class Meta:
        constraints = [models.CheckConstraint(name="a_device_does_something", condition=Q(gflops__gt=0))]

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.gflops}"
