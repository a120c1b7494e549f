"""The words between the portal and a node's agent: what should run (desired state), and what really happened (facts).

Both ends use this module, so it is standard library only. Instants never cross: clocks differ, so a stop is "in so
many seconds" and a fact is "so many seconds old". Reading is strict: whatever is not exactly as described here is
`Malformed`, which names the field.
"""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Self, get_type_hints
from urllib.parse import urlsplit

CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""A workload's code, which is also the name of its working directory: no slash, no leading dot."""
LARGEST = 2**62
"""Whole numbers beyond this are nobody's count, age or id."""
FACTS_MAX = 1_000
"""Facts in one report."""
WAKE_WITHIN_S = 0.5
"""How long the portal spends on waking agents, all together; their next heartbeat comes anyway."""


class Malformed(ValueError):
    """Something that came over the wire is not as described here: nothing was done."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


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
        stop_in_s: None, or how soon it must be gone: SIGTERM now, SIGKILL then.
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

    @property
    def key(self) -> tuple[int, int]:
        """Names the rank: run and index."""
        return self.run, self.rank

    @classmethod
    def read(cls, value: Any, where: str) -> Self:
        """From JSON; `where` is the value's own field name. What cannot be run is for the agent to say.

        Raises:
            Malformed: a field is missing, unknown, of the wrong kind or out of bounds.
        """
        rank = cls(**_fields_of(cls, value, where))
        if rank.rank >= len(rank.nodes):
            raise Malformed(f"{where}.rank", f"{rank.rank} is not one of {len(rank.nodes)} ranks")
        return rank

    def write(self) -> dict[str, Any]:
        """To JSON."""
        return asdict(self)


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

    @classmethod
    def read(cls, value: Any, where: str) -> Self:
        """From JSON; `where` is the value's own field name.

        Raises:
            Malformed: a field is missing, unknown, of the wrong kind, out of bounds, or contradicts the state.
        """
        fact = cls(**_fields_of(cls, value, where, negative=("exit_code",)))
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
        return fact

    def write(self) -> dict[str, Any]:
        """To JSON."""
        return asdict(self)


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
        sample = cls(**_fields_of(cls, value, where))
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


@dataclass(frozen=True, slots=True)
class Sync:
    """A heartbeat: what the agent knows.

    Attributes:
        cluster, node: whose it says it is; its token must say the same.
        facts: about ranks that it has or had.
        wake_port: where it can be woken; None where it cannot.
        wake_secret: what a wake-up must show; letters and digits.
    """

    cluster: str
    node: str
    facts: list[RankFact] = field(default_factory=list)
    wake_port: int | None = None
    wake_secret: str = ""

    @classmethod
    def read(cls, value: Any) -> Self:
        """From JSON.

        Raises:
            Malformed: names the field.
        """
        given = _fields_of(cls, value, "", unread=("facts",))
        facts = given.get("facts", [])
        if not isinstance(facts, list) or len(facts) > FACTS_MAX:
            raise Malformed("facts", f"is not a list of at most {FACTS_MAX}")
        given["facts"] = [RankFact.read(each, f"facts[{number}]") for number, each in enumerate(facts)]
        sync = cls(**given)
        if sync.wake_port is not None and not 0 < sync.wake_port < 65_536:
            raise Malformed("wake_port", f"{sync.wake_port} is not 1 to 65535")
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,100}", sync.wake_secret):
            raise Malformed("wake_secret", "is not letters and digits, at most 100")
        return sync

    def write(self) -> dict[str, Any]:
        """To JSON."""
        return asdict(self)


# --- reading strictly -------------------------------------------------------------------------------------------------

_KINDS: dict[Any, tuple[type, str]] = {
    int: (int, "a whole number"),
    str: (str, "text"),
    bool: (bool, "true or false"),
    list[str]: (list, "a list of texts"),
    list[int]: (list, "a list of whole numbers"),
    dict[str, str]: (dict, "an object of texts"),
}


def read_object(value: Any, where: str, kinds: Mapping[str, Any], required: Iterable[str]) -> dict[str, Any]:
    """A JSON object with exactly these fields, none missing of `required`, each of its kind.

    Args:
        value: what came.
        where: its own field name, for messages; empty for the whole message.
        kinds: int, str, bool, list[str], list[int], dict[str, str], or a StrEnum; `| None` where null is allowed.
        required: names that must be there.

    Raises:
        Malformed: names the field.
    """
    if not isinstance(value, dict):
        raise Malformed(where, "is not an object")
    dot = f"{where}." if where else ""
    for name in required:
        if name not in value:
            raise Malformed(f"{dot}{name}", "is missing")
    for name in value:
        if name not in kinds:
            raise Malformed(f"{dot}{name}"[:200], "is not a known field")
    return {name: _value(each, f"{dot}{name}", kinds[name]) for name, each in value.items()}


def _value(value: Any, where: str, kind: Any) -> Any:
    """The value, if it is of that kind."""
    alternatives = getattr(kind, "__args__", ()) if kind not in _KINDS else ()
    if type(None) in alternatives:
        if value is None:
            return None
        kind = next(each for each in alternatives if each is not type(None))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value not in list(kind):
            raise Malformed(where, f"is not one of {', '.join(kind)}")
        return kind(value)
    python, said = _KINDS[kind]
    good = type(value) is python
    if good and kind == list[str]:
        good = all(type(each) is str and "\0" not in each for each in value)
    elif good and kind == list[int]:
        good = all(type(each) is int and 0 <= each <= LARGEST for each in value)
    elif good and kind == dict[str, str]:
        good = all(type(each) is str and "\0" not in each + name for name, each in value.items())
    if not good:
        raise Malformed(where, f"is not {said}")
    if kind is int and not -LARGEST <= value <= LARGEST:
        raise Malformed(where, "is too large a number")
    return value


def _fields_of(
    cls: Any, value: Any, where: str, *, negative: tuple[str, ...] = (), unread: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The keyword arguments for a dataclass from JSON; whole numbers are 0 or more except those in `negative`."""
    hints = {name: kind for name, kind in get_type_hints(cls).items() if name not in unread}
    required = [each.name for each in fields(cls) if each.name in hints and _is_required(each)]
    left = {name: value[name] for name in unread if isinstance(value, dict) and name in value}
    rest = {name: each for name, each in value.items() if name not in unread} if isinstance(value, dict) else value
    read = read_object(rest, where, hints, required)
    for name, each in read.items():
        if type(each) is int and each < 0 and name not in negative:
            raise Malformed(f"{where}.{name}" if where else name, f"{each} is negative")
    return read | left


def _is_required(each: Any) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


# --- waking agents ----------------------------------------------------------------------------------------------------


def wake(urls: Iterable[str], *, within_s: float = WAKE_WITHIN_S) -> list[str]:
    """Tell agents to ask for their desired state now, all at once; those of `urls` that took it.

    Never raises for an agent that cannot be reached: its next heartbeat does the same.
    """
    deadline_s = time.monotonic() + within_s
    told = []
    with selectors.DefaultSelector() as waiting, contextlib.ExitStack() as open_ones:
        for url in urls:
            host, port = urlsplit(url).hostname or "", urlsplit(url).port or 80
            connection = open_ones.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            connection.setblocking(False)
            connection.connect_ex((host, port))
            waiting.register(connection, selectors.EVENT_WRITE, (url, connection))
        while waiting.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
            for key, _events in waiting.select(left_s):
                url, connection = key.data
                waiting.unregister(connection)
                where = urlsplit(url)
                request = f"POST {where.path} HTTP/1.0\r\nHost: {where.netloc}\r\nContent-Length: 0\r\n\r\n"
                with contextlib.suppress(OSError):  # it was refused, or broke off
                    connection.sendall(request.encode("ascii"))
                    told.append(url)
    return told
