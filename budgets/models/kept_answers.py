"""What was answered to requests that may be sent again."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from budgets.models.people import Person


class KeptAnswer(models.Model):
    """The answer to one POST that came with an `Idempotency-Key`: the same again gets it again, and nothing is done.

    The row is made in the transaction of what was done, so both are there or neither is. Secrets that an answer shows
    once are not kept. Old ones are swept (`budgets.services.kept_answers.sweep`).
    """

    person = models.ForeignKey(Person, models.CASCADE, related_name="+")
    key = models.CharField(max_length=100)
    route = models.CharField(max_length=300, help_text="method and path")
    digest = models.CharField(max_length=64, help_text="keyed hash of what was sent, and where")
    status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="null only while it is answered")
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True, blank=True)
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["made_at"], name="kept_answer_age")]
        constraints = [models.UniqueConstraint(fields=["person", "key"], name="answered_once")]

    def __str__(self) -> str:
        return f"answer {self.pk}"
