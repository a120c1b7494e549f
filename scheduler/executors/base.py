"""The executor protocol: what should run (desired state, orders), and what really happened (facts).

The loop decides and writes the desired state down: rows of runs and ranks. An **executor** makes it so, and reports
facts. Only facts move a run (`scheduler.services.facts`). Node agents, invented nodes and Slurm are three executors of
this one seam; `Executor` below is all that the loop knows of any.

**Orders.** The desired state of a rank implies at most two orders, START and STOP, each with an id for good
(`DesiredRank.order_id`: "start 17.0", "stop 17.0"). The desired state repeats an order until its fact has come;
carrying it out twice is carrying it out once. A fact said twice, late or out of order changes nothing.

**Fencing.** The run's id is a token that only rises: an executor starts no run of a workload that is not newer than the
newest one that it has ever started of it, whatever a delayed or restored portal says. Two epochs guard against a past
that speaks: an agent takes a higher one at each start, and the portal hears none that is lower than the node's last
(a copy of a machine, a delayed request); the portal has one that a restore from a backup raises, and an agent obeys
none that is lower than what it has seen (a server that was left running on the old database).

**Reconciling** is nothing of its own: each poll or heartbeat compares all that should run with all that really does.
After any crash the next one finds what is, starts what is missing, stops what nobody wants, and reports the rest.

**Gangs.** A run counts as running when every rank has begun, and its contract begins then. Where one rank cannot be
started or ends badly, the others are told to stop: no gang goes on in part.

Both ends use this module, so it is standard library only. Instants never cross a wire: clocks differ, so a stop is "in
so many seconds" and a fact is "so many seconds old". Reading is strict (reading.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, Self

from scheduler.executors.reading import LARGEST, Malformed, fields_of, read_object
from scheduler.executors.reports import REPORTED_MAX

__all__ = [
    "CODE",
    "LARGEST",
    "WHOLE_MILLI",
    "Cause",
    "DesiredRank",
    "Executor",
    "Malformed",
    "RankFact",
    "RankState",
    "UtilizationSample",
    "read_object",
]

CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""A workload's code, which is also the name of its working directory: no slash, no leading dot."""


WHOLE_MILLI = 1_000
"""All of one device."""


class Executor(Protocol):
    """What carries out the desired state of clusters of one kind. Registered in `scheduler.services.executors`."""

    def tell(self, cluster_id: int, node_ids: Collection[int]) -> None:
        """The desired state of these nodes has changed and is committed: make it so soon.

        Never raises and never waits long: whoever is not reached is seen to by a later poll or heartbeat.
        """

    def poll(self, cluster_id: int, now: datetime) -> bool:
        """Compare what should run with what does, have it made so, and take the facts. Beat calls it each second.

        Agents come by themselves, so theirs does nothing. Whether anything changed that a pass would see. Raises
        nothing for an engine that is slow, restarted or away: that is normal, and the next poll goes on.
        """


class RankState(StrEnum):
    """What an agent can say about a rank."""

    RUNNING = "running"
    EXITED = "exited"
    FAILED = "failed"  # its command could not be started


class Cause(StrEnum):
    """Why a rank ended, as far as its node knows."""

    ITSELF = "itself"  # the command ended, or somebody else's signal ended it
    ASKED = "asked"  # the desired state said so
    NODE = "node"  # its node took it along: a reboot, a shutdown, a lost process, or silence of the portal


@dataclass(frozen=True, slots=True)
class DesiredRank:
    """One rank that should be as said; a rank that is not named should not be.

    Attributes:
        run: the run's id, its fencing token: higher is newer.
        workload: the workload's code.
        rank: its index, from 0.
        nodes: names of the run's nodes by rank; as many as there are ranks.
        devices: indexes of the devices on this node that it may use.
        unit: "gpu" or "core": what a device is.
        command: the argument list.
        environment: the owner's own variables.
        checkpoint: where it saves, relative to its working directory; may be empty.
        owner: a number for its owner, from which the node makes a Unix user.
        master: host name or address of rank 0's node.
        began: whether this rank has been reported as running: then it is never started again.
        grace_s: what it gets between SIGTERM and SIGKILL where nothing else is said.
        memory_mib: its limit; 0 is none.
        progress_s: run time that the workload has kept over preemptions.
        stop_in_s: None, or how soon it must be gone: it is saved and told now, killed then.
        save_command: run in its directory before it is told to stop, within the same time; may be empty.
        restores: whether the command is the one that restores what an earlier run saved.
        directory_from: 0, or the run whose working directory is kept by the portal and has to be fetched first.
        secrets: names of variables whose values must not be told to anybody.
        checkpoint_every_s: how often it says it writes its checkpoint; 0 is unsaid.
        device_milli: what it has of each of its devices, in thousandths: less than all of one where that is shared.
    """

    run: int
    workload: str
    rank: int
    nodes: list[str]
    devices: list[int]
    unit: str
    command: list[str]
    environment: dict[str, str]
    checkpoint: str
    owner: int
    master: str
    began: bool
    grace_s: int
    memory_mib: int = 0
    progress_s: int = 0
    stop_in_s: int | None = None
    save_command: list[str] = field(default_factory=list)
    restores: bool = False
    directory_from: int = 0
    secrets: list[str] = field(default_factory=list)
    checkpoint_every_s: int = 0
    device_milli: int = WHOLE_MILLI

    @property
    def key(self) -> tuple[int, int]:
        """Names the rank: run and index."""
        return self.run, self.rank

    @property
    def order_id(self) -> str:
        """The id of the order that this is: the same however often it is repeated."""
        return f"{'start' if self.stop_in_s is None else 'stop'} {self.run}.{self.rank}"

    @classmethod
    def read(cls, value: Any, where: str) -> Self:
        """From JSON; `where` is the value's own field name. What cannot be run is for the agent to say.

        Raises:
            Malformed: a field is missing, unknown, of the wrong kind or out of bounds.
        """
        rank = cls(**fields_of(cls, value, where))
        if rank.rank >= len(rank.nodes):
            raise Malformed(f"{where}.rank", f"{rank.rank} is not one of {len(rank.nodes)} ranks")
        if not 0 < rank.device_milli <= WHOLE_MILLI:
            raise Malformed(f"{where}.device_milli", f"{rank.device_milli} is not 1 to {WHOLE_MILLI}")
        return rank

    def write(self) -> dict[str, Any]:
        """To JSON. With whole devices it is what agents knew before there were parts."""
        said = asdict(self)
        if self.device_milli == WHOLE_MILLI:
            del said["device_milli"]
        return said


