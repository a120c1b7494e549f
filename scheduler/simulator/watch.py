"""What plain schedulers remember of a world from one pass to the next, so that a pass looks only at what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scheduler.engine import Snapshot

from .records import RunRecord


class News(NamedTuple):
    """What changed since the last look: the nodes, and the runs that began and ended."""

    nodes: Sequence[str]
    begun: Sequence[RunRecord]
    ended: Sequence[RunRecord]


class Watch:
    """The nodes and runs of a world, followed by the changes that its snapshot lists.

    Attributes:
        capacity_milli: of every node, by name. It never changes.
        largest_milli: the largest of them.
        is_uniform: whether all are equally large.
        free_milli: what could start on each node at once; 0 where nothing may start.
        unfit: the nodes where nothing may start.
        leaving: the runs that were told to stop, by id.
        held: every run that holds devices, by id.
        looks: how often something had changed; `fitness` how often something about the unfit.
    """

    def __init__(self, snapshot: Snapshot, runs: Mapping[str, RunRecord]) -> None:
        """Nothing was looked at yet.

        Args:
            snapshot: the world's, kept up to date by it.
            runs: the world's runs that have not ended, by id.
        """
        nodes = snapshot.nodes
        self.capacity_milli = {name: node.capacity_milli for name, node in nodes.by_name.items()}
        self.largest_milli = nodes.largest_milli
        self.is_uniform = len(set(self.capacity_milli.values())) == 1
        self.free_milli: dict[str, int] = {}
        self.unfit: set[str] = set()
        self.leaving: dict[str, RunRecord] = {}
        self.held: dict[str, RunRecord] = {}
        self.looks = 0
        self.fitness = 0
        self._snapshot = snapshot
        self._runs = runs
        self._seen = 0
        self._on_node: dict[str, frozenset[str]] = {}

    def look(self) -> News:
        """Catch up with the world."""
        changes = self._snapshot.nodes.changes
        if self._seen == len(changes):
            return News((), (), ())
        changed = {node.name: node for node in changes[self._seen :]}
        self._seen = len(changes)
        self.looks += 1
        begun: list[RunRecord] = []
        ended: list[RunRecord] = []
        for name, node in changed.items():
            self.free_milli[name] = node.indexed_milli or 0
            if (node.indexed_milli is None) != (name in self.unfit):
                self.unfit.symmetric_difference_update((name,))
                self.fitness += 1
            before, now = self._on_node.get(name, frozenset()), frozenset(node.runs)
            self._on_node[name] = now
            for run_id in sorted(now - before):
                if run_id not in self.held:
                    self.held[run_id] = self._runs[run_id]
                    begun.append(self._runs[run_id])
            for run_id in sorted(before - now):
                if run_id in self.held and run_id not in self._runs:
                    ended.append(self.held.pop(run_id))
                    self.leaving.pop(run_id, None)
            for run_id in now:
                if self.held[run_id].is_leaving:
                    self.leaving[run_id] = self.held[run_id]
        return News(tuple(changed), begun, ended)

    def on_node(self, name: str) -> list[RunRecord]:
        """The runs on a node."""
        return [self.held[run_id] for run_id in self._on_node.get(name, ())]
