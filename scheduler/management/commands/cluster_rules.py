"""`cluster_rules CLUSTER`: which rules a cluster follows, and from when others."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from budgets.errors import InputError
from scheduler.management.options import cluster_named, instant_of
from scheduler.services import rollout


class Command(BaseCommand):
    """Show or plan them."""

    help = (
        "Show which rules a cluster follows, or plan a change: shadow (decided and shown, nothing started), contracts."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The change, if there is to be one."""
        parser.add_argument("cluster", help="the cluster's name")
        parser.add_argument("mode", nargs="?", choices=rollout.Mode.values, help="what it is to follow")
        parser.add_argument("--from", dest="starts", default="now", help="the instant: 2026-12-01T08:00, or now")
        parser.add_argument("--reason", default="", help="why, for the ledger")

    def handle(self, *args: Any, **options: Any) -> None:
        """Plan it, and say what holds."""
        cluster = cluster_named(options["cluster"])
        if options["mode"]:
            starts_at = instant_of(options["starts"], "--from")
            try:
                rollout.plan(
                    cluster=cluster, mode=options["mode"], starts_at=starts_at, by=None, reason=options["reason"]
                )
            except InputError as error:
                raise CommandError(str(error), returncode=2) from None
        now = timezone.now()
        step = rollout.next_step(cluster, now)
        then = f"; from {step.starts_at.isoformat()} {step.mode}" if step is not None else ""
        self.stdout.write(f"{cluster.name} follows {rollout.mode_of(cluster, now)}{then}")
