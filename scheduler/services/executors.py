"""Which executor carries out the desired state of which clusters (the protocol: scheduler/executors/base.py)."""

from __future__ import annotations

from collections.abc import Collection

import structlog
from django.db import transaction

from budgets.models import Cluster
from scheduler.executors.base import Executor
from scheduler.models import Node

log = structlog.get_logger(__name__)

_executors: dict[str, Executor] = {}


def register(kind: str, executor: Executor) -> None:
    """Have clusters of this kind (`Cluster.Executor`) carried out by this executor. At start-up, once."""
    _executors[kind] = executor


def of(cluster: Cluster) -> Executor:
    """The executor of a cluster.

    Raises:
        LookupError: nothing carries out clusters of this kind.
    """
    try:
        return _executors[cluster.executor]
    except KeyError:
        raise LookupError(f"nothing carries out clusters of the kind {cluster.executor!r}") from None


def tell(node_ids: Collection[int]) -> None:
    """Once the transaction is committed, tell whatever carries out these nodes that their desired state has changed."""
    if node_ids:
        transaction.on_commit(lambda: _tell(node_ids), robust=True)


def _tell(node_ids: Collection[int]) -> None:
    by_cluster: dict[Cluster, list[int]] = {}
    for node in Node.objects.filter(pk__in=node_ids).select_related("cluster").order_by("pk"):
        by_cluster.setdefault(node.cluster, []).append(node.pk)
    for cluster, ids in by_cluster.items():
        of(cluster).tell(cluster.pk, ids)
