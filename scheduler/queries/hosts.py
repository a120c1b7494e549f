"""Cores and memory beside devices: what the nodes of clusters have."""

from __future__ import annotations

from typing import NamedTuple

from django.db.models import Max

from scheduler.models import Node


class HostMost(NamedTuple):
    """The most cores (thousandths) and memory (MiB) that one node of a cluster offers; 0 where none says."""

    cluster: str
    cpu_milli: int
    memory_mib: int


def most_by_cluster() -> list[HostMost]:
    """Of each cluster whose nodes say what they have, by name."""
    rows = (
        Node.objects.filter(retired_at=None)
        .values_list("cluster__name")
        .annotate(cpu=Max("cpu_milli"), memory=Max("memory_mib"))
        .order_by("cluster__name")
    )
    return [HostMost(*row) for row in rows if row[1] or row[2]]
