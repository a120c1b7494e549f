"""What was decided, the event log, and the hourly cache of use."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from budgets.models import BudgetNode, Cluster
from scheduler.models.clusters import Node
from scheduler.models.fields import SecondField
from scheduler.models.passes import Pass
from scheduler.models.work import Run, Workload


class Decision(models.Model):
    """What a pass decided about a workload: a row when its action or reason code changes, not at every pass."""

    workload = models.ForeignKey(Workload, models.PROTECT, related_name="decisions")
    run = models.ForeignKey(Run, models.PROTECT, null=True, blank=True, related_name="decisions")
    made_in = models.ForeignKey(Pass, models.PROTECT, null=True, related_name="decisions")
    at = SecondField()
    action = models.CharField(max_length=20)
    code = models.CharField(max_length=40)
    text = models.TextField()
    numbers = models.JSONField(default=dict)
    by = models.ForeignKey(Workload, models.PROTECT, null=True, blank=True, related_name="+")
    place = models.PositiveIntegerField(null=True, blank=True)
    earliest_start_at = SecondField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.workload_id}: {self.action} {self.code}"


class Event(models.Model):
    """The append-only log of everything that changed what a pass would see (the database refuses anything else).

    Ids rise in commit order within a cluster: `scheduler.services.events.record` takes the cluster's advisory
    lock first. `data` holds what snapshot_at needs to go back: the values that the event set.
    """

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="events")
    at = SecondField()
    kind = models.CharField(max_length=40)
    workload = models.ForeignKey(Workload, models.PROTECT, null=True, blank=True, related_name="events")
    run = models.ForeignKey(Run, models.PROTECT, null=True, blank=True, related_name="events")
    node = models.ForeignKey(Node, models.PROTECT, null=True, blank=True, related_name="events")
    made_in = models.ForeignKey(Pass, models.PROTECT, null=True, blank=True, related_name="events")
    person_id = models.BigIntegerField(null=True)
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["cluster", "id"], name="event_of_cluster"),
            models.Index(fields=["workload", "id"], name="event_of_workload", condition=Q(workload__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


class UsageHour(models.Model):
    """Cache: what a budget node's subtree used, asked for and was owed in one hour on one cluster.

    A function of runs, workloads, spells and shares; `scheduler.services.usage.rebuild` makes it again and
    `check` compares. demand: semantics.md section 10.
    """

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    node = models.ForeignKey(BudgetNode, models.CASCADE, related_name="+")
    hour = SecondField()
    charged_milli_s = models.BigIntegerField(default=0)
    uncharged_milli_s = models.BigIntegerField(default=0)
    demand_milli_s = models.BigIntegerField(default=0)
    entitled_milli_s = models.BigIntegerField(default=0, help_text="entitlement x all devices x one hour")
    available_milli_s = models.BigIntegerField(default=0, help_text="entitlement x healthy devices")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "cluster", "hour"],
                include=["charged_milli_s", "uncharged_milli_s", "demand_milli_s"],
                name="one_row_per_hour",
            )
        ]

    def __str__(self) -> str:
        return f"{self.node_id} {self.hour}"


class ClusterHour(models.Model):
    """Cache: a cluster's devices in one hour: all, healthy, held, held on unfit nodes, uncharged."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    hour = SecondField()
    capacity_milli_s = models.BigIntegerField(default=0)
    healthy_milli_s = models.BigIntegerField(default=0)
    held_milli_s = models.BigIntegerField(default=0)
    held_unfit_milli_s = models.BigIntegerField(default=0)
    uncharged_milli_s = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "hour"], name="one_cluster_row_per_hour")]

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.hour}"
