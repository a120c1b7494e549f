"""Plain schedulers on real nodes, to compare contracts with: what they have in common, and those that never preempt.

They know no budgets and no contracts: a workload that asks for a contract is charged, so that the same figures come
out, but nothing protects it. Draining nodes start nothing and let their runs end by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.engine import Action, Code, Decision, Plan, Reason, Snapshot, amount, places, refusal

from .records import JobRecord, RunRecord
from .room import Hardware, Room
from .scenario import Job, Scenario

LACKS = {
    Code.WAITING_NODES: "too few nodes are fit",
    Code.WAITING_PLACEMENT: "enough are free, but not together",
    Code.WAITING_CAPACITY: "fewer are free",
}


@dataclass(frozen=True, slots=True)
class View:
    """What a plain scheduler sees of a world; the world keeps it up to date."""

    scenario: Scenario
    snapshot: Snapshot
    jobs: Mapping[str, JobRecord]
    runs: Mapping[str, RunRecord]


class Baseline:
    """First come, first served, where whoever does not fit is passed (fifo-skip). Others change what they are about."""

    def __init__(self, view: View) -> None:
        """Decide in that world."""
        self.view = view
        self.snapshot = view.snapshot
        self.hardware = Hardware.of(view.snapshot)
        self._decisions: list[Decision] = []
        self._told: Mapping[str, str] = {}

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

    def key(self, record: JobRecord) -> tuple[Any, ...]:
        """Order: lower goes first."""
        return record.submitted_s, record.job.id

    def place(self, waiting: Sequence[JobRecord], room: Room) -> None:
        """Placement: start what may start of those who wait, who are in order, and say why the others wait."""
        for record in waiting:
            if self.hold(room, record) is None:
                self.wait_for_room(record, room)

    # --- for a world ----------------------------------------------------------------------------------------------

    def order(self) -> tuple[str, ...]:
        """The queue's ids by `key`."""
        return tuple(record.job.id for record in self._queue())

    def decide(self, told: Mapping[str, str]) -> Plan:
        """Hold what was closed, end plans, then place.

        What holding and ending give back is seen by the next pass of the same instant: were anybody started before,
        somebody ahead of it could want its devices at once.
        """
        self._decisions = []
        self._told = told
        held = self._hold_closed()
        self._end_plans(held)
        waiting = [
            each for each in self._queue() if each.job.id not in held and each.job.id not in self.snapshot.claims
        ]
        if not self._decisions:
            self.place(waiting, Room.free_now(self.snapshot, self.hardware))
        return Plan(self.snapshot.now_s, tuple(self._decisions), tuple(each.job.id for each in waiting), {})

    def is_moved_by_time(self) -> bool:
        """Between events nothing changes."""
        return False

    def standings(self) -> object:
        """There are none."""
        return None

    def _queue(self) -> list[JobRecord]:
        jobs = self.view.jobs
        return sorted([jobs[name] for name in self.snapshot.queued], key=self.key)

    def _hold_closed(self) -> set[str]:
        """Whatever waits in a closed leaf waits no longer (semantics.md section 8)."""
        closed = {leaf_id for leaf_id in self.snapshot.queues if self.snapshot.tree.nodes[leaf_id].is_closed}
        held = {each.id for each in self.snapshot.queued.values() if each.leaf in closed} if closed else set()
        for name in sorted(held):
            self.say(name, Action.HOLD, Reason(Code.CLOSED, "Its project is closed: move it or cancel it."))
        return held

    def _end_plans(self, held: set[str]) -> None:
        """A plan holds devices until all have left whom it waits for; then the order decides, as for everybody."""
        for claim in sorted(self.snapshot.claims.values(), key=lambda each: (each.made_s, each.workload)):
            if claim.workload in held:
                continue
            by_name = self.snapshot.nodes.by_name
            if not all(by_name[name].may_start(self.snapshot.now_s) for name in claim.holdings):
                reason = Reason(Code.WAITING_NODES, "Its plan ended: a node of it is not fit any longer.")
                self.say(claim.workload, Action.END_CLAIM, reason)
            elif not any(name in self.snapshot.runs for name in claim.waits_for):
                reason = Reason(Code.WAITING_VICTIMS, "Its plan ended: all have left whom it waited for.")
                self.say(claim.workload, Action.END_CLAIM, reason)

    # --- for schedulers -------------------------------------------------------------------------------------------

    def say(self, workload: str, action: Action, reason: Reason) -> None:
        """Add a decision that needs no more."""
        self._decisions.append(Decision(workload=workload, action=action, reason=reason))

    def wait(self, record: JobRecord, code: Code, say_why: Callable[[], Reason]) -> None:
        """It waits; worth a decision, and a sentence, only if it was told something else."""
        if self._told.get(record.job.id) != code:
            self.say(record.job.id, Action.WAIT, say_why())

    def wait_for_room(self, record: JobRecord, room: Room) -> None:
        """It waits as this room has no place for it."""
        self.wait(record, self.lack(record, room), lambda: self.why_it_waits(record, room))

    def returning(self) -> list[JobRecord]:
        """Those who are leaving for somebody else, and will queue again when they have left."""
        return [
            run.job
            for run in self.view.runs.values()
            if run.is_leaving and run.preempted_by is not None and will_return(run.job)
        ]

    def hold(self, room: Room, record: JobRecord) -> Mapping[str, int] | None:
        """Start it if the room has a place, which is then taken; that place."""
        holdings = room.place(record.job.size_milli, record.job.node)
        if holdings is not None:
            room.take(holdings)
            self.start(record, holdings)
        return holdings

    def start(self, record: JobRecord, holdings: Mapping[str, int]) -> None:
        """It holds its devices from now on."""
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

    def lack(self, record: JobRecord, room: Room) -> Code:
        """What it waits for: more fit nodes, others that are together, or more."""
        job = record.job
        if self.snapshot.nodes.restless:
            fit = Room.all_of(self.snapshot, self.hardware)
            if fit.place(job.size_milli, job.node) is None:
                return Code.WAITING_NODES
        return Code.WAITING_PLACEMENT if room.total_milli >= job.size_milli else Code.WAITING_CAPACITY

    def why_it_waits(self, record: JobRecord, room: Room) -> Reason:
        """The same in words."""
        code = self.lack(record, room)
        return Reason(code, f"It needs {amount(self.snapshot, record.job.size_milli)}, and {LACKS[code]}.")


def will_return(record: JobRecord) -> bool:
    """Whether it queues again if it is preempted."""
    return record.job.is_resumable and not record.is_cancelled


class Fifo(Baseline):
    """First come, first served: nobody passes the head of the line."""

    def place(self, waiting: Sequence[JobRecord], room: Room) -> None:
        """Until the first that does not fit."""
        started = 0
        while started < len(waiting) and self.hold(room, waiting[started]) is not None:
            started += 1
        if started == len(waiting):
            return
        head = waiting[started]
        self.wait_for_room(head, room)
        behind = Reason(Code.WAITING_ORDER, f"{head.job.id} came earlier and is still waiting.")
        for record in waiting[started + 1 :]:
            self.wait(record, Code.WAITING_ORDER, lambda: behind)


class ShortestFirst(Baseline):
    """The shortest of those that fit first, by true duration; equally short ones by id (sjf). What runs goes on."""

    def key(self, record: JobRecord) -> tuple[Any, ...]:
        """By duration."""
        return record.job.duration_s, record.job.id
