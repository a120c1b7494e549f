"""Celery tasks of the demo. They do nothing where the organisation is not the demo's."""

from __future__ import annotations

import structlog
from celery import shared_task

from budgets.errors import InputError
from budgets.models import Cluster
from portal.demo import feed as feeder

log = structlog.get_logger(__name__)


@shared_task(ignore_result=True)
def feed() -> int:
    """Beat's: let people submit on every cluster. How many workloads."""
    count = 0
    for cluster in Cluster.objects.all():
        try:
            count += len(feeder.feed(cluster))
        except InputError as error:  # somebody has changed the policy or the tree: the demo's people can't submit
            log.warning("demo_not_fed", cluster=cluster.name, error=str(error))
    return count
