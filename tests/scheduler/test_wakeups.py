"""Storms of news: they are few messages, they do not keep ticks waiting, and passes come by the clock all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from portal.celery import app
from portal.supervisor import services
from scheduler import loop
from scheduler.models import Pass
from scheduler.services import clusters, events
from tests.scheduler.conftest import World


def waiting_messages() -> int:
    """How many wait in the broker for a worker, ticks left out."""
    return int(redis.Redis.from_url(settings.REDIS_URL).llen("celery"))


def test_a_storm_of_submissions_is_one_wake_up(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, other = make_world(), clusters.create(name="other", position=9)
    monkeypatch.setattr(events, "_woken_s", {})  # making the world woke it
    monkeypatch.setattr(events, "WAKE_EVERY_S", 600.0)
    before = waiting_messages()
    for _ in range(20):
        events.wake(world.cluster.pk)
    assert waiting_messages() == before + 1
    events.wake(other.pk)
    assert waiting_messages() == before + 2, "each cluster has its own"
    monkeypatch.setattr(events, "WAKE_EVERY_S", 0.0)
    events.wake(world.cluster.pk)
    assert waiting_messages() == before + 3


def test_ticks_have_a_queue_and_a_worker_of_their_own_and_every_worker_takes_from_it() -> None:
    assert services.TICKS == settings.TICKS
    assert app.conf.beat_schedule["tick"]["options"] == {"expires": 2, "queue": settings.TICKS}
    assert sorted(app.amqp.queues.consume_from) == ["celery", settings.TICKS]
    assert app.conf.task_default_queue == "celery"
    assert app.amqp.router.route({}, "scheduler.tasks.look_at")["queue"].name == "celery"


def test_one_who_is_woken_makes_the_pass_that_is_due_while_news_alone_has_to_wait(
    make_world: Callable[..., World],
) -> None:
    world = make_world(pass_every_s=10)
    loop.run_pass(world.cluster.pk)
    long_one = Pass.objects.order_by("-pk")[:1]
    Pass.objects.filter(pk__in=long_one.values("pk")).update(decide_ms=60_000)
    world.submit("A")
    assert loop.look_at(world.cluster.pk) == 0, "it rests"
    Pass.objects.filter(pk__in=long_one.values("pk")).update(at=timezone.now() - timedelta(seconds=11))
    assert loop.look_at(world.cluster.pk) > 0, "its time has come, though it would rest on"
