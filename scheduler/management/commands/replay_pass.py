"""`replay_pass ID`: decide a stored pass again from what it saw, and print the comparison."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.models import Pass
from scheduler.queries.replay import replay


class Command(BaseCommand):
    """Replay a pass."""

    help = "Decide a stored pass again from rows and events, and print what differs; exit status 1 if anything does."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The pass."""
        parser.add_argument("pass_id", metavar="ID", help="the number of the pass")

    def handle(self, *args: Any, **options: Any) -> None:
        """Print the plan, and the differences."""
        number = options["pass_id"]
        stored = None
        if number.isdecimal() and int(number) < 2**63:
            rows = Pass.objects.select_related("cluster", "tree", "policy")
            stored = rows.filter(pk=int(number)).first()
        if stored is None:
            raise CommandError(f"ID: there is no pass {number!r}", returncode=2)
        found = replay(stored)
        self.stdout.write(
            f"pass {stored.pk} of {stored.cluster.name} at {stored.at.isoformat()}, event {stored.event_mark}, "
            f"policy {stored.policy.number}, engine {stored.engine_version}: {len(found.plan.order)} waiting"
        )
        for each in found.plan.decisions:
            if each.action.value != "wait":
                self.stdout.write(f"  {each.action.value:15} {each.run or each.workload:20} {each.reason.text}")
        for line in found.differences:
            self.stdout.write(f"DIFFERS {line}")
        if found.differences:
            raise CommandError(f"{len(found.differences)} differences", returncode=1)
        self.stdout.write("the same decisions again")
