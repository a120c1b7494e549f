"""A Slurm below a cluster: how it is reached, which accounts and jobs are whose, and what is planned there."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from budgets.models import BudgetNode, Cluster, Person
from scheduler.models.fields import SecondField
from scheduler.models.work import Run, Workload


class SlurmLink(models.Model):
    """How one cluster's Slurm is reached, how it is, and what would be done there.

    `writes` is off at first: then everything is read, and what would be changed is only shown. Instants are the
    portal's. `token` marks our jobs among those of others.
    """

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="slurm")
    conf = models.CharField(max_length=300, blank=True, help_text="path of slurm.conf; empty: Slurm's own default")
    name = models.CharField(max_length=60, blank=True, help_text="the cluster's name in Slurm's accounting")
    partition = models.CharField(max_length=60, blank=True, help_text="whose nodes count; empty: all, and the default")
    qos = models.CharField(max_length=60, blank=True)
    folder = models.CharField(max_length=300, blank=True, help_text="where workloads have their directories, on nodes")
    run_as_owner = models.BooleanField(default=False, help_text="jobs run as their owner's Unix user")
    writes = models.BooleanField(default=False, help_text="off: nothing is changed in Slurm, only shown")
    held_ahead = models.PositiveIntegerField(default=200, help_text="waiting workloads that are held jobs already")
    token = models.CharField(max_length=40, unique=True)
    # how it is
    tried_at = SecondField(null=True, blank=True)
    contact_at = SecondField(null=True, blank=True, help_text="the last whole look at it")
    failing_since = SecondField(null=True, blank=True)
    error = models.CharField(max_length=400, blank=True, help_text="why the last look failed, in one line")
    # what would be done, and what is not as it should be
    plan = models.JSONField(default=list, help_text="commands of the last look that were not carried out")
    troubles = models.JSONField(default=list, help_text="what Slurm refused, in words")
    foreign = models.JSONField(default=list, help_text="jobs of others that hold nodes")
    silent = models.JSONField(default=dict, help_text="nodes that do not answer, with the second since when")
    drift = models.JSONField(default=list, help_text="where the account tree differs from the shares")
    drift_at = SecondField(null=True, blank=True)
    usage_until = SecondField(null=True, blank=True, help_text="jobs that ended before have been read")

    def __str__(self) -> str:
        return f"Slurm of {self.cluster_id}"

    @property
    def is_failing(self) -> bool:
        """Whether the last look at it failed."""
        return self.failing_since is not None


class SlurmAccount(models.Model):
    """Which account of a Slurm stands for which budget node."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="slurm_accounts")
    node = models.ForeignKey(BudgetNode, models.CASCADE, related_name="slurm_accounts")
    name = models.CharField(max_length=60)

    class Meta:
        ordering = ["cluster", "name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="slurm_account_of_one_node"),
            models.UniqueConstraint(fields=["cluster", "node"], name="one_slurm_account_a_node"),
        ]

    def __str__(self) -> str:
        return self.name


class SlurmJob(models.Model):
    """The job that carries a workload out, from its submission to its end; requeued, it keeps its id.

    Attributes:
        run: the run that it was last given; None while it waits for its first turn.
        restarts: how often it had been requeued when it was given that run; more now says that the run is over.
        state: as last seen, in Slurm's word.
        shape: what it asks for, as `executors.slurm.commands.Shape` writes it.
        started: whether it was seen to run what it was last given.
        gone_at: it has ended or is not there any more, for good.
        note: what happened to it behind our back, in words.
    """

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="slurm_jobs")
    workload = models.ForeignKey(Workload, models.CASCADE, related_name="slurm_jobs")
    run = models.ForeignKey(Run, models.CASCADE, null=True, blank=True, related_name="slurm_jobs")
    job_id = models.PositiveBigIntegerField()
    restarts = models.PositiveIntegerField(default=0)
    state = models.CharField(max_length=20, blank=True)
    reason = models.CharField(max_length=120, blank=True)
    shape = models.CharField(max_length=40, blank=True)
    started = models.BooleanField(default=False)
    submitted_at = SecondField(db_default=Now())
    missing_since = SecondField(null=True, blank=True)
    stop_sent_at = SecondField(null=True, blank=True, help_text="it was told to stop for the run that it has")
    kill_sent_at = SecondField(null=True, blank=True)
    gone_at = SecondField(null=True, blank=True)
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["cluster", "job_id"]
        indexes = [
            models.Index(fields=["run"], name="slurm_job_of_run"),
            models.Index(fields=["cluster", "job_id"], name="slurm_job_by_id"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["workload"], name="one_slurm_job_a_workload", condition=Q(gone_at__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.job_id} of {self.workload_id}"


class SlurmOrder(models.Model):
    """Somebody has asked for the shares to be written now: of one budget node and what is below it, or of all."""

    class Outcome(models.TextChoices):
        WAITING = "waiting", gettext_lazy("waiting")
        DONE = "done", gettext_lazy("done")
        FAILED = "failed", gettext_lazy("failed")

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="slurm_orders")
    node = models.ForeignKey(BudgetNode, models.CASCADE, null=True, blank=True, related_name="+")
    asked_by = models.ForeignKey(Person, models.PROTECT, null=True, related_name="+")
    asked_at = SecondField()
    outcome = models.CharField(max_length=8, choices=Outcome, default=Outcome.WAITING)
    done_at = SecondField(null=True, blank=True)
    commands = models.JSONField(default=list, help_text="what was done, as typed")
    message = models.CharField(max_length=400, blank=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"shares of {self.node_id or 'all'} to the Slurm of {self.cluster_id}"
