"""`manage.py slurm_import CLUSTER`: take over an existing Slurm site: accounts, people, nodes, and what ran there.

Everything is read from the Slurm that the cluster is connected to (`slurm_connect`), or from files.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from budgets.errors import InputError
from scheduler.executors.slurm import SlurmError, Unreadable, accounts, history
from scheduler.executors.slurm import nodes as slurm_nodes
from scheduler.management.files import read_text
from scheduler.models import SlurmLink
from scheduler.services.slurm import links, look, nodes, taking_over, usage

Read = TypeVar("Read")


class Command(BaseCommand):
    """Take a site over."""

    help = "Take over a Slurm site: its account tree as budgets, its nodes, and what ran there as history."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("cluster", metavar="CLUSTER")
        parser.add_argument("--sacctmgr", metavar="FILE", help="the account tree from a file (sacctmgr -P show assoc)")
        parser.add_argument("--sinfo", metavar="FILE", help=f"the nodes from a file: {' '.join(slurm_nodes.SINFO)}")
        parser.add_argument("--sacct", metavar="FILE", help="what ran, from a file (sacct -P; see slurm_whatif)")
        parser.add_argument("--days", type=int, default=28, metavar="N", help="of history, without a file (default 28)")
        parser.add_argument("--people", action="store_true", help="make a person of each user who has none")
        parser.add_argument("--organisation", default="Organisation", metavar="NAME", help="if there is none yet")
        parser.add_argument("--dry-run", action="store_true", help="only say what is there")

    def handle(self, **options: Any) -> None:
        """Read all, then store."""
        link = SlurmLink.objects.select_related("cluster").filter(cluster__name=options["cluster"]).first()
        if link is None:
            raise CommandError(f"CLUSTER: {options['cluster']} has no Slurm: slurm_connect says how it is reached")
        caller, now = links.caller(link), timezone.now().replace(microsecond=0)
        try:
            tree = self._read(
                options["sacctmgr"],
                accounts.read,
                lambda: accounts.read("sacctmgr", caller(accounts.list_of(link.name))),
            )
            seen = self._read(
                options["sinfo"],
                lambda name, text: slurm_nodes.with_places(slurm_nodes.read_sinfo(name, text), {}),
                lambda: look.read_nodes(link, caller),
            )
            first = now - timedelta(days=max(1, options["days"]))
            jobs = self._read(options["sacct"], history.read, lambda: usage.read(link, caller, first, now))
            self.stdout.write(
                f"There: {len(tree.accounts):,} accounts, {len(seen):,} nodes, {len(jobs):,} records of jobs"
            )
            if options["dry_run"]:
                return
            taken = taking_over.take_over(
                cluster=link.cluster,
                found=tree,
                organisation=options["organisation"],
                with_people=options["people"],
            )
            troubles = nodes.take(link, seen, now)
            stored = usage.store(link, jobs)
        except (SlurmError, Unreadable) as error:
            raise CommandError(str(error), returncode=2) from None
        except InputError as error:
            raise CommandError(f"{error.field}: {error.message}", returncode=2) from None
        self._say(taken, stored, troubles)

    def _read(self, name: str | None, from_file: Callable[[str, str], Read], live: Callable[[], Read]) -> Read:
        return live() if name is None else from_file(name, read_text(name))

    def _say(self, taken: taking_over.TakenOver, stored: usage.Taken, troubles: list[str]) -> None:
        self.stdout.write(
            f"Made: {taken.nodes:,} budget nodes, {taken.people:,} people, {taken.members:,} memberships; "
            f"{stored.jobs:,} jobs stored as history"
        )
        if taken.unknown:
            self.stdout.write(f"Users without a person here: {', '.join(taken.unknown[:20])} (--people makes them)")
        if stored.strangers:
            self.stdout.write(f"No budget stands for these accounts: {', '.join(stored.strangers)}")
        for line in troubles:
            self.stdout.write(line)
