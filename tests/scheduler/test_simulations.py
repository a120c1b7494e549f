"""Simulations that people ask for: stored, run part by part, cancelled, tried again, and looked after."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from budgets.errors import InputError, NotAllowed
from budgets.models import Person, Role, RoleGrant
from budgets.queries import today
from scheduler.models import Simulation, SimulationPart
from scheduler.services import simulating, simulations
from scheduler.services.simulations import File, History, Variant
from scheduler.simulator.recorded import unpack
from tests.scheduler.pasts import simulated, store
from tests.scheduler.test_history_scenario import DAY_S, House, at, ran

FILE: Mapping[str, Any] = {
    "cluster": {"nodes": {"h1": 8}},
    "tree": {"A": 1, "B": 1},
    "workloads": [
        {"id": "a1", "leaf": "A", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "4h"},
        {"id": "b1", "leaf": "B", "submit": "10m", "gpus": 8, "min_runtime": "1h", "duration": "1h"},
        {"id": "b2", "leaf": "B", "submit": "20m", "gpus": 1, "min_runtime": "10m", "duration": "5m"},
    ],
}


def a_file(**changes: Any) -> File:
    return File("small.json", json.dumps({**FILE, **changes}))


def somebody(name: str) -> Person:
    return Person.objects.create_user(name, password="sesame-open-42", display_name=name.capitalize())


@pytest.fixture
def ada(db: None) -> Person:
    return somebody("ada")


@pytest.fixture
def house(db: None) -> House:
    """A week in which B's large workload takes A's place."""
    house = House()
    outcome = simulated(
        cluster={"nodes": {"h1": 8, "h2": 8}},
        tree={"A": {"shares": 5_000, "children": {"A1": 6_000, "A2": 4_000}}, "B": 4_000, "nobody": 1_000},
        workloads=[
            {"id": "A1-0001", "leaf": "A1", "submit": 0, "gpus": 16, "min_runtime": "1h", "duration": "20h"},
            {"id": "A2-0001", "leaf": "A2", "submit": "1h", "gpus": 8, "min_runtime": "2h", "duration": "30h"},
            {"id": "B-0001", "leaf": "B", "submit": "2h", "gpus": 16, "min_runtime": "4h", "duration": "12h"},
            {"id": "B-0002", "leaf": "B", "submit": "2h", "gpus": 8, "min_runtime": "10m", "duration": "10m"},
            {"id": "B-0003", "leaf": "B", "submit": "3h", "gpus": 2, "min_runtime": 0, "duration": "9h"},
        ],
        until=5 * DAY_S,
    )
    store(house.cluster, outcome, house.node, at(0))
    return house


def run_all(simulation: Simulation) -> Simulation:
    """What workers would do."""
    if simulation.scenario is None:
        simulating.prepare(simulation.pk)
    for part in simulation.parts.filter(state="waiting"):
        simulating.run_part(part.pk)
    simulation.refresh_from_db()
    return simulation


def states(simulation: Simulation) -> dict[str, str]:
    return dict(simulation.parts.values_list("name", "state"))


def test_a_file_under_two_policies(ada: Person) -> None:
    row = simulations.compare(
        by=ada, source=a_file(), variants=[Variant("contracts"), Variant("first come", {"scheduler": "fifo"})]
    )
    assert (row.state, row.title, states(row)) == (
        "waiting",
        "small.json",
        {"contracts": "waiting", "first come": "waiting"},
    )
    run_all(row)
    assert (row.state, row.error, states(row)) == ("finished", "", {"contracts": "finished", "first come": "finished"})
    contracts, fifo = row.parts.all()
    assert contracts.figures["preemptions"] == 2
    assert contracts.figures["waits"]["standard"] == {"count": 0, "median_s": None, "p90_s": None}
    assert contracts.figures["waits"]["large"] == {"count": 2, "median_s": 0, "p90_s": 3_000}
    assert contracts.figures["waits"]["debug"]["median_s"] == 9_600
    assert (fifo.figures["preemptions"], fifo.figures["waits"]["large"]["p90_s"]) == (0, 13_800)
    assert [(run.start_s, run.end_s, run.end_reason) for run in unpack(bytes(contracts.runs)).runs][:2] == [
        (0, 3_600, "preempted_fair_share"),
        (3_600, 7_200, "finished"),
    ]
    assert contracts.progress_percent == 100
    assert contracts.took_ms is not None


@pytest.mark.parametrize(
    ("source", "variants", "field", "said"),
    [
        (a_file(until=-1), ["x"], "scenario", "until: must not be negative, but is -1"),
        (File("a.json", "{"), ["x"], "scenario", "not JSON"),
        (a_file(workloads=[]), ["x"], "scenario", "workloads: there are none"),
        (a_file(), [], "variants", "must be 1 to 6, not 0"),
        (a_file(), ["x", "x"], "variants", "need names of their own"),
    ],
)
def test_bad_input_names_its_field(ada: Person, source: File, variants: list[str], field: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        simulations.compare(by=ada, source=source, variants=[Variant(name) for name in variants])
    assert caught.value.field == field
    assert said in caught.value.message
    assert not Simulation.objects.exists()


def test_a_knob_that_is_none_names_the_variant(ada: Person) -> None:
    with pytest.raises(InputError, match=r"variants: odd: policy\.lookback: unknown key"):
        simulations.compare(by=ada, source=a_file(), variants=[Variant("odd", {"lookback": 3})])


def test_three_at_once_and_no_more(ada: Person) -> None:
    for _ in range(3):
        last = simulations.compare(by=ada, source=a_file(), variants=[Variant("contracts")])
    with pytest.raises(InputError, match="3 simulations that are not over"):
        simulations.compare(by=ada, source=a_file(), variants=[Variant("contracts")])
    simulations.compare(by=somebody("ben"), source=a_file(), variants=[Variant("contracts")])
    run_all(last)
    simulations.compare(by=ada, source=a_file(), variants=[Variant("contracts")])


def test_asking_twice_is_asking_once(ada: Person) -> None:
    first, second = (
        simulations.compare(by=ada, source=a_file(), variants=[Variant("contracts")], action="a" * 32) for _ in "12"
    )
    assert first == second
    assert Simulation.objects.count() == 1


def test_history_beside_what_really_happened(ada: Person, house: House) -> None:
    source = History(house.cluster, at(0), at(4 * DAY_S))
    row = simulations.compare(
        by=ada, source=source, variants=[Variant("again"), Variant("easy", {"scheduler": "easy"})]
    )
    run_all(row)
    assert row.state == "finished", row.error
    real, again, easy = row.parts.all()
    assert (real.number, real.name, real.state) == (0, "what really happened", "finished")
    assert unpack(bytes(real.runs)).runs == unpack(bytes(again.runs)).runs
    off = again.figures.pop("off")
    assert again.figures == real.figures
    assert off == {
        "compared": 5,
        "median_off_s": 0,
        "p90_off_s": 0,
        "mean_s": 0,
        "only_real": 0,
        "only_replay": 0,
    }
    assert easy.figures["preemptions"] == 0
    assert "off" not in easy.figures


def test_what_if_the_shares_were_others(ada: Person, house: House) -> None:
    row = simulations.propose(
        by=ada,
        parent=house.root,
        cluster=house.cluster,
        proposals={"more for B": {"A": 2_000, "B": 8_000}},
        weeks=1,
        now=at(5 * DAY_S),
    )
    assert row.parts.get(number=2).change == {"shares": {"A": 2_000, "B": 8_000, "~unassigned": 0}}
    run_all(row)
    assert row.state == "finished", row.error
    _, then, proposed = row.parts.all()
    assert then.name == "as they were"
    assert proposed.figures["nodes"]["B"]["owed_milli_s"] > then.figures["nodes"]["B"]["owed_milli_s"]


def test_children_that_are_not_named_keep_todays_shares(ada: Person, house: House) -> None:
    row = simulations.propose(
        by=ada, parent=house.node["A"], cluster=house.cluster, proposals={"less": {"A1": 1_000}}, weeks=2
    )
    assert row.parts.get(number=2).change == {"shares": {"A1": 1_000, "A2": 4_000, "A~unassigned": 5_000}}


@pytest.mark.parametrize(
    ("proposals", "said"),
    [
        ({"x": {"C": 1}}, "shares: C is no child of LAB"),
        ({"x": {"A": 7_000}}, "shares: sum to 11,000 basis points, more than 10,000"),
        ({"x": {"A": -1}}, "shares: A: must be 0 to 10000 basis points, not -1"),
        ({"x": {"A": 0.5}}, "shares: A: must be 0 to 10000 basis points, not 0.5"),
        ({}, "proposals: must be 1 to 3, not 0"),
        ({"as they were": {"A": 1}}, "proposals: one is called 'as they were', which is what it stands beside"),
    ],
)
def test_what_if_refuses(ada: Person, house: House, proposals: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        simulations.propose(by=ada, parent=house.root, cluster=house.cluster, proposals=proposals, weeks=4)
    assert str(caught.value) == said


def test_work_laid_over_history(ada: Person, house: House) -> None:
    debug = {"id": "d1", "leaf": "A1", "submit": "5h", "gpus": 1, "min_runtime": "5m", "duration": "5m"}
    row = simulations.compare(
        by=ada,
        source=History(house.cluster, at(0), at(4 * DAY_S)),
        variants=[Variant("with debug runs")],
        more=File("debug.json", json.dumps({"workloads": [debug]})),
    )
    run_all(row)
    real, more = row.parts.all()
    assert (real.figures["submitted"], more.figures["submitted"]) == (5, 6)
    assert more.figures["waits"]["debug"]["count"] == real.figures["waits"]["debug"]["count"] + 1
    assert "off" not in more.figures


def test_a_stretch_with_nothing_in_it_says_so(ada: Person, house: House) -> None:
    row = simulations.compare(
        by=ada, source=History(house.cluster, at(8 * DAY_S), at(9 * DAY_S)), variants=[Variant("contracts")]
    )
    run_all(row)
    assert (row.state, row.error) == ("failed", "nothing was submitted, waited or ran on north then")
    assert states(row) == {"contracts": "failed"}


def test_a_sweep_with_seeds(ada: Person) -> None:
    row = simulations.sweep(by=ada, source=a_file(), knob="lookback_s", values=["1d", "7d"], seeds=2)
    assert (row.title, list(states(row))) == (
        "Lookback: 1 d, 7 d",
        ["1 d, seed 0", "1 d, seed 1", "7 d, seed 0", "7 d, seed 1"],
    )
    run_all(row)
    assert row.state == "finished"
    assert all(part.figures and part.runs is None for part in row.parts.all())


@pytest.mark.parametrize(
    ("knob", "values", "said"),
    [
        ("grace_s", [1], "knob: must be one of lookback_s, min_runtime_max_s, reservations, not 'grace_s'"),
        ("lookback_s", ["29d"], "values: must be from 1 d to 28 d"),
        ("reservations", [17], "values: must be from 0 to 16"),
        ("reservations", [1, 1], "values: has 1 twice"),
        ("reservations", ["x"], 'values: must be a whole number, not "x"'),
        ("min_runtime_max_s", [], "values: needs at least one value"),
    ],
)
def test_a_sweep_refuses(ada: Person, knob: str, values: list[Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        simulations.sweep(by=ada, source=a_file(), knob=knob, values=values)
    assert str(caught.value) == said


def test_a_failed_part_says_so_and_can_be_tried_again(ada: Person) -> None:
    row = simulations.compare(
        by=ada, source=a_file(), variants=[Variant("contracts"), Variant("first come", {"scheduler": "fifo"})]
    )
    whole = row.scenario
    broken = {**FILE, "tree": {"A": 1}}
    first, second = row.parts.all()
    simulating.run_part(first.pk)
    Simulation.objects.filter(pk=row.pk).update(scenario=zlib.compress(json.dumps(broken).encode()))
    simulating.run_part(second.pk)
    row.refresh_from_db()
    assert row.state == "failed"
    assert row.error == 'first come: workloads[1].leaf: there is no leaf "B" in the tree'
    assert states(row) == {"contracts": "finished", "first come": "failed"}

    with pytest.raises(NotAllowed):
        simulations.try_again(simulation=row, by=somebody("ben"))
    Simulation.objects.filter(pk=row.pk).update(scenario=whole)
    assert simulations.try_again(simulation=row, by=ada)
    assert states(row) == {"contracts": "finished", "first come": "waiting"}
    assert not simulations.try_again(simulation=row, by=ada)
    run_all(row)
    assert (row.state, row.error) == ("finished", "")


def test_cancelled_while_it_runs(ada: Person) -> None:
    row = simulations.compare(by=ada, source=a_file(), variants=[Variant("contracts"), Variant("again")])
    part = row.parts.first()
    SimulationPart.objects.filter(pk=part.pk).update(state="running", attempts=1, touched_at=timezone.now())
    part.refresh_from_db()
    assert not simulating.run_part(part.pk)  # a message that came twice
    assert simulations.cancel(simulation=row, by=ada)
    assert not simulations.cancel(simulation=row, by=ada)
    row.refresh_from_db()
    assert (row.state, set(states(row).values())) == ("cancelled", {"cancelled"})
    reporter = simulating._Reporter(part, simulating.scenario_of(row))
    reporter._next_s = 0
    with pytest.raises(simulating.Stopped):
        reporter(60, 0)
    assert not simulating._end(part, "finished", figures={})
    assert simulations.try_again(simulation=row, by=ada)
    assert run_all(row).state == "finished"


def test_operators_cancel_others_do_not(ada: Person, house: House) -> None:
    row = simulations.compare(by=ada, source=a_file(), variants=[Variant("contracts")])
    ben, ops = somebody("ben"), somebody("ops")
    RoleGrant.objects.create(person=ops, node=house.root, role=Role.OPERATOR, valid_from=today())
    with pytest.raises(NotAllowed):
        simulations.cancel(simulation=row, by=ben)
    assert simulations.cancel(simulation=row, by=ops)


def test_lost_workers_are_given_up(ada: Person) -> None:
    row = simulations.compare(by=ada, source=a_file(), variants=[Variant("contracts")])
    now = timezone.now()
    part = row.parts.get()
    for attempt in (1, 2, 3):
        SimulationPart.objects.filter(pk=part.pk).update(
            state="running", attempts=attempt, touched_at=now - timedelta(minutes=5)
        )
        simulating.look_after(now)
        part.refresh_from_db()
        assert part.state == ("waiting" if attempt < 3 else "failed")
    row.refresh_from_db()
    assert (row.state, row.error) == ("failed", "contracts: Its worker was lost 3 times.")


def test_what_is_long_over_is_dropped(ada: Person) -> None:
    old, new = (run_all(simulations.compare(by=ada, source=a_file(), variants=[Variant("contracts")])) for _ in "12")
    Simulation.objects.filter(pk=old.pk).update(ended_at=timezone.now() - timedelta(days=61))
    assert simulating.forget_old() == 1
    assert list(Simulation.objects.all()) == [new]


def test_a_past_that_goes_on_is_replayed_too(ada: Person, house: House) -> None:
    house.past("B-0050", 4 * DAY_S + 100, ran(4 * DAY_S + 100, None, "h1"), state="running")
    row = simulations.compare(
        by=ada, source=History(house.cluster, at(4 * DAY_S), at(5 * DAY_S)), variants=[Variant("contracts")]
    )
    run_all(row)
    assert row.state == "finished", row.error
    assert row.notes == [
        "1 workload had not ended, or had been cut off: how long they take is the median of their like."
    ]
    assert row.parts.get(number=1).figures["started"] == 1
