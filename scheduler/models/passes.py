"""One run of the engine over one cluster."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from budgets.models import Cluster
from scheduler.models.clusters import PolicyVersion, TreeVersion
from scheduler.models.fields import SecondField


class Pass(models.Model):
    """One run of the engine over one cluster.

    It saw exactly the cluster's events up to and including `event_mark`, at the instant `at`; with the versions
    it names, `scheduler.snapshots.snapshot_at` rebuilds what it saw.
    """

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="passes")
    at = SecondField()
    event_mark = models.BigIntegerField()
    policy = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="+")
    tree = models.ForeignKey(TreeVersion, models.PROTECT, related_name="+")
    engine_version = models.CharField(max_length=20)
    order = ArrayField(models.TextField(), default=list, help_text="waiting workloads as considered, at most 200")
    figures = models.JSONField(default=dict, help_text="the numbers by budget node that made the order")
    shadow = models.JSONField(null=True, help_text="what it decided where nothing is carried out; null: it was")
    load_ms = models.PositiveIntegerField(default=0)
    decide_ms = models.PositiveIntegerField(default=0)
    apply_ms = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["cluster", "-id"], name="pass_latest")]

    def __str__(self) -> str:
        return f"pass {self.pk} of {self.cluster}"
