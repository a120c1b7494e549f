"""Which devices runs hold or held, and how much of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.contrib.postgres.aggregates import ArrayAgg

from scheduler.models import Holding


class Held(NamedTuple):
    """Devices of one node, by their indexes, and how many thousandths of each."""

    node: str
    devices: Sequence[int]
    milli: int


def held_by(runs: Sequence[int]) -> dict[int, list[Held]]:
    """By run, what it was given, by node's name; also what ended runs have given back."""
    rows = (
        Holding.objects.filter(run__in=runs)
        .values_list("run", "node__name", "milli")
        .annotate(devices=ArrayAgg("device__index", order_by="device__index"))
        .order_by("node__name", "milli")
    )
    found: dict[int, list[Held]] = {}
    for run, node, milli, devices in rows:
        found.setdefault(run, []).append(Held(node, devices, milli))
    return found
