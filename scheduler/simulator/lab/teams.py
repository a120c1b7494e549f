"""The teams: shares, people, and when each is busy."""

from __future__ import annotations

from dataclasses import dataclass

from .assumptions import Assumptions
from .chance import Chance

TEAMS = 15
MOST_RESEARCHERS_PER_TEAM = 10
GPUS_PER_RESEARCHER = 7  # of the cluster, so that a small one has fewer of them
LEAST_SHARES = 100  # basis points
SHARES_SPREAD = 0.5  # sigma of ln: the largest team has some five times the smallest
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Spells:
    """When a team is busy: [from, until) in seconds, in order and apart, up to beyond the scenario's end."""

    spans: tuple[tuple[int, int], ...]

    def busy_from(self, at_s: int) -> int:
        """The instant itself if the team is busy then, else when it is again."""
        return next((max(at_s, start_s) for start_s, end_s in self.spans if at_s < end_s), at_s)

    def busy_after(self, at_s: int, busy_s: int) -> int:
        """The instant at which the team has been busy for so long since then."""
        at_s = self.busy_from(at_s)
        while True:
            end_s = next((end_s for _, end_s in self.spans if at_s < end_s), None)
            if end_s is None or at_s + busy_s <= end_s:
                return at_s + busy_s
            busy_s -= end_s - at_s
            at_s = self.busy_from(end_s)


@dataclass(frozen=True, slots=True)
class Team:
    """One team.

    Attributes:
        name: its budget node.
        shares: in basis points.
        entitled: GPUs that it is entitled to.
        people: its researchers' leaves.
        is_bursty: asks for nearly nothing while quiet, and for much while busy.
        spells: when it is busy.
    """

    name: str
    shares: int
    entitled: float
    people: tuple[str, ...]
    is_bursty: bool
    spells: Spells

    @property
    def cap_gpus(self) -> int:
        """What its protected work may hold at once under `priority`: what it is entitled to, in whole GPUs."""
        return max(1, round(self.entitled))


def teams(chance: Chance, assume: Assumptions, *, days: int, gpus: int) -> list[Team]:
    """All teams of a laboratory."""
    shares = _shares(chance)
    names = [f"t{index:02d}" for index in range(1, TEAMS + 1)]
    smaller = sorted(names, key=lambda name: shares[names.index(name)])[: TEAMS // 2]
    bursty = set(chance.sample(smaller, min(len(smaller), round(assume.bursty_teams))))
    count = min(MOST_RESEARCHERS_PER_TEAM, max(1, round(gpus / GPUS_PER_RESEARCHER / TEAMS)))
    return [
        Team(
            name=name,
            shares=amount,
            entitled=gpus * amount / sum(shares),
            people=tuple(f"{name}-p{index:02d}" for index in range(1, count + 1)),
            is_bursty=name in bursty,
            spells=_spells(chance, days, *_lengths(assume, name in bursty)),
        )
        for name, amount in zip(names, shares, strict=True)
    ]


def _shares(chance: Chance) -> list[int]:
    """Basis points that add up to the whole."""
    weights = [chance.lognormvariate(0.0, SHARES_SPREAD) for _ in range(TEAMS)]
    shares = [max(LEAST_SHARES, round(10_000 * weight / sum(weights))) for weight in weights]
    shares[shares.index(max(shares))] += 10_000 - sum(shares)  # what rounding left or took
    return shares


def _lengths(assume: Assumptions, is_bursty: bool) -> tuple[float, float]:
    if is_bursty:
        return assume.bursty_busy_days, assume.bursty_quiet_days
    return assume.busy_days, assume.quiet_days


def _spells(chance: Chance, days: int, busy_days: float, quiet_days: float) -> Spells:
    """Busy and quiet by turns, each two thirds to four thirds of its mean, at a random point of it at the start."""
    spans: list[tuple[int, int]] = []
    at_s = -round(chance.uniform(0, busy_days + quiet_days) * DAY_S)
    while not spans or spans[-1][0] < days * DAY_S:
        end_s = at_s + round(chance.uniform(2 / 3, 4 / 3) * busy_days * DAY_S)
        if end_s > 0:
            spans.append((max(0, at_s), end_s))
        at_s = end_s + round(chance.uniform(2 / 3, 4 / 3) * quiet_days * DAY_S)
    return Spells(tuple(spans))
