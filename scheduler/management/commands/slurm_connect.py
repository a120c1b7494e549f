"""`manage.py slurm_connect CLUSTER --mode full|advisory`: say how a cluster's Slurm is reached, or say it anew."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.services import clusters
from scheduler.services.slurm import links, taking_over

MODES = {"full": Cluster.Executor.SLURM, "advisory": Cluster.Executor.ADVISED}
SWITCH = {"on": True, "off": False}


class Command(BaseCommand):
    """Connect a cluster."""

    help = (
        "Say how the Slurm of a cluster is reached; the cluster is made where there is none. Nothing is written to it."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("cluster", metavar="CLUSTER")
        parser.add_argument("--mode", choices=MODES, help="full: decided here; advisory: decided by Slurm")
        parser.add_argument("--unit", choices=Cluster.Unit.values, default="gpu", help="of a new cluster (default gpu)")
        parser.add_argument("--conf", metavar="PATH", help="slurm.conf (default: Slurm's own)")
        parser.add_argument("--name", metavar="NAME", help="the cluster's name in Slurm's accounting")
        parser.add_argument("--partition", metavar="NAME", help="whose nodes count, and to which jobs go")
        parser.add_argument("--qos", metavar="NAME", help="of jobs")
        parser.add_argument("--folder", metavar="PATH", help="where workloads have their directories, on all nodes")
        parser.add_argument("--as-owner", choices=SWITCH, help="jobs run as their owner's Unix user (needs root)")
        parser.add_argument("--writes", choices=SWITCH, help="off (at first): what would be changed is only shown")
        parser.add_argument("--held-ahead", type=int, metavar="N", help="waiting workloads that are held jobs (200)")

    def handle(self, **options: Any) -> None:
        """Connect it, and say how it stands."""
        try:
            with transaction.atomic():
                cluster = self._cluster(options)
                given = {name: options[name] for name in ("conf", "name", "partition", "qos", "folder", "held_ahead")}
                given |= {"run_as_owner": SWITCH.get(options["as_owner"]), "writes": SWITCH.get(options["writes"])}
                link = links.connect(
                    cluster=cluster, **{name: value for name, value in given.items() if value is not None}
                )
        except InputError as error:
            raise CommandError(f"{error.field}: {error.message}", returncode=2) from None
        writing = "on" if link.writes else "off: what would be changed is only shown"
        self.stdout.write(f"{cluster.name}: {cluster.get_executor_display()}; writing is {writing}")

    def _cluster(self, options: dict[str, Any]) -> Cluster:
        cluster = Cluster.objects.filter(name=options["cluster"]).first()
        executor = MODES.get(options["mode"])
        if cluster is None:
            if executor is None:
                raise InputError("--mode", f"is needed: there is no cluster {options['cluster']} yet")
            return clusters.create(name=options["cluster"], executor=executor, unit=options["unit"])
        if executor is not None:
            taking_over.change_kind(cluster=cluster, executor=executor)
        return cluster
