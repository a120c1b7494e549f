"""Plain schedulers that preempt: shortest remaining time first, and priority with capped protection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from scheduler.engine import Candidate, Code, Reason, Snapshot, amount, choose_whole_nodes

from .baselines import Baseline, Verdict, View
from .lines import START, Entry, Key, Kind, Shape, first_of
from .records import JobRecord, RunRecord
from .room import Room
from .scenario import Job
from .watch import News, Watch


class ShortestRemainingFirst(Baseline):
    """At every event all that could run, by the time they have left: whoever fits at its turn runs (srtf).

    What runs can only stay where it is; what starts goes where devices are free, else where those who come later run.
    Where somebody who is stopped could go on elsewhere, that place is kept, so that nobody starts there in vain: a pass
    that stops somebody decides nothing further, and the next one of the same instant sees who has left.
    """

    def key(self, record: JobRecord) -> Key:
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

    def is_settled_by_time(self) -> bool:
        """What runs has less and less left, so fewer may be stopped; but where those go on who leave may change."""
        return not self.watch.leaving

    def place(self, room: Room) -> None:
        """Merge what runs with what waits."""
        running = {run.job.job.id: run for run in self.view.runs.values() if not run.is_leaving}
        could = room.copy()  # free, or held by those whose turn has not come
        by_name, now_s = self.snapshot.nodes.by_name, self.snapshot.now_s
        for run in running.values():
            could.give({name: size for name, size in run.holdings.items() if by_name[name].may_start(now_s)})
        returning = self.returning()
        leaving = {record.job.id for record in returning}
        line = sorted([*self.line.waiting(), *returning, *(run.job for run in running.values())], key=self.key)
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
        self._capped: dict[str, tuple[str, ...]] = {}
        for name in parents:
            above: list[str] = []
            at: str | None = name
            while at is not None:
                if at in caps_milli:
                    above.append(at)
                at = parents[at]
            self._capped[name] = tuple(above)
        self._caps_milli = caps_milli
        self._held_milli = dict.fromkeys(caps_milli, 0)  # by runs of the protected, by team
        self._victims = Victims(self.watch)

    def refusal(self, job: Job) -> Reason | None:
        """Nor may a protected one be larger than its team's cap: it would wait for ever."""
        reason = super().refusal(job)
        if reason is not None or not job.is_protected:
            return reason
        holdings = Room(self.snapshot, self.watch.capacity_milli, self.watch).place(job.size_milli, job.node)
        size_milli = job.size_milli if holdings is None else sum(holdings.values())
        for team in self._capped[job.leaf]:
            if size_milli > self._caps_milli[team]:
                cap = amount(self.snapshot, self._caps_milli[team])
                return Reason(Code.TOO_LARGE, f"Refused: protected workloads of {team} may hold {cap} at once.")
        return None

    def key(self, record: JobRecord) -> Key:
        """By level, then submission."""
        return -record.job.level, record.submitted_s, record.job.id

    def shape(self, record: JobRecord) -> Shape:
        """Levels stop others or not; the protected of a team fare apart."""
        job = record.job
        teams = self._capped[job.leaf] if job.is_protected else ()
        return Shape(Kind(job.size_milli, job.node, job.level), teams)

    def follow(self, news: News) -> None:
        """Keep count of what the protected hold, and of who may be stopped where."""
        for runs, sign in ((news.begun, +1), (news.ended, -1)):
            for run in runs:
                if run.job.job.is_protected:
                    for team in self._capped[run.job.job.leaf]:
                        self._held_milli[team] += sign * run.size_milli
        self._victims.follow(news.nodes)

    def place(self, room: Room) -> None:
        """Start within caps, on free devices or on those of lower levels."""
        protected_milli = self._protected_milli()
        returning = [(self.key(record), record) for record in self.returning()]
        at = START
        while True:
            found = self._first_that_may(room, protected_milli, at)
            turn = first_of([found, returning[0] if returning else None])
            self._tell_all_why(room, protected_milli, at, None if turn is None else turn[0])
            if turn is None:
                return
            at, record = turn
            if returning and turn is returning[0]:
                self._keep_place(record.job, room)
                del returning[0]
            elif (holdings := self.hold(room, record)) is not None:
                for team in self.shape(record).teams:
                    protected_milli[team] += sum(holdings.values())
            else:
                self._stop_others(record, room)
                return

    def _first_that_may(self, room: Room, protected_milli: Mapping[str, int], after: Key) -> Entry | None:
        """The first within its team's caps for whom there is room, or whom others could make it."""
        found: list[Entry | None] = []
        for kind, family in self.line.families.items():
            size_milli = self._would_hold_milli(kind, room)
            if size_milli is not None:
                for teams, group in family.groups.items():
                    if self._full(teams, size_milli, protected_milli) is None:
                        found.append(group.first_after(after))
        return first_of(found)

    def _would_hold_milli(self, kind: Kind, room: Room) -> int | None:
        """What one of a kind would hold if it started now, others stopped for it where needed; None if it can't."""
        if room.fits(kind.size_milli, kind.node):
            if kind.size_milli <= self.watch.largest_milli:
                return kind.size_milli
            holdings = room.place(kind.size_milli, kind.node)
            return None if holdings is None else sum(holdings.values())
        others = self._victims.find(kind, room, self.snapshot)
        return None if others is None else sum(others[0].values())

    def _full(self, teams: Sequence[str], size_milli: int, protected_milli: Mapping[str, int]) -> str | None:
        """The first of the teams whose protected would hold more than its cap."""
        return next((each for each in teams if protected_milli[each] + size_milli > self._caps_milli[each]), None)

    def _tell_all_why(self, room: Room, protected_milli: Mapping[str, int], after: Key, to: Key | None) -> None:
        """All between two turns wait: as their team's protected hold enough, or as this room has no place for them."""

        verdicts: list[Verdict] = []
        for kind, family in self.line.families.items():
            size_milli, code = self._would_hold_milli(kind, room), self.lack(kind, room)
            if code is Code.WAITING_CAPACITY and size_milli is None and family.is_told(code):
                continue  # they wait for that, be it their team's or everybody's
            for teams, group in family.groups.items():
                full = self._full(teams, size_milli or kind.size_milli, protected_milli)
                if full is None and size_milli is None and not group.is_told(code):
                    verdicts.append((Shape(kind, teams), self.why_it_waits(kind, room)))
                elif full is not None and not group.is_told(Code.WAITING_CAPACITY):
                    verdicts.append((Shape(kind, teams), self._why_its_team_waits(full, protected_milli[full])))
        self.tell_all(verdicts, after, to)

    def _stop_others(self, record: JobRecord, room: Room) -> None:
        found = self._victims.find(self.shape(record).kind, room, self.snapshot)
        assert found is not None, "whose turn it was had room or victims"
        holdings, victims = found
        self.claim(record, holdings, victims, "has a higher level", [run.id for run in victims])

    def _keep_place(self, job: Job, room: Room) -> None:
        """Nobody later starts where it will go on when it has left; whom it stops there leaves only then."""
        holdings = room.place(job.size_milli, job.node)
        if holdings is None:
            found = self._victims.find(Kind(job.size_milli, job.node, job.level), room, self.snapshot)
            holdings = None if found is None else found[0]
        if holdings is not None:
            room.take_free_part(holdings)

    def _protected_milli(self) -> dict[str, int]:
        """What protected workloads of each team hold, or will when others have left."""
        found = dict(self._held_milli)
        for claim in self.snapshot.claims.values():
            job = self.view.jobs[claim.workload].job
            if job.is_protected:
                for team in self._capped[job.leaf]:
                    found[team] += sum(claim.holdings.values())
        return found

    def _why_its_team_waits(self, team: str, held_milli: int) -> Reason:
        """It waits as its team's protected workloads hold as much as they may."""
        held, cap = amount(self.snapshot, held_milli), amount(self.snapshot, self._caps_milli[team])
        text = f"Protected workloads of {team} hold {held} of the {cap} that they may."
        return Reason(Code.WAITING_CAPACITY, text, {"team": team, "held_milli": held_milli})


