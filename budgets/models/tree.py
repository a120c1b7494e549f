"""Clusters, the budget tree, and its dated shares."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, RangeOperators
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from budgets.models.ranges import SingletonRange, spell

WHOLE_BASIS_POINTS = 10_000
"""All of a parent, in basis points."""


class Cluster(models.Model):
    """Nodes with one kind of unit, scheduled on its own (semantics.md section 1).

    It stands here, and not in the scheduler, because shares are given per cluster.
    """

    class Unit(models.TextChoices):
        GPU = "gpu", gettext_lazy("GPU")
        CORE = "core", gettext_lazy("core")

    class Executor(models.TextChoices):
        AGENT = "agent", gettext_lazy("node agents")
        SIMULATED = "simulated", gettext_lazy("simulated nodes")
        SLURM = "slurm", gettext_lazy("Slurm, which carries out what is decided here")
        ADVISED = "advised", gettext_lazy("Slurm, which decides by the shares given here")

    name = models.SlugField(max_length=40, unique=True)
    title = models.CharField(max_length=120, blank=True)
    unit = models.CharField(max_length=8, choices=Unit, default=Unit.GPU)
    model = models.CharField(max_length=60, blank=True, help_text="kind of the unit, say H100")
    executor = models.CharField(max_length=12, choices=Executor, default=Executor.AGENT)
    position = models.PositiveSmallIntegerField(default=0, help_text="order on pages")

    class Meta:
        ordering = ["position", "name"]

    def __str__(self) -> str:
        return self.name


class BudgetNode(models.Model):
    """A node of the budget tree: organisation > program > project > member or sub-project, any depth.

    `path` holds the ids from the root to this node, both included; `budgets.services` keeps it. Runs copy it
    when they start, so that moving a node rewrites no past.
    """

    class Kind(models.TextChoices):
        ORGANISATION = "organisation", gettext_lazy("Organisation")
        PROGRAM = "program", gettext_lazy("Program")
        PROJECT = "project", gettext_lazy("Project")
        SUBPROJECT = "subproject", gettext_lazy("sub-project")
        MEMBER = "member", gettext_lazy("Member")

    parent = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="children")
    kind = models.CharField(max_length=12, choices=Kind)
    code = models.CharField(
        max_length=16,
        unique=True,
        validators=[RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9_.]*$", "letters, digits, _ and . only")],
        help_text="short and for life: begins the ids of its workloads, stands in its chip",
    )
    name = models.CharField(max_length=120)
    colour = models.PositiveSmallIntegerField(default=0, help_text="team colour 1 to 8 for life; 0 is other")
    path = ArrayField(models.BigIntegerField(), default=list)
    created_at = models.DateTimeField(db_default=Now())
    closed_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1, help_text="raised by every change; forms carry it")

    class Meta:
        ordering = ["path"]
        indexes = [GinIndex(fields=["path"], name="budgetnode_path")]
        constraints = [
            models.UniqueConstraint(
                F("kind"), name="one_root", condition=Q(parent__isnull=True), violation_error_message="one root"
            ),
            models.CheckConstraint(
                name="root_is_the_organisation",
                condition=Q(parent__isnull=True, kind="organisation")
                | (Q(parent__isnull=False) & ~Q(kind="organisation")),
            ),
            models.CheckConstraint(name="not_its_own_parent", condition=~Q(parent=F("id"))),
            models.CheckConstraint(name="colour_1_to_8", condition=Q(colour__lte=8)),
        ]

    def __str__(self) -> str:
        return f"{self.code} {self.name}"

    @property
    def is_closed(self) -> bool:
        """No new submissions; its past keeps weighing on its parent until it leaves the window."""
        return self.closed_at is not None


class Share(models.Model):
    """A child's share of its parent on one cluster, in basis points, on the organisation's days
    [valid_from, valid_until).

    Siblings' shares sum to at most 10,000 on every date: a deferred constraint trigger checks it, behind a
    lock on the parent's row (migrations 0002, 0003 and 0008). `parent` is the parent that it is a share of, filled in
    by the database where it isn't given: so a node that is moved takes no past along.
    """

    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="shares")
    parent = models.ForeignKey(BudgetNode, models.PROTECT, related_name="given_shares", editable=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="shares")
    basis_points = models.PositiveIntegerField()
    valid_from = models.DateField()
    valid_until = models.DateField(null=True, blank=True)

    class Meta:
        ordering = ["node", "cluster", "valid_from"]
        constraints = [
            models.CheckConstraint(name="share_at_most_the_whole", condition=Q(basis_points__lte=WHOLE_BASIS_POINTS)),
            models.CheckConstraint(
                name="share_dates_in_order",
                condition=Q(valid_until__isnull=True) | Q(valid_until__gt=F("valid_from")),
            ),
            ExclusionConstraint(
                name="one_share_at_a_time",
                expressions=[
                    (SingletonRange("node"), RangeOperators.OVERLAPS),
                    (SingletonRange("cluster"), RangeOperators.OVERLAPS),
                    (spell(), RangeOperators.OVERLAPS),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node.code} on {self.cluster}: {self.basis_points} bp"
