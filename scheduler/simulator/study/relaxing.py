"""Relaxing locality: what waits become shorter by spreading gangs over more nodes, and what that costs in GPU-hours.

Where a scenario's nodes are in several racks, rails or leaves, also how close together gangs ran in each way, beside
the same where a scheduler does not know of rails and leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from scheduler.engine import Node, locality

from .. import finish_times
from ..placements import with_locality
from ..records import JobRecord, Outcome
from ..report import percentile
from ..scenario import Scenario
from ..world import simulate
from . import charts
from .page import Table, as_file, as_table, percent
from .spread import least_middle_most

LABEL_WIDTH = 220


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a scenario: without levels, or with all owners allowing one. `level` is None without.

    With `blind` the scheduler is not told of rails and leaves.
    """

    name: str
    level: int | None
    blind: bool = False


VARIANTS = (
    Variant("off: any rack at once", None),
    Variant("0: one rack", locality.ONE_RACK),
    Variant("1: then any rack", locality.ANY_RACK),
    Variant("2: then up to twice the nodes", locality.TWICE),
    Variant("3: then any number of nodes", locality.ANYWHERE),
    Variant("1, blind to rails and leaves", locality.ANY_RACK, blind=True),
)


def variants(scenario: Scenario) -> Sequence[Variant]:
    """Those that differ in a scenario."""
    says = any(node.rail or node.leaf for node in scenario.nodes)
    return [each for each in VARIANTS if says or not each.blind]


def varied(scenario: Scenario, variant: Variant, *, spreading_cost: bool = True) -> Scenario:
    """The scenario under contracts, relaxed so."""
    relaxed = replace(with_locality(scenario, variant.level), scheduler="contracts")
    if variant.blind:
        relaxed = replace(relaxed, nodes=[replace(node, rail="", leaf="") for node in relaxed.nodes])
    return relaxed if variant.level is None else replace(relaxed, spreading_cost=spreading_cost)


def run(scenario: Scenario, variant: Variant, *, spreading_cost: bool = True) -> dict[str, Any]:
    """Simulate one variant; its figures."""
    outcome = simulate(varied(scenario, variant, spreading_cost=spreading_cost), is_explained=False)
    return {"way": variant.name, **figures(outcome), **closeness(outcome, scenario.nodes)}


def figures(outcome: Outcome) -> dict[str, Any]:
    """What a run says: waits until the first start (so far, of who has not started), and what was held for the work.

    Gangs are those larger than a node. `price` is how many times the device time what finished took that it would have
    taken where it is not spread; `spread` the part of starts that were.
    """
    node_milli = max(node.capacity_milli for node in outcome.scenario.nodes)
    came = [record for record in outcome.jobs if record.state not in (None, "refused") and record.submitted_s >= 0]
    waits_s = [_wait_s(record, outcome.end_s) for record in came]
    gangs_s = [_wait_s(record, outcome.end_s) for record in came if record.job.size_milli > node_milli]
    spread = sum(_is_spread(run.holdings, run.job, node_milli) for run in outcome.runs)
    held = [(record, run) for record in outcome.jobs if record.state == "finished" for run in record.runs]
    held_milli_s = sum(run.held_milli_s(outcome.end_s) for _, run in held)
    plain_milli_s = sum(run.held_milli_s(outcome.end_s) * 1_000 / run.price_milli for _, run in held)
    return {
        "wait_mean_s": sum(waits_s) / len(waits_s) if waits_s else None,
        "wait_p90_s": percentile(waits_s, 90),
        "gang_mean_s": sum(gangs_s) / len(gangs_s) if gangs_s else None,
        "gang_p90_s": percentile(gangs_s, 90),
        "completion_mean_s": finish_times.completion(outcome)["mean_s"],
        "finished": sum(record.state == "finished" for record in outcome.jobs),
        "spread": spread / len(outcome.runs) if outcome.runs else None,
        "price": held_milli_s / plain_milli_s if plain_milli_s else None,
        "gpu_h": held_milli_s / 1_000 / 3_600,
    }


