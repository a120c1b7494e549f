"""The kinds of work, and one workload of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import exp
from typing import Any

from .assumptions import Assumptions
from .chance import Chance

GPUS_PER_NODE = 8
HOUR_S = 3_600
LARGE_PART = 16
"""A large gang asks for at least this part of the cluster (semantics.md section 10)."""
SMALL_SIZES = (1, 1, 1, 1, 1, 2, 2, 4, 4, 8)  # Philly, Helios: most debug and test runs ask for one GPU, none for many
SESSION_SIZES = (1, 1, 1, 2)
MEDIUM_SIZES = (2, 4, 4, 8, 8, 8, 16, 16, 32)
FREE_SIZES = (1, 1, 1, 2, 2, 4, 8, 8, 16, 16)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work. Times in seconds.

    Attributes:
        name: what it is called, and what its workloads' ids carry.
        sizes: GPUs it asks for, each as likely.
        contract_s: bounds of its contract, whole minutes; (0, 0) is unallocated.
        median_s, spread: of its duration, log-normal.
        longest_s: a bound of the duration.
        think_s: mean time from the end of one to the submission of the next, exponential.
    """

    name: str
    sizes: tuple[int, ...]
    contract_s: tuple[int, int]
    median_s: float
    spread: float
    longest_s: int
    think_s: float

    @property
    def mean_gpus(self) -> float:
        """GPUs that a loop of this kind asks for on average over its time, if it never waits."""
        mean_s = min(self.median_s * exp(self.spread**2 / 2), self.longest_s)
        return sum(self.sizes) / len(self.sizes) * mean_s / (mean_s + self.think_s)

    def at_most(self, gpus: int) -> Kind:
        """The same with no more GPUs at once, in whole nodes where it is more than one."""
        most = gpus // GPUS_PER_NODE * GPUS_PER_NODE if gpus > GPUS_PER_NODE else max(1, gpus)
        return replace(self, sizes=tuple(min(size, most) for size in self.sizes))


def kinds(assume: Assumptions) -> Mapping[str, Kind]:
    """Debug runs, interactive sessions, medium gangs, and what is unallocated. Large gangs depend on their team."""
    hour = HOUR_S
    return {
        each.name: each
        for each in (
            Kind("debug", SMALL_SIZES, (300, 900), assume.debug_median_s, 0.7, 2_400, assume.debug_think_h * hour),
            Kind(
                "session",
                SESSION_SIZES,
                (hour, 2 * hour),
                assume.session_median_h * hour,
                0.5,
                8 * hour,
                assume.session_think_h * hour,
            ),
            Kind(
                "medium",
                MEDIUM_SIZES,
                (hour, 4 * hour),
                assume.medium_median_h * hour,
                assume.medium_spread,
                36 * hour,
                assume.medium_think_h * hour,
            ),
            Kind(
                "free",
                FREE_SIZES,
                (0, 0),
                assume.free_median_h * hour,
                assume.free_spread,
                96 * hour,
                assume.free_think_h * hour,
            ),
        )
    }


def workload(
    chance: Chance, assume: Assumptions, kind: Kind, *, leaf: str, name: str, cap_gpus: int, part: float = 1.0
) -> dict[str, Any]:
    """One workload of a kind, without its submission.

    Args:
        chance: where every choice comes from.
        assume: the start-up, exit and restart of the world.
        kind: of work.
        leaf: who asks.
        name: its id.
        cap_gpus: what its team's protected work may hold at once under `priority`, where everything is protected that
            is not larger than that.
        part: of its duration that is still to come: less than 1 for what has been running since before the start.
    """
    contract_s = 60 * round(chance.uniform(*kind.contract_s) / 60)
    duration_s = min(kind.median_s * chance.lognormvariate(0.0, kind.spread), kind.longest_s)
    gpus = chance.choice(kind.sizes)
    return {
        "id": name,
        "leaf": leaf,
        "gpus": gpus,
        "min_runtime": contract_s,
        "duration": max(60, round(duration_s * part)),
        "startup": round(chance.uniform(assume.startup_least_s, assume.startup_most_s)),
        "exit_delay": round(chance.uniform(assume.exit_least_s, assume.exit_most_s)),
        "restart_cost": round(assume.restart_cost_s),
        "estimate": max(60, round(duration_s * chance.uniform(1.0, 3.0))),
        "protected": gpus <= cap_gpus,
        "level": "HIGH",
    }
