"""A heartbeat: what a node's agent says to the portal (`Sync`), and what it hears (`Answer`)."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from scheduler.executors.base import DesiredRank, RankFact, UtilizationSample
from scheduler.executors.reading import Malformed, fields_of

FACTS_MAX = 1_000
"""Facts in one report; samples too."""
PROBLEMS_MAX = 32
DIRECTORIES_MAX = 200
MESSAGE_MAX_CHARS = 300


@dataclass(frozen=True, slots=True)
class Sync:
    """A heartbeat: what the agent knows.

    Attributes:
        cluster, node: whose it says it is; its token must say the same.
        facts: about ranks that it has or had.
        wake_port: where it can be woken; None where it cannot.
        wake_secret: what a wake-up must show; letters and digits.
        wake_address: the address of that port; empty is this very machine's loopback address.
        epoch: rises with each start of the agent; 0 is unsaid.
        problems: what is wrong with the node, each in one line; empty is nothing, None is not looked at.
        samples: how busy its devices were.
        directories: working directories that nothing here uses and that are old.
        repair: the repair that has been made here; None where none has ended.
        repair_exit_code: its command's.
        repair_message: one line of what that said.
    """

    cluster: str
    node: str
    facts: list[RankFact] = field(default_factory=list)
    wake_port: int | None = None
    wake_secret: str = ""
    wake_address: str = ""
    epoch: int = 0
    problems: list[str] | None = None
    samples: list[UtilizationSample] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    repair: int | None = None
    repair_exit_code: int | None = None
    repair_message: str = ""

    @classmethod
    def read(cls, value: Any) -> Self:
        """From JSON.

        Raises:
            Malformed: names the field.
        """
        given = fields_of(cls, value, "", negative=("repair_exit_code",), unread=("facts", "samples"))
        given["facts"] = _each(given.get("facts", []), "facts", RankFact)
        given["samples"] = _each(given.get("samples", []), "samples", UtilizationSample)
        sync = cls(**given)
        if sync.wake_port is not None and not 0 < sync.wake_port < 65_536:
            raise Malformed("wake_port", f"{sync.wake_port} is not 1 to 65535")
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,100}", sync.wake_secret):
            raise Malformed("wake_secret", "is not letters and digits, at most 100")
        if not re.fullmatch(r"[0-9A-Fa-f:.]{0,45}", sync.wake_address):
            raise Malformed("wake_address", "is not an address")
        _bounded("problems", sync.problems or (), PROBLEMS_MAX, MESSAGE_MAX_CHARS)
        _bounded("directories", sync.directories, DIRECTORIES_MAX, 64)
        _bounded("repair_message", (sync.repair_message,), 1, MESSAGE_MAX_CHARS)
        return sync

    def write(self) -> dict[str, Any]:
        """To JSON."""
        return {**asdict(self), "facts": [fact.write() for fact in self.facts]}


def _each(value: Any, name: str, cls: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > FACTS_MAX:
        raise Malformed(name, f"is not a list of at most {FACTS_MAX}")
    return [cls.read(each, f"{name}[{number}]") for number, each in enumerate(value)]


def _bounded(name: str, texts: Any, most: int, chars: int) -> None:
    if len(texts) > most:
        raise Malformed(name, f"is longer than {most}")
    if any(len(each) > chars or "\0" in each for each in texts):
        raise Malformed(name, f"holds a text longer than {chars} characters, or a zero byte")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the portal says to a heartbeat.

    Attributes:
        epoch: the portal's; a lower one than before is a portal of the past.
        desired: everything that should run here; what is not named should not.
        self_fence_s: after so long without an answer ranks stop by themselves (semantics.md section 7).
        refused: the facts that named no rank of this node, as {"run", "rank"}.
        removable: of the directories that were named, those that nobody needs any more.
        repair: the repair that is to be made here now; None where none is.
    """

    epoch: int
    desired: list[DesiredRank]
    self_fence_s: int
    refused: list[dict[str, int]] = field(default_factory=list)
    removable: list[str] = field(default_factory=list)
    repair: int | None = None

    @classmethod
    def read(cls, value: Any) -> Self:
        """From JSON.

        Raises:
            Malformed: names the field.
        """
        given = fields_of(cls, value, "", unread=("desired", "refused"))
        for name in ("desired", "refused"):
            if not isinstance(given.get(name, []), list):
                raise Malformed(name, "is not a list")
        if "desired" not in given:
            raise Malformed("desired", "is missing")
        given["desired"] = [DesiredRank.read(each, f"desired[{n}]") for n, each in enumerate(given["desired"])]
        return cls(**given)

    def write(self) -> dict[str, Any]:
        """To JSON."""
        return {**asdict(self), "desired": [want.write() for want in self.desired]}
