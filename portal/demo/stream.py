"""What an invented researcher submits: kinds of work with their sizes, contracts and lengths, drawn by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

MINUTE_S = 60
HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work. Sizes are whole units, contracts and bounds of the length whole seconds; 0 is unallocated.

    `weight` says how much of the demand it makes, beside the other kinds of its cluster.
    """

    name: str
    weight: int
    sizes: Sequence[int]
    contracts_s: Sequence[int]
    length_s: tuple[int, int]
    is_resumable: bool = True


KINDS: Mapping[str, Sequence[Kind]] = {
    "north": (
        Kind("pretrain", 36, (16, 16, 32), (6 * HOUR_S, 8 * HOUR_S), (24 * HOUR_S, 96 * HOUR_S)),
        Kind("finetune", 32, (8, 8, 16), (4 * HOUR_S, 6 * HOUR_S, 8 * HOUR_S), (6 * HOUR_S, 36 * HOUR_S)),
        Kind("train", 18, (2, 4, 8), (2 * HOUR_S, 4 * HOUR_S), (4 * HOUR_S, 30 * HOUR_S)),
        Kind("sweep", 12, (2, 4), (0,), (3 * HOUR_S, 16 * HOUR_S)),
        Kind("debug", 1, (1, 2, 4), (5 * MINUTE_S, 10 * MINUTE_S, 15 * MINUTE_S), (3 * MINUTE_S, 40 * MINUTE_S), False),
    ),
    "south": (
        Kind("simulate", 45, (16, 32), (4 * HOUR_S, 6 * HOUR_S), (6 * HOUR_S, 36 * HOUR_S)),
        Kind("prepare", 30, (8, 16), (2 * HOUR_S, 4 * HOUR_S), (3 * HOUR_S, 18 * HOUR_S)),
        Kind("render", 24, (4, 8), (0,), (3 * HOUR_S, 16 * HOUR_S)),
        Kind("debug", 1, (1, 4), (5 * MINUTE_S, 15 * MINUTE_S), (3 * MINUTE_S, 40 * MINUTE_S), False),
    ),
}
SUBJECTS = ("7b", "13b", "vit", "moe", "rlhf", "retrieval", "diffusion", "gnn", "seq", "probe", "ablate", "base")

APPETITE = {"A1a": 1.2, "A1b": 2.6, "A1c": 1.6, "A2": 2.2, "A3": 0.6, "B1": 2.4, "B2a": 1.4, "B2b": 0.8, "C1": 2.8,
            "C2": 1.0, "C3": 0.5}  # fmt: skip
"""How much of its entitlement a leaf asks for: some ask for more than they have, some for less, so that use is lent
and borrowed."""

SITS_IDLE = {"train": 14, "prepare": 6}
"""Out of a hundred of a kind, so many are interactive sessions, which hold their devices and hardly use them."""
NOTEBOOK, NOTEBOOK_ACTIVITY_MILLI = "notebook", 18


@dataclass(frozen=True, slots=True)
class Draft:
    """A workload that somebody is about to submit. Size in whole units, the rest in whole seconds."""

    name: str
    size: int
    min_runtime_s: int
    length_s: int
    startup_s: int
    exit_delay_s: int
    restart_cost_s: int
    is_resumable: bool
    priority: int
    activity_milli: int | None = None


def draft(chance: Random, kind: Kind) -> Draft:
    """One workload of a kind. Lengths are spread evenly over their orders of magnitude."""
    shortest, longest = kind.length_s
    length_s = round(shortest * (longest / shortest) ** chance.random())
    size = chance.choice(kind.sizes)
    subject, number = chance.choice(SUBJECTS), chance.randrange(100)
    sits_idle = kind.name in SITS_IDLE and number < SITS_IDLE[kind.name]
    return Draft(
        name=f"{NOTEBOOK if sits_idle else kind.name}-{subject}-{number:02d}",
        size=size,
        min_runtime_s=chance.choice(kind.contracts_s),
        length_s=length_s,
        startup_s=chance.randrange(10, 60) if size < 8 else chance.randrange(60, 240),
        exit_delay_s=chance.randrange(3, 45),
        restart_cost_s=min(length_s // 10, chance.randrange(60, 900)) if kind.is_resumable else 0,
        is_resumable=kind.is_resumable,
        priority=chance.choice((0, 0, 0, 0, 10)),
        activity_milli=NOTEBOOK_ACTIVITY_MILLI if sits_idle else None,
    )


def some_kind(chance: Random, cluster: str, *, largest: int) -> Kind:
    """A kind whose smallest size is at most `largest` units, by weight."""
    kinds = [kind for kind in KINDS[cluster] if min(kind.sizes) <= largest]
    return chance.choices(kinds, weights=[kind.weight / mean_size(kind) for kind in kinds])[0]


def mean_size(kind: Kind) -> float:
    """In units."""
    return sum(kind.sizes) / len(kind.sizes)


def environment(one: Draft) -> dict[str, str]:
    """How it behaves on simulated nodes (scheduler.executors.simulated)."""
    return {
        **activity(one),
        "SIM_DURATION_S": str(one.length_s),
        "SIM_STARTUP_S": str(one.startup_s),
        "SIM_EXIT_DELAY_S": str(one.exit_delay_s),
        "SIM_RESTART_COST_S": str(one.restart_cost_s),
    }


def activity(one: Draft) -> dict[str, str]:
    """How busy its devices will be, where that is not as with most work: kept of the past too."""
    return {} if one.activity_milli is None else {"SIM_ACTIVITY_MILLI": str(one.activity_milli)}
