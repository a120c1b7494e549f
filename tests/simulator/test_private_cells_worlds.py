"""Passes that skip what cannot move decide about private cells what passes decide that look at everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.engine import cycle, preemption, waiting
from scheduler.engine.reservations import certain_for
from scheduler.engine.waiting import WaitingCodes
from scheduler.simulator import World, as_json, parse
from tests.simulator.worlds import cells, names_of, stormy_worlds, with_cells


@st.composite
def worlds_with_cells(draw: st.DrawFn) -> dict[str, Any]:
    """Stormy worlds in which somebody has cells from the start, most without what bars skips."""
    world = draw(stormy_worlds())
    nobodys: dict[str, Any] = {name: {} for name in names_of(world["tree"])}
    world["tree"] = with_cells(world["tree"], nobodys | draw(cells(world["tree"], world["cluster"])))
    if draw(st.sampled_from([True, True, True, False])):
        world["policy"]["swap_margin"] = 0
        world["events"] = [event for event in world["events"] if "maintenance" not in event]
    return world


@contextmanager
def nothing_skipped() -> Iterator[None]:
    """While every pass looks at all that waits, at every node, and asks outright what it otherwise sees at a glance."""
    begin = WaitingCodes.__init__

    def ungrouped(self: WaitingCodes, trial: Any) -> None:
        begin(self, trial)
        self.are_grouped = False

    with ExitStack() as patches:
        patches.enter_context(patch.object(WaitingCodes, "__init__", ungrouped))
        patches.enter_context(patch.object(preemption, "is_out_of_reach", lambda _trial, _workload: False))
        patches.enter_context(
            patch.object(waiting, "is_any_certain", lambda trial, each: certain_for(trial, each) is not None)
        )
        patches.enter_context(patch.object(cycle, "may_be_earlier", lambda _trial, _workload: True))
        yield


def outcome(world: dict[str, Any]) -> dict[str, Any]:
    """What came of a world, but for the number of passes; what an instant decides in the order of workloads."""
    lived = World(parse(json.dumps(world)))
    lived.run()
    found: dict[str, Any] = json.loads(json.dumps(as_json(lived.outcome)))
    del found["metrics"]["passes"]
    found["decisions"].sort(key=lambda each: json.dumps(each, sort_keys=True))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds_with_cells())
def test_what_is_seen_at_a_glance_is_what_a_look_at_everything_finds(world: dict[str, Any]) -> None:
    seen = outcome(world)
    with nothing_skipped():
        assert outcome(world) == seen
