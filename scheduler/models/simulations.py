"""Simulations that somebody asked for: a scenario, its variants, how far each is, and what came out."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy

from budgets.models import BudgetNode, Cluster, Person
from scheduler.models.fields import SecondField

WHOLE_PERCENT = 100


class Simulation(models.Model):
    """One question: the same work under several policies or shares, from a scenario file or a stretch of history.

    `scenario` is the scenario file (scenario-format.md) as zlib-compressed UTF-8; null until a stretch of history was
    read. `asked` is what was asked for, in plain values, for pages and for trying again. `measured` are the waits of
    what really happened in the stretch, in seconds by workload; null for a scenario file.
    """

    class Kind(models.TextChoices):
        COMPARISON = "comparison", gettext_lazy("policies side by side")
        WHAT_IF = "what_if", gettext_lazy("what if the shares were others")
        SWEEP = "sweep", gettext_lazy("a knob swept")
        POLICIES = "policies", gettext_lazy("policies compared over seeds")

    class State(models.TextChoices):
        WAITING = "waiting", gettext_lazy("Waiting")
        RUNNING = "running", gettext_lazy("Running")
        FINISHED = "finished", gettext_lazy("Finished")
        FAILED = "failed", gettext_lazy("Failed")
        CANCELLED = "cancelled", gettext_lazy("Cancelled")

    OPEN_STATES = ("waiting", "running")

    kind = models.CharField(max_length=12, choices=Kind)
    title = models.CharField(max_length=160)
    made_by = models.ForeignKey(Person, models.PROTECT, null=True, related_name="simulations")
    made_at = SecondField(db_default=Now())
    action = models.CharField(max_length=32, blank=True, help_text="one-use id of the form that asked for it")
    cluster = models.ForeignKey(Cluster, models.PROTECT, null=True, blank=True, related_name="simulations")
    parent = models.ForeignKey(
        BudgetNode, models.PROTECT, null=True, blank=True, related_name="+", help_text="a what-if changes its split"
    )
    from_at = SecondField(null=True, blank=True, help_text="second 0 of the scenario, where it is history")
    until_at = SecondField(null=True, blank=True)
    asked = models.JSONField(default=dict)
    scenario = models.BinaryField(null=True)
    measured = models.JSONField(null=True)
    notes = models.JSONField(default=list, help_text="sentences: what the scenario could not keep of the history")
    state = models.CharField(max_length=12, choices=State, default=State.WAITING)
    error = models.CharField(max_length=300, blank=True)
    ended_at = SecondField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["made_by", "-id"], name="simulation_of_person"),
            models.Index(fields=["state"], name="simulation_open", condition=Q(state__in=("waiting", "running"))),
        ]
        constraints = [
            models.CheckConstraint(
                name="simulation_ends_once",
                condition=Q(state__in=("waiting", "running"), ended_at__isnull=True)
                | Q(state__in=("finished", "failed", "cancelled"), ended_at__isnull=False),
            ),
            models.UniqueConstraint(
                fields=["made_by", "action"], name="simulation_asked_once", condition=~Q(action="")
            ),
        ]

    def __str__(self) -> str:
        return f"simulation {self.pk}: {self.title}"

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is still to come."""
        return self.state not in self.OPEN_STATES


class SimulationPart(models.Model):
    """One variant of a simulation, run by one task. Number 0 is no simulation, but what really happened in the stretch.

    `change` says what is different (`scheduler`, `policy` knobs, `shares`, ...); `figures` what came out
    (scheduler/simulator/comparison.py); `runs` are the records of all runs (scheduler/simulator/recorded.py), null
    until it has finished, and in sweeps, which keep the figures of the whole only. Where policies are compared over
    seeds there are no runs either, and `figures` are measures (scheduler/simulator/measures.py).
    """

    simulation = models.ForeignKey(Simulation, models.CASCADE, related_name="parts")
    number = models.PositiveIntegerField(help_text="in the order in which they are shown")
    name = models.CharField(max_length=120)
    change = models.JSONField(default=dict)
    state = models.CharField(max_length=12, choices=Simulation.State, default=Simulation.State.WAITING)
    progress_percent = models.PositiveSmallIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    sent_at = SecondField(null=True, blank=True, help_text="its task was last sent to the workers")
    started_at = SecondField(null=True, blank=True)
    touched_at = SecondField(null=True, blank=True, help_text="a sign of life of the worker that runs it")
    ended_at = SecondField(null=True, blank=True)
    took_ms = models.PositiveIntegerField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)
    figures = models.JSONField(null=True)
    runs = models.BinaryField(null=True)
    overview = models.BinaryField(null=True, help_text="its timeline at first sight, where it has very many runs")

    class Meta:
        ordering = ["simulation", "number"]
        constraints = [
            models.UniqueConstraint(fields=["simulation", "number"], name="simulation_parts_are_numbered"),
            models.CheckConstraint(
                name="part_progress_is_a_percentage", condition=Q(progress_percent__lte=WHOLE_PERCENT)
            ),
            models.CheckConstraint(
                name="part_ends_once",
                condition=Q(state__in=("waiting", "running"), ended_at__isnull=True)
                | Q(state__in=("finished", "failed", "cancelled"), ended_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.simulation_id}/{self.number}: {self.name}"
