"""Tables of `manage.py reproduce` for people at a terminal, and rows for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scheduler.management.tables import duration_text
from scheduler.simulator.lab import Assumptions
from scheduler.simulator.reproduce import Line, Row
from scheduler.simulator.reproduce.sensitivity import Change
from scheduler.simulator.reproduce.systems import System, SystemRow

SHOWN_IN_SENSITIVITY = (
    "occupancy",
    "delivery",
    "worst_team",
    "unallocated",
    "debug_p90_s",
    "wait_median_s",
    "large_p90_s",
)


def value_text(line: Line, value: float | None) -> str:
    """A value in its unit; "–" where there is none."""
    if value is None:
        return "–"
    if line.unit == "part":
        return f"{100 * value:.1f} %"
    if line.unit == "s":
        return duration_text(round(value))
    return f"{value:.2f}" if line.unit == "x" else f"{value:g}"


def print_table(write: Callable[[str], object], rows: Sequence[Row]) -> None:
    """A line per published figure: published, ours with its spread over the seeds, priority, bounds kept."""
    write(f"{'':54}{'published':>12}{'ours, median':>15}{'least':>15}{'most':>15}{'priority':>15}  bounds kept")
    for row in rows:
        line = row.line
        spread = (min(row.known), max(row.known)) if row.known else (None, None)
        cells = "".join(f"{value_text(line, value):>15}" for value in (row.median, *spread, row.beside))
        is_bound = line.least is not None or line.most is not None
        kept = f"{row.met} of {len(row.values)}" if is_bound else ""
        write(f"{line.label:54}{line.published:>12}{cells}  {kept}".rstrip())


def print_system(write: Callable[[str], object], system: System, rows: Sequence[SystemRow]) -> None:
    """A line for each figure: published, ours with its spread over the seeds, the bound; remarks below."""
    seeds = f"; {system.seeds} seeds, the median (least to most)" if system.seeds else ""
    write("")
    write(f"{system.title}{seeds}")
    width = max(len(row.figure) for row in rows)
    published = max(len(row.published) for row in rows)
    ours = max(len(row.ours) for row in rows)
    for row in rows:
        bound = f"{row.bound}: {'kept' if row.kept else 'NOT kept'}" if row.bound else ""
        write(f"  {row.figure:{width}}  {row.published:>{published}}  {row.ours:>{ours}}  {bound}".rstrip())
    for remark in dict.fromkeys(row.remark for row in rows if row.remark):
        write(f"  - {remark}")


def system_as_json(name: str, system: System, rows: Sequence[SystemRow]) -> dict[str, Any]:
    """A system for programs."""
    return {
        "system": name,
        "title": system.title,
        "seeds": system.seeds,
        "rows": [row._asdict() for row in rows],
    }


def row_as_json(row: Row) -> dict[str, Any]:
    """One row for programs: times in seconds, parts of one."""
    return {
        "figure": row.line.name,
        "label": row.line.label,
        "unit": row.line.unit,
        "published": row.line.published,
        "least": row.line.least,
        "most": row.line.most,
        "values": list(row.values),
        "median": row.median,
        "priority": row.beside,
        "met": row.met,
    }


def print_sensitivity(write: Callable[[str], object], base: Sequence[Row], changes: Sequence[Change]) -> None:
    """A line per assumption and factor, the base first; the figures that no longer keep their bounds are named."""
    assumptions = {each.name: (each.metadata, value) for each, value in Assumptions()}
    lines = {row.line.name: row.line for row in base}
    write(
        f"{'assumption':22}{'value':>10} {'unit':18}"
        + "".join(f"{name:>16}" for name in SHOWN_IN_SENSITIVITY)
        + "  lost"
    )

    def cells(medians: dict[str, float | None]) -> str:
        return "".join(f"{value_text(lines[name], medians[name]):>16}" for name in SHOWN_IN_SENSITIVITY)

    write(f"{'as assumed':22}{'':>10} {'':18}" + cells({row.line.name: row.median for row in base}))
    for change in changes:
        variation = change.variation
        metadata, value = assumptions[variation.name]
        head = f"{variation.name:22}{value * variation.factor:>10g} {metadata['unit']:18}"
        write((head + cells(change.medians) + "  " + ", ".join(change.lost)).rstrip())
