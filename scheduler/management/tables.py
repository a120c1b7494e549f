"""Tables of a simulation for people at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from scheduler.simulator.finish_times import completion, rho
from scheduler.simulator.records import Outcome
from scheduler.simulator.report import metrics, run_rows

MOST_RUNS_SHOWN = 40


def duration_text(seconds: int | None) -> str:
    """The two largest units of a duration: "2 h 15 min"; "–" where there is none."""
    if seconds is None:
        return "–"
    parts = []
    for name, unit_s in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, seconds = divmod(seconds, unit_s)
        if number:
            parts.append(f"{number} {name}")
    return " ".join(parts[:2]) or "0 s"


def _percent(part: float | None) -> str:
    return "–" if part is None else f"{100 * part:.1f} %"


def print_result(write: Callable[[str], object], outcome: Outcome) -> None:
    """The figures, a line per budget node, and for a small scenario its runs."""
    figures = metrics(outcome)
    write(f"{outcome.scenario.name or 'scenario'}: {len(outcome.jobs):,} workloads, {len(outcome.runs):,} runs")
    write(f"  ended at      {duration_text(figures['end'])}")
    write(f"  availability  {_percent(figures['availability'])}")
    write(f"  occupancy     {_percent(figures['occupancy'])}")
    write(f"  delivery      {_percent(figures['delivery'])}")
    write(f"  unallocated   {_percent(figures['unallocated_share'])} of what was held")
    write(f"  preemptions   {figures['preemptions']:,}")
    demand = figures["demand"]
    if demand["median"] is not None:
        spread = f"from {demand['p5']:.2f} to {demand['p95']:.2f} in nine hours of ten"
        write(f"  demand        {demand['median']:.2f} times the cluster, {spread}")
    finished, fairness = completion(outcome), rho(outcome)
    if finished["mean_s"] is not None:
        p90 = duration_text(finished["p90_s"])
        write(f"  completion    {duration_text(round(finished['mean_s']))} in the mean, nine of ten within {p90}")
    if fairness["max"] is not None:
        write(f"  rho           {fairness['median']:.2f} in the median, {fairness['max']:.2f} at worst")
    write("")
    write(f"  {'waits':14}{'count':>8}{'median':>16}{'90th percentile':>18}")
    for name, waits in figures["waits"].items():
        if waits["count"]:
            median, p90 = duration_text(waits["median_s"]), duration_text(waits["p90_s"])
            write(f"  {name:14}{waits['count']:>8,}{median:>16}{p90:>18}")
    write("")
    write(f"  {'budget node':24}{'charged GPU-h':>16}{'unallocated GPU-h':>19}{'owed GPU-h':>14}{'delivery':>10}")
    for name, node in figures["nodes"].items():
        charged, uncharged, owed = node["charged_gpu_h"], node["uncharged_gpu_h"], node["owed_gpu_h"]
        label = name or "(all)"
        write(f"  {label:24}{charged:>16,.1f}{uncharged:>19,.1f}{owed:>14,.1f}{_percent(node['delivery']):>10}")
    if len(outcome.runs) <= MOST_RUNS_SHOWN:
        _print_runs(write, run_rows(outcome))


def _print_runs(write: Callable[[str], object], runs: Iterable[dict[str, Any]]) -> None:
    write("")
    write(f"  {'run of':16}{'from':>14}{'until':>14}  nodes, and why it ended")
    for run in runs:
        end = "goes on" if run["end"] is None else duration_text(run["end"])
        where = ", ".join(f"{name}: {amount}" for name, amount in run["nodes"].items())
        by = f" by {run['preempted_by']}" if run["preempted_by"] else ""
        why = f"; {run['end_reason']}{by}" if run["end_reason"] else ""
        write(f"  {run['workload']:16}{duration_text(run['start']):>14}{end:>14}  {where}{why}")
