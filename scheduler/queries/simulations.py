"""Simulations as pages and API show them: lists, how far each is, and variants side by side."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from budgets.authority import INSIDE_ROLES, may, nodes_with
from budgets.models import BudgetNode, Person
from scheduler.authority import is_operator
from scheduler.models import Simulation, SimulationPart
from scheduler.simulator import policy_table
from scheduler.simulator.comparison import CLASSES
from scheduler.simulator.intervals import Again
from scheduler.simulator.policy_table import Line
from scheduler.simulator.scenario import ROOT
from scheduler.simulator.sweeps import KNOBS, said, table

HEAVY = ("scenario", "measured")
"""Columns of a simulation that lists and progress leave in the database."""
MOST_NODES_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the whole is: 0 to 100, the mean of its parts; `done` of `parts` are over."""

    percent: int
    done: int
    parts: int


@dataclass(frozen=True, slots=True)
class WaitLine:
    """One class of work, with {count, median_s, p90_s} for each part, None for one that has not finished."""

    name: str
    waits: Sequence[Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class NodeLine:
    """One budget node: what was charged to it in each part (None: not finished), and each part's change from the base.

    `deliveries` are what of its owed time it was given, 0 to 1. `depth` is 0 below the root.
    """

    code: str
    depth: int
    is_leaf: bool
    node: BudgetNode | None
    charged_milli_s: Sequence[int | None]
    changes_milli_s: Sequence[int | None]
    deliveries: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Sides:
    """Parts side by side.

    Attributes:
        parts: what really happened first, where it is history, then the variants.
        base: the index of the part that the others are compared with: the first variant that changes nothing, or the
            first of all; None while it has not finished. Where it came to nothing, the first that has finished.
        waits: "all", then each class that has work.
        charged_milli_s: of the whole tree, in each part; None for one that has not finished.
        nodes: as they hang, of siblings first those that lose most.
        off: how far the replay of things as they were is off, None where that is not known.
    """

    parts: Sequence[SimulationPart]
    base: int | None
    waits: Sequence[WaitLine]
    charged_milli_s: Sequence[int | None]
    nodes: Sequence[NodeLine]
    off: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SweepLine:
    """One value of a swept knob, as people say it; `spreads` are [least, median, most] by column, None without any."""

    value: int
    title: str
    runs: int
    wanted: int
    spreads: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PoliciesCompared:
    """Policies over seeds; the others are compared with the first.

    Attributes:
        policies: their names.
        seeds: how many runs each has.
        again: what the seeds after the first are.
        lines: `policy_table.table`, a line for each policy.
        done: how many runs of each have finished.
        real: the measures of what really happened, where it is history.
    """

    policies: Sequence[str]
    seeds: int
    again: Again
    lines: Sequence[Line]
    done: Sequence[int]
    real: Mapping[str, Any] | None


def visible(person: Person) -> QuerySet[Simulation]:
    """What the person may see, the latest first, without what is heavy."""
    rows = Simulation.objects.defer(*HEAVY).select_related("made_by", "cluster", "parent")
    if is_operator.test(person, None):
        return rows
    theirs = rows.filter(parent=None) | rows.filter(made_by=person)
    return theirs | rows.filter(parent__path__overlap=nodes_with(person, INSIDE_ROLES))


def pickable(person: Person, limit: int) -> list[tuple[int, str]]:
    """Number and title of the latest simulations that the person may see and whose scenario there is. One query."""
    rows = visible(person).exclude(scenario=None).exclude(kind=Simulation.Kind.WHAT_IF)
    return list(rows.values_list("pk", "title")[:limit])


def scenario_of(person: Person, number: int) -> str | None:
    """The scenario file of a simulation that the person may see; None where there is none."""
    row = named(person, number)
    stored = None if row is None else Simulation.objects.values_list("scenario", flat=True).get(pk=row.pk)
    return None if stored is None else zlib.decompress(bytes(stored)).decode()


def named(person: Person, number: int) -> Simulation | None:
    """The simulation of that number, if it is there and the person may see it."""
    rows = Simulation.objects.defer(*HEAVY).select_related("made_by", "cluster", "parent")
    row = rows.filter(pk=number).first()
    return row if row is not None and may(person, "simulation.see", row) else None


def parts_of(simulation: Simulation) -> list[SimulationPart]:
    """Its parts in order, without their runs. One query."""
    return list(SimulationPart.objects.filter(simulation=simulation).defer("runs", "overview").order_by("number"))


def parts_of_many(simulations: Sequence[Simulation]) -> dict[int, list[SimulationPart]]:
    """The parts of several, with what says how far they are. One query."""
    found: dict[int, list[SimulationPart]] = {row.pk: [] for row in simulations}
    rows = SimulationPart.objects.filter(simulation__in=found).only("simulation", "number", "state", "progress_percent")
    for part in rows.order_by("number"):
        found[part.simulation_id].append(part)
    return found


def may_cancel(person: Person, simulation: Simulation) -> bool:
    """Whether it is the person's to cancel, or to try again."""
    return may(person, "simulation.cancel", simulation)


def flat(figures: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    """Every number with its name ("waits.debug.p90_s"), in the order of `comparison.figures`."""
    for name, value in (figures or {}).items():
        if isinstance(value, Mapping):
            for inner, deeper in flat(value):
                yield f"{name}.{inner}", deeper
        elif not isinstance(value, list):
            yield name, value


def progress(parts: Sequence[SimulationPart]) -> Progress:
    """How far the variants are."""
    variants = [part for part in parts if part.number]
    done = [part for part in variants if part.state not in Simulation.OPEN_STATES]
    percent = sum(100 if part in done else part.progress_percent for part in variants) // max(1, len(variants))
    return Progress(percent, len(done), len(variants))


def sides(simulation: Simulation, parts: Sequence[SimulationPart]) -> Sides:
    """The figures of a comparison, side by side. One query, for names and colours of budget nodes."""
    known = {index: part.figures for index, part in enumerate(parts) if part.figures is not None and part.number}
    unchanged = [index for index, part in enumerate(parts) if part.number and not part.change]
    base = next((index for index in unchanged or range(len(parts)) if parts[index].number), None)
    if base not in known:
        base = next(iter(known), None) if simulation.is_over else None
    off = next((known[index].get("off") for index in unchanged if index in known), None)
    charged = [None if part.figures is None else part.figures["nodes"][ROOT]["charged_milli_s"] for part in parts]
    return Sides(parts, base, _waits(parts), charged, _nodes(parts, base), off)


def _waits(parts: Sequence[SimulationPart]) -> list[WaitLine]:
    lines = []
    for name in ("all", *CLASSES):
        waits = [None if part.figures is None else part.figures["waits"][name] for part in parts]
        if name == "all" or any(each is not None and each["count"] for each in waits):
            lines.append(WaitLine(name, waits))
    return lines


def _nodes(parts: Sequence[SimulationPart], base: int | None) -> list[NodeLine]:
    """Budget nodes as they hang, of siblings first those that lose most in any variant."""
    if base is None:
        return []
    told: list[Mapping[str, Any] | None] = [None if part.figures is None else part.figures["nodes"] for part in parts]
    then = told[base] or {}
    children: dict[str, list[str]] = {}
    for code, figures in then.items():
        if figures["parent"] is not None:
            children.setdefault(figures["parent"], []).append(code)

    def changes(code: str) -> list[int | None]:
        before = then[code]["charged_milli_s"]
        return [None if each is None else each[code]["charged_milli_s"] - before for each in told]

    def most_lost(code: str) -> tuple[int, str]:
        return min(change or 0 for part, change in zip(parts, changes(code), strict=True) if part.number), code

    rows = {row.code: row for row in BudgetNode.objects.filter(code__in=list(then))}
    lines: list[NodeLine] = []
    stack = [(code, 0) for code in sorted(children.get(ROOT, []), key=most_lost, reverse=True)]
    while stack and len(lines) < MOST_NODES_SHOWN:
        code, depth = stack.pop()
        below = children.get(code, [])
        charged = [None if each is None else each[code]["charged_milli_s"] for each in told]
        deliveries = [None if each is None else each[code]["delivery"] for each in told]
        lines.append(NodeLine(code, depth, not below, rows.get(code), charged, changes(code), deliveries))
        stack += [(child, depth + 1) for child in sorted(below, key=most_lost, reverse=True)]
    return lines


def policies_compared(simulation: Simulation, parts: Sequence[SimulationPart]) -> PoliciesCompared:
    """Policies side by side, over the runs that have finished."""
    names: list[str] = simulation.asked["policies"]
    seeds: int = simulation.asked["seeds"]
    runs: list[list[Mapping[str, Any] | None]] = [[None] * seeds for _ in names]
    real = None
    for part in parts:
        if not part.number:
            real = part.figures
        else:
            seed, place = divmod(part.number - 1, len(names))
            runs[place][seed] = part.figures
    again = Again(simulation.asked.get("again", Again.ALONE))
    done = [sum(run is not None for run in of_it) for of_it in runs]
    return PoliciesCompared(names, seeds, again, policy_table.table(runs, again), done, real)


def sweep_lines(simulation: Simulation, parts: Sequence[SimulationPart]) -> list[SweepLine]:
    """A line for each value of the knob, over the seeds that have finished."""
    knob = KNOBS[simulation.asked["knob"]]
    rows = [
        (part.change["policy"][knob.name], part.figures) for part in parts if part.number and part.figures is not None
    ]
    told = {line["value"]: line for line in table(rows)}
    return [
        SweepLine(
            value=value,
            title=said(knob, value),
            runs=told[value]["runs"] if value in told else 0,
            wanted=simulation.asked["seeds"],
            spreads=told.get(value, {}),
        )
        for value in simulation.asked["values"]
    ]
