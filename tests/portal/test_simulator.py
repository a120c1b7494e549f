"""The simulator's pages: ask, watch, compare, cancel, try again, take away."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from budgets.queries import today
from scheduler.models import Simulation, SimulationPart
from scheduler.services import simulating, simulations
from scheduler.services.simulations import FILE_BYTES, File, Variant
from tests.portal.conftest import Laboratory

FILE: dict[str, Any] = {
    "name": "small",
    "cluster": {"nodes": {"h1": 8}},
    "tree": {"A": 1, "B": 1},
    "workloads": [
        {"id": "a1", "leaf": "A", "submit": 0, "gpus": 8, "min_runtime": "1h", "duration": "4h"},
        {"id": "b1", "leaf": "B", "submit": "10m", "gpus": 8, "min_runtime": "1h", "duration": "1h"},
        {"id": "b2", "leaf": "B", "submit": "20m", "gpus": 1, "min_runtime": "10m", "duration": "5m"},
    ],
}
ACTION = "0123456789abcdef" * 2
AsPerson = Callable[..., Client]


def uploaded(content: Any, name: str = "small.json") -> SimpleUploadedFile:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return SimpleUploadedFile(name, data, content_type="application/json")


def form_of(**changes: Any) -> dict[str, Any]:
    """A form that is right: a file under two schedulers."""
    said = {"action": ACTION, "work": "file", "file": uploaded(FILE), "schedulers": ["contracts", "fifo"], **changes}
    return {name: value for name, value in said.items() if value is not None}


def a_simulation(lab: Laboratory, *, by: Any = None, is_run: bool = True) -> Simulation:
    row = simulations.compare(
        by=by or lab.ada,
        source=File("small.json", json.dumps(FILE)),
        variants=[Variant("contracts"), Variant("first come", {"scheduler": "fifo"})],
    )
    if is_run:
        run(row)
    return row


def run(row: Simulation) -> None:
    if row.scenario is None:
        simulating.prepare(row.pk)
    for pk in row.parts.filter(state="waiting").values_list("pk", flat=True):
        simulating.run_part(pk)
    row.refresh_from_db()


def test_a_file_is_asked_for_once(calm: Laboratory, as_person: AsPerson) -> None:
    client = as_person(calm.ada)
    first = client.post("/simulator/new/", form_of())
    second = client.post("/simulator/new/", form_of(file=uploaded(FILE)))
    row = Simulation.objects.get()
    assert (first.status_code, first.headers["Location"]) == (302, f"/simulator/{row.pk}/")
    assert second.headers["Location"] == first.headers["Location"]
    assert (row.made_by, row.title) == (calm.ada, "small.json")
    assert [(part.name, part.change) for part in row.parts.all()] == [
        ("contracts", {}),
        ("fifo", {"policy": {"scheduler": "fifo"}}),
    ]


def test_a_stretch_of_history_with_other_knobs(lab: Laboratory, as_person: AsPerson) -> None:
    answer = as_person(lab.ada).post(
        "/simulator/new/",
        form_of(
            work="history",
            file=None,
            cluster="north",
            first_day=(today() - timedelta(days=1)).isoformat(),
            last_day=today().isoformat(),
            schedulers=["contracts"],
            lookback="14 d",
            reservations="4",
        ),
    )
    assert answer.status_code == 302, answer.content.decode()
    row = Simulation.objects.get()
    assert row.parts.get(number=2).change == {
        "policy": {"scheduler": "contracts", "lookback_s": 1_209_600, "reservations": 4}
    }
    run(row)
    assert row.state == "finished", row.error
    page = as_person(lab.ben).get(f"/simulator/{row.pk}/").content.decode()
    assert "what really happened" in page
    assert "Replayed as they were, half of" in page


def test_a_sweep(calm: Laboratory, as_person: AsPerson) -> None:
    answer = as_person(calm.ada).post(
        "/simulator/new/", form_of(schedulers=None, knob="lookback_s", values="1 d, 7 d", seeds="2")
    )
    assert answer.status_code == 302, answer.content.decode()
    row = Simulation.objects.get()
    run(row)
    page = as_person(calm.ada).get(f"/simulator/{row.pk}/").content.decode()
    assert "By lookback" in page
    assert page.count("2 of 2 runs") == 2


NORTH = {"work": "history", "cluster": "north"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"file": uploaded({**FILE, "tree": {"A": 1}})}, "workloads[1].leaf: there is no leaf &quot;B&quot;"),
        ({"file": uploaded(b"{")}, "not JSON"),
        ({"file": uploaded(b"\xff\xfe")}, "small.json is not UTF-8 text."),
        ({"file": uploaded(b" " * (FILE_BYTES + 1))}, "small.json is larger than 16 MB."),
        ({"file": None}, "Choose a scenario file."),
        ({"work": "dream"}, "dream is not one of the available choices"),
        ({"schedulers": None}, "Choose at least one, or a knob to sweep."),
        ({"schedulers": ["magic"]}, "magic is not one of the available choices"),
        ({"lookback": "soon"}, "&#x27;soon&#x27; is not a duration such as 2 h"),
        ({"reservations": "17"}, "Ensure this value is less than or equal to 16"),
        ({"knob": "lookback_s"}, "Say at least one value."),
        ({"knob": "lookback_s", "values": "29 d"}, "must be from 1 d to 28 d"),
        ({"knob": "reservations", "values": "x"}, "must be a whole number, not &quot;x&quot;"),
        ({"state": "finished"}, "There is no field &#x27;state&#x27; in this form."),
        (
            {"more": uploaded({"workloads": FILE["workloads"][:1]})},
            "workloads[0].id: there is a workload &quot;a1&quot;",
        ),
        ({**NORTH, "first_day": "2020-01-01"}, "Say which day."),
        ({**NORTH, "first_day": "2020-01-01", "last_day": "2020-09-01"}, "at most 13 weeks can be replayed"),
        ({**NORTH, "first_day": "2020-01-05", "last_day": "2020-01-01"}, "must be after the start"),
        ({**NORTH, "first_day": "2020-01-05", "last_day": "2999-01-01"}, "still to come"),
    ],
)
def test_what_cannot_be_read_is_said_and_nothing_is_asked(
    calm: Laboratory, as_person: AsPerson, changes: dict[str, Any], said: str
) -> None:
    for file in changes.values():
        if isinstance(file, SimpleUploadedFile):
            file.seek(0)
    answer = as_person(calm.ada).post("/simulator/new/", form_of(**changes))
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert not Simulation.objects.exists()


def test_the_fourth_at_once_is_refused_in_words(calm: Laboratory, as_person: AsPerson) -> None:
    for _ in range(3):
        a_simulation(calm, is_run=False)
    answer = as_person(calm.ada).post("/simulator/new/", form_of())
    assert answer.status_code == 400
    assert "You have 3 simulations that are not over" in answer.content.decode()


def test_the_page_polls_until_it_is_over(calm: Laboratory, as_person: AsPerson) -> None:
    row = a_simulation(calm, is_run=False)
    client = as_person(calm.ben)
    page = client.get(f"/simulator/{row.pk}/")
    assert (page.status_code, "Waiting for a worker, 0" in page.content.decode()) == (200, True)
    SimulationPart.objects.filter(simulation=row, number=1).update(state="running", progress_percent=50)
    Simulation.objects.filter(pk=row.pk).update(state="running")
    part = client.get(f"/simulator/{row.pk}/", headers={"HX-Request": "true"})
    assert part.status_code == 200
    assert "Running: 0 of 2 variants are done, 25" in part.content.decode()
    assert 'hx-trigger="every 1s"' in part.content.decode()
    assert "<html" not in part.content.decode()
    SimulationPart.objects.filter(simulation=row).update(state="waiting")
    run(row)
    part = client.get(f"/simulator/{row.pk}/", headers={"HX-Request": "true"})
    assert part.status_code == 286
    assert "hx-trigger" not in part.content.decode()
    assert client.get(f"/simulator/{row.pk}/").status_code == 200


def test_variants_side_by_side(calm: Laboratory, as_person: AsPerson) -> None:
    row = a_simulation(calm)
    page = as_person(calm.ben).get(f"/simulator/{row.pk}/").content.decode().replace("\xa0", " ")
    # b1 waited for the contract of a1, then b2 for that of a1's second run; first come, first served they wait for a1.
    assert "First come: " in page
    assert "Debug runs wait 4 h 40 min instead of 2 h 40 min and large gangs wait 0 s as before" in page
    assert '<span class="worse">4 h 40 min</span>' in page
    assert "Team A" in page  # the lab's node of that code, with its chip


def test_a_failed_one_says_so_and_is_tried_again(calm: Laboratory, as_person: AsPerson) -> None:
    row = a_simulation(calm, is_run=False)
    whole = row.scenario
    Simulation.objects.filter(pk=row.pk).update(scenario=b"junk")
    run(row)
    client = as_person(calm.ada)
    page = client.get(f"/simulator/{row.pk}/").content.decode()
    assert "It failed: contracts: It broke off; the fault has been logged." in page
    assert "Try again" in page
    assert "Try again" not in as_person(calm.ben).get(f"/simulator/{row.pk}/").content.decode()
    assert as_person(calm.ben).post(f"/simulator/{row.pk}/again/").status_code == 404
    Simulation.objects.filter(pk=row.pk).update(scenario=whole)
    assert client.post(f"/simulator/{row.pk}/again/").status_code == 302
    run(row)
    assert row.state == "finished"


def test_cancelled_by_its_asker(calm: Laboratory, as_person: AsPerson) -> None:
    row = a_simulation(calm, is_run=False)
    assert as_person(calm.ben).post(f"/simulator/{row.pk}/cancel/").status_code == 404
    assert as_person(calm.ada).post(f"/simulator/{row.pk}/cancel/", {"state": "x"}).status_code == 400
    for _ in range(2):
        assert as_person(calm.ada).post(f"/simulator/{row.pk}/cancel/").status_code == 302
    row.refresh_from_db()
    assert row.state == "cancelled"
    assert "It was cancelled on" in as_person(calm.ada).get(f"/simulator/{row.pk}/").content.decode()


def test_a_proposal_is_for_the_nodes_people(lab: Laboratory, as_person: AsPerson) -> None:
    row = simulations.propose(
        by=lab.mia,
        parent=lab.node["A"],
        cluster=lab.cluster,
        proposals={"more for A2": {"A1": 5_000, "A2": 5_000}},
        weeks=1,
    )
    run(row)
    assert row.state == "finished", row.error
    for person, status in ((lab.mia, 200), (lab.ada, 404), (lab.ben, 404), (lab.max, 200), (lab.ops, 200)):
        client = as_person(person)
        for path in ("", "figures/", "scenario/"):
            assert client.get(f"/simulator/{row.pk}/{path}").status_code == status, (person, path)
        assert (row.title in client.get("/simulator/").content.decode()) == (status == 200)


def test_files_to_take_away(calm: Laboratory, as_person: AsPerson) -> None:
    row = a_simulation(calm)
    client = as_person(calm.ben)
    table = client.get(f"/simulator/{row.pk}/figures/")
    lines = b"".join(table).decode("utf-8-sig").splitlines()
    assert lines[0] == "number,variant,state,figure,value"
    assert "2,first come,finished,waits.debug.median_s,16800" in lines
    scenario = client.get(f"/simulator/{row.pk}/scenario/")
    assert json.loads(scenario.content) == FILE
    assert 'filename="simulation-' in scenario.headers["Content-Disposition"]


def test_what_is_not_there(calm: Laboratory, as_person: AsPerson) -> None:
    client = as_person(calm.ada)
    for path in ("/simulator/1/", "/simulator/1/figures/", "/simulator/99999999999999999999/"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "There is no simulation" in answer.content.decode()
    assert client.get("/simulator/?page=x").status_code == 400


def test_the_list_asks_no_more_for_more_rows(calm: Laboratory, as_person: AsPerson) -> None:
    client = as_person(calm.ada)

    def asked() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert client.get("/simulator/").status_code == 200
        return len(queries)

    a_simulation(calm)
    few = asked()
    for _ in range(3):
        a_simulation(calm)
    assert asked() == few <= 12


# --- over the API -----------------------------------------------------------------------------------------------------


def post(client: Client, body: Any) -> tuple[int, Any]:
    answer = client.post("/api/v1/simulations/", body, content_type="application/json")
    return answer.status_code, answer.json()


def test_asked_for_over_the_api(calm: Laboratory, as_person: AsPerson) -> None:
    client = as_person(calm.ada)
    asked = {
        "scenario": FILE,
        "variants": [{"name": "contracts"}, {"name": "margin", "policy": {"swap_margin": 0.5}}],
        "idempotency_key": ACTION,
    }
    status, made = post(client, asked)
    assert (status, made["state"], made["title"]) == (201, "waiting", "small")
    assert post(client, asked)[1]["number"] == made["number"]
    run(Simulation.objects.get())
    found = client.get(f"/api/v1/simulations/{made['number']}/").json()
    assert (found["state"], found["progress_percent"], len(found["parts"])) == ("finished", 100, 2)
    assert found["parts"][0]["figures"]["waits"]["debug"]["median_s"] == 9_600
    listed = as_person(calm.ben).get("/api/v1/simulations/").json()["results"]
    assert [(row["number"], row["made_by"]) for row in listed] == [(made["number"], "ada")]
    assert "figures" not in listed[0]["parts"][0]


def test_a_what_if_and_a_sweep_over_the_api(lab: Laboratory, as_person: AsPerson) -> None:
    client = as_person(lab.mia)
    what_if = {"node": "A", "cluster": "north", "weeks": 1, "proposals": {"less": {"A1": 6_000}}}
    status, made = post(client, {"what_if": what_if})
    assert (status, made["kind"], [part["name"] for part in made["parts"]]) == (
        201,
        "what_if",
        ["as they were", "less"],
    )
    assert as_person(lab.ben).get(f"/api/v1/simulations/{made['number']}/").status_code == 404
    begin, end = ((lab.now - timedelta(days=days)).isoformat() for days in (1, 0))
    history = {"cluster": "north", "from_at": begin, "until_at": end}
    status, made = post(client, {"history": history, "sweep": {"knob": "reservations", "values": [0, 4], "seeds": 2}})
    assert (status, made["kind"], len(made["parts"])) == (201, "sweep", 4)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"scenario": {**FILE, "tree": {"A": 1}}}, "scenario"),
        ({"state": "finished"}, "state"),
        ({"history": {"cluster": "north", "from_at": "x", "until_at": "y"}}, "history.from_at"),
        ({"sweep": {"knob": "reservations", "values": [0]}}, "variants"),
        ({"variants": [{"name": "x", "policy": {"lookback": 1}}]}, "variants"),
        ({"scenario": None}, "scenario"),
    ],
)
def test_the_api_names_the_field(calm: Laboratory, as_person: AsPerson, changes: dict[str, Any], field: str) -> None:
    status, problem = post(as_person(calm.ada), {"scenario": FILE, "variants": [{"name": "contracts"}], **changes})
    assert status == 400
    assert problem["errors"][0]["field"] == field
    assert not Simulation.objects.exists()


def test_a_scenario_that_is_there_already(calm: Laboratory, as_person: AsPerson) -> None:
    client = as_person(calm.ada)
    asked = client.post("/simulator/new/", form_of(work="picked", picked="lab", file=None, schedulers=["fifo"]))
    assert asked.status_code == 302, asked.content.decode()
    first = Simulation.objects.get()
    assert first.scenario is not None
    again = form_of(work="picked", picked=str(first.pk), file=None, action=ACTION[::-1], schedulers=["easy"])
    assert client.post("/simulator/new/", again).status_code == 302
    second = Simulation.objects.exclude(pk=first.pk).get()
    assert second.scenario is not None
    assert bytes(second.scenario) == bytes(first.scenario)
    nobody = client.post("/simulator/new/", form_of(work="picked", picked="999", file=None))
    assert nobody.status_code == 400


def test_orders_that_others_have_published_are_contracts_with_knobs(calm: Laboratory, as_person: AsPerson) -> None:
    client = as_person(calm.ada)
    client.post("/simulator/new/", form_of(schedulers=["contracts", "attained", "shortest", "half-life"]))
    row = Simulation.objects.get()
    assert [(part.name, part.change.get("policy", {})) for part in row.parts.order_by("number")] == [
        ("contracts", {}),
        ("attained", {"leaf_order": "tiresias"}),
        ("shortest", {"leaf_order": "shortest"}),
        ("half-life", {"tree_order": "half_life"}),
    ]
    run(row)
    page = client.get(f"/simulator/{row.pk}/").content.decode()
    assert "Finish-time fairness" in page
    assert "Completion, mean" in page
