"""Slurm's commands: how they are written, called, and read. Pure but for `calling`; no models.

The command line is the way in: it is the same from version to version. Every reader is strict: what is not as described
is `Unreadable`, which names the command, the line and the column, and nothing is done with any of it.
"""

from scheduler.executors.slurm.calling import Caller, Refused, SlurmError, Unreachable
from scheduler.executors.slurm.reading import Unreadable

__all__ = ["Caller", "Refused", "SlurmError", "Unreachable", "Unreadable"]
