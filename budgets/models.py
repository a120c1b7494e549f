"""Who is entitled to what: people, the budget tree, dated roles and dated shares, and their ledger.

Rows change only through `budgets.services`; what must always hold is a constraint of the database too.
"""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, DateRangeField, RangeOperators
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Now

WHOLE_BASIS_POINTS = 10_000
"""All of a parent, in basis points."""


class SingletonRange(Func):
    """`int8range(column, column, '[]')`: lets an integer take part in a GiST exclusion without btree_gist."""

    function = "int8range"
    template = "%(function)s(%(expressions)s)"

    def __init__(self, column: str) -> None:
        super().__init__(F(column), F(column), Value("[]"))


class DateRange(Func):
    """`daterange(from, until)`: half-open; a missing end is "for good"."""

    function = "daterange"
    output_field = DateRangeField()


def spell(start: str = "valid_from", end: str = "valid_until") -> DateRange:
    """The half-open range of dates in which a row is in force."""
    return DateRange(F(start), F(end))


class Person(AbstractUser):
    """Somebody who signs in.

    Ledger entries name people by id; `display_name` can be erased (privacy law) without touching an entry.
    """

    display_name = models.CharField(max_length=120, blank=True)

    class Meta:
        ordering = ["username"]

    def __str__(self) -> str:
        return self.display_name or f"person {self.pk}"


class Cluster(models.Model):
    """Nodes with one kind of unit, scheduled on its own (semantics.md section 1).

    It stands here, and not in the scheduler, because shares are given per cluster.
    """

    class Unit(models.TextChoices):
        GPU = "gpu", "GPU"
        CORE = "core", "core"

    class Executor(models.TextChoices):
        AGENT = "agent", "node agents"
        SIMULATED = "simulated", "simulated nodes"

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
        ORGANISATION = "organisation"
        PROGRAM = "program"
        PROJECT = "project"
        SUBPROJECT = "subproject", "sub-project"
        MEMBER = "member"

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


class Role(models.TextChoices):
    """What a person may do at a node (governance.md)."""

    MANAGER = "manager"
    MEMBER = "member"
    REVIEWER = "reviewer"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


class RoleGrant(models.Model):
    """A person's role at a node, in force on the organisation's days [valid_from, valid_until)."""

    person = models.ForeignKey(Person, models.PROTECT, related_name="grants")
    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="grants")
    role = models.CharField(max_length=14, choices=Role)
    valid_from = models.DateField()
    valid_until = models.DateField(null=True, blank=True)
    granted_by = models.ForeignKey(Person, models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="grant_dates_in_order",
                condition=Q(valid_until__isnull=True) | Q(valid_until__gt=F("valid_from")),
            ),
            models.CheckConstraint(
                name="nobody_grants_themselves", condition=Q(granted_by__isnull=True) | ~Q(granted_by=F("person"))
            ),
            *[
                ExclusionConstraint(
                    name=f"one_{role}_grant_at_a_time",
                    expressions=[
                        (SingletonRange("person"), RangeOperators.OVERLAPS),
                        (SingletonRange("node"), RangeOperators.OVERLAPS),
                        (spell(), RangeOperators.OVERLAPS),
                    ],
                    condition=Q(role=role),
                )
                for role in ("manager", "member", "reviewer", "operator", "administrator")
            ],
        ]

    def __str__(self) -> str:
        return f"{self.person} {self.role} of {self.node.code}"


class Share(models.Model):
    """A child's share of its parent on one cluster, in basis points, on the organisation's days
    [valid_from, valid_until).

    Siblings' shares sum to at most 10,000 on every date: a deferred constraint trigger checks it, behind a
    lock on the parent's row (migrations 0002 and 0003). `parent` is the parent that it is a share of, filled in by
    the database where it isn't given: so a node that is moved takes no past along.
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


class LedgerEntry(models.Model):
    """One change to tree, roles or shares: append-only (the database refuses UPDATE, DELETE and TRUNCATE).

    Names of nodes are copied; people are named by id only.
    """

    at = models.DateTimeField(db_default=Now(), db_index=True)
    person_id = models.BigIntegerField(null=True, help_text="who did it; null for the system")
    on_behalf_of_id = models.BigIntegerField(null=True)
    verb = models.CharField(max_length=40)
    node_id = models.BigIntegerField(null=True, db_index=True)
    node_code = models.CharField(max_length=16, blank=True)
    node_name = models.CharField(max_length=120, blank=True)
    cluster_name = models.CharField(max_length=40, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.verb} {self.node_code}"
