"""Celery tasks of the loop. They carry no state: whatever is lost, late or doubled, the next one sets right."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from budgets.models import Cluster
from scheduler import loop
from scheduler.services import (
    bad_ends,
    directories,
    forecasts,
    hindsight,
    hooks,
    passes,
    retries,
    simulating,
    thresholds,
    timeline,
    usage,
    utilization,
    webhook_events,
)

ROLL_UP_WITHIN_S = 10.0
"""Of each cluster: what has been added up by then is kept, and the next minute goes on."""


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
    """Beat's, every minute: bring the hourly cache of use up to now, or nearer to it."""
    for cluster in Cluster.objects.all():
        usage.roll_up(cluster, within_s=ROLL_UP_WITHIN_S)


@shared_task(ignore_result=True)
def invent_utilization() -> int:
    """Beat's, every minute: what the invented nodes of simulated clusters would have measured since."""
    return sum(utilization.invent(cluster, timezone.now()) for cluster in Cluster.objects.all())


@shared_task(ignore_result=True)
def check_usage() -> int:
    """Beat's, hourly: compare the last four weeks of the cache with the stored runs, and put right what differs."""
    return sum(usage.put_right(cluster) for cluster in Cluster.objects.all())


@shared_task(ignore_result=True)
def sum_up_days() -> int:
    """Beat's, hourly: sum up the days that are over, for the GPU timeline."""
    return sum(timeline.fill(cluster) for cluster in Cluster.objects.all())


# A part may take minutes. It is acknowledged when it is taken: were its message to come back meanwhile, a second worker
# would find it taken; what is lost with its worker is found by `look_after_simulations`.
LONG = {
    "acks_late": False,
    "time_limit": simulating.TIME_LIMIT_S + 60,
    "soft_time_limit": simulating.TIME_LIMIT_S,
    "ignore_result": True,
}


@shared_task(**LONG)
def prepare_simulation(simulation_id: int) -> bool:
    """Read the stretch of history that a simulation is about."""
    return simulating.prepare(simulation_id)


@shared_task(**LONG)
def run_simulation_part(part_id: int) -> bool:
    """Run one variant of a simulation."""
    return simulating.run_part(part_id)


@shared_task(
    acks_late=False,
    time_limit=forecasts.TIME_LIMIT_S + 30,
    soft_time_limit=forecasts.TIME_LIMIT_S,
    ignore_result=True,
)
def make_forecast(forecast_id: int) -> bool:
    """Make a forecast that somebody asked for by looking."""
    return forecasts.make(forecast_id)


@shared_task(
    acks_late=False,
    time_limit=forecasts.TIME_LIMIT_S + 30,
    soft_time_limit=forecasts.TIME_LIMIT_S,
    ignore_result=True,
)
def look_back(cluster_id: int) -> int:
    """Make forecasts in hindsight, where too few have a known end."""
    return hindsight.look_back(Cluster.objects.get(pk=cluster_id))


@shared_task(ignore_result=True)
def look_after_simulations() -> int:
    """Beat's, every minute: give up lost workers, and send again what nobody works on."""
    return simulating.look_after()


@shared_task(ignore_result=True)
def forget_old_simulations() -> int:
    """Beat's, hourly: drop simulations that have been over for long."""
    return simulating.forget_old()


@shared_task(ignore_result=True)
def check_thresholds() -> int:
    """Beat's, every ten minutes: tell of budgets whose use has passed a mark."""
    return thresholds.check()


@shared_task(ignore_result=True)
def repair(repair_id: int, attempt: int) -> bool:
    """Make one attempt to repair a node from the portal's side."""
    return hooks.run(repair_id, attempt)


@shared_task(ignore_result=True)
def forget_directories() -> int:
    """Beat's, hourly: remove archives of saved directories that no run can need any more."""
    return directories.forget()


@shared_task(ignore_result=True)
def tell_of_bad_ends() -> int:
    """Beat's, every minute: tell people of their workloads that were preempted, lost or have failed."""
    return bad_ends.tell()


@shared_task(ignore_result=True)
def judge_failures() -> int:
    """Beat's, every few seconds: say why runs failed, and try again what may pass."""
    return retries.judge()


@shared_task(ignore_result=True)
def follow_events() -> int:
    """Beat's, every few seconds: hand what happened on clusters to the organisation's webhooks."""
    return webhook_events.follow()
