"""What the page of a simulation shows, as finished texts: variants side by side, and sweeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.utils.translation import gettext, gettext_lazy

from budgets.models import BudgetNode, Cluster
from portal import formats
from portal.csv_files import Cell
from scheduler.models import Simulation, SimulationPart
from scheduler.queries.simulations import NodeLine, Sides, SweepLine, WaitLine, flat
from scheduler.simulator.sweeps import KNOBS

CLASS_WORDS = {
    "all": gettext_lazy("all work"),
    "debug": "debug",
    "standard": "medium",
    "large": gettext_lazy("large gangs"),
    "unallocated": "unallocated",
}
"""Classes of work as pages call them (semantics.md section 10)."""
CSV_HEADER = ("number", "variant", "state", "figure", "value")
NOTEWORTHY_S = 60
"""A wait that is not at least this much longer or shorter is not called better or worse."""
NAMED_IN_SENTENCE = 3
SWEEP_COLUMNS = (
    ("occupancy", gettext_lazy("Occupancy, %")),
    ("delivery", gettext_lazy("Impact, %")),
    ("preemptions", gettext_lazy("Preemptions")),
    ("debug_median_s", gettext_lazy("Debug, median wait")),
    ("debug_p90_s", gettext_lazy("Debug, 9 in 10 within")),
    ("large_median_s", gettext_lazy("Large, median wait")),
    ("large_p90_s", gettext_lazy("Large, 9 in 10 within")),
)
"""Columns of a sweep's table on the page; the CSV has all."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A cell: its text, a second line below it, and "better" or "worse" where one really is."""

    text: str
    below: str = ""
    tone: str = ""


