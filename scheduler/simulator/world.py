"""Invented time: a heap of (instant, rank, sequence), and a pass of the engine after whatever happened.

In one instant (semantics.md section 8): ends and exits, node health, shares and closings, cancels, submissions, ends of
contracts, then a pass; repeated until nothing is left to do at that instant.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from heapq import heappop

from scheduler.engine import (
    Action,
    Claim,
    Crowd,
    Decision,
    Plan,
    Reservation,
    Snapshot,
    set_cells,
)

from .effects import CANCELS, CONTRACT_ENDS, HEALTH, SHARES, SUBMISSIONS, Effects
from .records import Outcome
from .scenario import Happening, Scenario

Progress = Callable[[int, int], None]
"""Told now and then: the instant reached, and the number of workloads that have ended."""
PROGRESS_EVERY = 200
"""Instants between two calls of it."""
YOUNG = 500_000
"""New objects between two looks of the collector of cycles, while a simulation runs."""


def simulate(scenario: Scenario, on_progress: Progress | None = None, *, is_explained: bool = True) -> Outcome:
    """Run a scenario to its end. Unless it is explained, which costs time, nothing is written down of decisions."""
    world = World(scenario, on_progress, is_explained=is_explained)
    world.run()
    return world.outcome


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let the collector of cycles look seldom, and at nothing that was there before.

    What a simulation makes mostly stays, and it makes few cycles.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(max(YOUNG, thresholds[0]), *thresholds[1:])
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def order_at(scenario: Scenario, at_s: int) -> tuple[tuple[str, ...], Snapshot]:
    """The order in which a pass at an instant would consider the queue, and the state it would see."""
    world = World(scenario.with_until(at_s), is_explained=False)
    world.run()
    return world.scheduler.order(), world.snapshot


class World(Effects):
    """One cluster in invented time, under the engine."""

    def __init__(
        self,
        scenario: Scenario,
        on_progress: Progress | None = None,
        *,
        crowds: Mapping[str, Crowd] | None = None,
        is_explained: bool = True,
    ) -> None:
        """Everything from outside is on the heap; nothing has happened yet."""
        super().__init__(scenario, crowds, is_explained=is_explained)
        self._on_progress = on_progress
        self._fill_heap()

    def _fill_heap(self) -> None:
        windows: dict[str, list[tuple[int, int]]] = {}
        for event in self.scenario.events:
            if event.kind == "maintenance":
                windows.setdefault(event.subject, []).append((event.at_s, event.at_s + event.length_s))
            self._add_event(event)
        for name, spans in windows.items():
            self.snapshot.set_windows(name, tuple(sorted(spans)))
        for record in self.jobs.values():
            if record.job.before is not None:
                self._take_over(record, record.job.before)
            elif record.job.submit_s is not None:
                self._at(record.job.submit_s, SUBMISSIONS, partial(self._submit, record))

    def _add_event(self, event: Happening) -> None:
        if event.kind == "shares":
            self._at(event.at_s, SHARES, lambda: self._set_shares(event))
        elif event.kind == "cells":
            self._at(event.at_s, SHARES, lambda: set_cells(self.snapshot, event.cells))
        elif event.kind == "close":
            self._at(event.at_s, SHARES, lambda: self._close(event.subject))
        elif event.kind == "cancel":
            self._at(event.at_s, CANCELS, lambda: self._cancel(self.jobs[event.subject]))
        elif event.kind == "health":
            self._at(event.at_s, HEALTH, lambda: self._set_health(event.subject, event.health))
        else:
            self._at(event.at_s, HEALTH, self._note_steps)
            self._at(event.at_s + event.length_s, HEALTH, lambda: self._return_to_use(event.subject))

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Go on until nothing can happen any more, or to the scenario's end."""
        with _seldom_collected():
            self._live()
        self._close_books()

    def _live(self) -> None:
        until_s = self.scenario.until_s
        instants = 0
        while (next_s := self._next_instant()) is not None and (until_s is None or next_s < until_s):
            self._move_to(next_s)
            self._live_through()
            instants += 1
            if self._on_progress is not None and instants % PROGRESS_EVERY == 0:
                self._on_progress(self.now_s, self.ended)
        if until_s is not None:
            self._move_to(until_s)
            self._happen()

    def _next_instant(self) -> int | None:
        if not self.heap:
            return None
        event_s = self.heap[0][0]
        moves = self.snapshot.leaf_order is not None or self.snapshot.locality_waits_s
        if moves and (timer_s := self.snapshot.next_timer_s()) is not None:
            event_s = min(event_s, timer_s)  # time gives somebody another place in a leaf, or lets it look further
        return self._next_pass_before(event_s)

    def _next_pass_before(self, event_s: int) -> int:
        """The next instant of the grid at which a pass could decide something new, or that of the next event."""
        every_s = self.policy.pass_every_s
        at_s = (self.now_s // every_s + 1) * every_s
        return event_s if at_s >= event_s else self.scheduler.moves_at_s(at_s, event_s)

    def _move_to(self, now_s: int) -> None:
        elapsed_s = now_s - self.now_s
        if elapsed_s:
            for node in self.snapshot.nodes.restless.values():
                if node.held_milli and not self._is_fit(node.name):
                    self.outcome.held_unfit_milli_s += node.held_milli * elapsed_s
        self.now_s = now_s
        self.snapshot.advance(now_s)

    def _happen(self) -> None:
        """Everything that is due now, in the order of ranks."""
        while self.heap and self.heap[0][0] <= self.now_s:
            heappop(self.heap)[3]()

    def _live_through(self) -> None:
        """One instant, until nothing is left to do in it."""
        while True:
            self._happen()
            if not self.snapshot.queued and not self.snapshot.held and not self.snapshot.nodes.must_empty(self.now_s):
                return
            plan = self._decide()
            if not self._apply(plan) or self._is_settled(plan):
                return

    def _decide(self) -> Plan:
        self.outcome.passes += 1
        return self.scheduler.decide(self.snapshot.told)

    def _is_settled(self, plan: Plan) -> bool:
        """Whether nothing is left to do in this instant after a plan that changed something.

        What begins to run at once may make more certain than the plan knew, and what ended claims or holds was done
        before it looked who could move.
        """
        if not plan.is_settled or (self.heap and self.heap[0][0] <= self.now_s):
            return False
        for decision in plan.decisions:
            if decision.action is Action.START:
                if self.jobs[decision.workload].job.startup_s == 0 and not self._begins_for_nobody(decision):
                    return False
            elif decision.action not in (Action.WAIT, Action.PREEMPT, Action.CLAIM, Action.RESERVE):
                return False
        return True

    def _begins_for_nobody(self, decision: Decision) -> bool:
        """Whether nobody can be promised anything, or anything earlier, as what was started runs at once.

        Its contract makes its devices certain when it ends. What people are told of that is another matter, and so is
        an order inside leaves.
        """
        if self._is_explained or self.snapshot.leaf_order is not None:
            return False
        if not decision.funded:
            return True
        promises = self.snapshot.reservations.values()
        end_s = self.now_s + self.jobs[decision.workload].job.min_runtime_s
        return len(promises) >= self.policy.reservations and all(promise.at_s <= end_s for promise in promises)

    def _apply(self, plan: Plan) -> bool:
        """Carry out a plan; says whether it changed anything but what people are told."""
        has_changed = False
        for decision in plan.decisions:
            if decision.action is not Action.WAIT:
                has_changed = True
                self._carry_out(decision, is_kept=plan.is_kept)
            if self._keeps_told:
                self._tell(decision)
        return has_changed

    def _carry_out(self, decision: Decision, *, is_kept: bool) -> None:
        """Do what was decided; of what `is_kept` the snapshot knows already."""
        match decision.action:
            case Action.START:
                self._start(decision, is_kept=is_kept)
            case Action.PREEMPT:
                assert decision.run is not None
                self._stop(self.runs[decision.run], decision.reason.code, decision.by)
            case Action.RESERVE:
                at_s = decision.reason.numbers["at_s"]
                self._at(at_s, CONTRACT_ENDS, lambda: None)  # so that a pass looks at it
            case Action.HOLD:
                self._hold(decision)
            case Action.RELEASE:
                self.snapshot.release(decision.workload)
                self._wait_again(self.jobs[decision.workload])
        if not is_kept:
            self._note_plan(decision)

    def _note_plan(self, decision: Decision) -> None:
        """Tell the snapshot of a claim or a promise."""
        snapshot = self.snapshot
        match decision.action:
            case Action.CLAIM:
                waits_for = tuple(decision.reason.numbers["waits_for"])
                snapshot.claim(Claim(decision.workload, decision.holdings, waits_for, self.now_s))
            case Action.END_CLAIM:
                snapshot.drop_claim(decision.workload)
            case Action.RESERVE:
                numbers = decision.reason.numbers
                snapshot.reserve(
                    Reservation(
                        decision.workload, numbers["at_s"], decision.holdings, tuple(numbers["counts_on"]), self.now_s
                    )
                )
            case Action.END_RESERVATION:
                snapshot.drop_reservation(decision.workload)

    def _tell(self, decision: Decision) -> None:
        """Log a decision if it is news."""
        if decision.action in (Action.END_CLAIM, Action.END_RESERVATION, Action.RESERVE):
            return
        code = decision.reason.code
        is_waiting = decision.action in (Action.WAIT, Action.CLAIM)
        if is_waiting and self.snapshot.told.get(decision.workload) == code:
            return
        if is_waiting:
            self.snapshot.tell(decision.workload, code)
        else:
            self.snapshot.forget_told(decision.workload)
        self._log(decision.workload, str(decision.action), decision.reason)
