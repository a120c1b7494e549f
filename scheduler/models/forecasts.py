"""Forecasts of when what waits starts, and what came true of them."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from budgets.models import Cluster
from scheduler.models.fields import SecondField
from scheduler.models.work import Workload


class Forecast(models.Model):
    """One forecast of a cluster: the simulator run forward from the state at `at`, `draws` times, each to the horizon.

    One is made when somebody looks and the last one is old. `known_at` is when its real starts were looked up last.
    """

    class State(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"

    OPEN_STATES = ("waiting", "running")

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="forecasts")
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    asked_at = SecondField(db_default=Now())
    at = SecondField(null=True, blank=True, help_text="the instant whose state it begins with")
    horizon_s = models.PositiveIntegerField(default=0)
    draws = models.PositiveSmallIntegerField(default=0)
    draws_wanted = models.PositiveSmallIntegerField(default=0)
    touched_at = SecondField(null=True, blank=True, help_text="a sign of life of the worker that makes it")
    ended_at = SecondField(null=True, blank=True)
    took_ms = models.PositiveIntegerField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)
    looks_back = models.BooleanField(default=False, help_text="it was made later, with what was known at `at`")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["cluster", "-id"], name="forecast_latest")]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster"], name="one_forecast_at_a_time", condition=Q(state__in=("waiting", "running"))
            ),
            models.UniqueConstraint(
                fields=["cluster", "at"], name="one_look_back_at_an_instant", condition=Q(looks_back=True)
            ),
            models.CheckConstraint(
                name="forecast_ends_once",
                condition=Q(state__in=("waiting", "running"), ended_at__isnull=True)
                | Q(state__in=("finished", "failed"), ended_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"forecast {self.pk} of {self.cluster_id}"


class ForecastStart(models.Model):
    """When one workload starts, in seconds from the forecast's instant; null is after its horizon.

    `futures` are the starts that were drawn; [`low_s`, `high_s`] is the range that people were told. `outcome` is empty
    until it is known whether the real start (`start_s`) lay in it.
    """

    class Outcome(models.TextChoices):
        HELD = "held"
        MISSED = "missed"
        LEFT = "left", "it was cancelled or held before it started"

    forecast = models.ForeignKey(Forecast, models.CASCADE, related_name="starts")
    workload = models.ForeignKey(Workload, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=12, help_text="its class")
    futures = ArrayField(models.IntegerField(null=True))
    low_s = models.PositiveIntegerField(null=True, blank=True)
    middle_s = models.PositiveIntegerField(null=True, blank=True)
    high_s = models.PositiveIntegerField(null=True, blank=True)
    start_s = models.PositiveIntegerField(null=True, blank=True)
    outcome = models.CharField(max_length=8, choices=Outcome, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["forecast", "workload"], name="one_start_of_a_workload"),
        ]
        indexes = [
            models.Index(fields=["forecast"], name="forecast_start_open", condition=Q(outcome="")),
        ]

    def __str__(self) -> str:
        return f"{self.workload_id} in {self.forecast_id}"
