"""`run_cycle CLUSTER`: what beat and worker do, in this process: for operators, and where no broker runs."""

from __future__ import annotations

import argparse
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from budgets.models import Cluster
from scheduler import loop


class Command(BaseCommand):
    """Make passes over one cluster."""

    help = "Make one pass over a cluster now, or go on for a while as beat and worker do."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The cluster, and for how long."""
        parser.add_argument("cluster", help="the cluster's name")
        parser.add_argument("--for", dest="for_s", type=float, default=0.0, help="go on for so many seconds")
        parser.add_argument("--every", dest="every_s", type=float, default=1.0, help="seconds between two looks")

    def handle(self, *args: Any, **options: Any) -> None:
        """Passes, and what time alone does."""
        cluster = Cluster.objects.filter(name=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"cluster: there is no {options['cluster']!r}", returncode=2)
        until_s = time.monotonic() + options["for_s"]
        made = loop.tick_one(cluster, is_due=True)
        while time.monotonic() + options["every_s"] < until_s:
            time.sleep(options["every_s"])
            made += loop.tick_one(cluster)
        self.stdout.write(f"{made} passes over {cluster.name}")
