"""Clusters: policy, the tree as passes saw it, racks, nodes, devices, how nodes fared, maintenance."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from budgets.models import Cluster, Person, SingletonRange
from scheduler.models.fields import WHOLE_DEVICE_MILLI, SecondField, TimestampRange


class PolicyVersion(models.Model):
    """The knobs of one cluster from one pass on. Never changed: a new version is added.

    `knobs` holds the fields of `scheduler.engine.Policy` that differ from its defaults; `swap_margin` is text
    such as "1/2".
    """

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="policies")
    number = models.PositiveIntegerField()
    knobs = models.JSONField(default=dict)
    made_at = SecondField(db_default=Now())
    made_by = models.ForeignKey(Person, models.PROTECT, null=True, related_name="+")
    reason = models.TextField(blank=True)
    entry_id = models.BigIntegerField(null=True, help_text="of the ledger; null for the system")

    class Meta:
        ordering = ["cluster", "-number"]
        constraints = [models.UniqueConstraint(fields=["cluster", "number"], name="policy_numbers_are_unique")]

    def __str__(self) -> str:
        return f"{self.cluster} policy {self.number}"


class TreeVersion(models.Model):
    """The budget tree with its shares as one cluster's passes saw it; a new row when it changes.

    `nodes` is a list of {id, parent, shares, whole, closed} in the engine's terms (ids are BudgetNode codes at
    that time; `db_id` beside them is for life).
    """

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="tree_versions")
    digest = models.CharField(max_length=64)
    nodes = models.JSONField()
    made_at = SecondField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "digest"], name="one_row_per_tree")]

    def __str__(self) -> str:
        return f"{self.cluster} tree {self.pk}"


class Rack(models.Model):
    """One RDMA domain."""

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="racks")
    name = models.CharField(max_length=60)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="rack_names_are_unique")]

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """A host of a cluster. How many devices it has is the number of its `Device` rows."""

    class Health(models.TextChoices):
        HEALTHY = "healthy", gettext_lazy("Healthy")
        UNHEALTHY = "unhealthy", gettext_lazy("Unhealthy")
        UNREACHABLE = "unreachable", gettext_lazy("Unreachable")
        DOWN = "down", gettext_lazy("Down")

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="nodes")
    rack = models.ForeignKey(Rack, models.PROTECT, null=True, blank=True, related_name="nodes")
    name = models.CharField(max_length=60)
    rail = models.CharField(
        max_length=60, blank=True, default="", db_default="", help_text="which leaves its own belongs to"
    )
    leaf = models.CharField(
        max_length=60, blank=True, default="", db_default="", help_text="the switch that it is wired to"
    )
    cpu_milli = models.PositiveBigIntegerField(default=0)
    memory_mib = models.PositiveBigIntegerField(default=0)
    gpu_class = models.CharField(
        max_length=60, blank=True, default="", db_default="", help_text="what kind of devices it has, such as V100"
    )
    health = models.CharField(max_length=12, choices=Health, default=Health.HEALTHY)
    healthy_since = SecondField(null=True, blank=True, help_text="start of the dwell; null: fit since ever")
    drain_asked_at = SecondField(null=True, blank=True, help_text="an operator asked for a drain")
    drain_reason = models.CharField(max_length=200, blank=True)
    retired_at = SecondField(null=True, blank=True)
    heartbeat_at = SecondField(null=True, blank=True)
    wake_url = models.URLField(blank=True, help_text="the agent's wake-up address, where it can be reached")
    token_hash = models.CharField(max_length=128, blank=True, help_text="of the agent's own token")
    agent_epoch = models.BigIntegerField(default=0, help_text="of the last start of its agent that was heard")
    trouble = models.CharField(max_length=300, blank=True, help_text="what is wrong, as its agent or a person said")
    trouble_by = models.CharField(max_length=8, blank=True, choices=[("agent", "agent"), ("person", "person")])
    taken_milli = models.PositiveBigIntegerField(default=0, help_text="held by what is not ours: a Slurm's other jobs")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["cluster", "name"]
        constraints = [models.UniqueConstraint(fields=["cluster", "name"], name="node_names_are_unique")]

    def __str__(self) -> str:
        return self.name


class Device(models.Model):
    """One GPU (or core) of a node. `held_milli` is kept by a trigger on `Holding`, and bounded here."""

    node = models.ForeignKey(Node, models.PROTECT, related_name="devices")
    index = models.PositiveSmallIntegerField()
    uuid = models.CharField(max_length=80, blank=True)
    held_milli = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["node", "index"]
        constraints = [
            models.UniqueConstraint(fields=["node", "index"], name="device_indexes_are_unique"),
            models.CheckConstraint(
                name="device_held_at_most_once", condition=Q(held_milli__gte=0, held_milli__lte=WHOLE_DEVICE_MILLI)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node}:{self.index}"


class NodeSpell(models.Model):
    """How long a node was fit for what: history of health, for availability and for rebuilding past passes."""

    class State(models.TextChoices):
        HEALTHY = "healthy", gettext_lazy("Healthy")
        DRAINING = "draining", gettext_lazy("Draining")
        UNREACHABLE = "unreachable", gettext_lazy("Unreachable")
        DOWN = "down", gettext_lazy("Down")

    node = models.ForeignKey(Node, models.PROTECT, related_name="spells")
    state = models.CharField(max_length=12, choices=State)
    started_at = SecondField()
    ended_at = SecondField(null=True, blank=True)

    class Meta:
        ordering = ["node", "started_at"]
        constraints = [
            models.CheckConstraint(
                name="spell_in_order", condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at"))
            ),
            ExclusionConstraint(
                name="one_spell_at_a_time",
                expressions=[
                    (SingletonRange("node"), RangeOperators.OVERLAPS),
                    (TimestampRange("started_at", "ended_at"), RangeOperators.OVERLAPS),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node} {self.state}"


class MaintenanceWindow(models.Model):
    """Nothing starts on the node whose contract would reach into [starts_at, ends_at); then it drains."""

    node = models.ForeignKey(Node, models.PROTECT, related_name="windows")
    starts_at = SecondField()
    ends_at = SecondField()
    reason = models.CharField(max_length=200, blank=True)
    made_by = models.ForeignKey(Person, models.PROTECT, null=True, related_name="+")
    cancelled_at = SecondField(null=True, blank=True)

    class Meta:
        ordering = ["starts_at"]
        constraints = [
            models.CheckConstraint(name="window_in_order", condition=Q(ends_at__gt=F("starts_at"))),
        ]

    def __str__(self) -> str:
        return f"{self.node} from {self.starts_at}"
