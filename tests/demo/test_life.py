"""The demo's present, driven for hours of invented time through the real loop."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from budgets.models import Cluster
from portal.demo import feed
from scheduler import loop
from scheduler.models import Run, Workload
from scheduler.services import simulation
from tests.demo.holdings import devices_held_twice


@pytest.mark.django_db(transaction=True)
def test_simulated_clusters_live_on_and_are_fed(transactional_db: None, tmp_path: Path, settings) -> None:
    settings.DATA_DIR = tmp_path
    call_command("demo", seed=3, weeks=1, stdout=StringIO())
    simulated = Cluster.objects.filter(executor="simulated")
    began = datetime.now(UTC)
    known = set(Workload.objects.values_list("pk", flat=True))
    for minute in range(0, 180, 3):
        for cluster in simulated:
            now = began + timedelta(minutes=minute)
            feed.feed(cluster, now)
            simulation.advance(cluster, now)
            loop.run_pass(cluster.pk, now=now)
    for cluster in simulated:
        new = Workload.objects.filter(cluster=cluster).exclude(pk__in=known)
        assert new.exists()
        assert not new.filter(state="refused").exists()
        assert Workload.objects.filter(cluster=cluster, state="queued").count() <= feed.QUEUE_MAX + feed.AT_ONCE
        assert Run.objects.filter(cluster=cluster, started_at__gte=began).exists()
    assert devices_held_twice() == []
