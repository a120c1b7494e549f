"""A rank on its node, by its folder: told to start and stop through its minder, read from what that wrote down.

The folder is made once and holds the minder's lock, so starting twice is starting once; what is in it is all that an
agent needs to find the rank again.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from scheduler.executors import minder
from scheduler.executors.base import REPORTED, WHOLE_MILLI, Cause, RankFact, RankState
from scheduler.executors.minder import boot_id, boottime_s, read_json, write_json

START_PATIENCE_S = 5.0
"""How long a minder may take to start its command before the agent goes on without waiting."""
CHUNK_BYTES = 64 * 1024
ENDED = (RankState.EXITED, RankState.FAILED)
REPOSITORY = str(Path(minder.__file__).resolve().parents[2])
START_MINDER = (
    "import sys; sys.path.insert(0, sys.argv[2]); from scheduler.executors.minder import main; main(sys.argv[1])"
)
"""Isolated, it sees nothing but the standard library and what we are made of."""


_minders: list[subprocess.Popen[bytes]] = []
"""Those that this process has started and not collected."""


def reap() -> None:
    """Collect minders that have ended; those of an earlier agent are not ours to collect."""
    _minders[:] = [process for process in _minders if process.poll() is None]


@dataclass
class Rank:
    """One rank of one run on this node.

    Attributes:
        folder: its own, the agent's alone.
        run, index: its name.
        workload: the workload's code.
        grace_s: between SIGTERM and SIGKILL where nothing else is said.
        directory: its workload's.
        uid: whom it runs as; None is us.
        devices: indexes of those that it holds.
        device_milli: what of each, in thousandths; less than all of one is shared with others.
        reported: the last state that the portal is known to have taken.
        reported_checkpoint_s: the last checkpoint that it is known to have taken.
        reported_report_s: the last report of throughput that it is known to have taken.
        sent_bytes: of its output.
        refused_output: the portal takes no more of it.
        told_by_s: when it has been told to be gone.
        minded: becomes readable when its minder ends.
    """

    folder: Path
    run: int
    index: int
    workload: str
    grace_s: int
    directory: str = ""
    uid: int | None = None
    devices: list[int] = field(default_factory=list)
    device_milli: int = WHOLE_MILLI
    reported: RankState | None = None
    reported_checkpoint_s: float | None = None
    reported_report_s: float | None = None
    sent_bytes: int = 0
    refused_output: bool = False
    told_by_s: float | None = None
    minded: int | None = None

    # --- making and finding -------------------------------------------------------------------------------------------

    @classmethod
    def make(cls, folder: Path, spec: dict[str, Any]) -> Self:
        """A new rank with this spec (minder.py), not yet started.

        Raises:
            FileExistsError: it has been made before.
        """
        folder.mkdir(mode=0o700)
        write_json(str(folder / "spec.json"), spec)
        return cls._of(folder, spec)

    @classmethod
    def find(cls, folder: Path) -> Self | None:
        """The rank that an earlier agent made; None, and no folder, if it was killed before it had said what to run."""
        spec = read_json(str(folder / "spec.json"))
        if spec is None:
            shutil.rmtree(folder, ignore_errors=True)
            return None
        return cls._of(folder, spec)

    @classmethod
    def _of(cls, folder: Path, spec: dict[str, Any]) -> Self:
        return cls(
            folder,
            spec["run"],
            spec["rank"],
            spec["workload"],
            spec["grace_s"],
            directory=spec["directory"],
            uid=spec.get("uid"),
            devices=spec.get("devices", []),
            device_milli=spec.get("device_milli", WHOLE_MILLI),
        )

    @property
    def key(self) -> tuple[int, int]:
        """Run and index."""
        return self.run, self.index

    # --- what is known ------------------------------------------------------------------------------------------------

    @property
    def record(self) -> dict[str, Any]:
        """What its minder wrote."""
        return read_json(str(self.folder / "record.json")) or {}

    def has_ended(self) -> bool:
        """Whether nothing of it is left."""
        return self.record.get("state") in ENDED

    def is_minded(self) -> bool:
        """Whether its minder lives."""
        held = minder.lock(str(self.folder / "lock"))
        if held is not None:
            os.close(held)
        return held is None

    def fact(self) -> RankFact | None:
        """What the portal should know; None before there is anything to say."""
        record, report, now_s = self.record, self.report, boottime_s()
        if record.get("state") not in list(RankState):
            return None

        def age_s(name: str) -> int | None:
            """Whole seconds since then; of an earlier boot, at least since this one."""
            if name not in record:
                return None
            return int(max(now_s - record[name], 0) if record["boot"] == boot_id() else now_s)

        return RankFact(
            run=self.run,
            rank=self.index,
            state=RankState(record["state"]),
            pid=record.get("pid"),
            began_age_s=age_s("began_s"),
            exited_age_s=age_s("exited_s"),
            exit_code=record.get("exit_code"),
            cause=Cause(record.get("cause", Cause.ITSELF)),
            message=record.get("message", "")[:300],
            saved=record.get("saved"),
            checkpoint_age_s=self.checkpoint_age_s(now_s),
            report_age_s=None if report is None else int(max(now_s - report["at_s"], 0)),
            **{name: None if report is None else report[name] for name in REPORTED},
        )

    @property
    def report(self) -> dict[str, Any] | None:
        """What it reported of its throughput last, as its minder has seen (reports.py)."""
        seen = read_json(str(self.folder / "report.json"))
        return seen if seen is not None and seen["boot"] == boot_id() else None

    @property
    def report_s(self) -> float | None:
        """When that was."""
        return None if self.report is None else self.report["at_s"]

    def checkpoint_age_s(self, now_s: float) -> int | None:
        """How long ago it wrote its checkpoint, as its minder has seen."""
        return None if self.checkpoint_s is None else int(max(now_s - self.checkpoint_s, 0))

    @property
    def checkpoint_s(self) -> float | None:
        """When it wrote its last checkpoint."""
        seen = read_json(str(self.folder / "checkpoint.json"))
        return seen["at_s"] if seen is not None and seen["boot"] == boot_id() else None

    def is_news(self, fact: RankFact) -> bool:
        """Whether the portal does not know it yet."""
        told = self.reported, self.reported_checkpoint_s, self.reported_report_s
        return (fact.state, self.checkpoint_s, self.report_s) != told

    def output(self) -> bytes:
        """The next piece of what it printed; not cut inside a character where more follows."""
        try:
            with (self.folder / "output").open("rb") as file:
                file.seek(self.sent_bytes)
                data = file.read(CHUNK_BYTES)
        except FileNotFoundError:
            return b""
        if len(data) == CHUNK_BYTES:
            for back in (1, 2, 3):
                if data[-back] >= 0xC0:  # begins a character of two to four bytes
                    return data[:-back]
                if data[-back] < 0x80:
                    break
        return data

    # --- doing --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start its minder, in a session of its own; safe to do again."""
        with (self.folder / "minder.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", START_MINDER, str(self.folder), REPOSITORY],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={"PATH": "/usr/bin:/bin", "ALLOTMENT_INSTANCE": os.environ.get("ALLOTMENT_INSTANCE", "")},
                start_new_session=True,
            )
        _minders.append(process)
        assert process.stdout is not None
        select.select([process.stdout], [], [], START_PATIENCE_S)  # until it has begun, or could not
        process.stdout.close()
        self.watch()

    def watch(self) -> None:
        """Have a descriptor that becomes readable when its minder ends."""
        pid = self.record.get("minder")
        if pid is not None and self.is_minded():
            with contextlib.suppress(ProcessLookupError):
                self.minded = os.pidfd_open(pid)

    def unwatch(self) -> None:
        """Let go of that descriptor."""
        if self.minded is not None:
            os.close(self.minded)
            self.minded = None

    def stop(self, by_s: float, why: Cause) -> None:
        """Have it gone by then, SIGTERM now; told again, only an earlier end is news."""
        if self.has_ended() or (self.told_by_s is not None and by_s >= self.told_by_s - 1):
            return
        self.told_by_s = by_s
        number = signal.SIGUSR1
        try:
            write_json(str(self.folder / "stop.json"), {"boot": boot_id(), "by_s": by_s, "why": why})
        except OSError:
            number = signal.SIGTERM  # the disk is full: it is told all the same, and gets its plain grace
        pid = self.record.get("minder")
        if pid is not None and self.is_minded():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def look_after(self) -> None:
        """Where its minder has gone without writing its end: start one if none ever was, else end what it left."""
        if self.has_ended() or self.is_minded() or self.has_ended():  # it may have ended between the first two looks
            return
        record = self.record
        if not record:
            self.start()  # the agent was killed between making the folder and starting the minder
        elif record["boot"] == boot_id():
            self.kill_marked()
            self.end(exit_code=-signal.SIGKILL, message="its minder was killed")
        else:
            self.end(message="the node was restarted")

    def end(self, **what: Any) -> None:
        """Write its end in place of a minder; by default its node took it along, and nobody saw its exit code."""
        record = {"exit_code": None, "cause": Cause.NODE, **self.record, "state": RankState.EXITED}
        write_json(str(self.folder / "record.json"), record | {"boot": boot_id(), "exited_s": boottime_s()} | what)

    def kill_marked(self) -> None:
        """SIGKILL to whatever still bears this rank's variables, where no minder is left to do it."""
        spec = read_json(str(self.folder / "spec.json")) or {}
        marks = {
            f"ALLOTMENT_RUN={self.run}".encode(),
            f"RANK={self.index}".encode(),
            f"ALLOTMENT_DIRECTORY={spec.get('directory')}".encode(),  # another portal's run may have this number
        }
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    if marks <= set(Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")):
                        os.kill(int(entry), signal.SIGKILL)

    def forget(self) -> None:
        """Remove all that is known of it here."""
        self.unwatch()
        shutil.rmtree(self.folder, ignore_errors=True)
