"""One process per rank: starts its command, collects what it prints, stops it in its grace, and writes down its end.

It outlives the agent that started it (`python -I -S`, ranks.py), so that an agent can be killed, updated and
started again while work goes on. It is small: a few imports of the standard library, no network. Its folder is the
agent's alone and holds:

    spec.json     what to run (written by the agent before)
    lock          held by the minder while it lives: so there is never a second one
    record.json   what has happened so far (written by the minder, whole or not at all)
    output        what the command printed, up to a cap
    stop.json     {"by_s", "why"}: be gone by then (written by the agent, followed by SIGUSR1)

Instants (`_s`) are seconds of CLOCK_BOOTTIME, which no change of the clock moves; `boot` says of which boot.
"""

import errno
import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable

from scheduler.executors import cgroups, reports
from scheduler.executors.checkpoints import Checkpoints
from scheduler.executors.hiding import Hiding, hide
from scheduler.executors.launching import libc, start_command

PR_SET_CHILD_SUBREAPER = 36
OUTPUT_PIPE_BYTES = 65_536
READS_AT_ONCE = 16
"""A command that prints without end must not keep us from looking at the clock."""
KILL_AGAIN_S = 0.1
NOTE_AGAIN_S = 1.0
RECORD_ROOM = 700
"""What a record may grow by on a full disk: the end of its command, with a line of at most 300 characters."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""How a full disk says so; any other trouble with its folder ends a minder."""
LOOK_EVERY_S = 5.0
"""How often it looks for a new checkpoint, and while it is leaving, ten times a second."""
LEAVING_LOOK_S = 0.1
MARGIN_MAX_S = 10.0
"""What is at most kept of the grace for the command itself, after its save command or its checkpoint."""


def boottime_s() -> float:
    """Seconds since the machine booted, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Names this boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def read_json(path: str) -> dict | None:
    """An object from a file that is always whole; None where there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


def write_json(path: str, content: dict, *, durable: bool = True) -> None:
    """Write an object for the owner alone, whole or not at all; if durable, it outlives a crash of the machine."""
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(path + ".new", path)


def rewrite_json(path: str, content: dict, *, room: int = 40, durable: bool = False) -> None:
    """Write a small object that is written again and again. Where the disk is full it is written over the old one,
    whose room is there already; a reader may then find none for an instant.

    Args:
        room: by how many bytes later content may be longer than this one.

    Raises:
        OSError: there was none before, or none as long.
    """
    try:
        write_json(path, {**content, "room": "." * room}, durable=durable)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        descriptor = os.open(path, os.O_WRONLY)
        try:
            size = os.fstat(descriptor).st_size
            text = json.dumps(content).encode()
            if len(text) > size:
                raise
            os.pwrite(descriptor, text.ljust(size), 0)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock(path: str) -> int | None:
    """Hold a lock until the returned descriptor is closed; None if somebody else holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def descendants(root: int) -> list[int]:
    """Every living process below `root`."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry) if fields[0] != "Z" else -int(entry))
    found: list[int] = []
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        if pid > 0:
            found.append(pid)
        waiting.extend(children.get(abs(pid), ()))
    return found


