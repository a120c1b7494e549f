"""Plain schedulers on real nodes, to compare contracts with: what they have in common, and those that never preempt.

They know no budgets and no contracts: a workload that asks for a contract is charged, so that the same figures come
out, but nothing protects it. Draining nodes start nothing and let their runs end by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler.engine import Action, Code, Decision, Plan, Reason, Snapshot, amount, places, refusal

from .lines import START, Entry, Key, Kind, Line, Shape, first_of
from .records import JobRecord, RunRecord
from .room import Room
from .scenario import Job, Scenario
from .watch import News, Watch

LACKS = {
    Code.WAITING_NODES: "too few nodes are fit",
    Code.WAITING_PLACEMENT: "enough are free, but not together",
    Code.WAITING_CAPACITY: "fewer are free",
}


Verdict = tuple[Shape, Reason]
"""Why all of a shape wait."""


@dataclass(frozen=True, slots=True)
class View:
    """What a plain scheduler sees of a world; the world keeps it up to date."""

    scenario: Scenario
    snapshot: Snapshot
    jobs: Mapping[str, JobRecord]
    runs: Mapping[str, RunRecord]


class Baseline:
    """First come, first served, where whoever does not fit is passed (fifo-skip). Others change what they are about.

    A pass walks the line from one turn at which somebody starts to the next: between two of them nothing is taken, so
    that all of one shape fare alike, and only those hear something who were told something else before.
    """

    def __init__(self, view: View) -> None:
        """Decide in that world."""
        self.view = view
        self.snapshot = view.snapshot
        self.watch = Watch(view.snapshot, view.runs)
        self.line = Line(self.key, self.shape)
        self._decisions: list[Decision] = []
        self._settled: tuple[int, int] | None = None  # when nobody could start, and all knew why
        self._reasons: dict[tuple[int, Code], Reason] = {}  # the same words again and again
        self._all_fit: tuple[int, Room] | None = None
        closes = any(event.kind == "close" for event in view.scenario.events)
        self._may_be_closed = closes or any(node.closed for node in view.scenario.tree)

    # --- the seams ------------------------------------------------------------------------------------------------

    def refusal(self, job: Job) -> Reason | None:
        """Admission: a closed node takes nothing; what is larger than the cluster could never start."""
        nodes = self.snapshot.nodes
        return refusal(
            policy=self.view.scenario.policy,
            size_milli=job.size_milli,
            min_runtime_s=0,
            is_entitled=True,
            is_closed=self.snapshot.leaf(job.leaf).is_closed,
            room_milli=nodes.total_milli if job.node is None else nodes.by_name[job.node].capacity_milli,
            leaf_name=job.leaf,
        )

    def key(self, record: JobRecord) -> Key:
        """Order: lower goes first. While a workload waits, its key stays."""
        return record.submitted_s, record.job.id

    def shape(self, record: JobRecord) -> Shape:
        """What those who wait may differ in and yet fare alike."""
        return Shape(Kind(record.job.size_milli, record.job.node))

    def place(self, room: Room) -> None:
        """Placement: start what may start of those who wait, and say why the others wait."""
        at = START
        while (turn := self._first_that_fits(room, at)) is not None:
            self.tell_all_for_room(room, at, turn[0])
            self.hold(room, turn[1])
            at = turn[0]
        self.tell_all_for_room(room, at, None)

    def _first_that_fits(self, room: Room, after: Key) -> Entry | None:
        return first_of(
            group.first_after(after)
            for kind, family in self.line.families.items()
            if room.fits(kind.size_milli, kind.node)
            for group in family.groups.values()
        )

    def follow(self, news: News) -> None:
        """What changed in the world since the last pass, for those who keep books of it."""

    def is_settled_by_time(self) -> bool:
        """Whether a pass in which nobody started would go like the one before, if only time has passed."""
        return True

    # --- for a world ----------------------------------------------------------------------------------------------

    def order(self) -> tuple[str, ...]:
        """The queue's ids by `key`."""
        return tuple(
            record.job.id for record in sorted((self.view.jobs[name] for name in self.snapshot.queued), key=self.key)
        )

    def decide(self, told: Mapping[str, str]) -> Plan:
        """Hold what was closed, end plans, then place.

        What holding and ending give back is seen by the next pass of the same instant: were anybody started before,
        somebody ahead of it could want its devices at once.
        """
        self._decisions = []
        self.line.catch_up(self.snapshot.queued, self.view.jobs, told)
        self.follow(self.watch.look())
        held = self._hold_closed()
        self._end_plans(held)
        if not self._decisions and (self._settled != self._state() or not self.is_settled_by_time()):
            self.place(Room.free_now(self.snapshot, self.watch))
            all_wait = all(each.action is Action.WAIT for each in self._decisions)
            self._settled = self._state() if all_wait else None
        return Plan(self.snapshot.now_s, tuple(self._decisions), (), {})

    def _state(self) -> tuple[int, int]:
        return self.line.version, self.watch.looks

    def moves_at_s(self, from_s: int, event_s: int) -> int:
        """Between events nothing changes."""
        return event_s

    def _hold_closed(self) -> set[str]:
        """Whatever waits in a closed leaf waits no longer (semantics.md section 8)."""
        if not self._may_be_closed:
            return set()
        nodes = self.snapshot.tree.nodes
        held = {each.id for each in self.snapshot.queued.values() if nodes[each.leaf].is_closed}
        for name in sorted(held):
            self.say(name, Action.HOLD, Reason(Code.CLOSED, "Its project is closed: move it or cancel it."))
            self.line.leave(name)
        return held

    def _end_plans(self, held: set[str]) -> None:
        """A plan holds devices until all have left whom it waits for; then the order decides, as for everybody."""
        for claim in sorted(self.snapshot.claims.values(), key=lambda each: (each.made_s, each.workload)):
            if claim.workload in held:
                continue
            by_name = self.snapshot.nodes.by_name
            if not all(by_name[name].may_start(self.snapshot.now_s) for name in claim.holdings):
                reason = Reason(Code.WAITING_NODES, "Its plan ended: a node of it is not fit any longer.")
            elif not any(name in self.snapshot.runs for name in claim.waits_for):
                reason = Reason(Code.WAITING_VICTIMS, "Its plan ended: all have left whom it waited for.")
            else:
                continue
            self.say(claim.workload, Action.END_CLAIM, reason)
            self.line.wait(self.view.jobs[claim.workload], Code.WAITING_VICTIMS)

    # --- for schedulers -------------------------------------------------------------------------------------------

    def say(self, workload: str, action: Action, reason: Reason) -> None:
        """Add a decision that needs no more."""
        self._decisions.append(Decision(workload=workload, action=action, reason=reason))

    def wait(self, record: JobRecord, code: Code, say_why: Callable[[], Reason]) -> None:
        """It waits; worth a decision, and a sentence, only if it was told something else."""
        if self.line.told(record) != code:
            self.say(record.job.id, Action.WAIT, say_why())
            self.line.tell_one(record, code)

    def wait_for_room(self, record: JobRecord, room: Room) -> None:
        """It waits as this room has no place for it."""
        kind = self.shape(record).kind
        self.wait(record, self.lack(kind, room), lambda: self.why_it_waits(kind, room))

    def tell_all(self, verdicts: Iterable[Verdict], after: Key, to: Key | None) -> None:
        """All between two turns wait: say so, in order, to those who were told something else."""
        news = [
            (entry[0], entry[1].job.id, reason)
            for shape, reason in verdicts
            for entry in self.line.tell(shape, reason.code, after, to)
        ]
        for _, name, reason in sorted(news, key=lambda each: each[0]):
            self.say(name, Action.WAIT, reason)

    def tell_all_for_room(self, room: Room, after: Key, to: Key | None) -> None:
        """All between two turns wait as this room has no place for them."""
        verdicts: list[Verdict] = []
        for kind, family in self.line.families.items():
            code = self.lack(kind, room)
            if not family.is_told(code):
                verdicts += [(Shape(kind, teams), self.why_it_waits(kind, room)) for teams in family.groups]
        self.tell_all(verdicts, after, to)

    def returning(self) -> list[JobRecord]:
        """Those who are leaving for somebody else, and will queue again when they have left; in order."""
        leaving = [
            run.job for run in self.watch.leaving.values() if run.preempted_by is not None and will_return(run.job)
        ]
        return sorted(leaving, key=self.key)

    def hold(self, room: Room, record: JobRecord) -> Mapping[str, int] | None:
        """Start it if the room has a place, which is then taken; that place."""
        holdings = room.place(record.job.size_milli, record.job.node)
        if holdings is not None:
            room.take(holdings)
            self.start(record, holdings)
        return holdings

    def start(self, record: JobRecord, holdings: Mapping[str, int]) -> None:
        """It holds its devices from now on."""
        self.line.leave(record.job.id)
        size = amount(self.snapshot, sum(holdings.values()))
        self._decisions.append(
            Decision(
                workload=record.job.id,
                action=Action.START,
                reason=Reason(Code.STARTED, f"Started with {size} on {places(holdings)}."),
                holdings=holdings,
                funded=record.job.min_runtime_s > 0,
            )
        )

    def claim(
        self,
        record: JobRecord,
        holdings: Mapping[str, int],
        victims: Iterable[RunRecord],
        why: str,
        waits_for: Sequence[str],
    ) -> None:
        """Stop these runs, and hold devices for it until all in `waits_for` have left. `why` goes on with its name."""
        for victim in victims:
            self._decisions.append(
                Decision(
                    workload=victim.job.job.id,
                    action=Action.PREEMPT,
                    reason=Reason(Code.PREEMPTED_PRIORITY, f"Preempted: {record.job.id} {why}."),
                    run=victim.id,
                    by=record.job.id,
                )
            )
        self.line.plan(record.job.id)
        who = "1 run has" if len(waits_for) == 1 else f"{len(waits_for)} runs have"
        text = f"Starts on {places(holdings)} when {who} left."
        self._decisions.append(
            Decision(
                workload=record.job.id,
                action=Action.CLAIM,
                reason=Reason(Code.WAITING_VICTIMS, text, {"waits_for": list(waits_for)}),
                holdings=holdings,
                funded=record.job.min_runtime_s > 0,
            )
        )

    def lack(self, kind: Kind, room: Room) -> Code:
        """What one of a kind waits for: more fit nodes, others that are together, or more."""
        if self.watch.unfit and not self._fit_room().fits(kind.size_milli, kind.node):
            return Code.WAITING_NODES
        return Code.WAITING_PLACEMENT if room.total_milli >= kind.size_milli else Code.WAITING_CAPACITY

    def _fit_room(self) -> Room:
        """All devices on fit nodes."""
        if self._all_fit is None or self._all_fit[0] != self.watch.fitness:
            self._all_fit = self.watch.fitness, Room.all_of(self.snapshot, self.watch)
        return self._all_fit[1]

    def why_it_waits(self, kind: Kind, room: Room) -> Reason:
        """The same in words."""
        code = self.lack(kind, room)
        key = kind.size_milli, code
        if key not in self._reasons:
            text = f"It needs {amount(self.snapshot, kind.size_milli)}, and {LACKS[code]}."
            self._reasons[key] = Reason(code, text)
        return self._reasons[key]


def will_return(record: JobRecord) -> bool:
    """Whether it queues again if it is preempted."""
    return record.job.is_resumable and not record.is_cancelled


class Fifo(Baseline):
    """First come, first served: nobody passes the head of the line."""

    def place(self, room: Room) -> None:
        """Until the first that does not fit."""
        while (head := self.line.first()) is not None and self.hold(room, head) is not None:
            pass
        if head is None:
            return
        self.wait_for_room(head, room)
        behind = Reason(Code.WAITING_ORDER, f"{head.job.id} came earlier and is still waiting.")
        shapes = [
            Shape(kind, teams)
            for kind, family in self.line.families.items()
            if not family.is_told(Code.WAITING_ORDER)
            for teams in family.groups
        ]
        self.tell_all([(shape, behind) for shape in shapes], self.key(head), None)


class ShortestFirst(Baseline):
    """The shortest of those that fit first, by true duration; equally short ones by id (sjf). What runs goes on."""

    def key(self, record: JobRecord) -> Key:
        """By duration."""
        return record.job.duration_s, record.job.id
