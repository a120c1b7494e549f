"""Whether everything that a scenario names is there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from scheduler.engine import NO_CELLS, CellCounts, fault_in_limits, layout_of, unmatched

from .before import check_room
from .fields import ScenarioError, shown

if TYPE_CHECKING:
    from .scenario import Job, Scenario


def check(scenario: Scenario, also: Collection[str] = ()) -> None:
    """Whether everything that is named exists, and nothing comes after itself; workloads in `also` exist elsewhere.

    Raises:
        ScenarioError: names the key path.
    """
    _check_references(scenario, also)
    _check_after(scenario.jobs)
    _check_limits(scenario)
    _check_cells(scenario)


def _check_references(scenario: Scenario, also: Collection[str]) -> None:
    """Every leaf, node and workload that is named exists."""
    names = {node.id for node in scenario.tree} - {""}
    leaves = names - {node.parent for node in scenario.tree}
    hosts = {node.name for node in scenario.nodes}
    jobs = {job.id for job in scenario.jobs}.union(also)
    for index, use in enumerate(scenario.history):
        _must_be_leaf(use.leaf, f"history[{index}].leaf", names, leaves)
    for index, job in enumerate(scenario.jobs):
        _must_be_leaf(job.leaf, f"workloads[{index}].leaf", names, leaves)
        if job.node is not None and job.node not in hosts:
            raise ScenarioError(f"workloads[{index}].node", f"there is no node {shown(job.node)}")
        if job.after is not None and job.after not in jobs:
            raise ScenarioError(f"workloads[{index}].after", f"there is no workload {shown(job.after)}")
    before = ((f"workloads[{index}].before", job.before) for index, job in enumerate(scenario.jobs) if job.before)
    check_room(before, scenario.nodes)
    if scenario.scheduler == "partition" and any(job.before and job.before.holdings for job in scenario.jobs):
        raise ScenarioError("policy.scheduler", "partition can't begin with work that holds devices on others' slots")
    for index, event in enumerate(scenario.events):
        _must_exist(event.shares, names, f"events[{index}].shares", "budget node")
        _must_exist(event.cells, names, f"events[{index}].cells", "budget node")
        known, key, what = {
            "close": (names, "close", "budget node"),
            "cancel": (jobs, "cancel", "workload"),
            "health": (hosts, "node", "node"),
            "maintenance": (hosts, "node", "node"),
        }.get(event.kind, ({event.subject}, "", ""))
        _must_exist([event.subject], known, f"events[{index}].{key}", what)


def _must_be_leaf(name: str, path: str, names: set[str], leaves: set[str]) -> None:
    if name not in names:
        raise ScenarioError(path, f"there is no leaf {shown(name)} in the tree")
    if name not in leaves:
        raise ScenarioError(path, f"{shown(name)} has children, so it takes no workloads")


def _must_exist(asked: Iterable[str], known: set[str], path: str, what: str) -> None:
    for name in asked:
        if name not in known:
            raise ScenarioError(path, f"there is no {what} {shown(name)}")


def _check_limits(scenario: Scenario) -> None:
    """Minima can be kept."""
    fault = fault_in_limits(scenario.tree, sum(node.capacity_milli for node in scenario.nodes))
    if fault is None:
        return
    needed, room = fault.needed_milli // 1_000, fault.room_milli // 1_000
    raise ScenarioError(
        path_in_tree(scenario, fault.node), f"minima come to {needed:,}, and it may hold {room:,} at most"
    )


def _check_cells(scenario: Scenario) -> None:
    """The cluster has all the cells that are granted, at every time."""
    layout = layout_of(scenario.nodes)
    given = [(f"{path_in_tree(scenario, node.id)}.cells", {node.id: node.cells}) for node in scenario.tree]
    events = sorted(enumerate(scenario.events), key=lambda each: each[1].at_s)
    given += [(f"events[{index}].cells", dict(event.cells)) for index, event in events]
    granted: dict[str, CellCounts] = {}
    for path, cells in given:
        granted |= cells
        missing = (
            unmatched(layout, granted.values()) if any(counts != NO_CELLS for counts in cells.values()) else NO_CELLS
        )
        if missing != NO_CELLS:
            raise ScenarioError(path, f"{_in_words(missing)} more than there are, with those of all others")


def _in_words(counts: CellCounts) -> str:
    """ "1 rack and 2 nodes"."""
    numbers = (("rack", counts.rack), ("node", counts.node))
    return " and ".join(f"{number:,} {level}{'s' if number > 1 else ''}" for level, number in numbers if number)


def path_in_tree(scenario: Scenario, name: str) -> str:
    """Where a budget node stands in the file."""
    parents = {node.id: node.parent for node in scenario.tree}
    names = []
    at = name
    while (parent := parents[at]) is not None:
        names.append(at)
        at = parent
    return "tree" + "".join(f"{'.children' if index else ''}.{each}" for index, each in enumerate(reversed(names)))


def _check_after(jobs: Sequence[Job]) -> None:
    """No workload waits, over others, for itself."""
    after = {job.id: job.after for job in jobs}
    index_of = {job.id: index for index, job in enumerate(jobs)}
    settled: set[str] = set()
    for job in jobs:
        chain: dict[str, None] = {}
        at: str | None = job.id
        while at in after and at not in settled:
            if at in chain:
                raise ScenarioError(f"workloads[{index_of[at]}].after", f"{shown(at)} would come after itself")
            chain[at] = None
            at = after[at]
        settled.update(chain)