def closeness(outcome: Outcome, nodes: Sequence[Node]) -> dict[str, Any]:
    """Which part of the starts of gangs was below one leaf, in one rail and in one rack; None where nothing says so.

    Args:
        outcome: of a run.
        nodes: as they are, whatever its scheduler was told of them.
    """
    by_name = {node.name: node for node in nodes}
    node_milli = max(node.capacity_milli for node in nodes)
    gangs = [run.holdings for run in outcome.runs if run.job.job.size_milli > node_milli]
    found: dict[str, Any] = {"gang_starts": len(gangs)}
    for level in CLOSE:
        domains = {name: getattr(node, level) for name, node in by_name.items()}
        close = sum(len({domains[name] or name for name in held}) == 1 for held in gangs)
        found[f"one_{level}"] = close / len(gangs) if gangs and any(domains.values()) else None
    return found


def _wait_s(record: JobRecord, end_s: int) -> int:
    until_s = record.first_start_s
    if until_s is None:
        until_s = end_s if record.end_s is None else record.end_s
    return until_s - record.submitted_s


def _is_spread(holdings: Mapping[str, int], record: JobRecord, node_milli: int) -> bool:
    return len(holdings) > locality.fewest_nodes(record.job.size_milli, node_milli)


CLOSE = ("leaf", "rail", "rack")
"""The domains of nodes, from the closest."""
TOLD = ("wait_mean_s", "wait_p90_s", "gang_mean_s", "gang_p90_s", "completion_mean_s", "spread", "price", "gpu_h")
"""The figures of `table`, each with its spread over the seeds."""


def table(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line for each variant: of each figure the least, the median and the most over the seeds."""
    found = []
    for variant in VARIANTS:
        mine = [each for each in results if each["way"] == variant.name]
        if not mine:
            continue
        line: dict[str, Any] = {"way": variant.name, "scenarios": len(mine)}
        for name in (*TOLD, *(f"one_{level}" for level in CLOSE)):
            line[name] = least_middle_most(each[name] for each in mine)
        for name in ("finished", "gang_starts"):
            line[name] = sum(each[name] for each in mine)
        found.append(line)
    return found


# --- telling ----------------------------------------------------------------------------------------------------------

HEAD = (
    *("locality", "mean wait", "p90", "gangs: mean wait", "p90", "mean completion", "finished"),
    *("runs spread", "price", "GPU-hours"),
)


def as_json(about: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For programs; all in seconds."""
    return {"study": "locality", "about": about, "rows": table(results), "runs": list(results)}


def tables(results: Sequence[Mapping[str, Any]]) -> list[Table]:
    """All that is printed: medians over the seeds."""
    rows = [
        [
            line["way"],
            *(_minutes(line[name]) for name in TOLD[:5]),
            f"{line['finished']:,}",
            "" if line["spread"] is None else percent(line["spread"][1]),
            "" if line["price"] is None else f"{line['price'][1]:.3f}",
            "" if line["gpu_h"] is None else f"{line['gpu_h'][1]:,.0f}",
        ]
        for line in table(results)
    ]
    waits = Table("Waits and GPU-hours by how far all owners let their work be spread", HEAD, rows)
    close = _closeness_table(results)
    return [waits] if close is None else [waits, close]


def _closeness_table(results: Sequence[Mapping[str, Any]]) -> Table | None:
    """How close together gangs ran; None where no node says where it is."""
    lines = table(results)
    known = [level for level in CLOSE if any(line[f"one_{level}"] for line in lines)]
    if not known:
        return None
    rows = [
        [line["way"], f"{line['gang_starts']:,}"]
        + ["" if (part := line[f"one_{level}"]) is None else percent(part[1]) for level in known]
        for line in lines
    ]
    head = ("locality", "starts of gangs", *(f"in one {level}" for level in known))
    return Table("How close together gangs ran", head, rows)


def _minutes(values: Sequence[float] | None) -> str:
    return "" if values is None else f"{round(values[1] / 60):,} min"


def locality_page(about: str, results: Sequence[Mapping[str, Any]]) -> str:
    """The whole file."""
    lines = table(results)
    body = []
    for name, title in (("gang_mean_s", "Gangs: mean wait"), ("completion_mean_s", "All: mean completion")):
        rows = [charts.Spread(line["way"], [each / 60 for each in line[name]]) for line in lines if line[name]]
        drawn = charts.spreads(title, rows, lambda minutes: f"{minutes:,.0f} min", label_width=LABEL_WIDTH)
        body.append(f"<figure><figcaption>{escape(title)}</figcaption>{drawn}</figure>")
    for each in tables(results):
        body.append(f"<h2>{escape(each.title)}</h2>{as_table(each.head, each.rows)}")
    return as_file("What relaxing locality is worth", about, "".join(body))
