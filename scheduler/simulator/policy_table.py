"""Policies side by side over seeds: which runs that takes, what one comes to, and the table of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from .fields import ScenarioError
from .intervals import Again, difference, interval
from .measures import MEASURES, Measure, Measures, measure
from .named_policies import NamedPolicy
from .placements import with_placement
from .resampled import Chance as Drawing
from .resampled import can_be_resampled, resampled
from .sampled import SampledWorld
from .scenario import Scenario
from .variants import Chance as Moving
from .variants import jittered, with_policy
from .world import Progress

MOST_RUNS = 400
"""Of one comparison: policies times seeds."""


class Chance(Drawing, Moving, Protocol):
    """What makes another seed's work: `random.Random`."""


def check_number(policies: int, seeds: int) -> None:
    """Refuse too few runs, or too many.

    Raises:
        ScenarioError: at "policy" or "seeds".
    """
    if not policies:
        raise ScenarioError("policy", "at least one is needed")
    if seeds < 1:
        raise ScenarioError("seeds", f"must be at least 1, but is {seeds}")
    if policies * seeds > MOST_RUNS:
        raise ScenarioError("seeds", f"{policies} policies times {seeds} seeds are more than {MOST_RUNS} runs")


def check(scenario: Scenario, policies: Sequence[NamedPolicy]) -> None:
    """Refuse policies that the scenario can't be simulated under, before anything is.

    Raises:
        ScenarioError: names the policy and the knob.
    """
    for policy in policies:
        try:
            under(scenario, policy)
        except ScenarioError as error:
            raise ScenarioError(policy.name, str(error)) from None


def under(scenario: Scenario, policy: NamedPolicy) -> Scenario:
    """A scenario under a policy's knobs and placement.

    Raises:
        ScenarioError: names the knob or the placement.
    """
    return with_placement(with_policy(scenario, policy.knobs), policy.placement)


def how_again(scenario: Scenario, seeds: int) -> Again:
    """What the seeds after the first are, of one scenario."""
    if seeds == 1:
        return Again.ALONE
    return Again.DRAWN if can_be_resampled(scenario) else Again.MOVED


def again(scenario: Scenario, how: Again, chance: Chance | None) -> Scenario:
    """The scenario of a seed; without chance, the first's."""
    if chance is None or how in (Again.ALONE, Again.INVENTED):
        return scenario
    return resampled(scenario, chance) if how is Again.DRAWN else jittered(scenario, chance)


def run(scenario: Scenario, policy: NamedPolicy, on_progress: Progress | None = None) -> Measures:
    """Simulate a scenario under a policy, and measure."""
    world = SampledWorld(under(scenario, policy), on_progress)
    world.run()
    return measure(world.outcome, world.samples)


Line = Mapping[str, Mapping[str, Any] | None]
"""Of one policy, by measure: {value, low, high, runs, difference: {value, low, high, runs} or None}, or None."""


def table(by_policy: Sequence[Sequence[Measures | None]], how: Again) -> list[Line]:
    """A line for each policy; differences are to the first.

    Args:
        by_policy: the measures of each policy by seed, the seeds in one order; None for a run that is not over.
        how: what the seeds after the first are.
    """
    base = by_policy[0] if by_policy else []

    def line(place: int, runs: Sequence[Measures | None]) -> dict[str, Mapping[str, Any] | None]:
        found: dict[str, Mapping[str, Any] | None] = {}
        for each in MEASURES:
            values, others = _of(runs, each.name), _of(base, each.name)
            told = interval(values, how)
            apart = difference(values, others, how) if place else None
            found[each.name] = (
                None if told is None else {**told._asdict(), "difference": None if apart is None else apart._asdict()}
            )
        return found

    return [line(place, runs) for place, runs in enumerate(by_policy)]


def _of(runs: Sequence[Measures | None], name: str) -> list[float | None]:
    return [None if run is None else run.get(name) for run in runs]  # stored runs may be older than a measure


def is_clear(apart: Mapping[str, Any] | None) -> bool:
    """Whether a difference's interval leaves nought out."""
    return apart is not None and apart["low"] is not None and (apart["low"] > 0 or apart["high"] < 0)


def is_better(measure: Measure, apart: Mapping[str, Any]) -> bool:
    """Whether a difference is to the side that is wanted."""
    return (apart["value"] < 0) == (measure.better == "less")


COLUMNS = ("policy", "figure", "unit", "value", "low", "high", "runs", "difference", "difference_low",
           "difference_high")  # fmt: skip
"""Of the table as rows; "low" and "high" are the bounds of 95 % intervals."""


def rows(names: Sequence[str], lines: Sequence[Line]) -> Iterator[tuple[Any, ...]]:
    """A row for each policy and figure that has a value."""
    for name, line in zip(names, lines, strict=True):
        for each in MEASURES:
            told = line[each.name]
            if told is not None:
                apart = told["difference"] or {"value": None, "low": None, "high": None}
                yield (name, each.name, each.unit, told["value"], told["low"], told["high"], told["runs"],
                       apart["value"], apart["low"], apart["high"])  # fmt: skip
