"""Plain schedulers that preempt: shortest remaining time first, and priority with capped protection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.engine import Candidate, Code, Reason, amount, choose_whole_nodes

from .baselines import Baseline, View
from .records import JobRecord, RunRecord
from .room import Room
from .scenario import Job


class ShortestRemainingFirst(Baseline):
    """At every event all that could run, by the time they have left: whoever fits at its turn runs (srtf).

    What runs can only stay where it is; what starts goes where devices are free, else where those who come later run.
    Where somebody who is stopped could go on elsewhere, that place is kept, so that nobody starts there in vain: a pass
    that stops somebody decides nothing further, and the next one of the same instant sees who has left.
    """

    def key(self, record: JobRecord) -> tuple[Any, ...]:
        """By time left, with what a restart would repeat, then submission."""
        return self._left_s(record), record.submitted_s, record.job.id

    def _left_s(self, record: JobRecord) -> int:
        done_s = record.progress_s
        if record.state == "running":
            began_s = record.runs[-1].running_s
            assert began_s is not None
            done_s += self.snapshot.now_s - began_s
        elif record.runs and record.state != "starting":
            done_s -= min(record.job.restart_cost_s, done_s)
        return record.job.duration_s - done_s

    def place(self, waiting: Sequence[JobRecord], room: Room) -> None:
        """Merge what runs with what waits."""
        running = {run.job.job.id: run for run in self.view.runs.values() if not run.is_leaving}
        could = room.copy()  # free, or held by those whose turn has not come
        by_name, now_s = self.snapshot.nodes.by_name, self.snapshot.now_s
        for run in running.values():
            could.give({name: size for name, size in run.holdings.items() if by_name[name].may_start(now_s)})
        returning = self.returning()
        leaving = {record.job.id for record in returning}
        line = sorted([*waiting, *returning, *(run.job for run in running.values())], key=self.key)
        for turn, record in enumerate(line):
            own = running.get(record.job.id)
            if own is not None:
                could.take_free_part(own.holdings)
            elif record.job.id in leaving:
                self._keep_place(record.job, room, could)
            elif (holdings := self.hold(room, record)) is not None:
                could.take(holdings)
            elif (holdings := could.place(record.job.size_milli, record.job.node)) is not None:
                could.take(holdings)
                behind = [running[each.job.id] for each in line[turn + 1 :] if each.job.id in running]
                self._stop_for(record, holdings, [run for run in behind if not self._stays(run, could)])
                return
            else:
                self.wait_for_room(record, room)

    def _keep_place(self, job: Job, room: Room, could: Room) -> None:
        """Nobody later starts, or stays, where it will go on when it has left; those who run there leave only then."""
        holdings = room.place(job.size_milli, job.node) or could.place(job.size_milli, job.node)
        if holdings is not None:
            room.take_free_part(holdings)
            could.take(holdings)

    def _stays(self, run: RunRecord, could: Room) -> bool:
        """Whether its devices were not given to others; those of a node that is not fit nobody can be given."""
        by_name, now_s = self.snapshot.nodes.by_name, self.snapshot.now_s
        holdings = {name: size for name, size in run.holdings.items() if by_name[name].may_start(now_s)}
        if not could.has(holdings):
            return False
        could.take(holdings)
        return True

    def _stop_for(self, record: JobRecord, holdings: Mapping[str, int], losers: Sequence[RunRecord]) -> None:
        """Those of the losers leave that are where it will start."""
        victims = [run for run in losers if not holdings.keys().isdisjoint(run.holdings)]
        self.claim(record, holdings, victims, "has less time left", [run.id for run in victims])


class Priority(Baseline):
    """Higher levels first, then first come; whoever does not fit is passed.

    A workload may opt out of preemption (`protected`): those of a team hold at most its `cap_gpus` at once, and wait
    where they would hold more. The others may go beyond on idle devices. A workload preempts those of lower levels that
    have not opted out. A team is any budget node with a cap; one inside another is bound by both.
    """

    def __init__(self, view: View) -> None:
        """Work out who is bound by which caps."""
        super().__init__(view)
        caps_milli = view.scenario.caps_milli
        parents = {node.id: node.parent for node in view.scenario.tree}
        self._capped: dict[str, list[str]] = {}
        for name in parents:
            above: list[str] = []
            at: str | None = name
            while at is not None:
                if at in caps_milli:
                    above.append(at)
                at = parents[at]
            self._capped[name] = above
        self._caps_milli = caps_milli

    def refusal(self, job: Job) -> Reason | None:
        """Nor may a protected one be larger than its team's cap: it would wait for ever."""
        reason = super().refusal(job)
        if reason is not None or not job.is_protected:
            return reason
        holdings = self.hardware.empty_room(self.snapshot).place(job.size_milli, job.node)
        size_milli = job.size_milli if holdings is None else sum(holdings.values())
        for team in self._capped[job.leaf]:
            if size_milli > self._caps_milli[team]:
                cap = amount(self.snapshot, self._caps_milli[team])
                return Reason(Code.TOO_LARGE, f"Refused: protected workloads of {team} may hold {cap} at once.")
        return None

    def key(self, record: JobRecord) -> tuple[Any, ...]:
        """By level, then submission."""
        return -record.job.level, record.submitted_s, record.job.id

    def place(self, waiting: Sequence[JobRecord], room: Room) -> None:
        """Start within caps, on free devices or on those of lower levels."""
        protected_milli = self._protected_milli()
        victims = Victims(self, room)
        returning = self.returning()
        leaving_ids = {record.job.id for record in returning}
        for record in sorted([*waiting, *returning], key=self.key):
            job = record.job
            if job.id in leaving_ids:
                self._keep_place(job, room, victims)
                continue
            teams = self._capped[job.leaf] if job.is_protected else ()
            holdings, leaving = room.place(job.size_milli, job.node), None
            if holdings is None and (found := victims.find(job)) is not None:
                holdings, leaving = found
            size_milli = job.size_milli if holdings is None else sum(holdings.values())
            full = next((each for each in teams if protected_milli[each] + size_milli > self._caps_milli[each]), None)
            if full is not None:
                self.wait_for_cap(record, full, protected_milli[full])
                continue
            if holdings is None:
                self.wait_for_room(record, room)
                continue
            if leaving is not None:
                self.claim(record, holdings, leaving, "has a higher level", [run.id for run in leaving])
                return
            for team in teams:
                protected_milli[team] += size_milli
            room.take(holdings)
            self.start(record, holdings)

    def _keep_place(self, job: Job, room: Room, victims: Victims) -> None:
        """Nobody later starts where it will go on when it has left; whom it stops there leaves only then."""
        holdings = room.place(job.size_milli, job.node)
        if holdings is None and (found := victims.find(job)) is not None:
            holdings = found[0]
        if holdings is not None:
            room.take_free_part(holdings)

    def _protected_milli(self) -> dict[str, int]:
        """What protected workloads of each team hold, or will when others have left."""
        found = dict.fromkeys(self._caps_milli, 0)
        held = [(run.job.job, run.size_milli) for run in self.view.runs.values()]
        claims = self.snapshot.claims.values()
        held += [(self.view.jobs[each.workload].job, sum(each.holdings.values())) for each in claims]
        for job, size_milli in held:
            if job.is_protected:
                for team in self._capped[job.leaf]:
                    found[team] += size_milli
        return found

    def wait_for_cap(self, record: JobRecord, team: str, held_milli: int) -> None:
        """It waits as its team's protected workloads hold as much as they may."""
        held, cap = amount(self.snapshot, held_milli), amount(self.snapshot, self._caps_milli[team])
        text = f"Protected workloads of {team} hold {held} of the {cap} that they may."
        reason = Reason(Code.WAITING_CAPACITY, text, {"team": team, "held_milli": held_milli})
        self.wait(record, Code.WAITING_CAPACITY, lambda: reason)


