"""`repair_hook CLUSTER`: how nodes of a cluster are repaired without a person."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from budgets.errors import InputError
from scheduler.management.options import cluster_named, seconds_of
from scheduler.models import RepairHook
from scheduler.services import repairs


class Command(BaseCommand):
    """Show, set or remove the hook."""

    help = "Say how unhealthy nodes are repaired once they are empty: by their agent, by a command here, by a webhook."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """One way, or none to see the present one."""
        parser.add_argument("cluster", help="the cluster's name")
        ways = parser.add_mutually_exclusive_group()
        ways.add_argument("--node", action="store_true", help="the node's agent runs its own repair_command")
        ways.add_argument("--command", metavar="WORDS", help="a worker runs this; {node}, {cluster}, {cause} are named")
        ways.add_argument("--url", help="a signed message is posted there")
        ways.add_argument("--remove", action="store_true", help="none: a person is called")
        parser.add_argument("--attempts", type=int, default=2, help="before a person is called; 2 without")
        parser.add_argument("--reason", default="", help="why, for the ledger")
        parser.add_argument("--within", default="30m", help="how long a node has to be well again; 30m without")

    def handle(self, *args: Any, **options: Any) -> None:
        """Set it, and say what holds."""
        cluster = cluster_named(options["cluster"])
        within_s = seconds_of(options["within"], "--within")
        words, url = options["command"], options["url"]
        try:
            if options["remove"]:
                repairs.remove_hook(cluster=cluster, reason=options["reason"])
            elif options["node"] or words or url:
                kind = "node" if options["node"] else "portal" if words else "webhook"
                repairs.set_hook(
                    cluster=cluster,
                    kind=kind,
                    command=shlex.split(words or ""),
                    url=url or "",
                    attempts=options["attempts"],
                    timeout_s=within_s,
                    reason=options["reason"],
                )
        except InputError as error:
            raise CommandError(str(error), returncode=2) from None
        except ValueError as error:
            raise CommandError(f"--command: {error}", returncode=2) from None
        hook = RepairHook.objects.filter(cluster=cluster).first()
        if hook is None:
            self.stdout.write(f"{cluster.name}: no hook; when a node is in trouble, a person is called")
            return
        what = shlex.join(hook.command) or hook.url or "the node's own repair_command"
        self.stdout.write(f"{cluster.name}: {what}, {hook.attempts} times at most, {hook.timeout_s} s each")
        if hook.secret:
            self.stdout.write(f"secret of its signatures: {hook.secret}")