REPORTED = ("tokens", "span_ms", "parameters")
"""What a report of throughput has."""


@dataclass(frozen=True, slots=True)
class RankFact:
    """What a node's agent knows about one rank of one run; said again, it changes nothing.

    Attributes:
        run: the run's id.
        rank: its index, from 0.
        state: where it is.
        pid: of its command; None if it never began.
        began_age_s: how long ago its command really ran; None if it never did.
        exited_age_s: how long ago it was gone with all its processes; for `exited` and `failed`.
        exit_code: minus the signal where one ended it; None where nobody saw.
        cause: why it ended.
        message: one line for people, at most 300 characters.
        saved: of one that was told to stop and has a save command: whether that ended well.
        checkpoint_age_s: how long ago it wrote its checkpoint; None where it has none, or says nothing of it.
        report_age_s: how long ago it reported its throughput last; None if it never did. Then the next three are there:
        tokens, span_ms: how many tokens the whole run processed in how many milliseconds.
        parameters: of the model.
    """

    run: int
    rank: int
    state: RankState
    pid: int | None = None
    began_age_s: int | None = None
    exited_age_s: int | None = None
    exit_code: int | None = None
    cause: Cause = Cause.ITSELF
    message: str = ""
    saved: bool | None = None
    checkpoint_age_s: int | None = None
    report_age_s: int | None = None
    tokens: int | None = None
    span_ms: int | None = None
    parameters: int | None = None

    @classmethod
    def read(cls, value: Any, where: str) -> Self:
        """From JSON; `where` is the value's own field name.

        Raises:
            Malformed: a field is missing, unknown, of the wrong kind, out of bounds, or contradicts the state.
        """
        fact = cls(**fields_of(cls, value, where, negative=("exit_code",)))
        if fact.state == RankState.RUNNING and fact.began_age_s is None:
            raise Malformed(f"{where}.began_age_s", "is missing for a running rank")
        if fact.state != RankState.RUNNING and fact.exited_age_s is None:
            raise Malformed(f"{where}.exited_age_s", f"is missing for a rank that has {fact.state}")
        if fact.state == RankState.FAILED and fact.began_age_s is not None:
            raise Malformed(f"{where}.began_age_s", "contradicts a rank that could not be started")
        if fact.exit_code is not None and not -64 <= fact.exit_code <= 255:
            raise Malformed(f"{where}.exit_code", f"{fact.exit_code} is not -64 to 255")
        if len(fact.message) > 300 or "\0" in fact.message:
            raise Malformed(f"{where}.message", "is longer than 300 characters, or holds a zero byte")
        if fact.report_age_s is not None:
            for name in REPORTED:
                value = getattr(fact, name)
                if value is None:
                    raise Malformed(f"{where}.{name}", "is missing beside report_age_s")
                if not (name != "tokens") <= value <= REPORTED_MAX:
                    raise Malformed(f"{where}.{name}", f"{value} is not {int(name != 'tokens')} to {REPORTED_MAX}")
        return fact

    def write(self) -> dict[str, Any]:
        """To JSON. Without a report it is what portals knew before there were any."""
        said = asdict(self)
        if self.report_age_s is None:
            for name in ("report_age_s", *REPORTED):
                del said[name]
        return said


@dataclass(frozen=True, slots=True)
class UtilizationSample:
    """How busy the devices of one rank were over a stretch of time; said again, it counts once.

    Attributes:
        run_id: the run's id, in decimal digits.
        rank_index: the rank's, from 0.
        busy_milli_s: the activity of its devices added up over that time: thousandths of a device times seconds, from 0
            to what it holds times the length.
        memory_milli: how much of the devices' memory was in use, in thousandths; None where it isn't measured.
        from_age_s: how long ago the stretch began.
        until_age_s: how long ago it ended; less than `from_age_s`.
    """

    run_id: str
    rank_index: int
    busy_milli_s: int
    memory_milli: int | None
    from_age_s: int
    until_age_s: int

    @classmethod
    def read(cls, value: Any, where: str) -> Self:
        """From JSON; `where` is the value's own field name.

        Raises:
            Malformed: a field is missing, unknown, of the wrong kind, out of bounds, or contradicts another one.
        """
        sample = cls(**fields_of(cls, value, where))
        if not re.fullmatch(r"[0-9]{1,18}", sample.run_id):
            raise Malformed(f"{where}.run_id", "is not a run's number")
        if sample.memory_milli is not None and sample.memory_milli > 1_000:
            raise Malformed(f"{where}.memory_milli", f"{sample.memory_milli} is not 0 to 1,000")
        if sample.from_age_s <= sample.until_age_s:
            raise Malformed(f"{where}.from_age_s", "is not longer ago than the end")
        return sample

    def write(self) -> dict[str, Any]:
        """To JSON."""
        return asdict(self)
