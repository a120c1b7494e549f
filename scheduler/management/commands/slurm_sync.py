"""`manage.py slurm_sync [CLUSTER ...]`: have Slurm carry out what is decided, and read back what happens there."""

from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from budgets.models import Cluster
from scheduler.services.slurm import executor, links, look


class Command(BaseCommand):
    """Look at Slurms until told to end."""

    help = (
        "Look at the Slurm of clusters whenever something happens, until told to end. Runs where Slurm's commands are."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("clusters", metavar="CLUSTER", nargs="*", help="names (default: all that have a Slurm)")
        parser.add_argument("--once", action="store_true", help="look once, say how it went, and end")

    def handle(self, **options: Any) -> None:
        """Run until SIGTERM, or once."""
        names = options["clusters"]
        known = set(Cluster.objects.filter(executor__in=links.KINDS).values_list("name", flat=True))
        for name in names:
            if name not in known:
                raise CommandError(f"there is no cluster {name} that has a Slurm")
        if options["once"]:
            self._once(names or sorted(known))
            return
        ends: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _frame: ends.append(number))
        executor.follow(names, goes_on=lambda: not ends)

    def _once(self, names: list[str]) -> None:
        for cluster in Cluster.objects.filter(name__in=names):
            looked = look.look(cluster.pk)
            if looked is None:
                self.stdout.write(f"{cluster.name}: somebody else is looking, or no connection was set up")
            elif looked.reached:
                self.stdout.write(f"{cluster.name}: reached; {looked.done} commands carried out")
            else:
                self.stdout.write(f"{cluster.name}: not reached: {cluster.slurm.error}")
