"""Names and parents as they were: a rename or a move rewrites no past (governance.md). Read from the ledger."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from budgets.models import BudgetNode, LedgerEntry

Changes = Mapping[int, tuple[list[datetime], list[object]]]
"""By node id: when it was changed, in order, and what it was before each change."""


@dataclass(frozen=True, slots=True)
class Past:
    """What nodes were called, and where they hung, at instants since the one it was read for."""

    names: Changes
    parents: Changes

    def name_at(self, node: BudgetNode, instant: datetime) -> str:
        """The name just before the instant, so with the midnight that ends a day: when that day ended."""
        return str(_before(self.names, node.pk, instant, node.name))

    def parent_at(self, node: BudgetNode, instant: datetime) -> int | None:
        """The parent's id just before the instant."""
        return _before(self.parents, node.pk, instant, node.parent_id)  # type: ignore[return-value]


PRESENT = Past({}, {})
"""Nothing was changed since: nodes are as they are."""


def since(instant: datetime) -> Past:
    """The past from `instant` on. One query."""
    names: dict[int, list[tuple[datetime, object]]] = {}
    parents: dict[int, list[tuple[datetime, object]]] = {}
    entries = LedgerEntry.objects.filter(verb__in=["node.renamed", "node.moved"], at__gte=instant)
    for node_id, verb, at, before in entries.order_by("at", "id").values_list("node_id", "verb", "at", "before"):
        assert node_id is not None
        assert before is not None
        kind, key = (names, "name") if verb == "node.renamed" else (parents, "parent")
        kind.setdefault(node_id, []).append((at, before[key]))
    return Past(_columns(names), _columns(parents))


def _columns(found: Mapping[int, list[tuple[datetime, object]]]) -> Changes:
    return {pk: ([at for at, _ in changes], [before for _, before in changes]) for pk, changes in found.items()}


def _before(changes: Changes, pk: int, instant: datetime, present: object) -> object:
    if pk not in changes:
        return present
    instants, values = changes[pk]
    later = bisect_left(instants, instant)
    return values[later] if later < len(values) else present
