"""What jobs leave in the directories of their workloads, where the folder of these can be read from here.

Owners can put anything there, also links: nothing is followed below the folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from scheduler.executors.slurm import script


def is_readable(folder: str) -> bool:
    """Whether the folder of workloads is one here, too."""
    return bool(folder) and os.path.isdir(folder)


@contextmanager
def opened(folder: str, *names: str) -> Iterator[int | None]:
    """A descriptor of the plain file of that path below the folder; None where there is none, or a link on its way."""
    with ExitStack() as open_ones:
        found = None
        try:
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            open_ones.callback(os.close, directory)
            for name in names[:-1]:
                directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
                open_ones.callback(os.close, directory)
            file = os.open(names[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
            open_ones.callback(os.close, file)
            found = file if stat.S_ISREG(os.fstat(file).st_mode) else None
        except OSError:
            found = None  # it is not there yet, or its directory is not what it was
        yield found


def is_saved(folder: str, workload: str, run: int) -> bool:
    """Whether the script of that run says that its session is saved."""
    if not is_readable(folder):
        return False
    with opened(folder, workload, script.OWN_FOLDER, script.saved_mark_of(run)) as file:
        return file is not None


def inside(folder: str, workload: str, path: str = "") -> str:
    """The real path of something in a workload's directory; empty where links lead out of it, or it is not here."""
    if not is_readable(folder):
        return ""
    own = os.path.realpath(os.path.join(folder, workload))
    if os.path.dirname(own) != os.path.realpath(folder):
        return ""
    found = os.path.realpath(os.path.join(own, path))
    return found if found == own or found.startswith(f"{own}/") else ""
