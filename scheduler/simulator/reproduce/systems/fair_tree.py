"""Slurm's Fair Tree: the documented examples of its order, and of how use decays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

from scheduler.engine import decay_per_s
from scheduler.simulator.ranking import parse_ranking, rank

from .told import Numbers, System, SystemRow, nothing

DAY_S = 86_400
HALF_LIFE_S = 7 * DAY_S
Tree = Mapping[str, Any]


def _leaf(shares: int, used: int) -> dict[str, int]:
    return {"shares": shares, "used_gpu_s": used}


def _account(shares: int, **children: Any) -> dict[str, Any]:
    return {"shares": shares, "children": children}


ORDERS: Sequence[tuple[str, Tree, str, str]] = (
    (
        "three accounts of 50, 30 and 20 shares",
        {
            "physics": _account(50, p1=_leaf(1, 100), p2=_leaf(1, 300)),
            "biology": _account(30, b1=_leaf(2, 50), b2=_leaf(1, 0), b3=_leaf(1, 150)),
            "chem": _account(20, c1=_leaf(1, 400)),
        },
        "b2, b1, b3, p1, p2, c1",
        "users of a better account all go before those of a worse one, whatever they used themselves",
    ),
    (
        "a user who ties with an account",
        {"u": _leaf(1, 10), "acc": _account(1, v=_leaf(1, 4), w=_leaf(1, 6))},
        "u = v, w",
        "",
    ),
    (
        "two accounts that tie",
        {
            "A": _account(1, a1=_leaf(1, 10), a2=_leaf(1, 30)),
            "B": _account(1, b1=_leaf(1, 10), b2=_leaf(1, 30)),
        },
        "a1 = b1, a2 = b2",
        "as the manual says; a real slurmctld 22.05 does not merge tied accounts, and puts a1 before b1 and a2",
    ),
)
DECAYS = ((7 * DAY_S, "7 days", "0.500073"), (DAY_S, "1 day", "0.905743"))


def rows(_: Sequence[Numbers]) -> list[SystemRow]:
    """Each example, as documented and as it comes out."""
    found = []
    for name, tree, published, remark in ORDERS:
        ours = ", ".join(" = ".join(tied) for tied in rank(parse_ranking(json.dumps({"tree": tree}))))
        found.append(SystemRow(f"order of {name}", published, ours, ours == published, "the same", remark))
    for after_s, words, published in DECAYS:
        ours = f"{exp(-decay_per_s(HALF_LIFE_S) * after_s):.6f}"
        remark = "Slurm takes 0.693 for the logarithm of 2" if after_s == HALF_LIFE_S else ""
        figure = f"left of use after {words}, half-life 7 days"
        found.append(SystemRow(figure, published, ours, ours == published, "the same", remark))
    return found


FAIR_TREE = System("Slurm's Fair Tree (documentation)", 0, nothing, rows)
