"""One process per rank: starts its command, collects what it prints, stops it in its grace, and writes down its end.

It outlives the agent that started it (`python -I -S minder.py FOLDER`), so that an agent can be killed, updated and
started again while work goes on. It is small: a few imports of the standard library, no network. Its folder is the
agent's alone and holds:

    spec.json     what to run (written by the agent before)
    lock          held by the minder while it lives: so there is never a second one
    record.json   what has happened so far (written by the minder, whole or not at all)
    output        what the command printed, up to a cap
    stop.json     {"by_s", "why"}: be gone by then (written by the agent, followed by SIGUSR1)

Instants (`_s`) are seconds of CLOCK_BOOTTIME, which no change of the clock moves; `boot` says of which boot.
"""

import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
OUTPUT_PIPE_BYTES = 65_536
READS_AT_ONCE = 16
"""A command that prints without end must not keep us from looking at the clock."""
KILL_AGAIN_S = 0.1
_libc = ctypes.CDLL(None, use_errno=True)


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


def start_command(spec: dict, output: int) -> tuple[int, str]:
    """Fork and execute; the process id, and what went wrong (empty: it runs)."""
    reading, writing = os.pipe()  # closed by a successful exec
    minder = os.getpid()
    pid = os.fork()
    if pid == 0:
        step = "starting"
        try:
            os.setsid()
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            step = "setting its limits"
            limit(spec)
            step = "becoming its user"
            if spec["uid"] is not None:
                os.setgroups([])
                os.setgid(spec["uid"])
                os.setuid(spec["uid"])
            _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the change of user, which clears it
            if os.getppid() != minder:
                os._exit(1)
            step = "entering its working directory"
            os.umask(0o077)
            os.chdir(spec["directory"])
            step = f"executing {spec['command'][0]}"
            for number in range(1, signal.NSIG):
                if number not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(number) is not None:
                    signal.signal(number, signal.SIG_DFL)
            os.dup2(writing, 3, inheritable=False)
            os.closerange(4, os.sysconf("SC_OPEN_MAX"))
            writing = 3
            execute(spec["command"], spec["environment"])
        except BaseException as error:  # whatever it was, the parent must hear of it, and nothing here goes on
            os.write(writing, f"{step}: {getattr(error, 'strerror', None) or error}".encode()[:280])
        finally:
            os._exit(127)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        problem = file.read().decode(errors="replace")
    if problem:
        os.waitpid(pid, 0)
    return pid, problem


def execute(command: list[str], environment: dict[str, str]) -> None:
    """Become the command, looked for in its own PATH; returns never.

    `os.execvpe` would import more of the standard library first, which may lie where only our user can read.

    Raises:
        OSError: what the last place said; that there is none only where no other did.
    """
    name = command[0]
    places = [""] if "/" in name else [place or "." for place in environment["PATH"].split(":")]
    problem: OSError = FileNotFoundError(2, "No such file or directory")
    for place in places:
        try:
            os.execve(os.path.join(place, name), command, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            problem = error
    raise problem


def limit(spec: dict) -> None:
    """Bounds of the command: memory, core files, and who goes first when the machine runs out of memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if spec["memory_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (spec["memory_bytes"],) * 2)
    if spec["processes"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (spec["processes"],) * 2)
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("500")


class Minder:
    """The life of one rank."""

    def __init__(self, spec: dict) -> None:
        self.spec = spec
        self.record = {"boot": boot_id(), "minder": os.getpid(), "state": "starting"}
        self.pid = 0
        self.by_s: float | None = None  # when it must be gone, once it was told to go
        self.why = "itself"
        self._fence_s = float("inf")
        self.signals, wake = os.pipe()
        for descriptor in (self.signals, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: None)

    def note(self, **changes: object) -> None:
        """Write down what has happened."""
        self.record.update(changes)
        write_json("record.json", self.record)

    def live(self) -> None:
        """Start the command and stay until nothing of it is left."""
        reading, writing = os.pipe()
        output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self.pid, problem = start_command(self.spec, writing)
        os.close(writing)
        if problem:
            self.note(state="failed", message=problem, exited_s=boottime_s())
            return
        self.note(state="running", pid=self.pid, began_s=boottime_s())
        tell_agent()
        status = self.watch(reading, output)
        self.clear()
        self.collect(reading, output)  # what was printed last
        code = os.waitstatus_to_exitcode(status)
        self.note(state="exited", exit_code=code, exited_s=boottime_s(), cause=self.why)

    def watch(self, reading: int, output: int) -> int:
        """Until the command ends; its wait status."""
        os.set_blocking(reading, False)
        anchor = self.anchor()
        poll = select.poll()
        for descriptor in (reading, self.signals, *([] if anchor is None else [anchor])):
            poll.register(descriptor, select.POLLIN)
        while True:
            ended, status = self.reap()
            if ended:
                return status
            for descriptor, _event in poll.poll(self.wait_ms()):
                if descriptor == reading and not self.collect(reading, output):
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

    def take_signals(self, numbers: bytes) -> None:
        """SIGUSR1: the agent has written when to stop. Any request to end: our node goes down."""
        if signal.SIGUSR1 in numbers:
            order = read_json("stop.json")
            if order is not None and order.get("boot") == self.record["boot"]:
                self.stop(order["by_s"], order["why"])
        if {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} & set(numbers):
            self.stop(boottime_s() + self.spec["grace_s"], "node")

    def stop(self, by_s: float, why: str) -> None:
        """SIGTERM to the command's group; by `by_s` everything is killed. Told again, only an earlier end counts."""
        if self.by_s is None:
            self.by_s, self.why = by_s, why
            send(os.killpg, self.pid, signal.SIGTERM)
            send(os.killpg, self.pid, signal.SIGCONT)
        self.by_s = min(self.by_s, by_s)

    def keep_time(self) -> None:
        """What falls due by itself: the end of the grace, and the fence."""
        now_s = boottime_s()
        if self.by_s is not None and now_s >= self.by_s:
            self.kill_all()
        elif self.by_s is None and now_s >= self.fence_s():
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
        due_s = self.fence_s() if self.by_s is None else max(self.by_s, boottime_s() + KILL_AGAIN_S)
        return int(min(max(due_s - boottime_s(), 0) * 1000 + 1, 600_000))

    def reap(self) -> tuple[bool, int]:
        """Collect ended children; whether the command is among them, and its wait status."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True, 0
            if pid == self.pid:
                return True, status
            if pid == 0:
                return False, 0

    def collect(self, reading: int, output: int) -> bool:
        """Move what was printed into the file, up to the cap; False when nothing more can come."""
        for _turn in range(READS_AT_ONCE):
            try:
                data = os.read(reading, OUTPUT_PIPE_BYTES)
            except BlockingIOError:
                break
            if not data:
                return False
            size = os.fstat(output).st_size
            if size < self.spec["output_max_bytes"]:
                os.write(output, data[: self.spec["output_max_bytes"] - size])
        return True

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
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    minder = Minder(spec)
    minder.note()
    minder.live()


if __name__ == "__main__":
    main(sys.argv[1])
