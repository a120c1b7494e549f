"""The budget tree of a stretch of history, with its dated shares, in a scenario's terms.

What a node has not given to its children is a child of its own, so that shares stay basis points of the whole. Where a
leaf was divided within the stretch, its earlier work has moved into a closed child (`budgets.services.tree.keep_past`):
until then that child stands for the leaf, and has all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.db.models import Q

from budgets import queries
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Cluster, Share
from scheduler.engine import BudgetNode as TreeNode
from scheduler.simulator.entitled import UNASSIGNED
from scheduler.simulator.scenario import ROOT, Happening
from scheduler.snapshots.positions import GHOST, Positions, beside_shares
from scheduler.snapshots.present import tree_nodes


@dataclass(slots=True)
class Tree:
    """The tree while it is being read. Ask `of_leaf` and `of_path` for everything first: `built` adds what it needs."""

    rows: Sequence[dict[str, Any]]
    positions: Positions
    shares: Sequence[Share]
    closed: dict[int, datetime]
    created: dict[int, datetime]
    start: datetime
    end: datetime

    def of_leaf(self, leaf_id: int) -> str:
        """The scenario's leaf for workloads of a budget node."""
        return self.positions.of_leaf(leaf_id)

    def of_path(self, path: Sequence[int]) -> str:
        """The scenario's leaf for runs that were made under a path."""
        return self.positions.of_path(path)

    def built(self) -> tuple[list[TreeNode], list[Happening]]:
        """The tree as it was divided at the start, and how it changed until the end."""
        days = self._days()
        divided = [self._divided(day) for day in days]
        wholes: dict[str, int] = {}
        for (parent, _), amount in divided[0].items():
            wholes[parent] = wholes.get(parent, 0) + amount
        nodes = [TreeNode(ROOT, None, 1, 1)]
        more = {row["id"]: beside_shares(row) for row in self.rows}
        nodes += [
            TreeNode(name, parent, amount, wholes[parent], **more.get(name, {}))
            for (parent, name), amount in divided[0].items()
        ]
        return nodes, [*self._changes(days, divided), *self._closings(divided[0])]

    def _days(self) -> list[date]:
        """The first day, and each later one on which a share begins or ends."""
        first, last = queries.day_of(self.start), queries.day_of(self.end)
        changes = {day for share in self.shares for day in (share.valid_from, share.valid_until) if day is not None}
        return [first, *sorted(day for day in changes if first < day <= last and queries.midnight(day) < self.end)]

    def _divided(self, day: date) -> dict[tuple[str, str], int]:
        """Basis points of every node on that day by (parent, name), parents first, and of what stands beside them."""
        parents = self._parents()
        if not parents:
            return {(ROOT, self.rows[0]["id"]): WHOLE_BASIS_POINTS}
        given = self._given(day)
        found: dict[tuple[str, str], int] = {}
        ghosts = {node.id for node in self.positions.tree() if node.id.endswith(GHOST)}
        kept = self._kept()
        for parent, children in parents.items():
            name = self._scenario_name(parent)
            amounts = {child: given.get(child, 0) for child in children}
            found.update({(name, child): amount for child, amount in amounts.items()})
            rest = max(0, WHOLE_BASIS_POINTS - sum(amounts.values()))
            if f"{parent}{GHOST}" in ghosts:
                found[name, f"{parent}{GHOST}"] = 0
            if parent in kept and not sum(amounts.values()):
                found[name, kept[parent]], rest = rest, 0
            found[name, f"{name}{UNASSIGNED}"] = rest
        return found

    def _given(self, day: date) -> dict[str, int]:
        """The share of each node of its parent on that day; before a move, the first one it had after it."""
        parents = {row["db_id"]: row["parent"] for row in self.rows}
        ids = {row["db_id"]: row["id"] for row in self.rows}
        found: dict[str, int] = {}
        elsewhere = set()
        for share in self.shares:
            if (
                share.node_id in ids
                and share.valid_from <= day
                and (share.valid_until is None or day < share.valid_until)
            ):
                if ids.get(share.parent_id) == parents[share.node_id]:
                    found[ids[share.node_id]] = share.basis_points
                else:
                    elsewhere.add(share.node_id)
        for share in sorted(self.shares, key=lambda each: each.valid_from):
            if share.node_id in elsewhere and ids.get(share.parent_id) == parents[share.node_id]:
                found.setdefault(ids[share.node_id], share.basis_points)
        return found

    def _parents(self) -> dict[str, list[str]]:
        """The children of each node that has any, in the order of the tree."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            if row["parent"] is not None:
                found.setdefault(row["parent"], []).append(row["id"])
        return {row["id"]: found[row["id"]] for row in self.rows if row["id"] in found}

    def _scenario_name(self, code: str) -> str:
        return ROOT if code == self.rows[0]["id"] else code

    def _kept(self) -> dict[str, str]:
        """The child that holds the earlier work of each node that was a leaf at the start.

        It bears its parent's date of birth, and was closed when it was made.
        """
        ids = {row["id"]: row["db_id"] for row in self.rows}
        return {
            row["parent"]: row["id"]
            for row in self.rows
            if row["parent"] is not None
            and self.created[row["db_id"]] == self.created[ids[row["parent"]]]
            and self.closed.get(row["db_id"], self.start) > self.start
        }

    def _changes(self, days: Sequence[date], divided: Sequence[dict[tuple[str, str], int]]) -> list[Happening]:
        found = []
        for day, before, now in zip(days[1:], divided, divided[1:], strict=False):
            at_s = max(0, int((queries.midnight(day) - self.start).total_seconds()))
            changed = {key[0] for key, amount in now.items() if before[key] != amount}
            for parent in sorted(changed):
                shares = {name: amount for (above, name), amount in now.items() if above == parent}
                found.append(Happening(at_s, "shares", shares=shares))
        return found

    def _closings(self, divided: Mapping[tuple[str, str], int]) -> list[Happening]:
        """Nodes that were closed; what only keeps charges of work that hangs elsewhere now takes nothing at all."""
        found = [Happening(0, "close", subject=name) for _, name in divided if name.endswith(GHOST)]
        for row in self.rows:
            closed_at = self.closed.get(row["db_id"])
            if closed_at is not None and closed_at < self.end and row["parent"] is not None:
                at_s = max(0, int((closed_at - self.start).total_seconds()))
                found.append(Happening(at_s, "close", subject=row["id"]))
        return found


def read(cluster: Cluster, start: datetime, end: datetime, leaf_ids: set[int]) -> Tree:
    """The tree as it hangs at the end, with every leaf in `leaf_ids`, and today's limits and cells. Seven queries."""
    rows = tree_nodes(cluster, end, also=leaf_ids)
    first, last = queries.day_of(start), queries.day_of(end)
    shares = Share.objects.filter(Q(valid_until=None) | Q(valid_until__gt=first), cluster=cluster, valid_from__lte=last)
    dates = {
        pk: (created_at, closed_at)
        for pk, created_at, closed_at in BudgetNode.objects.values_list("pk", "created_at", "closed_at")
    }
    return Tree(
        rows=rows,
        positions=Positions(rows),
        shares=list(shares.order_by("pk")),
        closed={pk: closed_at for pk, (_, closed_at) in dates.items() if closed_at is not None},
        created={pk: created_at for pk, (created_at, _) in dates.items()},
        start=start,
        end=end,
    )
