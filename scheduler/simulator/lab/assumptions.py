"""What the invented laboratory assumes, each number with its unit and where it comes from.

Sources, by the names used below:

- situation: the published description of the laboratory whose results are reproduced: 15 teams, about 150 researchers,
  demand 2 to 3 times the GPUs at nearly every hour, a hostile world (start-up, exits, restarts, faults).
- Philly: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC 2019, and the
  trace published with it: 46 % of jobs end within 15 min; 93 % ask for one GPU and use 18 % of the GPU time; jobs of
  more than four GPUs are 2 % and use 62 %; durations are heavy-tailed.
- PAI: Weng et al., "MLaaS in the Wild", NSDI 2022 (Alibaba): most tasks are small and short, a few users submit most
  of them, and gangs wait longest.
- Helios: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters",
  SC 2021: most jobs debug or test and end within minutes, while large jobs make up most of the GPU time.
- free: nothing published says; chosen to be plausible, and varied by `reproduce --sensitivity` like all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any


def _assume(value: float, unit: str, meaning: str, source: str) -> Any:
    return field(default=value, metadata={"unit": unit, "meaning": meaning, "source": source})


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Every number that the generator is free to choose. Docstrings of the fields are their metadata."""

    # how much is asked for
    demand: float = _assume(2.5, "x GPUs", "what is queued or running, funded and unallocated together", "situation")
    busy_demand: float = _assume(
        1.0, "x entitlement", "a busy team's funded demand", "situation: it lives by its budget"
    )
    quiet_demand: float = _assume(0.45, "of busy", "a quiet team's funded demand", "free")
    busy_days: float = _assume(4.0, "days", "mean length of a busy spell", "situation: spells of days")
    quiet_days: float = _assume(3.0, "days", "mean length of a quiet spell", "situation: spells of days")
    bursty_teams: float = _assume(3, "teams", "which ask for next to nothing while quiet", "situation")
    bursty_demand: float = _assume(1.6, "x entitlement", "a bursty team's funded demand while busy", "free")
    bursty_busy_days: float = _assume(3.0, "days", "mean length of its busy spells", "free")
    bursty_quiet_days: float = _assume(3.0, "days", "mean length of its quiet spells", "free")
    # small work
    debug_think_h: float = _assume(9.0, "h", "mean pause between a researcher's debug runs", "situation: 25,000 in all")
    debug_median_s: float = _assume(360, "s", "median duration of a debug run", "Philly, Helios: minutes")
    session_people: float = _assume(0.4, "of researchers", "have interactive sessions", "free")
    session_median_h: float = _assume(2.0, "h", "median duration of an interactive session", "free")
    session_think_h: float = _assume(12.0, "h", "mean pause between two of them", "free")
    # gangs
    medium_median_h: float = _assume(4.5, "h", "median duration of a medium gang", "Philly: hours, heavy tail")
    medium_spread: float = _assume(0.8, "sigma of ln", "spread of the durations of medium gangs", "Philly")
    medium_think_h: float = _assume(0.5, "h", "mean pause between two of a loop", "free")
    large_part: float = _assume(
        0.5, "of funded demand", "that goes into large gangs, where a team has them", "Philly, Helios"
    )
    large_median_h: float = _assume(8.0, "h", "median duration of a large gang", "Philly: hours, heavy tail")
    hero_days: float = _assume(
        14.0, "days", "mean time between gangs of up to half the cluster of one large team", "free"
    )
    # work beyond entitlements
    free_median_h: float = _assume(12.0, "h", "median duration of unallocated work", "free: what can wait is long")
    free_spread: float = _assume(1.0, "sigma of ln", "spread of the durations of unallocated work", "Philly")
    free_think_h: float = _assume(0.5, "h", "mean pause between two of a loop", "free")
    # the world
    startup_least_s: float = _assume(30, "s", "least start-up time", "situation")
    startup_most_s: float = _assume(120, "s", "longest start-up time", "situation")
    exit_least_s: float = _assume(5, "s", "least time to leave", "situation")
    exit_most_s: float = _assume(60, "s", "longest time to leave", "situation")
    restart_cost_s: float = _assume(600, "s", "work repeated after a restart", "situation")
    fault_days: float = _assume(60, "days", "mean time between faults of one node", "situation")
    repair_least_h: float = _assume(9, "h", "shortest repair", "free")
    repair_most_h: float = _assume(36, "h", "longest repair", "free")
    patience_h: float = _assume(
        2, "h", "how long a repair waits for its node to become empty before somebody asks whoever runs there", "free"
    )

    def __iter__(self) -> Iterator[tuple[Field[float], float]]:
        """Each with its value."""
        return ((each, getattr(self, each.name)) for each in fields(self))

    def varied(self, name: str, factor: float) -> Assumptions:
        """The same with one of them multiplied."""
        return replace(self, **{name: getattr(self, name) * factor})
