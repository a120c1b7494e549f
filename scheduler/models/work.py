"""Workloads, their runs with what they hold, and what they were promised."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q
from django.utils.translation import gettext_lazy

from budgets.models import BudgetNode, Cluster, Person
from budgets.models.sealed import SealedTexts
from scheduler.models.advice import Advice
from scheduler.models.clusters import Device, Node
from scheduler.models.fields import WHOLE_DEVICE_MILLI, SecondField
from scheduler.models.passes import Pass


class Workload(models.Model):
    """A gang that somebody submitted: all its devices at once or nothing (semantics.md section 1).

    `code` is its public id ("A3-2214": its leaf's code and a number). The columns under "now" are the current
    numbers, rewritten by passes; decisions that changed something are rows of `Decision`.
    """

    class State(models.TextChoices):
        QUEUED = "queued", gettext_lazy("Queued")
        STARTING = "starting", gettext_lazy("Starting")
        RUNNING = "running", gettext_lazy("Running")
        LEAVING = "leaving", gettext_lazy("Leaving")
        UNREACHABLE = "unreachable", gettext_lazy("Unreachable")
        HELD = "held", gettext_lazy("Held")
        FINISHED = "finished", gettext_lazy("Finished")
        FAILED = "failed", gettext_lazy("Failed")
        PREEMPTED = "preempted", gettext_lazy("Preempted")
        LOST = "lost", gettext_lazy("Lost")
        CANCELLED = "cancelled", gettext_lazy("Cancelled")
        REFUSED = "refused", gettext_lazy("Refused")

    OPEN_STATES = ("queued", "starting", "running", "leaving", "unreachable", "held")
    ENDED_STATES = ("finished", "failed", "preempted", "lost", "cancelled", "refused")

    class Class(models.TextChoices):
        DEBUG = "debug", gettext_lazy("Debug")
        STANDARD = "standard", gettext_lazy("Standard")
        LARGE = "large", gettext_lazy("Large")
        UNALLOCATED = "unallocated", gettext_lazy("Unallocated")

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
    locality = models.PositiveSmallIntegerField(
        default=1, db_default=1, help_text="how far its owner lets it be spread, where waiting relaxes that: 0 to 3"
    )
    gpu_classes = ArrayField(
        models.CharField(max_length=60), default=list, db_default=[], help_text="those that it can run on; none is all"
    )
    needs_fast = models.BooleanField(
        default=False, db_default=False, help_text="it tries high-end classes first, by its own word or by the next"
    )
    efficiency_percent = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="how much of their GPUs those like it had used, where that decided"
    )
    workload_class = models.CharField(max_length=12, choices=Class)
    resumable = models.BooleanField(default=False)
    checkpoint = models.CharField(max_length=300, blank=True, help_text="where it saves, in its working directory")
    checkpoint_every_s = models.PositiveIntegerField(default=0, help_text="how often it says it saves; 0 is unsaid")
    save_command = ArrayField(models.TextField(), default=list, help_text="saves a session that is told to stop")
    restore_command = ArrayField(models.TextField(), default=list, help_text="runs in place of the command then")
    retries = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="so often it is tried again where it failed by no fault of its own"
    )
    array = models.UUIDField(null=True, blank=True, help_text="tasks of one array share it")
    array_index = models.PositiveIntegerField(null=True, blank=True)
    after = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="followers")
    after_passed = models.BooleanField(
        default=False, db_default=False, help_text="that is its canary, and it enters the queue only if that passed"
    )
    command = ArrayField(models.TextField(), default=list, help_text="argument list, never a shell line")
    environment = models.JSONField(default=dict)
    secrets = SealedTexts(default=dict, help_text="variables that nobody is shown; gone when it has ended")
    demo = models.BooleanField(default=False, help_text="its command is one of the demo's own")
    idempotency_key = models.CharField(max_length=80, blank=True)
    communication = models.JSONField(null=True, blank=True, help_text="what it sends in each iteration; null: unsaid")
    advice = models.ForeignKey(
        Advice,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="workloads",
        db_index=False,
        help_text="what the advisor found in its program",
    )
    # now
    state = models.CharField(max_length=12, choices=State, default=State.QUEUED)
    submitted_at = SecondField(help_text="first submission; a requeue keeps it")
    first_started_at = SecondField(null=True, blank=True)
    ended_at = SecondField(null=True, blank=True)
    cancel_asked_at = SecondField(null=True, blank=True)
    progress_s = models.PositiveIntegerField(default=0, help_text="run time kept over preemptions")
    preemptions = models.PositiveIntegerField(default=0)
    retried = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="so often it was tried again")
    forgiven_s = models.PositiveIntegerField(
        default=0, db_default=0, help_text="of its progress, what counts no more for the order inside its leaf"
    )
    requeued_at = SecondField(null=True, blank=True, help_text="when its last run ended, and it returned to the queue")
    predicted_s = models.PositiveIntegerField(
        null=True, blank=True, help_text="how long it was thought to execute, where that is asked"
    )
    reason_code = models.CharField(max_length=40, blank=True)
    reason_text = models.TextField(blank=True)
    reason_numbers = models.JSONField(default=dict)
    place = models.PositiveIntegerField(null=True, blank=True, help_text="in the order of the last pass")
    earliest_start_at = SecondField(null=True, blank=True)

    class Meta:
        ordering = ["submitted_at", "code"]
        indexes = [
            # Without `place`, which passes rewrite: so only the row is written, and no index (migration 0005).
            models.Index(
                fields=["cluster"],
                name="workload_open",
                condition=Q(state__in=("queued", "starting", "running", "leaving", "unreachable", "held")),
            ),
            models.Index(fields=["-submitted_at", "-id"], name="workload_latest"),
            models.Index(fields=["leaf", "-submitted_at"], name="workload_of_leaf"),
            models.Index(fields=["owner", "-submitted_at"], name="workload_of_owner"),
            models.Index(fields=["cluster", "-ended_at"], name="workload_ended"),
            models.Index(
                fields=["cluster", "first_started_at"],
                name="workload_first_started",
                condition=Q(first_started_at__isnull=False),
            ),
            models.Index(fields=["advice"], name="workload_advised", condition=Q(advice__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(name="workload_asks_for_something", condition=Q(size_milli__gt=0)),
            models.CheckConstraint(name="workload_locality_is_a_level", condition=Q(locality__lte=3)),
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
        STARTING = "starting", gettext_lazy("Starting")
        RUNNING = "running", gettext_lazy("Running")
        LEAVING = "leaving", gettext_lazy("Leaving")
        UNREACHABLE = "unreachable", gettext_lazy("Unreachable")
        ENDED = "ended", gettext_lazy("Ended")

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
    saved = models.BooleanField(null=True, help_text="every rank's save command ended well; null: it has none")
    checkpoint_at = SecondField(null=True, blank=True, help_text="of its last checkpoint, as far as it is known")
    lost_s = models.PositiveIntegerField(
        null=True, help_text="worked since its last checkpoint, and lost; null: unknown"
    )
    preempted_by = models.ForeignKey(Workload, models.PROTECT, null=True, blank=True, related_name="took_from")
    time_shift = models.JSONField(null=True, blank=True, help_text="its place on the network beside others' iterations")
    failure_due_at = SecondField(null=True, blank=True, help_text="it failed: from then on it is judged why")
    failure_class = models.CharField(
        max_length=20, blank=True, default="", db_default="", help_text="why it failed (scheduler.failures)"
    )
    failure_line = models.TextField(blank=True, default="", db_default="", help_text="printed, and says so")
    failure_signature = models.CharField(
        max_length=200, blank=True, default="", db_default="", help_text="the same without what varies"
    )
    started_in = models.ForeignKey(Pass, models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["workload", "number"]
        indexes = [
            models.Index(fields=["cluster"], name="run_not_ended", condition=~Q(state="ended")),
            models.Index(fields=["cluster", "ended_at"], name="run_window", include=["started_at", "funded"]),
            GinIndex(fields=["path"], name="run_path"),
            models.Index(fields=["failure_due_at"], name="run_unjudged", condition=Q(failure_due_at__isnull=False)),
            models.Index(fields=["cluster", "ended_at"], name="run_failures", condition=~Q(failure_class="")),
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
        WANTED = "wanted", gettext_lazy("Wanted")
        RUNNING = "running", gettext_lazy("Running")
        EXITED = "exited", gettext_lazy("Exited")
        FAILED = "failed", gettext_lazy("could not start")
        GONE = "gone", gettext_lazy("given up: its node is lost")

    run = models.ForeignKey(Run, models.PROTECT, related_name="ranks")
    node = models.ForeignKey(Node, models.PROTECT, related_name="ranks")
    index = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=State, default=State.WANTED)
    pid = models.PositiveIntegerField(null=True, blank=True)
    began_at = SecondField(null=True, blank=True)
    exited_at = SecondField(null=True, blank=True)
    exit_code = models.IntegerField(null=True, blank=True, help_text="minus the signal where one ended it")
    message = models.CharField(max_length=300, blank=True)
    saved = models.BooleanField(null=True, help_text="its save command ended well")
    checkpoint_at = SecondField(null=True, blank=True)

    class Meta:
        ordering = ["run", "index"]
        constraints = [
            models.UniqueConstraint(fields=["run", "index"], name="rank_indexes_are_unique"),
            models.UniqueConstraint(fields=["run", "node"], name="one_rank_a_node"),
        ]
        indexes = [models.Index(fields=["node"], name="rank_live", condition=Q(state__in=("wanted", "running")))]

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
