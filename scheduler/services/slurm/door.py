"""What may be submitted to a cluster that has a Slurm below it."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.utils.translation import gettext

from budgets.authority import may
from budgets.errors import InputError
from budgets.models import Cluster, Person
from scheduler.models import WHOLE_DEVICE_MILLI, SlurmLink


def check(*, cluster: Cluster, owner: Person | None, size_milli: int, command: Sequence[str]) -> None:
    """Refuse what Slurm could not carry out, or must not for this person.

    Jobs that do not run as their owner run as whoever looks at Slurm: then only operators may run commands of their
    own.

    Raises:
        InputError: names the field.
    """
    if cluster.executor == Cluster.Executor.ADVISED:
        raise InputError(
            "cluster", gettext("on {cluster} Slurm decides: submit there, with sbatch").format(cluster=cluster.name)
        )
    if cluster.executor != Cluster.Executor.SLURM:
        return
    if size_milli % WHOLE_DEVICE_MILLI:
        raise InputError("size_milli", gettext("Slurm gives whole devices only"))
    if owner is None or command[0] in settings.OPEN_PROGRAMS or may(owner, "workload.run_any_command", cluster):
        return
    if not SlurmLink.objects.filter(cluster=cluster, run_as_owner=True).exists():
        raise InputError("command", gettext("on {cluster} only an operator may run that").format(cluster=cluster.name))
