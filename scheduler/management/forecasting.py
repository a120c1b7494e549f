"""How good forecasts are: made at past instants with what was known then, and laid beside what came true.

The first part of the instants serves to learn the factors of the ranges, the rest to check them; between both lies one
horizon, so that nothing that was learned from is checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from scheduler.simulator import Scenario, parse
from scheduler.simulator.forecast import forecast
from scheduler.simulator.known import Knowledge, Plans, Watched
from scheduler.simulator.lab import Assumptions, invent
from scheduler.simulator.likely import DAY_S
from scheduler.simulator.ranges import Past, Score, Stretch, learn, score

WARM_UP_S = 10 * DAY_S
"""Of each history so much is only past to draw from; where it is shorter, a third of it."""
BUSY = {"busy_demand": 2.0, "quiet_demand": 0.6, "bursty_demand": 2.4}
"""Assumptions of a laboratory in which funded work waits, too."""
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class History:
    """Something to forecast in: its name, what happened, and what was promised at the instants."""

    name: str
    knowledge: Knowledge
    instants: Sequence[int]
    plans: Mapping[int, Plans]


@dataclass(frozen=True, slots=True)
class Checked:
    """How many ranges held, by class (all: ""): as drawn, and with the factors learned before."""

    name: str
    raw: Mapping[str, Score]
    calibrated: Mapping[str, Score]
    learned: Mapping[str, Stretch]
    past: Sequence[Past]


def laboratory(seed: int, *, days: int, gpus: int, every_s: int, horizon_s: int) -> History:
    """An invented laboratory under the engine."""
    made = invent(Random(seed), seed=seed, days=days, gpus=gpus, assume=Assumptions(**BUSY))
    scenario = parse(json.dumps(made.scenario))
    owners = {job.id: job.id.rpartition("-")[0] for job in scenario.jobs}
    return simulated(scenario, f"laboratory {seed}", owners, every_s=every_s, horizon_s=horizon_s)


def simulated(
    scenario: Scenario, name: str, owner_of: Mapping[str, str] | None = None, *, every_s: int, horizon_s: int
) -> History:
    """Any scenario under the engine."""
    last_s = scenario.until_s or max((job.submit_s or 0 for job in scenario.jobs), default=0)
    moments = instants(last_s, every_s=every_s, horizon_s=horizon_s)
    world = Watched(scenario, moments)
    world.run()
    return History(name, Knowledge(world.outcome, owner_of), moments, world.plans)


def instants(last_s: int, *, every_s: int, horizon_s: int) -> list[int]:
    """When forecasts are made: after the warm-up, and early enough to see what came true."""
    first_s = min(WARM_UP_S, last_s // 3)
    return list(range(first_s, last_s - horizon_s, every_s))


def forecasts(history: History, *, draws: int, horizon_s: int, say: Say) -> Iterator[Past]:
    """Everybody who waited at each instant: what was drawn, and the real start."""
    for number, at_s in enumerate(history.instants, 1):
        present = history.knowledge.present(at_s, history.plans.get(at_s))
        real = history.knowledge.waiting_starts(at_s)
        kinds = {each.id: each.like.kind for each in present.work}
        about = [name for name in present.waiting() if name in real]
        drawn = forecast(present, Random(at_s), about=about, draws=draws, horizon_s=horizon_s)
        for name, futures in drawn.items():
            start_s = real[name]
            yield Past(kinds[name], at_s, futures, None if start_s is None else start_s - at_s)
        say(f"  {history.name}: {number} of {len(history.instants)} instants, {len(about)} waited")


def checked(history: History, past: Sequence[Past], *, horizon_s: int) -> Checked:
    """Learn on the first half of the instants, check on those a horizon after it."""
    moments = sorted({each.at_s for each in past})
    middle_s = moments[len(moments) // 2] if moments else 0
    learned = learn([each for each in past if each.at_s < middle_s - horizon_s], horizon_s)
    held_out = [each for each in past if each.at_s >= middle_s]
    return Checked(history.name, score(held_out, horizon_s, {}), score(held_out, horizon_s, learned), learned, held_out)


def together(parts: Sequence[Mapping[str, Score]]) -> dict[str, Score]:
    """Scores of several histories as one."""
    found: dict[str, Score] = {}
    for scores in parts:
        for kind, each in scores.items():
            before = found.get(kind, Score())
            found[kind] = Score(before.count + each.count, before.held + each.held)
    return found
