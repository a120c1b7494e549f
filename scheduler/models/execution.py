"""Execution on real nodes: how agents join, saved directories, repairs, and which rules a cluster follows from when."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from budgets.models import Cluster, Person
from budgets.models.sealed import SealedText
from scheduler.models.clusters import Node
from scheduler.models.fields import SecondField
from scheduler.models.work import Run, Workload


class PortalEpoch(models.Model):
    """The portal's epoch: one row, or none, which is 1. A restore from a backup raises it (services.epochs)."""

    number = models.BigIntegerField()

    def __str__(self) -> str:
        return str(self.number)


class JoinToken(models.Model):
    """Lets one node join one cluster, once, until it expires. Only a hash of it is kept."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="join_tokens")
    node_name = models.CharField(max_length=60, blank=True, help_text="the only node it is for; empty is any")
    digest = models.CharField(max_length=64, unique=True)
    made_at = SecondField()
    expires_at = SecondField()
    used_at = SecondField(null=True, blank=True)
    used_by = models.ForeignKey(Node, models.PROTECT, null=True, blank=True, related_name="+")
    used_with = models.CharField(max_length=64, blank=True, help_text="hash of the agent's own token: it may try again")

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="join_token_used_by_a_node",
                condition=Q(used_at__isnull=True, used_by__isnull=True)
                | Q(used_at__isnull=False, used_by__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"join token {self.pk} of {self.cluster_id}"


class SavedDirectory(models.Model):
    """The working directory of one rank of a session, as it was saved when its run was told to stop.

    It lies on `node`; where nodes share no file system, the portal also keeps an archive of it (`stored_at`).
    """

    workload = models.ForeignKey(Workload, models.CASCADE, related_name="saved_directories")
    run = models.ForeignKey(Run, models.CASCADE, related_name="saved_directories")
    rank_index = models.PositiveIntegerField()
    node = models.ForeignKey(Node, models.PROTECT, related_name="+")
    received_bytes = models.PositiveBigIntegerField(default=0, help_text="of its archive, so far")
    stored_at = SecondField(null=True, blank=True, help_text="its archive is whole")
    digest = models.CharField(max_length=64, blank=True, help_text="SHA-256 of the archive")
    problem = models.CharField(max_length=200, blank=True, help_text="why it cannot travel")

    class Meta:
        ordering = ["workload", "run", "rank_index"]
        constraints = [
            models.UniqueConstraint(fields=["run", "rank_index"], name="one_saved_directory_a_rank"),
            models.CheckConstraint(
                name="stored_has_a_digest",
                condition=Q(stored_at__isnull=True) | ~Q(digest=""),
            ),
        ]

    def __str__(self) -> str:
        return f"directory of {self.run_id}.{self.rank_index}"


class RepairHook(models.Model):
    """How nodes of a cluster are repaired without a person: a command on the node, one on the portal, or a webhook."""

    class Kind(models.TextChoices):
        NODE = "node", "the node's agent runs its own repair command"
        PORTAL = "portal", "a worker of the portal runs a command"
        WEBHOOK = "webhook", "something is posted to an address"

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="repair_hook")
    kind = models.CharField(max_length=8, choices=Kind)
    command = ArrayField(models.TextField(), default=list, help_text="argument list; {node} stands for the name")
    url = models.CharField(max_length=300, blank=True)
    secret = SealedText(blank=True, help_text="signs what is posted")
    attempts = models.PositiveSmallIntegerField(default=2, help_text="then a person is called")
    timeout_s = models.PositiveIntegerField(default=1_800, help_text="until the node must be well again")

    class Meta:
        constraints = [models.CheckConstraint(name="repair_is_tried", condition=Q(attempts__gte=1, timeout_s__gte=1))]

    def __str__(self) -> str:
        return f"repairs of {self.cluster_id}: {self.kind}"


class Repair(models.Model):
    """One stay of a node out of service, from the first sign of trouble until it takes work again."""

    class State(models.TextChoices):
        DRAINING = "draining", "empties by contract"
        REPAIRING = "repairing"
        CHECKING = "checking", "watched until it has stayed healthy"
        PERSON = "person", "needs a person"
        DONE = "done", "back to work"

    node = models.ForeignKey(Node, models.PROTECT, related_name="repairs")
    cause = models.CharField(max_length=300)
    state = models.CharField(max_length=10, choices=State, default=State.DRAINING)
    began_at = SecondField()
    drained_at = SecondField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    hook_at = SecondField(null=True, blank=True, help_text="start of the last attempt")
    hook_ended_at = SecondField(null=True, blank=True)
    message = models.CharField(max_length=300, blank=True, help_text="what the last attempt said")
    healthy_at = SecondField(null=True, blank=True)
    ended_at = SecondField(null=True, blank=True)
    needed_person = models.BooleanField(default=False)

    class Meta:
        ordering = ["node", "began_at"]
        indexes = [models.Index(fields=["began_at"], name="repair_began")]
        constraints = [
            models.UniqueConstraint(fields=["node"], name="one_repair_at_a_time", condition=Q(ended_at__isnull=True)),
            models.CheckConstraint(
                name="repair_done_has_an_end",
                condition=Q(state="done", ended_at__isnull=False) | (~Q(state="done") & Q(ended_at__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return f"repair {self.pk} of {self.node_id}"


class RolloutStep(models.Model):
    """From an instant on a cluster follows these rules; the latest step that has begun counts, else contracts do."""

    class Mode(models.TextChoices):
        CONTRACTS = "contracts", "contracts decide"
        SHADOW = "shadow", "decided and shown, not carried out"

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="rollout")
    mode = models.CharField(max_length=10, choices=Mode)
    starts_at = SecondField()
    made_at = SecondField(db_default=Now())
    made_by = models.ForeignKey(Person, models.PROTECT, null=True, related_name="+")
    reason = models.TextField()

    class Meta:
        ordering = ["cluster", "starts_at", "pk"]
        indexes = [models.Index(fields=["cluster", "starts_at"], name="rollout_of_cluster")]

    def __str__(self) -> str:
        return f"{self.cluster_id} {self.mode} from {self.starts_at}"