class Minder:
    """The life of one rank."""

    def __init__(self, spec: dict) -> None:
        self.spec = spec
        self.record = {"boot": boot_id(), "minder": os.getpid(), "state": "starting"}
        self.pid = 0
        self.status: int | None = None  # the command's, once it has ended
        self.by_s: float | None = None  # when it must be gone, once it was told to go
        self.why = "itself"
        self.told_s = 0.0
        self.is_terminated = False  # its command got its signal
        self.waits_until_s = 0.0  # for a checkpoint
        self.save_pid = 0
        self.saved: bool | None = None
        self.checkpoints = Checkpoints(spec)
        self.reported_s = 0.0  # when it last reported its throughput
        self.began_s = float("inf")
        self.hiding = Hiding(spec.get("secrets") or {})
        self.output = self.writing = -1
        self.is_written = True  # what has happened is in the record
        self.lacks_output = False
        self._fence_s = float("inf")
        self.signals, wake = os.pipe()
        for descriptor in (self.signals, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: None)

    def note(self, **changes: object) -> None:
        """Write down what has happened; where the disk is full, as soon as there is room: the command goes on."""
        self.record.update(changes)
        try:
            rewrite_json("record.json", self.record, room=RECORD_ROOM, durable=True)
            self.is_written = True
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self.is_written = False

    def note_end(self, **changes: object) -> None:
        """Write down its end, and stay until that is done: whatever else would be said of it is wrong."""
        self.note(**changes)
        while not self.is_written:
            time.sleep(NOTE_AGAIN_S)
            self.note()

    # --- from its start to its end ------------------------------------------------------------------------------------

    def live(self) -> None:
        """Start the command and stay until nothing of it is left."""
        reading, self.writing = os.pipe()
        self.output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.pid, problem = start_command(self.spec, self.writing)
        if problem:
            self.note_end(state="failed", message=hide(problem, self.spec.get("secrets") or {}), exited_s=boottime_s())
            return
        if not self.spec.get("save_command"):
            os.close(self.writing)
        self.began_s = boottime_s()
        self.note(state="running", pid=self.pid, began_s=self.began_s)
        tell_agent()
        status = self.watch(reading)
        self.clear()
        self.collect(reading)  # what was printed last
        self.keep(self.hiding.rest())
        self.look()
        self.note_end(state="exited", exit_code=os.waitstatus_to_exitcode(status), exited_s=boottime_s(), **self.end())

    def end(self) -> dict[str, object]:
        """What else there is to say at its end."""
        said: dict[str, object] = {"cause": self.why}
        if self.lacks_output:
            said["message"] = "the disk of its node was full: not all that it printed was kept"
        if self.saved is not None:
            said["saved"] = self.saved
        if group := self.spec.get("cgroup"):
            if cgroups.ran_out(group):
                said["message"] = f"it went over its memory limit of {self.spec['memory_bytes'] // 1024**2} MiB"
            cgroups.remove(group)
        return said

    def watch(self, reading: int) -> int:
        """Until the command ends, and what saves it too; the command's wait status."""
        os.set_blocking(reading, False)
        anchor = self.anchor()
        poll = select.poll()
        for descriptor in (reading, self.signals, *([] if anchor is None else [anchor])):
            poll.register(descriptor, select.POLLIN)
        while True:
            self.reap()
            if self.status is not None and not self.save_pid:
                return self.status
            for descriptor, _event in poll.poll(self.wait_ms()):
                if descriptor == reading and not self.collect(reading):
                    poll.unregister(reading)
                elif descriptor == self.signals:
                    self.take_signals(os.read(self.signals, 100))
                elif descriptor == anchor:
                    self.stop(boottime_s(), "node")
            self.keep_time()

    def anchor(self) -> int | None:
        """A descriptor that becomes readable when the process that everything here is tied to has ended."""
        tied = self.spec["tied_to"]
        if tied is None:
            return None
        try:
            return os.pidfd_open(tied)
        except ProcessLookupError:
            self.stop(boottime_s(), "node")
            return None

    def reap(self) -> None:
        """Collect ended children; what became of the command, and of what saves it."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.status, self.save_pid = self.status or 0, 0
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = status
            elif pid == self.save_pid:
                self.save_pid, self.saved = 0, status == 0

    def look(self) -> float | None:
        """When it last wrote its checkpoint; a new one, and a new report, are written down for the agent."""
        self.look_for_report()
        before_s = self.checkpoints.last_s
        at_s = self.checkpoints.look(self.began_s)
        if at_s is not None and at_s != before_s:
            try:
                rewrite_json("checkpoint.json", {"boot": self.record["boot"], "at_s": at_s})
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                return at_s  # the next one is told
        return at_s

    def look_for_report(self) -> None:
        """A new report of its throughput is written down for the agent; a full disk keeps that for the next one."""
        found = reports.read(self.spec["directory"], self.began_s)
        if found is None or found.at_s <= self.reported_s + 0.01:
            return
        self.reported_s = found.at_s
        try:
            rewrite_json("report.json", {"boot": self.record["boot"], **found._asdict()})
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise

    # --- leaving ------------------------------------------------------------------------------------------------------

    def take_signals(self, numbers: bytes) -> None:
        """SIGUSR1: the agent has written when to stop. Any request to end: our node goes down."""
        if signal.SIGUSR1 in numbers:
            order = read_json("stop.json")
            if order is not None and order.get("boot") == self.record["boot"]:
                self.stop(order["by_s"], order["why"])
        if {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} & set(numbers):
            self.stop(boottime_s() + self.spec["grace_s"], "node")

    def stop(self, by_s: float, why: str) -> None:
        """Have it gone by then. Told again, only an earlier end counts.

        One with a save command is saved first; one that is about to write its checkpoint is let do that; then, and
        otherwise at once, the command's group gets SIGTERM. By `by_s` everything is killed.
        """
        if self.by_s is not None:
            self.by_s = min(self.by_s, by_s)
            return
        self.by_s, self.why, self.told_s = by_s, why, boottime_s()
        self.look()
        if self.spec.get("save_command"):
            self.saved = False
            self.save_pid, problem = start_command({**self.spec, "command": self.spec["save_command"]}, self.writing)
            if problem:
                self.save_pid = 0
                self.keep(f"cannot save: {problem}\n".encode())
        elif (until_s := self.checkpoints.wait_until_s(self.told_s, by_s, self.margin_s())) is not None:
            self.waits_until_s = until_s
        self.go_on_leaving(self.told_s)

    def margin_s(self) -> float:
        """What is kept of the grace for the command's own leaving."""
        assert self.by_s is not None
        return min(MARGIN_MAX_S, max((self.by_s - self.told_s) / 4, 0.0))

    def go_on_leaving(self, now_s: float) -> None:
        """SIGTERM as soon as it is saved, has written its checkpoint, or can be waited for no longer."""
        assert self.by_s is not None
        is_late = now_s >= self.by_s - self.margin_s()
        if self.save_pid and is_late:
            send(os.killpg, self.save_pid, signal.SIGKILL)
        if self.save_pid or self.is_terminated:
            return
        if now_s < self.waits_until_s and not is_late and (self.look() or 0.0) <= self.told_s:
            return
        self.is_terminated = True
        send(os.killpg, self.pid, signal.SIGTERM)
        send(os.killpg, self.pid, signal.SIGCONT)

    def keep_time(self) -> None:
        """What falls due by itself: a look at its checkpoint and its memory, the end of the grace, and the fence."""
        now_s = boottime_s()
        if not self.is_written:
            self.note()
        if self.by_s is not None and now_s >= self.by_s:
            self.kill_all()
        elif self.by_s is not None:
            self.go_on_leaving(now_s)
        else:
            self.look()
            if self.spec.get("cgroup") and cgroups.ran_out(self.spec["cgroup"]):
                self.kill_all()  # the kernel may have taken one process only: no rank goes on in part
            if now_s >= self.fence_s():
                self.stop(now_s + self.spec["grace_s"], "node")

    def fence_s(self) -> float:
        """When to stop unless the agent reaches the portal before: else it could run twice (semantics.md section 7)."""
        if boottime_s() >= self._fence_s or self._fence_s == float("inf"):
            contact = read_json(self.spec["contact"])
            if contact is not None and contact["boot"] == self.record["boot"]:
                self._fence_s = contact["at_s"] + contact["fence_s"]
        return self._fence_s

    def wait_ms(self) -> int:
        """How long nothing can fall due."""
        now_s = boottime_s()
        if self.by_s is None:
            due_s = min(self.fence_s(), now_s + LOOK_EVERY_S)
        elif self.is_terminated:
            due_s = max(self.by_s, now_s + KILL_AGAIN_S)
        else:
            due_s = now_s + LEAVING_LOOK_S
        return int(max(due_s - now_s, 0) * 1000 + 1)

    def kill_all(self) -> list[int]:
        """SIGKILL to every process below us, and which they are: a subreaper's descendants can't get away."""
        left = descendants(os.getpid())
        for pid in left:
            send(os.kill, pid, signal.SIGKILL)
        return left

    def clear(self) -> None:
        """Stay until nothing is left; what hangs in the kernel keeps its devices, so it has not left."""
        wait_s = 0.005
        while self.kill_all():
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, KILL_AGAIN_S)
            self.reap()

    # --- what it prints -----------------------------------------------------------------------------------------------

    def collect(self, reading: int) -> bool:
        """Move what was printed into the file, up to the cap; False when nothing more can come."""
        for _turn in range(READS_AT_ONCE):
            try:
                data = os.read(reading, OUTPUT_PIPE_BYTES)
            except BlockingIOError:
                break
            if not data:
                return False
            self.keep(self.hiding.feed(data))
        return True

    def keep(self, data: bytes) -> None:
        """Write to the file, up to the cap."""
        left = self.spec["output_max_bytes"] - os.fstat(self.output).st_size
        if data and left > 0:
            try:
                self.lacks_output = os.write(self.output, data[:left]) < len(data[:left]) or self.lacks_output
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self.lacks_output = True  # a full disk is no reason to end the command


def send(how: Callable[[int, int], None], pid: int, number: int) -> None:
    """Signal a process or a group; one that has gone needs none."""
    try:
        how(pid, number)
    except ProcessLookupError:
        return


def tell_agent() -> None:
    """Close our standard output, on which the agent waits for our news."""
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)


def main(folder: str) -> None:
    """Mind the rank of this folder, unless that is or was somebody's work already.

    Everything is read and written from inside the folder: if it is removed, one of the same name is not ours.
    """
    os.chdir(folder)
    if lock("lock") is None or os.path.exists("record.json"):
        return
    spec = read_json("spec.json")
    if spec is None:
        sys.exit(f"{folder}: no spec.json")
    os.umask(0o077)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    minder = Minder(spec)
    # Where that cannot be written, nothing begins.
    write_json("record.json", {**minder.record, "room": "." * RECORD_ROOM})
    minder.live()


if __name__ == "__main__":
    main(sys.argv[1])