class Victims:
    """The choice of runs that leave for one of a higher level, in one pass: of the lowest levels, and few."""

    def __init__(self, scheduler: Priority, room: Room) -> None:
        self._scheduler = scheduler
        self._room = room
        self._by_node: dict[str, list[RunRecord]] = {}
        self._lowest: int | None = None
        snapshot = scheduler.snapshot
        for run in scheduler.view.runs.values():
            if run.is_leaving or run.job.job.is_protected:
                continue
            self._lowest = min(run.job.job.level, run.job.job.level if self._lowest is None else self._lowest)
            for name in run.holdings:
                if snapshot.nodes.by_name[name].may_start(snapshot.now_s):
                    self._by_node.setdefault(name, []).append(run)
        self._failed: set[tuple[int, int]] = set()

    def find(self, job: Job) -> tuple[Mapping[str, int], list[RunRecord]] | None:
        """Devices for it, and whom of lower levels to stop for them; None if that would not be enough."""
        if self._lowest is None or self._lowest >= job.level or (job.level, job.size_milli) in self._failed:
            return None
        is_gang = job.size_milli > self._scheduler.hardware.largest_milli
        found = self._on_whole_nodes(job) if is_gang else self._on_one_node(job)
        if found is None and job.node is None:
            self._failed.add((job.level, job.size_milli))
        return found

    def _lower(self, name: str, level: int) -> list[RunRecord]:
        """Runs of a node that a level may stop: lowest level first, the latest start first."""
        runs = [run for run in self._by_node.get(name, ()) if run.job.job.level < level]
        return sorted(runs, key=lambda run: (run.job.job.level, -run.start_s, run.id))

    def _on_one_node(self, job: Job) -> tuple[Mapping[str, int], list[RunRecord]] | None:
        best: tuple[tuple[tuple[int, ...], str], list[RunRecord]] | None = None
        for name in self._by_node if job.node is None else [job.node]:
            missing_milli = job.size_milli - self._room.free_milli.get(name, 0)
            chosen: list[RunRecord] = []
            for run in self._lower(name, job.level):
                if missing_milli <= 0:
                    break
                chosen.append(run)
                missing_milli -= run.holdings[name]
            if missing_milli > 0:
                continue
            for run in chosen.copy():  # nobody who could be spared
                if run.holdings[name] <= -missing_milli:
                    chosen.remove(run)
                    missing_milli += run.holdings[name]
            cost = (_cost(chosen), name)
            if best is None or cost < best[0]:
                best = cost, chosen
        return None if best is None else ({best[0][1]: job.size_milli}, best[1])

    def _on_whole_nodes(self, job: Job) -> tuple[Mapping[str, int], list[RunRecord]] | None:
        candidates = []
        for name, node in self._scheduler.snapshot.nodes.by_name.items():
            lower = self._lower(name, job.level)
            could_milli = self._room.free_milli.get(name, 0) + sum(run.holdings[name] for run in lower)
            if could_milli == node.capacity_milli:
                candidates.append(Candidate(_cost(lower), (), node))
        chosen = choose_whole_nodes(candidates, job.size_milli)
        if chosen is None:
            return None
        runs = {run.id: run for node in chosen for run in self._lower(node.name, job.level)}
        return {node.name: node.capacity_milli for node in chosen}, [runs[name] for name in sorted(runs)]


def _cost(victims: Sequence[RunRecord]) -> tuple[int, int, int, int]:
    """What stopping them costs: whether there are any, the highest level among them, their devices, their number."""
    levels = [run.job.job.level for run in victims]
    return int(bool(victims)), max(levels, default=0), sum(run.size_milli for run in victims), len(victims)
