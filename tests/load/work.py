"""The load laboratory's work: 50,000 workloads over 30 days on 128 nodes of 8 GPUs, in every state a workload can have.

Each node is cut into lanes of whole GPUs; on each lane one run follows another, so that the past is one that could have
been. What waits is in the queue when the first pass looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from scheduler.services import history
from scheduler.services.history import PastDecision, PastNode, PastRun, PastWorkload
from tests.load.people import House

NODES, DEVICES = 128, 8
SPAN = timedelta(days=30)
WORKLOADS = 50_000
WAITING, HELD, REFUSED = 300, 20, 200
LANES = ((8,), (4, 4), (4, 2, 2), (2, 2, 1, 1, 1, 1))
"""How nodes are cut, one after the other."""
PREEMPTED_PART = 12
"""One workload in so many is preempted once, and goes on."""
TEXT = {
    "queue": ("waiting_order", "Waits: others have had less of their share and go first."),
    "start": ("started", "Started: its team has had least of its share."),
    "preempt": ("preempted_by_entitled", "Preempted: the taker's team had had less of its share."),
}


@dataclass(slots=True)
class _Lane:
    node: str
    gpus: int
    at: datetime


@dataclass(slots=True)
class _Draft:
    """A workload while its runs are being written."""

    leaf: int
    code: str
    gpus: int
    min_runtime_s: int
    submitted_at: datetime
    state: str
    ended_at: datetime | None
    runs: list[PastRun]
    decisions: list[PastDecision]


class _Pen:
    """Draws whose a workload is, and numbers it."""

    def __init__(self, house: House, chance: Random) -> None:
        self.house, self.chance = house, chance
        self._numbers: dict[int, int] = {}

    def leaf(self) -> int:
        """The first projects have most of the work; the very first more than a list can show."""
        return int(len(self.house.projects) * self.chance.random() ** 3)

    def code(self, leaf: int) -> str:
        self._numbers[leaf] = self._numbers.get(leaf, 0) + 1
        return f"{self.house.projects[leaf].code}-{self._numbers[leaf]:04d}"

    def past(self, draft: _Draft) -> PastWorkload:
        people = self.house.members[draft.leaf]
        told = sum(run.preempted_by is not None for run in draft.runs)
        return PastWorkload(
            leaf=self.house.projects[draft.leaf],
            owner=people[0] if self.chance.random() < 0.8 else people[1],
            code=draft.code,
            size_milli=draft.gpus * 1_000,
            min_runtime_s=draft.min_runtime_s,
            state=draft.state,
            submitted_at=draft.submitted_at,
            ended_at=draft.ended_at,
            runs=draft.runs,
            decisions=draft.decisions,
            reason=("finished", "All ranks exited with status 0.") if draft.state == "finished" else None,
            name=self.chance.choice(("train", "eval", "sweep", "fold", "debug", "render")),
            priority=self.chance.choice((0, 0, 0, 5, 10)),
            preemptions=told,
            command=["python", "train.py"],
            environment={"DURATION_S": "1000000"},
        )


def fill(house: House, now: datetime, chance: Random) -> int:
    """Store nodes and work on the first cluster, four idle nodes on the second. How many runs."""
    north, south = house.clusters
    start = now - SPAN
    history.add_nodes(north, [_node(number, start, chance) for number in range(NODES)])
    spell = ("healthy", start - timedelta(days=9), None)
    history.add_nodes(south, [PastNode(f"s{number:03d}", DEVICES, [spell], "rs0") for number in range(4)])
    pen = _Pen(house, chance)
    drafts = list(_ran(pen, start, now))
    drafts += _queued(pen, now)
    return history.add(north, [pen.past(draft) for draft in drafts]).runs


def _node(number: int, start: datetime, chance: Random) -> PastNode:
    """Every tenth node was down for some hours."""
    born = start - timedelta(days=9)
    spells: list[tuple[str, datetime, datetime | None]] = [("healthy", born, None)]
    if number % 10 == 0:
        broke = start + timedelta(hours=chance.randrange(200))
        mended = broke + timedelta(hours=9)
        spells = [("healthy", born, broke), ("down", broke, mended), ("healthy", mended, None)]
    return PastNode(f"n{number:03d}", DEVICES, spells, f"r{number // 16}")


def _lanes(start: datetime) -> list[_Lane]:
    return [_Lane(f"n{number:03d}", gpus, start) for number in range(NODES) for gpus in LANES[number % len(LANES)]]


def _ran(pen: _Pen, start: datetime, now: datetime) -> Iterator[_Draft]:
    """What ran or runs: lane by lane, until there are enough."""
    lanes = _lanes(start)
    left = WORKLOADS - WAITING - HELD - REFUSED
    for number, lane in enumerate(lanes):
        count = left // (len(lanes) - number)
        left -= count
        yield from _on_lane(pen, lane, count, now)


def _on_lane(pen: _Pen, lane: _Lane, count: int, now: datetime) -> Iterator[_Draft]:
    chance, before = pen.chance, ""
    for left in range(count, 0, -1):
        span_s = int((now - lane.at).total_seconds())
        length_s = max(40, chance.randrange(span_s // (2 * left), max(2, 3 * span_s // (2 * left))))
        draft = _new(pen, lane, chance)
        if left == 1:
            _run(draft, lane, None)
            draft.state = "running"
        elif before and not chance.randrange(PREEMPTED_PART):
            _run(draft, lane, length_s // 2, preempted_by=before)
            _run(draft, lane, length_s // 2)
        else:
            _run(draft, lane, length_s)
        if draft.state != "running":
            draft.ended_at = lane.at
        before = draft.code
        yield draft


def _new(pen: _Pen, lane: _Lane, chance: Random) -> _Draft:
    leaf = pen.leaf()
    submitted_at = lane.at - timedelta(seconds=chance.randrange(30, 20_000))
    contract_s = chance.choice((0, 600, 1_800, 3_600, 7_200))
    return _Draft(
        leaf, pen.code(leaf), lane.gpus, contract_s, submitted_at, "finished", None, [],
        [PastDecision(submitted_at, "wait", *TEXT["queue"])],
    )  # fmt: skip


def _run(draft: _Draft, lane: _Lane, length_s: int | None, preempted_by: str | None = None) -> None:
    """The next run on the lane, which is free again when it ends."""
    began = lane.at
    running = began + timedelta(seconds=20)
    ended = None if length_s is None else began + timedelta(seconds=max(30, length_s))
    contract_s = draft.min_runtime_s
    draft.decisions.append(PastDecision(began, "start", *TEXT["start"]))
    if preempted_by is not None and ended is not None:
        draft.decisions.append(PastDecision(ended, "preempt", *TEXT["preempt"], {"by": preempted_by}, by=preempted_by))
    draft.runs.append(
        PastRun(
            started_at=began,
            running_at=running,
            contract_ends_at=running + timedelta(seconds=contract_s) if contract_s else None,
            stop_asked_at=ended - timedelta(seconds=10) if preempted_by is not None and ended is not None else None,
            ended_at=ended,
            end_reason="" if ended is None else "preempted_by_entitled" if preempted_by else "finished",
            preempted_by=preempted_by,
            size_milli=draft.gpus * 1_000,
            is_funded=contract_s > 0,
            holdings={lane.node: draft.gpus * 1_000},
        )
    )
    if ended is not None:
        lane.at = ended


def _queued(pen: _Pen, now: datetime) -> Iterator[_Draft]:
    """What waits, is held, or was refused."""
    chance = pen.chance
    for number in range(WAITING + HELD + REFUSED):
        leaf = pen.leaf()
        at = now - timedelta(seconds=chance.randrange(60, 90_000))
        state = "queued" if number < WAITING else "held" if number < WAITING + HELD else "refused"
        what = {
            "queued": ("wait", *TEXT["queue"]),
            "held": ("hold", "held", "Held: its owner asked for it."),
            "refused": ("refuse", "too_large", "Refused: it asks for more than the cluster has."),
        }[state]
        yield _Draft(
            leaf, pen.code(leaf), chance.choice((1, 1, 2, 4, 8, 16, 64)), chance.choice((0, 600, 3_600, 14_400)), at,
            state, at if state == "refused" else None, [], [PastDecision(at, *what)],
        )  # fmt: skip
