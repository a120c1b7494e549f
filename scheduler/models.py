"""What runs where, and why: nodes, workloads, runs, decisions and the event log.

Amounts are whole thousandths of the cluster's unit (`_milli`), instants whole seconds (the column type rounds
nothing away: services floor first). Rows change only through `scheduler.services` and the loop; what must
always hold is a constraint of the database too. Usage is a function of runs; `UsageHour` is a cache of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField, RangeOperators
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now

from budgets.models import BudgetNode, Cluster, Person, SingletonRange

WHOLE_DEVICE_MILLI = 1_000
"""One whole device, in thousandths."""


class SecondField(models.DateTimeField):
    """An instant in whole seconds: `timestamptz(0)`. Fractions are cut off, never rounded up into the future."""

    def db_type(self, connection: Any) -> str:
        """The column type."""
        return "timestamptz(0)"

    def get_prep_value(self, value: Any) -> Any:
        """Cut the fraction off before the database could round it."""
        value = super().get_prep_value(value)
        return value.replace(microsecond=0) if isinstance(value, datetime) else value


class TimestampRange(Func):
    """`tstzrange(from, until)`: half-open; a missing end is "not ended"."""

    function = "tstzrange"
    output_field = DateTimeRangeField()


# --- clusters: policy, racks, nodes, devices -----------------------------------------------------------------


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
        HEALTHY = "healthy"
        UNHEALTHY = "unhealthy"
        UNREACHABLE = "unreachable"
        DOWN = "down"

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="nodes")
    rack = models.ForeignKey(Rack, models.PROTECT, null=True, blank=True, related_name="nodes")
    name = models.CharField(max_length=60)
    cpu_milli = models.PositiveBigIntegerField(default=0)
    memory_mib = models.PositiveBigIntegerField(default=0)
    health = models.CharField(max_length=12, choices=Health, default=Health.HEALTHY)
    healthy_since = SecondField(null=True, blank=True, help_text="start of the dwell; null: fit since ever")
    drain_asked_at = SecondField(null=True, blank=True, help_text="an operator asked for a drain")
    drain_reason = models.CharField(max_length=200, blank=True)
    retired_at = SecondField(null=True, blank=True)
    heartbeat_at = SecondField(null=True, blank=True)
    wake_url = models.URLField(blank=True, help_text="the agent's wake-up address, where it can be reached")
    token_hash = models.CharField(max_length=128, blank=True, help_text="of the agent's own token")
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
        HEALTHY = "healthy"
        DRAINING = "draining"
        UNREACHABLE = "unreachable"
        DOWN = "down"

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


# --- passes ---------------------------------------------------------------------------------------------------


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
    load_ms = models.PositiveIntegerField(default=0)
    decide_ms = models.PositiveIntegerField(default=0)
    apply_ms = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["cluster", "-id"], name="pass_latest")]

    def __str__(self) -> str:
        return f"pass {self.pk} of {self.cluster}"


# --- workloads and runs ---------------------------------------------------------------------------------------


class Workload(models.Model):
    """A gang that somebody submitted: all its devices at once or nothing (semantics.md section 1).

    `code` is its public id ("A3-2214": its leaf's code and a number). The columns under "now" are the current
    numbers, rewritten by passes; decisions that changed something are rows of `Decision`.
    """

    class State(models.TextChoices):
        QUEUED = "queued"
        STARTING = "starting"
        RUNNING = "running"
        LEAVING = "leaving"
        UNREACHABLE = "unreachable"
        HELD = "held"
        FINISHED = "finished"
        FAILED = "failed"
        PREEMPTED = "preempted"
        LOST = "lost"
        CANCELLED = "cancelled"
        REFUSED = "refused"

    OPEN_STATES = ("queued", "starting", "running", "leaving", "unreachable", "held")
    ENDED_STATES = ("finished", "failed", "preempted", "lost", "cancelled", "refused")

    class Class(models.TextChoices):
        DEBUG = "debug"
        STANDARD = "standard"
        LARGE = "large"
        UNALLOCATED = "unallocated"

    code = models.CharField(max_length=32, unique=True)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="workloads")
    leaf = models.ForeignKey(BudgetNode, models.PROTECT, related_name="workloads")
    owner = models.ForeignKey(Person, models.PROTECT, null=True, related_name="workloads")
    name = models.CharField(max_length=120, blank=True)
    # what it asks for
    size_milli = models.PositiveBigIntegerField()
    min_runtime_s = models.PositiveIntegerField(help_text="the contract; 0 is unallocated")
    time_limit_s = models.PositiveIntegerField(null=True, blank=True, help_text="it is stopped after this long")
    priority = models.IntegerField(default=0)
    node = models.ForeignKey(Node, models.PROTECT, null=True, blank=True, related_name="pinned", help_text="pin")
    cpu_milli_per_rank = models.PositiveIntegerField(default=0)
    memory_mib_per_rank = models.PositiveIntegerField(default=0)
    workload_class = models.CharField(max_length=12, choices=Class)
    resumable = models.BooleanField(default=False)
    checkpoint = models.CharField(max_length=300, blank=True, help_text="where it saves, in its working directory")
    array = models.UUIDField(null=True, blank=True, help_text="tasks of one array share it")
    array_index = models.PositiveIntegerField(null=True, blank=True)
    after = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="followers")
    command = ArrayField(models.TextField(), default=list, help_text="argument list, never a shell line")
    environment = models.JSONField(default=dict)
    demo = models.BooleanField(default=False, help_text="its command is one of the demo's own")
    idempotency_key = models.CharField(max_length=80, blank=True)
    # now
    state = models.CharField(max_length=12, choices=State, default=State.QUEUED)
    submitted_at = SecondField(help_text="first submission; a requeue keeps it")
    first_started_at = SecondField(null=True, blank=True)
    ended_at = SecondField(null=True, blank=True)
    cancel_asked_at = SecondField(null=True, blank=True)
    progress_s = models.PositiveIntegerField(default=0, help_text="run time kept over preemptions")
    preemptions = models.PositiveIntegerField(default=0)
    reason_code = models.CharField(max_length=40, blank=True)
    reason_text = models.TextField(blank=True)
    reason_numbers = models.JSONField(default=dict)
    place = models.PositiveIntegerField(null=True, blank=True, help_text="in the order of the last pass")
    earliest_start_at = SecondField(null=True, blank=True)

    class Meta:
        ordering = ["submitted_at", "code"]
        indexes = [
            models.Index(
                fields=["cluster", "place"],
                name="workload_open",
                condition=Q(state__in=("queued", "starting", "running", "leaving", "unreachable", "held")),
            ),
            models.Index(fields=["leaf", "-submitted_at"], name="workload_of_leaf"),
            models.Index(fields=["owner", "-submitted_at"], name="workload_of_owner"),
            models.Index(fields=["cluster", "-ended_at"], name="workload_ended"),
        ]
        constraints = [
            models.CheckConstraint(name="workload_asks_for_something", condition=Q(size_milli__gt=0)),
            models.CheckConstraint(
                name="a_fraction_is_of_one_device",
                condition=Q(size_milli__lt=WHOLE_DEVICE_MILLI)
                | Q(size_milli=Func(F("size_milli"), template="(%(expressions)s / 1000) * 1000")),
            ),
            models.CheckConstraint(
                name="ended_has_an_end",
                condition=Q(
                    state__in=("finished", "failed", "preempted", "lost", "cancelled", "refused"),
                    ended_at__isnull=False,
                )
                | Q(
                    state__in=("queued", "starting", "running", "leaving", "unreachable", "held"),
                    ended_at__isnull=True,
                ),
            ),
            models.UniqueConstraint(
                fields=["array", "array_index"], name="array_indexes_are_unique", condition=Q(array__isnull=False)
            ),
            models.UniqueConstraint(
                fields=["owner", "idempotency_key"],
                name="submitted_once",
                condition=~Q(idempotency_key=""),
            ),
        ]

    def __str__(self) -> str:
        return self.code


class WorkloadNumber(models.Model):
    """The last number that was given to a workload submitted to a budget node; its row makes the numbers unique."""

    leaf_code = models.CharField(max_length=16, primary_key=True)
    last = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.leaf_code}-{self.last:04d}"


class Run(models.Model):
    """One holding of devices by a workload: [started_at, ended_at). Charged, if funded, for all of it.

    `path` copies the leaf's path at the start, so that the charge stays where it was made. The id is also the
    fencing token: an agent that reports for an older run of the workload is told to stop.
    """

    class State(models.TextChoices):
        STARTING = "starting"
        RUNNING = "running"
        LEAVING = "leaving"
        UNREACHABLE = "unreachable"
        ENDED = "ended"

    workload = models.ForeignKey(Workload, models.PROTECT, related_name="runs")
    number = models.PositiveIntegerField(help_text="1 for the first run of its workload")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="runs")
    leaf = models.ForeignKey(BudgetNode, models.PROTECT, related_name="runs")
    path = ArrayField(models.BigIntegerField())
    size_milli = models.PositiveBigIntegerField(help_text="held, with the rest of whole nodes")
    funded = models.BooleanField()
    min_runtime_s = models.PositiveIntegerField()
    state = models.CharField(max_length=12, choices=State, default=State.STARTING)
    started_at = SecondField()
    running_at = SecondField(null=True, blank=True, help_text="every rank runs: the contract begins")
    contract_ends_at = SecondField(null=True, blank=True)
    stop_asked_at = SecondField(null=True, blank=True)
    leave_by = SecondField(null=True, blank=True, help_text="end of its grace")
    ended_at = SecondField(null=True, blank=True)
    end_reason = models.CharField(max_length=40, blank=True, help_text="finished, failed, cancelled or a reason code")
    exit_code = models.IntegerField(null=True, blank=True)
    preempted_by = models.ForeignKey(Workload, models.PROTECT, null=True, blank=True, related_name="took_from")
    started_in = models.ForeignKey(Pass, models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["workload", "number"]
        indexes = [
            models.Index(fields=["cluster"], name="run_not_ended", condition=~Q(state="ended")),
            models.Index(fields=["cluster", "ended_at"], name="run_window", include=["started_at", "funded"]),
            GinIndex(fields=["path"], name="run_path"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["workload", "number"], name="run_numbers_are_unique"),
            models.UniqueConstraint(fields=["workload"], name="one_run_at_a_time", condition=~Q(state="ended")),
            models.CheckConstraint(
                name="run_ends_once",
                condition=Q(state="ended", ended_at__isnull=False) | (~Q(state="ended") & Q(ended_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="run_in_order", condition=Q(ended_at__isnull=True) | Q(ended_at__gte=F("started_at"))
            ),
            models.CheckConstraint(name="funded_has_a_contract", condition=Q(funded=False) | Q(min_runtime_s__gt=0)),
        ]

    def __str__(self) -> str:
        return f"{self.workload.code}/{self.number}"


class Holding(models.Model):
    """A run's hold on one device, while `released_at` is null. A trigger keeps `Device.held_milli` (migration 0002)."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="holdings")
    device = models.ForeignKey(Device, models.PROTECT, related_name="holdings")
    node = models.ForeignKey(Node, models.PROTECT, related_name="holdings")
    milli = models.PositiveIntegerField()
    released_at = SecondField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["node"], name="holding_now", condition=Q(released_at__isnull=True))]
        constraints = [
            models.UniqueConstraint(fields=["run", "device"], name="a_run_holds_a_device_once"),
            models.CheckConstraint(
                name="holding_of_one_device", condition=Q(milli__gte=1, milli__lte=WHOLE_DEVICE_MILLI)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} on {self.device_id}"


class Rank(models.Model):
    """One process group of a run, on one node. Facts come from the node's agent."""

    class State(models.TextChoices):
        WANTED = "wanted"
        RUNNING = "running"
        EXITED = "exited"
        FAILED = "failed", "could not start"
        GONE = "gone", "given up: its node is lost"

    run = models.ForeignKey(Run, models.PROTECT, related_name="ranks")
    node = models.ForeignKey(Node, models.PROTECT, related_name="ranks")
    index = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=State, default=State.WANTED)
    pid = models.PositiveIntegerField(null=True, blank=True)
    began_at = SecondField(null=True, blank=True)
    exited_at = SecondField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True, help_text="minus the signal where one ended it")
    message = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["run", "index"]
        constraints = [
            models.UniqueConstraint(fields=["run", "index"], name="rank_indexes_are_unique"),
            models.UniqueConstraint(fields=["run", "node"], name="one_rank_a_node"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}:{self.index}"


class LogChunk(models.Model):
    """A piece of what a rank printed: bytes [offset, offset + length), decoded with replacement characters."""

    rank = models.ForeignKey(Rank, models.CASCADE, related_name="chunks")
    offset = models.PositiveBigIntegerField()
    length = models.PositiveIntegerField()
    text = models.TextField()

    class Meta:
        ordering = ["rank", "offset"]
        constraints = [models.UniqueConstraint(fields=["rank", "offset"], name="log_chunks_are_unique")]

    def __str__(self) -> str:
        return f"{self.rank_id}@{self.offset}"


class Claim(models.Model):
    """A pending plan: devices chosen for a workload while others still leave them (semantics.md section 4)."""

    workload = models.ForeignKey(Workload, models.PROTECT, related_name="claims")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="claims")
    holdings = models.JSONField(help_text="milli by node name")
    waits_for = ArrayField(models.BigIntegerField(), default=list, help_text="ids of the runs that are leaving")
    made_in = models.ForeignKey(Pass, models.PROTECT, related_name="+")
    made_at = SecondField()
    ended_at = SecondField(null=True, blank=True)
    outcome = models.CharField(max_length=20, blank=True, help_text="started, or why the plan ended")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workload"], name="one_claim_at_a_time", condition=Q(ended_at=None)),
        ]

    def __str__(self) -> str:
        return f"claim of {self.workload_id}"


class Reservation(models.Model):
    """A promise: from `starts_at` on, these amounts are the workload's at the latest (semantics.md section 5)."""

    workload = models.ForeignKey(Workload, models.PROTECT, related_name="reservations")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="reservations")
    starts_at = SecondField()
    holdings = models.JSONField(help_text="milli by node name")
    counts_on = ArrayField(models.BigIntegerField(), default=list, help_text="ids of the runs it takes from")
    made_in = models.ForeignKey(Pass, models.PROTECT, related_name="+")
    made_at = SecondField()
    ended_at = SecondField(null=True, blank=True)
    outcome = models.CharField(max_length=20, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workload"], name="one_reservation_at_a_time", condition=Q(ended_at=None)),
        ]

    def __str__(self) -> str:
        return f"reservation of {self.workload_id}"


# --- record ---------------------------------------------------------------------------------------------------


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
