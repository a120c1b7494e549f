"""What was known at a past instant of a simulation, or of a stretch of history: the present state of a forecast then.

Nothing of what came later is in it. So a forecast can be made as it would have been, and laid beside what came true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low

from scheduler.engine import BudgetNode, Claim, Health, Node, Reservation

from .before import Before
from .comparison import class_of
from .forecast import Present, Standing
from .likely import DAY_S, Arrival, Arrivals, Durations, Like
from .records import JobRecord, Outcome, RunRecord
from .scenario import PastUse, Scenario
from .world import World

KNOWN_FOR_S = 28 * DAY_S
"""How far back durations and submissions are taken from."""
SLOT_S = 900
"""Past use is summed up in slots of so long, which moves nothing that orders a queue by more than minutes."""
ENDED_BY_ITSELF = ("finished", "failed")
MONDAY = 3
"""1970-01-01 was a Thursday."""


@dataclass(frozen=True, slots=True)
class Plans:
    """What was claimed and promised at an instant."""

    claims: tuple[Claim, ...] = ()
    reservations: tuple[Reservation, ...] = ()


class Watched(World):
    """A world that remembers what was claimed and promised at some instants."""

    def __init__(self, scenario: Scenario, instants: Iterable[int]) -> None:
        """Watch at these instants."""
        super().__init__(scenario)
        self.plans: dict[int, Plans] = {}
        self._left = sorted(instants, reverse=True)

    def _move_to(self, now_s: int) -> None:
        while self._left and self._left[-1] < now_s:
            self.plans[self._left.pop()] = Plans(
                tuple(self.snapshot.claims.values()), tuple(self.snapshot.reservations.values())
            )
        super()._move_to(now_s)


class Knowledge:
    """An outcome, asked what was known of it at one instant after another."""

    def __init__(
        self, outcome: Outcome, owner_of: Mapping[str, str] | None = None, *, unix_s: int | None = None
    ) -> None:
        """Take what happened.

        Args:
            outcome: a simulation's, or that of a stretch of history.
            owner_of: who submitted what, where that is known.
            unix_s: the Unix second at which its clock reads 0; without, days have no weekday.
        """
        self.outcome = outcome
        self._owner_of = owner_of or {}
        self._unix_s = unix_s
        scenario = outcome.scenario
        self._node_milli = max(node.capacity_milli for node in scenario.nodes)
        self._total_milli = sum(node.capacity_milli for node in scenario.nodes)
        self._from_s = min((job.submit_s for job in scenario.jobs if job.submit_s is not None), default=0)
        self._likes = {record.job.id: self._like(record) for record in outcome.jobs}

    def _like(self, record: JobRecord) -> Like:
        job = record.job
        kind = class_of(record, self._node_milli, self._total_milli)
        return Like(self._owner_of.get(job.id, ""), job.leaf, kind, job.size_milli, job.min_runtime_s)

    def waiting_starts(self, at_s: int) -> dict[str, int | None]:
        """When those who waited at an instant really started (None: not by the end), but for the cancelled."""
        found: dict[str, int | None] = {}
        for record in self.outcome.jobs:
            if not _is_open(record, at_s) or _holding(record, at_s) is not None:
                continue
            start_s = next((run.start_s for run in record.runs if run.start_s > at_s), None)
            if start_s is None and record.end_s is not None:
                continue
            found[record.job.id] = start_s
        return found

    def present(self, at_s: int, plans: Plans | None = None) -> Present:
        """The state at an instant, as somebody could have known it then, on a clock that reads 0."""
        scenario = self.outcome.scenario
        standing: list[Standing] = []
        ended: list[tuple[Like, int]] = []
        arrivals: list[Arrival] = []
        for record in self.outcome.jobs:
            if record.state in (None, "refused") or record.submitted_s > at_s:
                continue
            like = self._likes[record.job.id]
            is_open = _is_open(record, at_s)
            work_s = _work_s(record, at_s)
            has_ended = not is_open and record.state in ENDED_BY_ITSELF
            since_s = at_s - KNOWN_FOR_S
            if has_ended and record.end_s is not None and record.end_s > since_s:
                ended.append((like, work_s))
            if record.submitted_s > since_s and record.submitted_s < at_s and like.size_milli:
                done_s = work_s if not has_ended else 0
                arrivals.append(
                    Arrival(
                        record.submitted_s - at_s,
                        like,
                        record.job.priority,
                        record.job.is_resumable,
                        work_s if has_ended else None,
                        done_s,
                        record.job.locality,
                        _predicted_s(record),
                        record.job.cpu_milli,
                        record.job.memory_mib,
                        record.job.gpu_classes,
                        record.job.is_high,
                    )
                )
            if is_open:
                standing.append(_standing(record, like, at_s))
        nodes, since = nodes_at(scenario, at_s)
        plans = plans or Plans()
        return Present(
            nodes=nodes,
            tree=tree_at(scenario, at_s),
            policy=scenario.policy,
            work=standing,
            durations=Durations(ended),
            arrivals=Arrivals(arrivals, min(KNOWN_FOR_S, at_s - self._from_s), self._weekday(at_s)),
            history=self._history(at_s),
            claims=[replace(each, made_s=each.made_s - at_s) for each in plans.claims],
            reservations=[
                replace(each, at_s=each.at_s - at_s, made_s=each.made_s - at_s) for each in plans.reservations
            ],
            unit=scenario.unit,
            startup_s=_usual(self.outcome.runs, at_s, _startup_s),
            exit_s=_usual(self.outcome.runs, at_s, _exit_s),
            restart_s=median_low([job.restart_cost_s for job in scenario.jobs]) if scenario.jobs else 0,
            repairs_s=_repairs_s(scenario, at_s),
            unfit_since_s=since,
        )

    def _weekday(self, at_s: int) -> int | None:
        return None if self._unix_s is None else ((self._unix_s + at_s) // DAY_S + MONDAY) % 7

    def _history(self, at_s: int) -> list[PastUse]:
        since_s = at_s - self.outcome.scenario.policy.lookback_s
        scenario = self.outcome.scenario
        uses = [
            PastUse(use.leaf, use.size_milli, use.from_s - at_s, use.until_s - at_s, use.is_funded)
            for use in scenario.history
            if use.until_s > since_s
        ]
        uses += [
            PastUse(run.job.job.leaf, run.size_milli, run.start_s - at_s, run.end_s - at_s, run.is_funded)
            for run in self.outcome.runs
            if run.end_s is not None and since_s < run.end_s <= at_s
        ]
        return in_slots(uses)


def in_slots(uses: Iterable[PastUse], slot_s: int = SLOT_S) -> list[PastUse]:
    """The same use, summed up by leaf and slot of time, each amount at the middle of its slots; fewer to count."""
    sums: dict[tuple[str, bool, int], int] = {}
    for use in uses:
        at_s = use.from_s
        while at_s < use.until_s:
            slot = at_s // slot_s
            next_s = min(use.until_s, (slot + 1) * slot_s)
            key = (use.leaf, use.is_funded, slot)
            sums[key] = sums.get(key, 0) + use.size_milli * (next_s - at_s)
            at_s = next_s
    found: list[PastUse] = []
    for (leaf, is_funded, slot), milli_s in sorted(sums.items()):
        from_s, until_s = slot * slot_s, min(0, (slot + 1) * slot_s)
        amount_milli = round(milli_s / (until_s - from_s))
        last = found[-1] if found else None
        if last and (last.leaf, last.is_funded, last.size_milli, last.until_s) == (
            leaf,
            is_funded,
            amount_milli,
            from_s,
        ):
            found[-1] = replace(last, until_s=until_s)
        elif amount_milli:
            found.append(PastUse(leaf, amount_milli, from_s, until_s, is_funded))
    return found


# --- one workload -----------------------------------------------------------------------------------------------------


def _is_open(record: JobRecord, at_s: int) -> bool:
    if record.state in (None, "refused") or record.submitted_s > at_s:
        return False
    return record.end_s is None or record.end_s > at_s


def _holding(record: JobRecord, at_s: int) -> RunRecord | None:
    """The run that holds devices at an instant, if we know where."""
    for run in record.runs:
        if run.start_s <= at_s and (run.end_s is None or run.end_s > at_s) and run.holdings:
            return run
    return None


def _work_of(run: RunRecord, at_s: int) -> int:
    if run.running_s is None or run.running_s > at_s:
        return 0
    untils = [at_s, *(each for each in (run.told_s, run.end_s) if each is not None)]
    return run.work_s(max(0, min(untils) - run.running_s))


def _work_s(record: JobRecord, at_s: int, *, without: RunRecord | None = None) -> int:
    """How long it has run by an instant, less what restarts repeated."""
    before = record.job.before
    kept_s = 0 if before is None else before.done_s
    for number, run in enumerate(record.runs):
        if run.start_s > at_s:
            break
        if number:
            kept_s = max(0, kept_s - record.job.restart_cost_s)
        if run is not without:
            kept_s += _work_of(run, at_s)
    return kept_s


def _standing(record: JobRecord, like: Like, at_s: int) -> Standing:
    job = record.job
    run = _holding(record, at_s)
    firsts = [each.start_s - at_s for each in record.runs if each.start_s <= at_s]
    before = Before(
        submitted_s=record.submitted_s - at_s,
        first_start_s=min(firsts, default=None),
        done_s=_work_s(record, at_s, without=run),
        waits_since_s=None if run is not None else _waits_since_s(record, at_s),
    )
    is_leaving = run is not None and run.told_s is not None and run.told_s <= at_s
    if run is not None:
        began_s = run.running_s if run.running_s is not None and run.running_s <= at_s else None
        before = replace(
            before,
            holdings=run.holdings,
            since_s=run.start_s - at_s,
            running_s=None if began_s is None else began_s - at_s,
            is_funded=run.is_funded,
        )
    return Standing(
        id=job.id,
        like=like,
        before=before,
        priority=job.priority,
        node=job.node,
        is_resumable=job.is_resumable,
        gpu_classes=job.gpu_classes,
        is_high=job.is_high,
        locality=job.locality,
        cpu_milli=job.cpu_milli,
        memory_mib=job.memory_mib,
        predicted_s=_predicted_s(record),
        forgiven_s=max((much_s for since_s, much_s in record.forgivings if since_s <= at_s), default=0),
        going_s=0 if run is None else _work_of(run, at_s),
        leaves_as=(run.end_reason or "drained") if run is not None and is_leaving else "",
        limit_s=None,
    )


def _waits_since_s(record: JobRecord, at_s: int) -> int | None:
    """When its last run before an instant ended, on a clock that reads 0 then; None where it has not run."""
    ends_s = [run.end_s - at_s for run in record.runs if run.end_s is not None and run.end_s <= at_s]
    return max(ends_s, default=None)


def _predicted_s(record: JobRecord) -> int | None:
    """How long it was thought to execute when it came."""
    return record.job.estimate_s if record.predicted_s is None else record.predicted_s


# --- the cluster ------------------------------------------------------------------------------------------------------


def _startup_s(run: RunRecord, at_s: int) -> int | None:
    return None if run.running_s is None or run.running_s > at_s else run.running_s - run.start_s


def _exit_s(run: RunRecord, at_s: int) -> int | None:
    return None if run.told_s is None or run.end_s is None or run.end_s > at_s else run.end_s - run.told_s


def _usual(runs: Sequence[RunRecord], at_s: int, of: Callable[[RunRecord, int], int | None]) -> int:
    found = [each for run in runs if (each := of(run, at_s)) is not None]
    return max(0, median_low(found)) if found else 0


def tree_at(scenario: Scenario, at_s: int) -> list[BudgetNode]:
    """The budget tree with the shares and closings up to an instant."""
    nodes = {node.id: node for node in scenario.tree}
    for event in sorted(scenario.events, key=lambda each: each.at_s):
        if event.at_s > at_s:
            break
        if event.kind == "close":
            nodes[event.subject] = replace(nodes[event.subject], closed=True)
        elif event.kind == "cells":
            nodes |= {name: replace(nodes[name], cells=counts) for name, counts in event.cells.items()}
        elif event.kind == "shares":
            nodes |= {name: replace(nodes[name], shares=amount) for name, amount in event.shares.items()}
            for parent in {nodes[name].parent for name in event.shares}:
                below = [node for node in nodes.values() if node.parent == parent]
                whole = sum(node.shares for node in below)
                nodes |= {node.id: replace(node, whole=whole) for node in below}
    return list(nodes.values())


def nodes_at(scenario: Scenario, at_s: int) -> tuple[list[Node], dict[str, int]]:
    """The nodes as they were at an instant, on a clock that reads 0 then; and since when some were unfit."""
    health: dict[str, tuple[int, str]] = {}
    windows: dict[str, list[tuple[int, int]]] = {}
    for event in sorted(scenario.events, key=lambda each: each.at_s):
        if event.kind == "health" and event.at_s <= at_s:
            health[event.subject] = event.at_s, event.health
        elif event.kind == "maintenance" and event.at_s + event.length_s > at_s:
            windows.setdefault(event.subject, []).append((event.at_s - at_s, event.at_s + event.length_s - at_s))
    found, since = [], {}
    for node in scenario.nodes:
        changed_s, word = health.get(node.name, (0, "healthy"))
        usable_s = changed_s + scenario.policy.healthy_dwell_s - at_s if node.name in health else 0
        if word != "healthy":
            since[node.name] = changed_s - at_s
        found.append(
            replace(
                node,
                health={"unhealthy": Health.DRAINING, "down": Health.DOWN}.get(word, Health.HEALTHY),
                windows=tuple(sorted(windows.get(node.name, ()))),
                usable_from_s=usable_s if word == "healthy" and usable_s > 0 else None,
            )
        )
    return found, since


def _repairs_s(scenario: Scenario, at_s: int) -> list[int]:
    """How long past troubles lasted that were over by an instant."""
    since: dict[str, int] = {}
    found = []
    for event in sorted(scenario.events, key=lambda each: each.at_s):
        if event.kind != "health" or event.at_s > at_s:
            continue
        if event.health != "healthy":
            since.setdefault(event.subject, event.at_s)
        elif event.subject in since:
            found.append(event.at_s - since.pop(event.subject))
    return found
