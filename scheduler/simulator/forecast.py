"""When what waits may start: the simulator run forward from a present state, many times, each time with other luck.

The state is what stands now: nodes, shares, use, runs, queue, plans and promises. Luck is how long work takes and what
else will be submitted, both drawn from the past (likely.py). The engine decides in each of these futures as it does
live. What is not foreseen: nodes that fail, shares and priorities that change, and what people do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.engine import Arrival as Arrived
from scheduler.engine import BudgetNode, Claim, Crowd, Decision, Health, Node, Policy, Reservation

from .before import Before
from .effects import CONTRACT_ENDS
from .likely import DAY_S, Arrivals, Chance, Durations, Like
from .records import JobRecord
from .scenario import Happening, Job, PastUse, Scenario
from .world import World

DRAWS = 30
"""Futures of one forecast."""
HORIZON_S = DAY_S
"""How far it looks: what has not started by then starts "later"."""
PASS_EVERY_S = 60
"""Passes are made whenever something happens, and the clock alone is looked at as often as in other simulations."""
COMING = "~"
"""Begins the ids of invented submissions; no workload's code does."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A workload that waits or runs now. `before` has its instants, in seconds from now: negative or 0.

    Attributes:
        going_s: how long its run has gone on, of the work that `before.done_s` does not count yet.
        leaves_as: why its run was told to leave; empty if it was not.
        is_cancelled: it does not return when it has left.
        limit_s: its time limit, if it has one.
        gpu_classes, is_high, cpu_milli, memory_mib: as the engine's `Workload` has them.
        locality: how far its owner lets it be spread.
        predicted_s, forgiven_s, arrival: as the engine's `Service` has them, for an order inside its leaf; what
            `before.done_s` counts is in `forgiven_s` as far as it counts no more.
    """

    id: str
    like: Like
    before: Before
    priority: int = 0
    node: str | None = None
    is_resumable: bool = True
    going_s: int = 0
    leaves_as: str = ""
    is_cancelled: bool = False
    limit_s: int | None = None
    gpu_classes: tuple[str, ...] = ()
    is_high: bool = False
    locality: int = 1
    cpu_milli: int = 0
    memory_mib: int = 0
    predicted_s: int | None = None
    forgiven_s: int = 0
    arrival: Arrived | None = None

    @property
    def waits(self) -> bool:
        """Whether it holds nothing."""
        return not self.before.holdings


@dataclass(frozen=True, slots=True)
class Present:
    """A cluster as it stands now, on a clock that reads 0.

    `startup_s`, `exit_s` and `restart_s` are what is usual there: from holding devices to running, from the signal to
    the exit, and of work that a restart repeats. `repairs_s` are spells of past trouble; nodes that are unfit now are
    so since `unfit_since_s`. `crowds` are who contends inside each leaf now, where the order in it goes by that: what
    `arrival` of those who are there is counted by.
    """

    nodes: Sequence[Node]
    tree: Sequence[BudgetNode]
    policy: Policy
    work: Sequence[Standing]
    durations: Durations
    arrivals: Arrivals
    history: Sequence[PastUse] = ()
    claims: Sequence[Claim] = ()
    reservations: Sequence[Reservation] = ()
    unit: str = "GPU"
    startup_s: int = 0
    exit_s: int = 0
    restart_s: int = 0
    repairs_s: Sequence[int] = ()
    unfit_since_s: Mapping[str, int] = field(default_factory=dict)
    crowds: Mapping[str, Crowd] = field(default_factory=dict)

    def waiting(self) -> list[str]:
        """The ids of those that a forecast is about."""
        return [each.id for each in self.work if each.waits]


def forecast(
    present: Present,
    chance: Chance,
    *,
    about: Iterable[str] | None = None,
    draws: int = DRAWS,
    horizon_s: int = HORIZON_S,
    on_draw: Callable[[int], bool] | None = None,
) -> dict[str, list[int | None]]:
    """For each workload that waits, in how many seconds it starts: one value for each future, None for "later".

    Args:
        present: the state.
        chance: where all luck comes from.
        about: of whom; of all that wait unless said.
        draws: how many futures.
        horizon_s: how far each goes, at most; it ends when everybody has started.
        on_draw: told how many are done; says whether to go on.
    """
    found: dict[str, list[int | None]] = {name: [] for name in (present.waiting() if about is None else about)}
    for number in range(draws if found else 0):
        starts = one_future(present, chance, horizon_s, found)
        for name, each in found.items():
            each.append(starts.get(name))
        if on_draw is not None and not on_draw(number + 1):
            break
    return found


def one_future(present: Present, chance: Chance, horizon_s: int, about: Iterable[str]) -> dict[str, int]:
    """When these start in one future; who does not by its horizon is left out."""
    ahead = Ahead(present, future_of(present, chance, horizon_s), set(about))
    return ahead.look(horizon_s)


def future_of(present: Present, chance: Chance, horizon_s: int) -> Scenario:
    """One future as a scenario: everybody who is there, those who will come by the horizon, and repairs."""
    jobs = [_standing_job(present, each, chance) for each in present.work]
    jobs += _coming_jobs(present, chance, horizon_s)
    return Scenario(
        name="a future",
        nodes=present.nodes,
        tree=present.tree,
        policy=replace(present.policy, pass_every_s=max(present.policy.pass_every_s, PASS_EVERY_S)),
        history=present.history,
        jobs=jobs,
        events=list(_repairs(present, chance, horizon_s)),
        unit=present.unit,
    )


def _standing_job(present: Present, each: Standing, chance: Chance) -> Job:
    like = each.like
    duration_s = present.durations.draw(like, each.before.done_s + each.going_s, chance)
    if each.limit_s is not None:
        duration_s = min(duration_s, each.before.done_s + max(each.limit_s, each.going_s + 1))
    return Job(
        id=each.id,
        leaf=like.leaf,
        size_milli=like.size_milli,
        min_runtime_s=like.min_runtime_s,
        duration_s=duration_s,
        submit_s=None,
        before=each.before,
        is_resumable=each.is_resumable,
        priority=each.priority,
        node=each.node,
        locality=each.locality,
        exit_delay_s=present.exit_s,
        restart_cost_s=present.restart_s,
        startup_s=present.startup_s,
        estimate_s=each.predicted_s,
        cpu_milli=each.cpu_milli,
        memory_mib=each.memory_mib,
        gpu_classes=each.gpu_classes,
        is_high=each.is_high,
    )


def _coming_jobs(present: Present, chance: Chance, horizon_s: int) -> Iterator[Job]:
    open_leaves = {node.id for node in present.tree if not node.closed}
    for number, (at_s, past) in enumerate(present.arrivals.draw(horizon_s, chance)):
        like = past.like
        if like.leaf not in open_leaves:
            continue
        work_s = past.work_s
        yield Job(
            id=f"{COMING}{number}",
            leaf=like.leaf,
            size_milli=like.size_milli,
            min_runtime_s=like.min_runtime_s,
            duration_s=present.durations.draw(like, past.done_s, chance) if work_s is None else work_s,
            submit_s=at_s,
            is_resumable=past.is_resumable,
            priority=past.priority,
            locality=past.locality,
            estimate_s=past.predicted_s,
            cpu_milli=past.cpu_milli,
            memory_mib=past.memory_mib,
            gpu_classes=past.gpu_classes,
            is_high=past.is_high,
            exit_delay_s=present.exit_s,
            restart_cost_s=present.restart_s,
            startup_s=present.startup_s,
        )


def _repairs(present: Present, chance: Chance, horizon_s: int) -> Iterator[Happening]:
    """Nodes that are unfit are fit again after as long as trouble lasted before; without a past, they stay so."""
    for name in sorted(present.unfit_since_s):
        for_s = -present.unfit_since_s[name]
        longer = [spell_s for spell_s in present.repairs_s if spell_s > for_s]
        if longer:
            back_s = longer[chance.randint(0, len(longer) - 1)] - for_s
            if back_s < horizon_s:
                yield Happening(back_s, "health", name, health="healthy")


class Ahead(World):
    """A world that begins as the present stands, and ends when all who are asked about have started."""

    def __init__(self, present: Present, scenario: Scenario, wanted: set[str]) -> None:
        """Take over runs, plans and promises."""
        self._standing = {each.id: each for each in present.work}
        super().__init__(scenario, crowds=present.crowds, is_explained=False)
        self.wanted = wanted
        self.started: dict[str, int] = {}
        for each in present.work:
            if each.leaves_as:
                record = self.jobs[each.id]
                record.is_cancelled = each.is_cancelled
                self._stop(record.runs[-1], each.leaves_as, None)
        self._take_over_plans(present.claims, present.reservations)

    def _take_over(self, record: JobRecord, before: Before) -> None:
        standing = self._standing[record.job.id]
        record.forgiven_s, record.arrival = standing.forgiven_s, standing.arrival
        super()._take_over(record, before)

    def _take_over_plans(self, claims: Iterable[Claim], reservations: Iterable[Reservation]) -> None:
        for claim in claims:
            if claim.workload in self.snapshot.queued:
                self.snapshot.claim(replace(claim, waits_for=self._runs_now(claim.waits_for)))
        for promise in reservations:
            if promise.workload in self.snapshot.queued:
                self.snapshot.reserve(replace(promise, counts_on=self._runs_now(promise.counts_on)))
                self._at(max(0, promise.at_s), CONTRACT_ENDS, lambda: None)  # so that a pass looks at it

    def _runs_now(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Here every run is its workload's first."""
        names = (f"{each.rpartition('/')[0]}/1" for each in ids)
        return tuple(name for name in names if name in self.runs)

    def look(self, horizon_s: int) -> dict[str, int]:
        """Go on until everybody who is wanted has started, or to the horizon."""
        while self.wanted and (next_s := self._next_instant()) is not None and next_s < horizon_s:
            self._move_to(next_s)
            self._live_through()
        return self.started

    def _start(self, decision: Decision, *, is_kept: bool) -> None:
        super()._start(decision, is_kept=is_kept)
        if decision.workload in self.wanted:
            self.wanted.discard(decision.workload)
            self.started[decision.workload] = self.now_s

    def _note_steps(self) -> None:
        """Nobody asks for the figures of a future."""


def unfit(nodes: Iterable[Node]) -> set[str]:
    """Names of the nodes that nothing may start on for now."""
    return {node.name for node in nodes if node.health is not Health.HEALTHY}
