"""Calling the agents of nodes, so that they ask for their desired state at once and not at their next heartbeat."""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction

from scheduler.executors import base
from scheduler.models import Node


def wake(node_ids: Collection[int]) -> None:
    """Once the transaction is committed, call the agents of these nodes that can be called."""
    if node_ids:
        transaction.on_commit(lambda: _call(node_ids), robust=True)


def _call(node_ids: Collection[int]) -> None:
    urls = list(Node.objects.filter(pk__in=node_ids).exclude(wake_url="").values_list("wake_url", flat=True))
    if urls:
        base.wake(urls)
