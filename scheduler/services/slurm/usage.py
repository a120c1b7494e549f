"""Where Slurm decides: what ran there, read back as runs, so that every page about use is about it too."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from scheduler.executors.slurm.calling import Caller
from scheduler.executors.slurm.jobs import Job
from scheduler.models import SlurmLink


def take(link: SlurmLink, caller: Caller, listed: Sequence[Job], now: datetime) -> None:
    """Take what has ended since the last look, and what runs."""
