"""`exec`: one command with the databases of a data folder."""

import os
import signal
import subprocess
from pathlib import Path

from portal.supervisor.databases import Addresses, allot, private_services, release, started
from portal.supervisor.place import Place
from portal.supervisor.processes import end_with_parent
from portal.supervisor.refusal import Refusal
from portal.supervisor.services import DEFAULT_PORT, portal_environment


def run_with_servers(*, data: Path, argv: list[str]) -> int:
    """Run a command with the databases that run already, else with private ones for as long as it takes.

    Raises:
        Refusal: the folder is being set up, stopped, or lent to another command.
    """
    place = Place.open(data)
    if place.is_locked():
        told = place.running()
        if not told:
            raise Refusal(f"data folder {place.root} is busy; try again when what uses it has ended")
        urls = told["environment"]
        addresses = Addresses(urls["DATABASE_URL"], urls["REDIS_URL"], None, frozenset())
        return run_command(argv, portal_environment(place, addresses, told["port"]))
    lock = place.lock()
    try:
        place.running_path.unlink(missing_ok=True)
        addresses = allot(place)
        try:
            with started(private_services(place, addresses)):
                return run_command(argv, portal_environment(place, addresses, DEFAULT_PORT))
        finally:
            release(addresses)
    finally:
        os.close(lock)


def run_command(argv: list[str], environment: dict[str, str]) -> int:
    """Run a command in the foreground; its exit status. A Ctrl-C is the command's; our end is its end."""
    parent_pid = os.getpid()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(argv, env=environment, preexec_fn=lambda: _in_foreground(parent_pid))
    except OSError as error:
        raise Refusal(f"{argv[0]}: {error.strerror}") from None
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _in_foreground(parent_pid: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent(parent_pid, signal.SIGTERM)
