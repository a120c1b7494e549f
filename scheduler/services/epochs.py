"""The portal's epoch: what tells a portal apart from a copy of its past (the protocol: scheduler/executors/base.py)."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from scheduler.models import PortalEpoch, Run, WorkloadNumber

NUMBERS_SKIPPED = 1_000
"""After a restore so many numbers of each project's workloads are left out: some were given away since the backup."""


def current() -> int:
    """The epoch that agents are told."""
    return PortalEpoch.objects.values_list("number", flat=True).first() or 1


def begin_another(now: datetime | None = None) -> int:
    """This database was restored from a backup: agents obey no server that still runs on the one before.

    What was given away since the backup is not given away again: ids of runs, which are fencing tokens on nodes, go on
    from the new epoch, and numbers of workloads, which name working directories, skip some. Returns the new epoch.
    """
    with transaction.atomic():
        number = max(current() + 1, int((now or timezone.now()).timestamp()))
        PortalEpoch.objects.all().delete()
        PortalEpoch.objects.create(number=number)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT setval(pg_get_serial_sequence(%s, 'id'), greatest(%s, max(id))) FROM scheduler_run",
                [Run._meta.db_table, number],
            )
        WorkloadNumber.objects.update(last=F("last") + NUMBERS_SKIPPED)
    return number
