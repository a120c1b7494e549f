"""Who may do what at a node, and who stands in for whom."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from budgets.models.people import Person
from budgets.models.ranges import SingletonRange, spell
from budgets.models.tree import WHOLE_BASIS_POINTS, BudgetNode


class Role(models.TextChoices):
    """What a person may do at a node (governance.md)."""

    MANAGER = "manager", gettext_lazy("Manager")
    MEMBER = "member", gettext_lazy("Member")
    REVIEWER = "reviewer", gettext_lazy("Reviewer")
    OPERATOR = "operator", gettext_lazy("Operator")
    ADMINISTRATOR = "administrator", gettext_lazy("Administrator")


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


class Delegation(models.Model):
    """While a manager is away: another person decides for them, up to so many basis points at once, on the
    organisation's days [valid_from, valid_until). It is never passed on (governance.md).

    It gives what `giver` may decide as manager of `node` and below, and ends with their role.
    """

    giver = models.ForeignKey(Person, models.PROTECT, related_name="delegations_given")
    delegate = models.ForeignKey(Person, models.PROTECT, related_name="delegations_held")
    node = models.ForeignKey(BudgetNode, models.PROTECT, related_name="delegations")
    limit_basis_points = models.PositiveIntegerField(help_text="what one decision may move at most, of its parent")
    valid_from = models.DateField()
    valid_until = models.DateField()
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, blank=True, help_text="taken back before its last day")

    class Meta:
        ordering = ["-valid_from", "-id"]
        constraints = [
            models.CheckConstraint(name="delegation_dates_in_order", condition=Q(valid_until__gt=F("valid_from"))),
            models.CheckConstraint(name="delegation_to_another", condition=~Q(delegate=F("giver"))),
            models.CheckConstraint(
                name="delegation_limit_1_to_whole",
                condition=Q(limit_basis_points__gte=1, limit_basis_points__lte=WHOLE_BASIS_POINTS),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.delegate} for {self.giver} at {self.node.code}"


class House(models.Model):
    """The organisation's own choices about how it decides. There is one row."""

    class RootRule(models.TextChoices):
        """Who decides what raises a child of the root in which its author has a part."""

        SECOND_MANAGER = "second_manager", gettext_lazy("another manager of the organisation")
        NOTICE = "notice", gettext_lazy("three days' notice to all managers")

    root_rule = models.CharField(max_length=16, choices=RootRule, default=RootRule.SECOND_MANAGER)
    answer_days = models.PositiveSmallIntegerField(
        default=7, help_text="a request that nobody has answered after so many days goes one level up"
    )
    look_again_weeks = models.PositiveSmallIntegerField(
        default=4, help_text="after so many weeks it is asked whether a decision worked"
    )
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [models.CheckConstraint(name="one_house", condition=Q(pk=1))]

    def __str__(self) -> str:
        return "how the organisation decides"
