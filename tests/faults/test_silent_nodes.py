"""Half a hall is silent, as when a switch has failed: the loop, which looks each second, asks no more for many than for
few.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Node
from scheduler.services import silence
from tests.scheduler.conftest import World, add_nodes, at


def asked(world: World) -> int:
    """How many statements a look takes."""
    with CaptureQueriesContext(
        connection,
    ) as found:
        assert not silence.watch(world.cluster, at(10_000))
    return len(found)


def test_a_look_at_many_silent_nodes_takes_as_many_statements_as_at_few(make_world: Callable[..., World]) -> None:
    world = make_world(nodes={f"h{number}": 1 for number in range(2)}, executor="agent")
    Node.objects.update(heartbeat_at=at(0), health="unreachable")
    few = asked(world)
    add_nodes(world.cluster, {f"k{number}": 1 for number in range(40)})
    Node.objects.update(heartbeat_at=at(0), health="unreachable")
    assert asked(world) == few
