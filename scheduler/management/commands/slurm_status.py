"""`manage.py slurm_status CLUSTER`: how its Slurm is, what is planned and differs there; `--resync` writes shares."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from budgets.models import BudgetNode
from scheduler.models import SlurmLink
from scheduler.services.slurm import shares


class Command(BaseCommand):
    """Say how it stands."""

    help = "Say how the Slurm of a cluster is, what would be done there, and which accounts differ from the shares."

    def add_arguments(self, parser: CommandParser) -> None:
        """The command line."""
        parser.add_argument("cluster", metavar="CLUSTER")
        parser.add_argument(
            "--resync",
            nargs="?",
            const="",
            metavar="CODE",
            help="have a budget node's shares written; without CODE all",
        )

    def handle(self, **options: Any) -> None:
        """Print it from rows: nothing here calls Slurm."""
        link = SlurmLink.objects.select_related("cluster").filter(cluster__name=options["cluster"]).first()
        if link is None:
            raise CommandError(f"CLUSTER: {options['cluster']} has no Slurm: slurm_connect says how it is reached")
        if options["resync"] is not None:
            self._resync(link, options["resync"])
            return
        self.stdout.write(f"{link.cluster.name}: {link.cluster.get_executor_display()}")
        self.stdout.write(f"writing {'on' if link.writes else 'off'}; last contact {link.contact_at or 'never'}")
        if link.is_failing:
            self.stdout.write(f"NOT REACHED since {link.failing_since}: {link.error}")
        for line in link.troubles:
            self.stdout.write(f"refused: {line}")
        for line in link.plan:
            self.stdout.write(f"would do: {line}")
        for each in link.drift:
            self.stdout.write(f"differs: {each['account']} {each['what']}: {each['is_now']}, not {each['should_be']}")
            for line in each["commands"]:
                self.stdout.write(f"    {line}")

    def _resync(self, link: SlurmLink, code: str) -> None:
        node = BudgetNode.objects.filter(code=code).first() if code else None
        if code and node is None:
            raise CommandError(f"--resync: there is no budget node {code}", returncode=2)
        order = shares.ask(cluster=link.cluster, node=node, by=None)
        self.stdout.write(f"asked for at {order.asked_at}: slurm_sync writes it at its next look")