class Victims:
    """The choice of runs that leave for one of a higher level: of the lowest levels, and few."""

    def __init__(self, watch: Watch) -> None:
        """Nothing runs yet."""
        self._watch = watch
        self._by_node: dict[str, list[RunRecord]] = {}  # who may be stopped, on fit nodes: lowest level, latest start
        self._at_level: Counter[int] = Counter()
        self._lowest: int | None = None

    def follow(self, nodes: Iterable[str]) -> None:
        """These nodes have changed."""
        for name in nodes:
            for run in self._by_node.pop(name, ()):
                self._at_level[run.job.job.level] -= 1
            if name in self._watch.unfit:
                continue
            runs = [run for run in self._watch.on_node(name) if not run.is_leaving and not run.job.job.is_protected]
            if runs:
                self._by_node[name] = sorted(runs, key=lambda run: (run.job.job.level, -run.start_s, run.id))
                self._at_level.update(run.job.job.level for run in runs)
        self._lowest = min((level for level, number in self._at_level.items() if number), default=None)

    def find(self, kind: Kind, room: Room, snapshot: Snapshot) -> tuple[Mapping[str, int], list[RunRecord]] | None:
        """Devices for one of a kind, and whom of lower levels to stop for them; None if that would not be enough."""
        if self._lowest is None or self._lowest >= kind.level:
            return None
        if kind.size_milli > self._watch.largest_milli:
            return self._on_whole_nodes(kind, room, snapshot)
        return self._on_one_node(kind, room)

    def _lower(self, name: str, level: int) -> list[RunRecord]:
        """Runs of a node that a level may stop: lowest level first, the latest start first."""
        return [run for run in self._by_node.get(name, ()) if run.job.job.level < level]

    def _on_one_node(self, kind: Kind, room: Room) -> tuple[Mapping[str, int], list[RunRecord]] | None:
        best: tuple[tuple[tuple[int, ...], str], list[RunRecord]] | None = None
        for name in self._by_node if kind.node is None else [kind.node]:
            missing_milli = kind.size_milli - room.free(name)
            chosen: list[RunRecord] = []
            for run in self._lower(name, kind.level):
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
        return None if best is None else ({best[0][1]: kind.size_milli}, best[1])

    def _on_whole_nodes(
        self, kind: Kind, room: Room, snapshot: Snapshot
    ) -> tuple[Mapping[str, int], list[RunRecord]] | None:
        candidates = []
        for name, capacity_milli in self._watch.capacity_milli.items():
            lower = self._lower(name, kind.level)
            if room.free(name) + sum(run.holdings[name] for run in lower) == capacity_milli:
                candidates.append(Candidate(_cost(lower), (), snapshot.nodes.by_name[name]))
        chosen = choose_whole_nodes(candidates, kind.size_milli)
        if chosen is None:
            return None
        runs = {run.id: run for node in chosen for run in self._lower(node.name, kind.level)}
        return {node.name: node.capacity_milli for node in chosen}, [runs[name] for name in sorted(runs)]


def _cost(victims: Sequence[RunRecord]) -> tuple[int, int, int, int]:
    """What stopping them costs: whether there are any, the highest level among them, their devices, their number."""
    levels = [run.job.job.level for run in victims]
    return int(bool(victims)), max(levels, default=0), sum(run.size_milli for run in victims), len(victims)
