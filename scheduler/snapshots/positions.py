"""Where a charge weighs: the path of a run, in the budget tree as it stands (semantics.md section 2).

A charge stays with the path it was made under. Where that path is no longer one of the tree, because something on it
was moved, it weighs on the deepest node of it that is still in its place: under a closed child of that node, that
takes no workloads and exists in the engine's snapshot only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.engine import BudgetNode, CellCounts

GHOST = "~"
"""Ends the id of such a closed child; no code of a budget node holds it."""
WHOLE = 10_000


def beside_shares(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a stored node has beside its shares, as the engine's node takes it: limits, and cells."""
    found = dict(row.get("limits", {}))
    if "cells" in row:
        found["cells"] = CellCounts(**row["cells"])
    return found


class Positions:
    """The tree of one snapshot, as `TreeVersion.nodes` stores it, and the ghosts that its runs need."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Take the stored nodes, parents before their children."""
        self._nodes = [
            BudgetNode(row["id"], row["parent"], row["shares"], row["whole"], row["closed"], **beside_shares(row))
            for row in nodes
        ]
        self._code = {row["db_id"]: row["id"] for row in nodes}
        self._ghosts: dict[str, BudgetNode] = {}
        paths: dict[str, tuple[int, ...]] = {}
        self._path_of_id: dict[int, tuple[int, ...]] = {}
        for row in nodes:
            above = () if row["parent"] is None else paths[row["parent"]]
            paths[row["id"]] = self._path_of_id[row["db_id"]] = (*above, row["db_id"])
        self._inner = {row["parent"] for row in nodes}
        self._found: dict[tuple[int, ...], str] = {}

    def of_path(self, path: Sequence[int]) -> str:
        """The engine's leaf for runs with this path (ids from the root down)."""
        key = tuple(path)
        if key not in self._found:
            self._found[key] = self._find(key)
        return self._found[key]

    def _find(self, path: tuple[int, ...]) -> str:
        for depth in range(len(path), 0, -1):
            code = self._code.get(path[depth - 1])
            if code is None or self._path_of_id[path[depth - 1]] != path[:depth]:
                continue
            return self._leaf_at(code)
        raise LookupError(f"no node of path {list(path)} is in the budget tree")

    def _leaf_at(self, code: str) -> str:
        """The node itself, or, for one with children, its ghost."""
        if code not in self._inner:
            return code
        ghost = f"{code}{GHOST}"
        self._ghosts[ghost] = BudgetNode(ghost, code, 0, WHOLE, closed=True)
        return ghost

    def of_leaf(self, leaf_id: int) -> str:
        """The engine's leaf for workloads of a budget node; of one with children the ghost, where they are held.

        Raises:
            LookupError: it is not in the tree.
        """
        try:
            return self._leaf_at(self._code[leaf_id])
        except KeyError:
            raise LookupError(f"budget node {leaf_id} is not in the tree") from None

    def tree(self) -> list[BudgetNode]:
        """All nodes, with the ghosts that were needed so far."""
        return [*self._nodes, *(self._ghosts[name] for name in sorted(self._ghosts))]
