"""Starting, watching and stopping processes so that none is left behind.

Two things see to that. A child asks the kernel for a signal at its parent's end (PR_SET_PDEATHSIG); and whoever starts
children makes itself their subreaper, so that orphaned grandchildren become its own and are found by `descendants`.
"""

import ctypes
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from portal.supervisor.refusal import Refusal

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LOG_ROTATED_FROM_BYTES = 10_000_000
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Account:
    """Whom a process runs as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Service:
    """One process to keep running.

    `ready` is asked until it says yes, for at most `ready_within_s`; `death_signal` is what the process gets when the
    supervisor is killed, `stop_signal` what it gets in good order, and SIGKILL after `stop_grace_s`. Neighbours of the
    same `wave` are stopped at the same time.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    log_path: Path
    account: Account | None = None
    directory: str = "/"
    ready: Callable[[], bool] | None = None
    ready_within_s: int = 60
    stop_signal: int = signal.SIGTERM
    stop_grace_s: int = 10
    death_signal: int = signal.SIGKILL
    umask: int = 0o077
    wave: str = ""


@dataclass
class Running:
    """A started service."""

    service: Service
    process: subprocess.Popen[bytes]
    started_s: float = field(default_factory=time.monotonic)


def become_subreaper() -> None:
    """Make orphaned descendants children of this process instead of init's."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent(parent_pid: int, death_signal: int) -> None:
    """Ask for `death_signal` at the parent's end; leave at once if it has ended already.

    Comes after any change of uid, which clears it.
    """
    _libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def start(service: Service) -> Running:
    """Start a service in a session of its own, its output appended to its log."""
    parent_pid = os.getpid()
    account = service.account
    with open_log(service.log_path) as log:
        process = subprocess.Popen(
            service.argv,
            env=dict(service.environment),
            cwd=service.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=service.umask,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            preexec_fn=lambda: end_with_parent(parent_pid, service.death_signal),
        )
    return Running(service, process)


def open_log(path: Path):  # type: ignore[no-untyped-def]  # the stdlib's own type of a binary file is private
    """The log file to append to; a large one is moved aside first."""
    if path.exists() and path.stat().st_size > LOG_ROTATED_FROM_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def wait_ready(running: Running) -> None:
    """Return once the service answers.

    Raises Refusal with the end of its log if it ends first or takes too long.
    """
    service = running.service
    deadline = time.monotonic() + service.ready_within_s
    while service.ready and not service.ready():
        if running.process.poll() is not None:
            raise Refusal(f"{service.name} ended with status {running.process.returncode}: {last_line(service)}")
        if time.monotonic() > deadline:
            raise Refusal(f"{service.name} did not answer within {service.ready_within_s} s: {last_line(service)}")
        time.sleep(0.02)


def last_line(service: Service) -> str:
    """The last line of a service's log, and where the rest is."""
    lines = service.log_path.read_text(errors="replace").split("\n") if service.log_path.exists() else []
    text = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return f"{text} (log: {service.log_path})"


def stop(running: Sequence[Running], *, grace_s: float | None = None) -> None:
    """Stop services in good order, the last first, and what they started by force if it does not go.

    Args:
        running: in the order of their start.
        grace_s: how long each may take; by default what the service says.
    """
    for _wave, members in itertools.groupby(reversed(running), key=lambda each: each.service.wave or each.service.name):
        _stop_together(list(members), grace_s)


def _stop_together(running: list[Running], grace_s: float | None) -> None:
    below: dict[int, int] = {}
    for each in running:
        below |= descendants(each.process.pid)
        if each.process.poll() is None:
            each.process.send_signal(each.service.stop_signal)
    told_s = time.monotonic()
    for each in running:
        limit_s = each.service.stop_grace_s if grace_s is None else grace_s
        try:
            each.process.wait(max(0.0, told_s + limit_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            below |= descendants(each.process.pid)
            each.process.kill()
            each.process.wait()
    for pid, started in below.items():
        if start_ticks(pid) == started:
            send(pid, signal.SIGKILL)


def sweep(*, grace_s: float) -> None:
    """End every descendant of this process: SIGTERM, then SIGKILL after `grace_s`, until none is left."""
    deadline = time.monotonic() + grace_s
    told: set[int] = set()
    while below := descendants(os.getpid()):
        late = time.monotonic() > deadline
        for pid in below:
            if late or pid not in told:
                send(pid, signal.SIGKILL if late else signal.SIGTERM)
                told.add(pid)
        time.sleep(0.05)
        reap_strangers(())


def reap_strangers(known: Iterable[Running]) -> None:
    """Collect ended children that no `Running` stands for: orphans that were handed to us."""
    ours = {running.process.pid for running in known}
    for pid, (parent_pid, state, _started) in process_table().items():
        if parent_pid == os.getpid() and state == "Z" and pid not in ours:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue


def send(pid: int, number: int) -> None:
    """Send a signal; a process that has gone needs none."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def process_table() -> dict[int, tuple[int, str, int]]:
    """For every process: its parent's id, its state letter and its start in clock ticks since boot."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (row := _stat(int(entry))):
            table[int(entry)] = row
    return table


def _stat(pid: int) -> tuple[int, str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return int(fields[1]), fields[0], int(fields[19])


def start_ticks(pid: int) -> int | None:
    """The start of a living process in clock ticks since boot: with its id, it names the process for good."""
    row = _stat(pid)
    return row[2] if row and row[1] != "Z" else None


def descendants(pid: int) -> dict[int, int]:
    """Every living process below `pid`, with its start in clock ticks."""
    table = process_table()
    children: dict[int, list[int]] = {}
    for child, (parent, _state, _started) in table.items():
        children.setdefault(parent, []).append(child)
    found: dict[int, int] = {}
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        _parent, state, started = table[child]
        if state != "Z":
            found[child] = started
        waiting.extend(children.get(child, ()))
    return found
