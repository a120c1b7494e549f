"""Fixed slots: each team owns its devices alone, and nobody else may use them while it does not."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from scheduler.engine import Code, Reason, amount

from .baselines import Baseline, Verdict, View
from .lines import START, Entry, Key, Shape, first_of
from .records import JobRecord
from .room import Room
from .scenario import ROOT, Job, Scenario
from .watch import News


class Partition(Baseline):
    """First come, first served inside each team, on its own devices; whoever does not fit is passed.

    The teams are the nodes below the root. Each owns whole GPUs by its shares as they are at the start (largest
    remainder), whole nodes first, so that gangs stay possible.
    """

    def __init__(self, view: View) -> None:
        """Divide the cluster."""
        super().__init__(view)
        self._team = teams_of_nodes(view.scenario)
        self._slots_milli = slots_milli(view.scenario)
        self._unused_milli = {team: dict(slots) for team, slots in self._slots_milli.items()}

    def refusal(self, job: Job) -> Reason | None:
        """Nor may it be larger than what its team owns: it would wait for ever."""
        reason = super().refusal(job)
        if reason is not None:
            return reason
        team = self._team[job.leaf]
        own = Room(self.snapshot, self._slots_milli[team], self.watch)
        if own.place(job.size_milli, job.node) is None:
            size, owned = amount(self.snapshot, job.size_milli), amount(self.snapshot, own.total_milli)
            return Reason(Code.TOO_LARGE, f"Refused: it asks for {size}, and {team} owns {owned}.")
        return None

    def shape(self, record: JobRecord) -> Shape:
        """Each team's workloads fare apart."""
        return super().shape(record)._replace(teams=(self._team[record.job.leaf],))

    def follow(self, news: News) -> None:
        """Keep count of what each team does not use of its own."""
        for runs, sign in ((news.begun, -1), (news.ended, +1)):
            for run in runs:
                unused_milli = self._unused_milli[self._team[run.job.job.leaf]]
                for name, size_milli in run.holdings.items():
                    unused_milli[name] += sign * size_milli

    def place(self, room: Room) -> None:
        """Each on what its team owns."""
        rooms = self._rooms(room)
        at = START
        while (turn := self._first_that_fits_its_own(rooms, at)) is not None:
            self._tell_all(rooms, at, turn[0])
            self.hold(rooms[self._team[turn[1].job.leaf]], turn[1])
            at = turn[0]
        self._tell_all(rooms, at, None)

    def _first_that_fits_its_own(self, rooms: Mapping[str, Room], after: Key) -> Entry | None:
        return first_of(
            group.first_after(after)
            for kind, family in self.line.families.items()
            for teams, group in family.groups.items()
            if rooms[teams[0]].fits(kind.size_milli, kind.node)
        )

    def _tell_all(self, rooms: Mapping[str, Room], after: Key, to: Key | None) -> None:
        verdicts: list[Verdict] = []
        for kind, family in self.line.families.items():
            for teams, group in family.groups.items():
                own = rooms[teams[0]]
                if not group.is_told(self.lack(kind, own)):
                    verdicts.append((Shape(kind, teams), self.why_it_waits(kind, own)))
        self.tell_all(verdicts, after, to)

    def _rooms(self, room: Room) -> dict[str, Room]:
        """What each team that waits owns and does not use, on fit nodes."""
        unfit = self.watch.unfit
        return {
            team: Room(
                self.snapshot,
                {name: size for name, size in self._unused_milli[team].items() if name not in unfit},
                self.watch,
            )
            for team in {teams[0] for family in self.line.families.values() for teams in family.groups}
        }


def teams_of_nodes(scenario: Scenario) -> dict[str, str]:
    """For each budget node the node below the root that it belongs to."""
    parents = {node.id: node.parent for node in scenario.tree}
    found = {}
    for name in parents:
        if name == ROOT:
            continue
        team = name
        while (parent := parents[team]) is not None and parent != ROOT:
            team = parent
        found[name] = team
    return found


def slots_milli(scenario: Scenario) -> dict[str, dict[str, int]]:
    """The devices that each team owns, by node."""
    teams = {node.id: (node.shares, node.whole) for node in scenario.tree if node.parent == ROOT}
    capacity_milli = {node.name: node.capacity_milli for node in scenario.nodes}
    quota_milli = _quotas_milli(teams, sum(capacity_milli.values()))
    free_milli = dict(capacity_milli)
    slots: dict[str, dict[str, int]] = {team: {} for team in teams}
    for team in sorted(teams):  # whole nodes, then what is left over
        for name in sorted(name for name in free_milli if free_milli[name]):
            if quota_milli[team] >= free_milli[name] == capacity_milli[name]:
                slots[team][name] = capacity_milli[name]
                quota_milli[team] -= capacity_milli[name]
                free_milli[name] = 0
    for team in sorted(teams, key=lambda each: (-quota_milli[each], each)):
        while quota_milli[team]:
            name = max(
                sorted(free_milli), key=lambda each: (min(free_milli[each], quota_milli[team]), -free_milli[each])
            )
            size_milli = min(free_milli[name], quota_milli[team])
            slots[team][name] = slots[team].get(name, 0) + size_milli
            quota_milli[team] -= size_milli
            free_milli[name] -= size_milli
    return slots


def _quotas_milli(teams: Mapping[str, tuple[int, int]], total_milli: int) -> dict[str, int]:
    """Whole GPUs by shares; what rounding leaves goes to the largest remainders, then by name."""
    exact = {
        name: Fraction(shares * total_milli, whole * 1_000) if whole else Fraction(0)
        for name, (shares, whole) in teams.items()
    }
    whole_gpus = {name: int(value) for name, value in exact.items()}
    left = int(sum(exact.values())) - sum(whole_gpus.values())
    for name in sorted(exact, key=lambda each: (whole_gpus[each] - exact[each], each))[:left]:
        whole_gpus[name] += 1
    return {name: gpus * 1_000 for name, gpus in whole_gpus.items()}
