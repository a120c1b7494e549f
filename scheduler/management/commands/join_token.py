"""`join_token CLUSTER`: a token that lets one node join, once."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from budgets.errors import InputError
from scheduler.management.options import cluster_named, seconds_of
from scheduler.services import join_tokens


class Command(BaseCommand):
    """Print a new join token. Only its hash is kept."""

    help = "Print a token that lets one node's agent join a cluster, once, until it expires."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """For whom, and how long."""
        parser.add_argument("cluster", help="the cluster's name")
        parser.add_argument("--node", default="", help="the only node that may use it; any without")
        parser.add_argument("--valid-for", default="1h", help="until it expires: 10m, 8h, 2d; 1h without")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make and print it."""
        cluster = cluster_named(options["cluster"])
        valid_for_s = seconds_of(options["valid_for"], "--valid-for")
        try:
            self.stdout.write(join_tokens.make(cluster=cluster, valid_for_s=valid_for_s, node_name=options["node"]))
        except InputError as error:
            raise CommandError(str(error), returncode=2) from None
