"""What the advisor found in programs that were submitted, and which of its rules an operator has refuse them."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from budgets.models import Cluster, Person
from scheduler.models.fields import SecondField

RULE_LENGTH = 40


class Advice(models.Model):
    """One reading of a program, when it was submitted: of a workload, or of all the tasks of an array.

    Of the program itself nothing is kept but the lines that its findings show.
    """

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    read_at = SecondField()
    files = models.PositiveIntegerField(help_text="given with the submission; 0: its command alone was read")
    overrode = ArrayField(
        models.CharField(max_length=RULE_LENGTH), default=list, help_text="rules that refuse it, but not an operator"
    )

    class Meta:
        indexes = [models.Index(fields=["cluster", "read_at"], name="advice_of_cluster")]

    def __str__(self) -> str:
        return f"advice {self.pk}"


class AdviceFinding(models.Model):
    """One thing that was found in one line. `position` is its place among those of its reading, the worst first."""

    advice = models.ForeignKey(Advice, models.CASCADE, related_name="findings")
    position = models.PositiveIntegerField()
    rule = models.CharField(max_length=RULE_LENGTH)
    severity = models.CharField(max_length=8)
    file = models.CharField(max_length=255)
    line = models.PositiveIntegerField(help_text="from 1; 0 is the file as a whole")
    evidence = models.TextField(blank=True)
    what = models.TextField()

    class Meta:
        ordering = ["advice", "position"]
        constraints = [models.UniqueConstraint(fields=["advice", "position"], name="one_finding_a_position")]

    def __str__(self) -> str:
        return f"{self.rule} in {self.file}:{self.line}"


class BlockingRule(models.Model):
    """A rule by whose findings programs are refused on a cluster, as an operator chose."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="blocking_rules")
    rule = models.CharField(max_length=RULE_LENGTH)
    made_at = SecondField(db_default=Now())
    made_by = models.ForeignKey(Person, models.PROTECT, related_name="+")
    reason = models.TextField()

    class Meta:
        ordering = ["cluster", "rule"]
        constraints = [models.UniqueConstraint(fields=["cluster", "rule"], name="a_rule_blocks_once")]

    def __str__(self) -> str:
        return f"{self.rule} on {self.cluster_id}"
