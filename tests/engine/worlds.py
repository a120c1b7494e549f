"""Short ways to say a small cluster at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.engine import BudgetNode, LeafUse, Node, Run, Snapshot, Workload

GPU_H = 3_600_000
"""One GPU-hour in thousandths of a GPU-second."""
NOW_S = 1_000_000


def tree(shape: Mapping[str, Any], parent: str = "") -> list[BudgetNode]:
    """Budget nodes of {"A": 1, "B": {"shares": 3, "children": {...}}}, below a root called ""."""
    rows = [] if parent else [BudgetNode("", None, 1, 1)]
    shares = {name: each["shares"] if isinstance(each, Mapping) else each for name, each in shape.items()}
    for name, each in shape.items():
        rows.append(BudgetNode(name, parent, shares[name], sum(shares.values())))
        if isinstance(each, Mapping):
            rows += tree(each["children"], name)
    return rows


def used(**gpu_h: int) -> dict[str, LeafUse]:
    """Charged use of ended runs, in GPU-hours by leaf."""
    return {leaf: LeafUse(charged_milli_s=hours * GPU_H) for leaf, hours in gpu_h.items()}


def node(name: str = "h1", gpus: int = 8, **more: Any) -> Node:
    """A healthy node."""
    return Node(name, gpus * 1_000, **more)


def workload(name: str, leaf: str, gpus: int, contract_s: int = 3_600, **more: Any) -> Workload:
    """A workload that waits, submitted an hour ago."""
    return Workload(name, leaf, gpus * 1_000, contract_s, more.pop("submitted_s", NOW_S - 3_600), **more)


def run(name: str, leaf: str, gpus: int, on: str = "h1", **more: Any) -> Run:
    """A funded run whose contract of one hour ended an hour ago, unless said otherwise."""
    holdings = more.pop("holdings", {on: gpus * 1_000})
    contract_s = more.pop("contract_s", 3_600)
    started_s = more.pop("started_s", NOW_S - 7_200)
    return Run(
        id=name,
        workload=name.partition("/")[0],
        leaf=leaf,
        holdings=holdings,
        funded=contract_s > 0,
        min_runtime_s=contract_s,
        started_s=started_s,
        running_s=more.pop("running_s", started_s),
        **more,
    )


def snapshot(shape: Mapping[str, Any], **parts: Any) -> Snapshot:
    """A cluster of one node of 8 GPUs, unless said otherwise."""
    return Snapshot.build(
        now_s=parts.pop("now_s", NOW_S),
        tree=tree(shape),
        use=parts.pop("use", {}),
        nodes=parts.pop("nodes", [node()]),
        **parts,
    )
