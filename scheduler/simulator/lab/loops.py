"""Closed loops: researchers who submit their next workload some time after one ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, exp
from typing import Any

from .assumptions import Assumptions
from .chance import Chance
from .kinds import GPUS_PER_NODE, HOUR_S, LARGE_PART, Kind, kinds, workload
from .teams import DAY_S, Team

LEAST_LARGE_TEAM = 16
"""Teams that are entitled to at least this part of the cluster have large gangs."""
HERO_TEAMS = 2
"""So many of the largest of them have, rarely, gangs of a quarter to half the cluster."""
LARGE_STEPS = (0.75, 1.0, 1.0, 1.25)
"""Sizes of large gangs, in what the team spends on them at once."""
LARGE_SPREAD = 0.5
LARGE_LONGEST_S = 24 * HOUR_S
LARGE_THINK_S = HOUR_S
LARGE_CONTRACT_S = (2 * HOUR_S, 6 * HOUR_S)
HERO_HOURS = (4, 8)
HERO_CONTRACT_S = (4 * HOUR_S, 6 * HOUR_S)
WAITS_AS_LONG_AS_IT_RUNS = 2
"""Unallocated work takes at least so many times its duration when demand is two to three times the cluster: for the
number of workloads in a loop, of which more are written than will be submitted."""


@dataclass(slots=True)
class Loop:
    """One chain of workloads, written down in nominal time: when each would be submitted if none ever waited.

    Attributes:
        name: what its workloads' ids begin with.
        rows: the workloads so far.
        ended_s: when the last of them would end.
    """

    name: str
    rows: list[dict[str, Any]]
    ended_s: int = 0

    def add(self, row: dict[str, Any], at_s: int, takes_s: int) -> None:
        """Another one, submitted at an instant of nominal time and over after so long."""
        if self.rows:
            row["after"] = self.rows[-1]["id"]
            row["think"] = at_s - self.ended_s
        else:
            row["submit"] = at_s
        self.rows.append(row)
        self.ended_s = at_s + takes_s

    def next_name(self) -> str:
        """The id of the next one."""
        return f"{self.name}-{len(self.rows)}"


class Laboratory:
    """All loops of all teams."""

    def __init__(self, chance: Chance, assume: Assumptions, *, days: int, gpus: int, teams: list[Team]) -> None:
        """Nothing is written yet."""
        self._chance = chance
        self._assume = assume
        self._end_s = days * DAY_S
        self._gpus = gpus
        self._teams = teams
        self._kinds = kinds(assume)
        self._rows: list[dict[str, Any]] = []
        self._count = 0  # of loops so far, for their names
        large = [team for team in teams if not team.is_bursty and team.entitled * LEAST_LARGE_TEAM >= gpus]
        self._large = {team.name for team in large}
        largest = sorted(large, key=lambda team: (-team.entitled, team.name))
        self._heroes = {team.name for team in largest[:HERO_TEAMS]}

    def workloads(self) -> list[dict[str, Any]]:
        """Rows of a scenario file."""
        for team in self._teams:
            self._write_funded(team)
        self._write_unallocated()
        return self._rows

    # --- funded ---------------------------------------------------------------------------------------------------

    def _write_funded(self, team: Team) -> None:
        """Everybody debugs, some have sessions; gangs up to what the team wants, of which a part rests while quiet."""
        assume, chance = self._assume, self._chance
        wanted = team.entitled * (assume.bursty_demand if team.is_bursty else assume.busy_demand)
        steady = 0.0 if team.is_bursty else wanted * assume.quiet_demand
        spent = 0.0
        for person in team.people:
            spent += self._write(team, self._kinds["debug"], person, rests=False)
            if chance.random() < assume.session_people:
                spent += self._write(team, self._kinds["session"], person, rests=team.is_bursty)
        if team.name in self._large:
            spent += self._write_large(team, wanted * assume.large_part)
            steady += wanted * assume.large_part
        medium = self._kinds["medium"].at_most(round(wanted / 3))
        while spent < wanted - medium.mean_gpus / 2:
            alike = replace(medium, sizes=(chance.choice(medium.sizes),))
            spent += self._write(team, alike, chance.choice(team.people), rests=spent >= steady)

    def _write_large(self, team: Team, gpus: float) -> float:
        """One after the other, each followed by a pause that keeps the team at so many GPUs on average."""
        assume, chance = self._assume, self._chance
        person = chance.choice(team.people)
        loop = self._loop(person, "large")
        kind = Kind("large", (1,), LARGE_CONTRACT_S, assume.large_median_h * HOUR_S, LARGE_SPREAD, LARGE_LONGEST_S, 0.0)
        cycle_s = kind.median_s * exp(LARGE_SPREAD**2 / 2) + LARGE_THINK_S
        at_s = round(chance.uniform(0, cycle_s / 2))
        while (at_s := team.spells.busy_from(at_s)) < self._end_s:
            is_hero = team.name in self._heroes and chance.random() < cycle_s / (assume.hero_days * DAY_S)
            row_kind = self._hero(kind) if is_hero else self._ordinary(kind, gpus)
            row = self._workload(team, row_kind, person, loop.next_name())
            takes_s = row["startup"] + row["duration"]
            loop.add(row, at_s, takes_s)
            pause_s = max(0.0, (row["gpus"] / gpus - 1) * takes_s) + chance.expovariate(1 / LARGE_THINK_S)
            at_s = team.spells.busy_after(loop.ended_s, round(pause_s))
        self._rows += loop.rows
        return gpus

    def _hero(self, kind: Kind) -> Kind:
        """One of a quarter to half the cluster."""
        size = self._whole_nodes(self._chance.uniform(self._gpus / 4, self._gpus / 2))
        median_s = self._chance.uniform(*HERO_HOURS) * HOUR_S
        return replace(kind, sizes=(size,), contract_s=HERO_CONTRACT_S, median_s=median_s, spread=0.0)

    def _ordinary(self, kind: Kind, gpus: float) -> Kind:
        """One of about what the team spends on large gangs at once, and large at least."""
        size = self._whole_nodes(max(gpus * self._chance.choice(LARGE_STEPS), self._gpus / LARGE_PART))
        return replace(kind, sizes=(size,))

    def _whole_nodes(self, gpus: float) -> int:
        """Whole nodes, or so many GPUs of one, and at most half the cluster."""
        if gpus <= GPUS_PER_NODE:
            return ceil(gpus)
        most = max(GPUS_PER_NODE, self._gpus // 2 // GPUS_PER_NODE * GPUS_PER_NODE)
        return min(most, max(1, round(gpus / GPUS_PER_NODE)) * GPUS_PER_NODE)

    # --- unallocated ----------------------------------------------------------------------------------------------

    def _write_unallocated(self) -> None:
        """What teams want beyond their entitlements, so that demand comes to what is assumed; the bursty want none."""
        assume = self._assume
        funded = sum(team.entitled * self._mean_funded(team) for team in self._teams)
        wanting = [team for team in self._teams if not team.is_bursty]
        beyond = (assume.demand * self._gpus - funded) / sum(team.entitled for team in wanting)
        kind = self._kinds["free"].at_most(self._gpus // 64)
        mean = sum(kind.sizes) / len(kind.sizes)
        owed = 0.0
        for team in wanting:
            owed += beyond * team.entitled
            while owed >= mean / 2:
                size = self._chance.choice(kind.sizes)
                self._write(team, replace(kind, sizes=(size,)), self._chance.choice(team.people), rests=False)
                owed -= size

    def _mean_funded(self, team: Team) -> float:
        """A team's funded demand over its entitlement, busy and quiet together."""
        assume = self._assume
        if team.is_bursty:
            busy = assume.bursty_busy_days / (assume.bursty_busy_days + assume.bursty_quiet_days)
            return assume.bursty_demand * busy
        busy = assume.busy_days / (assume.busy_days + assume.quiet_days)
        return assume.busy_demand * (busy + (1 - busy) * assume.quiet_demand)

    # --- loops ----------------------------------------------------------------------------------------------------

    def _write(self, team: Team, kind: Kind, person: str, *, rests: bool) -> float:
        """A loop of one kind; how many GPUs it asks for on average while the team is busy."""
        chance = self._chance
        loop = self._loop(person, kind.name)
        is_unallocated = kind.contract_s == (0, 0)
        stretch = WAITS_AS_LONG_AS_IT_RUNS if is_unallocated else 1
        size = sum(kind.sizes) / len(kind.sizes)
        is_open = is_unallocated or chance.random() < kind.mean_gpus / size
        at_s = round(chance.uniform(0, 600 if is_open else kind.think_s))
        part = chance.random() if is_open else 1.0
        while True:
            at_s = team.spells.busy_from(at_s) if rests else at_s
            if at_s >= self._end_s:
                break
            row = self._workload(team, kind, person, loop.next_name(), part)
            part = 1.0
            loop.add(row, at_s, stretch * (row["startup"] + row["duration"]))
            at_s = loop.ended_s + round(chance.expovariate(1 / kind.think_s))
        self._rows += loop.rows
        return kind.mean_gpus

    def _loop(self, person: str, kind: str) -> Loop:
        self._count += 1
        return Loop(f"{person}-{kind}{self._count}", [])

    def _workload(self, team: Team, kind: Kind, person: str, name: str, part: float = 1.0) -> dict[str, Any]:
        return workload(self._chance, self._assume, kind, leaf=person, name=name, cap_gpus=team.cap_gpus, part=part)
