"""Celery tasks of the loop. They carry no state: whatever is lost, late or doubled, the next one sets right."""

from __future__ import annotations

from celery import shared_task

from budgets.models import Cluster
from scheduler import loop
from scheduler.services import passes, usage


@shared_task(ignore_result=True)
def tick() -> int:
    """Beat's: let every cluster live on, and make the passes that are due."""
    return loop.tick()


@shared_task(ignore_result=True)
def look_at(cluster_id: int) -> int:
    """A wake-up: something happened that the cluster's last pass did not see."""
    return loop.look_at(cluster_id)


@shared_task(ignore_result=True)
def forget_quiet_passes() -> int:
    """Beat's, hourly: drop old passes that nothing refers to."""
    return passes.forget_quiet()


@shared_task(ignore_result=True)
def roll_up_usage() -> None:
    """Beat's, every minute: bring the hourly cache of use up to now."""
    for cluster in Cluster.objects.all():
        usage.roll_up(cluster)


@shared_task(ignore_result=True)
def check_usage() -> int:
    """Beat's, hourly: compare the last four weeks of the cache with the stored runs, and put right what differs."""
    return sum(usage.put_right(cluster) for cluster in Cluster.objects.all())
