"""Fragmentation: how large a gang could start, against what is free or could be freed, and how long large ones wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.engine import Packing

from ..records import Outcome
from ..report import LARGE_PART, metrics, percentile
from ..sampled import Sample, SampledWorld
from ..scenario import Scenario
from ..variants import with_policy
from .spread import least_middle_most

HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a scenario.

    Attributes:
        factor: what is varied: "max contract", "reservations" or "packing".
        value: its value, as people say it.
        knobs: what of the policy is changed, in the words of a file.
        packing: on which node a small workload goes; None is as the scenario says.
    """

    factor: str
    value: str
    knobs: Mapping[str, object]
    packing: Packing | None = None


MAX_CONTRACT_HOURS = (1, 2, 4, 8, 16, 24)
RESERVATIONS = (0, 1, 2, 4, 8, 16)
BASE = Variant("base", "as the scenario says", {})


def variants() -> list[Variant]:
    """Each factor by itself, the others as the scenario has them."""
    return [
        BASE,
        *(Variant("max contract", f"{hours} h", {"min_runtime_max_s": hours * HOUR_S}) for hours in MAX_CONTRACT_HOURS),
        *(Variant("reservations", str(number), {"reservations": number}) for number in RESERVATIONS),
        *(Variant("packing", packing.value.replace("_", " "), {}, packing) for packing in Packing),
    ]


def varied(scenario: Scenario, variant: Variant) -> Scenario:
    """The scenario under a variant's policy; contracts that had been as long as allowed grow and shrink with the bound.

    Raises:
        ScenarioError: a knob is out of its bounds.
    """
    contracts = replace(scenario, scheduler="contracts", packing=variant.packing or scenario.packing)
    return with_policy(contracts, variant.knobs) if variant.knobs else contracts


def run(scenario: Scenario, variant: Variant) -> dict[str, Any]:
    """Simulate one variant; its figures, all JSON-able (`samples` only of the base)."""
    world = SampledWorld(varied(scenario, variant))
    world.run()
    found = figures(world.outcome, world.samples)
    if variant.factor == BASE.factor:
        found["samples"] = [list(each) for each in world.samples]
    return found


def figures(outcome: Outcome, samples: Sequence[Sample]) -> dict[str, Any]:
    """What a run says about fragmentation.

    `usable` is the mean over the hours of the largest gang over what is free and interruptible: 1 where a single gang
    could have all of it. `largest` is the median largest gang over the fit devices, `could` what is free and
    interruptible over them. Waits in seconds; of the large that never started, the wait up to the end counts.
    """
    whole = metrics(outcome)
    waits_s = large_waits_s(outcome)
    parts = [each for each in samples if each.fit_milli]
    could = [each for each in parts if each.free_milli + each.interruptible_milli]
    return {
        "occupancy": whole["occupancy"],
        "delivery": whole["delivery"],
        "preemptions": whole["preemptions"],
        "debug_p90_s": whole["waits"]["debug"]["p90_s"],
        "large": len(waits_s),
        "large_unstarted": sum(1 for _, has_started in waits_s if not has_started),
        "large_median_s": percentile([wait_s for wait_s, _ in waits_s], 50),
        "large_p90_s": percentile([wait_s for wait_s, _ in waits_s], 90),
        "usable": _mean([each.largest_milli / (each.free_milli + each.interruptible_milli) for each in could]),
        "usable_free": _mean([each.largest_free_milli / each.free_milli for each in parts if each.free_milli]),
        "could": _mean([(each.free_milli + each.interruptible_milli) / each.fit_milli for each in parts]),
        "largest": _mean([each.largest_milli / each.fit_milli for each in parts]),
    }


def large_waits_s(outcome: Outcome) -> list[tuple[int, bool]]:
    """For each funded large gang that was submitted: its wait so far, and whether it started."""
    total_milli = sum(node.capacity_milli for node in outcome.scenario.nodes)
    found = []
    for record in outcome.jobs:
        job = record.job
        if not job.min_runtime_s or job.size_milli * LARGE_PART < total_milli or record.state is None:
            continue
        if record.first_start_s is not None:
            found.append((record.first_start_s - record.submitted_s, True))
        elif record.state == "queued":
            found.append((outcome.end_s - record.submitted_s, False))
    return found


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


TOLD = ("large_median_s", "large_p90_s", "usable", "could", "largest", "occupancy", "delivery", "debug_p90_s")
"""The figures of `table`, each with its spread."""


def table(results: Sequence[tuple[Variant, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """A line for each variant: of each figure the least, the median (nearest rank) and the most over the scenarios."""
    by_variant: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for variant, found in results:
        by_variant.setdefault((variant.factor, variant.value), []).append(found)
    lines = []
    for (factor, value), all_found in by_variant.items():
        line: dict[str, Any] = {"factor": factor, "value": value, "scenarios": len(all_found)}
        for name in TOLD:
            line[name] = least_middle_most(found[name] for found in all_found)
        line["large"] = sum(found["large"] for found in all_found)
        line["large_unstarted"] = sum(found["large_unstarted"] for found in all_found)
        lines.append(line)
    return lines