NOTHING = Entry(formats.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Line:
    """A row: what it is about, and a cell for each variant. `node` has a chip."""

    name: str
    entries: Sequence[Entry]
    below: str = ""
    node: BudgetNode | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Told:
    """The variants as columns, and the tables; `sentence` is the answer, `off` says how far the replay is off."""

    columns: Sequence[SimulationPart]
    base: int | None
    sentence: str
    off: str
    figures: Sequence[Line]
    waits: Sequence[Line]
    nodes: Sequence[Line]


def told(sides: Sides, cluster: Cluster | None) -> Told:
    """Everything about a comparison."""
    unit = Cluster.Unit.GPU if cluster is None else cluster.unit
    return Told(
        columns=sides.parts,
        base=sides.base,
        sentence=_sentence(sides, unit),
        off=_off(sides),
        figures=_figures(sides),
        waits=[_waits(line, sides) for line in sides.waits],
        nodes=[_node(line, sides) for line in sides.nodes],
    )


# --- sentences --------------------------------------------------------------------------------------------------------


def _sentence(sides: Sides, unit: str) -> str:
    """The answer: what the first other variant changes, or what the only one came to."""
    if sides.base is None:
        return ""
    others = [index for index, part in enumerate(sides.parts) if part.number and index != sides.base and part.figures]
    if not others:
        return f"{_upper(sides.parts[sides.base].name)}: {_waits_said(sides, sides.base, None)}."
    other = others[0]
    changes = sorted(
        (line for line in sides.nodes if line.is_leaf and _hours(line.changes_milli_s[other])),
        key=lambda line: (-abs(line.changes_milli_s[other] or 0), line.code),
    )
    said = [_change_said(line, other) for line in changes[:NAMED_IN_SENTENCE]]
    who = f"{'; '.join(said)} ({formats.hours_word(unit)}). " if said else gettext("Nobody gets more or less.") + " "
    return f"{_upper(sides.parts[other].name)}: {who}{_upper(_waits_said(sides, other, sides.base))}."


def _hours(milli_s: int | None) -> int:
    return 0 if milli_s is None else round(milli_s / formats.MILLI_S_PER_HOUR)


def _change_said(line: NodeLine, index: int) -> str:
    hours = _hours(line.changes_milli_s[index])
    said = gettext("{node} gets {hours} more") if hours > 0 else gettext("{node} gets {hours} less")
    return said.format(node=line.code, hours=formats.count(abs(hours)))


def _waits_said(sides: Sides, index: int, base: int | None) -> str:
    """How long debug runs and large gangs wait, beside how long they do in the base."""
    said = []
    for line in sides.waits:
        waits = line.waits[index]
        if line.name in ("debug", "large") and waits is not None and waits["count"]:
            name = {"debug": gettext("debug runs"), "large": gettext("large gangs")}[line.name]
            then = None if base is None else line.waits[base]
            wait = formats.duration(waits["median_s"])
            said.append(gettext("{who} wait {wait}{beside}").format(who=name, wait=wait, beside=_beside(waits, then)))
    return (
        gettext("{waits}, in the median").format(waits=formats.joined(said))
        if said
        else gettext("no debug run and no large gang started")
    )


def _beside(waits: Mapping[str, Any], then: Mapping[str, Any] | None) -> str:
    if then is None or not then["count"]:
        return ""
    was, now = formats.duration(then["median_s"]), formats.duration(waits["median_s"])
    return gettext(" as before") if was == now else gettext(" instead of {was}").format(was=was)


def _upper(sentence: str) -> str:
    """With a capital letter, the rest as it stands: names keep theirs."""
    return sentence[:1].upper() + sentence[1:]


def _off(sides: Sides) -> str:
    off = sides.off
    if off is None or not off["compared"]:
        return ""
    half, most = formats.duration(off["median_off_s"]), formats.duration(off["p90_off_s"])
    return gettext(
        "Replayed as they were, half of {off} workloads wait within {half} of what they really "
        "waited, nine in ten within {most}."
    ).format(off=formats.count(off["compared"]), half=half, most=most)


# --- tables -----------------------------------------------------------------------------------------------------------


def _figures(sides: Sides) -> list[Line]:
    ratios = (
        ("delivery", gettext("Impact, %"), gettext("of what was owed, given")),
        ("occupancy", gettext("Occupancy, %"), gettext("of healthy devices, held")),
        ("unallocated_share", gettext("Unallocated, %"), gettext("of what was held")),
    )
    counts = (
        ("preemptions", gettext("Preemptions"), ""),
        ("started", gettext("Workloads started"), ""),
        ("ended", gettext("Workloads ended"), ""),
    )
    times = (
        ("mean_s", gettext("Completion, mean"), gettext("from submission to end, of what finished")),
        ("p90_s", gettext("Completion, 9 in 10 within"), ""),
    )
    lines = [Line(title, [_ratio(part, name) for part in sides.parts], below) for name, title, below in ratios]
    lines += [Line(title, [_count(part, name) for part in sides.parts], below) for name, title, below in counts]
    lines += [Line(title, [_completion(part, name) for part in sides.parts], below) for name, title, below in times]
    below = gettext("times as long as with a fair share apart; 1 or less is fair")
    return [*lines, Line(gettext("Finish-time fairness ρ, worst"), [_rho(part) for part in sides.parts], below)]


def _completion(part: SimulationPart, name: str) -> Entry:
    seconds = (part.figures or {}).get("completion", {}).get(name)
    return NOTHING if seconds is None else Entry(formats.duration(round(seconds)))


def _rho(part: SimulationPart) -> Entry:
    worst = (part.figures or {}).get("rho", {}).get("max")
    return NOTHING if worst is None else Entry(f"{worst:.2f}")


def _ratio(part: SimulationPart, name: str) -> Entry:
    if part.figures is None or part.figures[name] is None:
        return NOTHING
    return Entry(f"{100 * part.figures[name]:.1f}")


def _count(part: SimulationPart, name: str) -> Entry:
    return NOTHING if part.figures is None else Entry(formats.count(part.figures[name]))


def _waits(line: WaitLine, sides: Sides) -> Line:
    then = None if sides.base is None else line.waits[sides.base]
    entries = []
    for part, waits in zip(sides.parts, line.waits, strict=True):
        if waits is None or not waits["count"]:
            entries.append(NOTHING)
            continue
        median, p90 = formats.duration(waits["median_s"]), formats.duration(waits["p90_s"])
        entries.append(
            Entry(median, gettext("9 in 10 within {wait}").format(wait=p90), _tone(waits, then) if part.number else "")
        )
    counts = {waits["count"] for waits in line.waits if waits is not None}
    least, most = formats.count(min(counts)), formats.count(max(counts))
    started = least if len(counts) == 1 else gettext("{start} to {end}").format(start=least, end=most)
    return Line(str(CLASS_WORDS[line.name]), entries, gettext("{count} started").format(count=started))


def _tone(waits: Mapping[str, Any], then: Mapping[str, Any] | None) -> str:
    """Better or worse than the base by at least a minute and a tenth, in the median."""
    if then is None or not then["count"]:
        return ""
    change_s = waits["median_s"] - then["median_s"]
    if abs(change_s) < NOTEWORTHY_S or abs(change_s) * 10 < then["median_s"]:
        return ""
    return "worse" if change_s > 0 else "better"


def _node(line: NodeLine, sides: Sides) -> Line:
    entries = []
    for index, charged in enumerate(line.charged_milli_s):
        if charged is None:
            entries.append(NOTHING)
            continue
        delivery, whole = line.deliveries[index], sides.charged_milli_s[index]
        below = (
            gettext("asked for nothing")
            if delivery is None
            else gettext("{share} of owed").format(share=formats.measured_percent(Fraction(delivery)))
        )
        if whole:
            below = gettext("{share} of all; {below}").format(
                share=formats.measured_percent(Fraction(charged) / Fraction(whole)), below=below
            )
        if index != sides.base and sides.parts[index].number:
            below = f"{_signed(_hours(line.changes_milli_s[index]))}; {below}"
        entries.append(Entry(formats.count(_hours(charged)), below))
    return Line(line.code, entries, node=line.node, depth=line.depth)


def _signed(number: int) -> str:
    sign = "+" if number > 0 else "−" if number < 0 else ""
    return f"{sign}{formats.count(abs(number))}"


@dataclass(frozen=True, slots=True)
class SweepTable:
    """A sweep: the knob, the titles of the columns, and for each value how many of its runs are over, and cells."""

    knob: str
    titles: Sequence[str]
    lines: Sequence[Line]


def sweep_table(row: Simulation, lines: Sequence[SweepLine]) -> SweepTable:
    """Medians, with the spread below where there is one."""
    told = [
        Line(
            line.title,
            [_spread(name, line.spreads.get(name)) for name, _ in SWEEP_COLUMNS],
            "" if line.wanted == 1 else gettext("{done} of {wanted} runs").format(done=line.runs, wanted=line.wanted),
        )
        for line in lines
    ]
    return SweepTable(gettext(KNOBS[row.asked["knob"]].title), [str(title) for _, title in SWEEP_COLUMNS], told)


def _spread(name: str, spread: Sequence[Any] | None) -> Entry:
    if spread is None:
        return NOTHING
    least, median, most = (_text(name, value) for value in spread)
    return Entry(median, "" if least == most else f"{least} to {most}")


def _text(name: str, value: Any) -> str:
    if name.endswith("_s"):
        return formats.duration(value)
    return formats.count(value) if isinstance(value, int) else f"{100 * value:.1f}"


def csv_rows(parts: Sequence[SimulationPart]) -> Iterator[Sequence[Cell]]:
    """A row for each variant and figure: times in seconds, device time in thousandths times seconds, ratios 0 to 1."""
    for part in parts:
        for name, value in flat(part.figures):
            exact = Decimal(f"{value:.6f}") if isinstance(value, float) else value
            yield part.number, part.name, part.state, name, exact
