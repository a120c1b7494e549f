"""What a seed makes, and whose organisation is the demo's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from django.db import transaction

from budgets.models import Person
from budgets.services import tree
from portal.demo import feed, organisation, past, tasks

WEEKS = 1


def test_the_same_seed_makes_the_same_laboratory(db: None) -> None:
    end = datetime(2026, 11, 2, 12, tzinfo=UTC)
    assert drawn(1, end) == drawn(1, end) != drawn(2, end)


def drawn(seed: int, end: datetime) -> list:
    """People, submissions and faults that a seed makes; then nothing of it is kept."""
    point = transaction.savepoint()
    chance, start = Random(seed), end - timedelta(weeks=WEEKS)
    lab = organisation.found(chance, start - timedelta(days=7), "test")
    plans = past.plans(lab, chance, start, end)
    found = [list(Person.objects.order_by("pk").values_list("username", "grants__node__code"))]
    found += [(plan.scenario.jobs, plan.scenario.events, plan.drafts) for plan in plans]
    transaction.savepoint_rollback(point)
    return found


def test_somebody_elses_organisation_is_never_fed(db: None) -> None:
    assert tasks.feed() == 0
    tree.create_root(code="LAB", name="Real Laboratory", reason="import of a trace")
    assert feed.seed() is None
    assert tasks.feed() == 0
