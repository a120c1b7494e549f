"""Invented nodes: what they report follows from rows and the clock alone, so stopping and going on changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler.executors.base import Cause, RankState
from scheduler.executors.simulated import Happening, SimulatedRun, next_happening
from scheduler.models import Rank, Run
from scheduler.services import simulation
from tests.scheduler.conftest import World, at


def run(
    running_s: int | None = None, stop_asked_s: int | None = None, number: int = 1, progress_s: int = 0, **said: str
) -> SimulatedRun:
    """A run that began to hold its devices at 100."""
    return SimulatedRun(
        run=7,
        number=number,
        workload="A-0007",
        started_s=100,
        running_s=running_s,
        stop_asked_s=stop_asked_s,
        leave_by_s=None if stop_asked_s is None else stop_asked_s + 60,
        progress_s=progress_s,
        environment={"SIM_STARTUP_S": "10", "SIM_DURATION_S": "500", "SIM_EXIT_DELAY_S": "20", **said},
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(run(), Happening(110, RankState.RUNNING), id="starts up"),
        pytest.param(run(running_s=110), Happening(610, RankState.EXITED, 0), id="is done"),
        pytest.param(
            run(running_s=110, SIM_EXIT_CODE="3"), Happening(610, RankState.EXITED, 3), id="is done, and failed"
        ),
        pytest.param(
            run(running_s=110, stop_asked_s=200), Happening(220, RankState.EXITED, -15, Cause.ASKED), id="leaves"
        ),
        pytest.param(
            run(running_s=110, stop_asked_s=200, SIM_EXIT_DELAY_S="90"),
            Happening(260, RankState.EXITED, -15, Cause.ASKED),
            id="is killed when its grace is over",
        ),
        pytest.param(
            run(stop_asked_s=105), Happening(125, RankState.EXITED, -15, Cause.ASKED), id="leaves before it ran"
        ),
        pytest.param(run(running_s=110, stop_asked_s=200, SIM_EXIT_DELAY_S="never"), None, id="is stuck"),
        pytest.param(
            run(running_s=110, stop_asked_s=610, SIM_EXIT_DELAY_S="never"),
            Happening(610, RankState.EXITED, 0),
            id="is done just when it is told to stop",
        ),
        pytest.param(
            run(running_s=110, number=2, progress_s=400), Happening(210, RankState.EXITED, 0), id="goes on from before"
        ),
        pytest.param(
            run(running_s=110, number=3, progress_s=400, SIM_RESTART_COST_S="50"),
            Happening(310, RankState.EXITED, 0),
            id="repeats what two restarts lost",
        ),
    ],
)
def test_what_happens_next(given: SimulatedRun, expected: Happening | None) -> None:
    assert next_happening(given) == expected


def test_what_a_workload_does_not_say_is_drawn_from_its_code_within_bounds() -> None:
    def startup_s(code: str) -> int:
        silent = SimulatedRun(7, 1, code, 0, None, None, None, 0, {})
        happening = next_happening(silent)
        assert happening is not None
        return happening.at_s

    drawn = [startup_s(f"A-{number:04d}") for number in range(200)]
    assert drawn == [startup_s(f"A-{number:04d}") for number in range(200)]
    assert min(drawn) == 5
    assert max(drawn) == 30


def test_a_driver_that_was_away_reports_the_instants_at_which_things_happened(
    make_world: Callable[..., World],
) -> None:
    world = make_world(nodes={"h1": 4, "h2": 4})
    workload = world.submit("A", gpus=8, sim={"startup_s": 15, "duration_s": 100})
    world.step(0)
    assert simulation.advance(world.cluster, at(1_000))
    row = Run.objects.get(workload=workload)
    assert (row.running_at, row.contract_ends_at, row.ended_at) == (at(15), at(15 + 3_600), at(115))
    ranks = Rank.objects.filter(run=row).order_by("index").values_list("began_at", "exited_at", "exit_code")
    assert list(ranks) == [(at(15), at(115), 0)] * 2
    workload.refresh_from_db()
    assert (workload.state, workload.ended_at) == ("finished", at(115))
    assert not simulation.advance(world.cluster, at(1_000)), "again, nothing is news"


def test_how_often_the_driver_looks_changes_no_instant(make_world: Callable[..., World]) -> None:
    world = make_world()
    often = world.submit("A", gpus=8, sim={"startup_s": 5, "duration_s": 50})
    world.live(until=90)
    seldom = world.submit("A", gpus=8, now=100, sim={"startup_s": 5, "duration_s": 50})
    world.step(100)
    world.step(900)
    assert (world.runs(often), world.runs(seldom)) == ([(0, 55)], [(100, 155)])


@pytest.mark.parametrize("batch", [1, 2, 500])
def test_how_many_report_in_one_transaction_changes_nothing(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(simulation, "BATCH", batch)
    world = make_world(nodes={"h1": 8, "h2": 8})
    sims = [{"startup_s": 5 + number, "duration_s": 50 * number} for number in range(5)]
    submitted = [world.submit("A", gpus=3 - number % 2, sim=sim) for number, sim in enumerate(sims)]
    world.step(0)
    assert simulation.advance(world.cluster, at(1_000))
    assert [world.runs(each) for each in submitted] == [[(0, 5 + 51 * number)] for number in range(5)]
    assert not simulation.advance(world.cluster, at(1_000))
