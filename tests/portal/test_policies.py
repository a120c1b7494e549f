"""Comparing policies over seeds: the form, the page with its charts and tables, CSV, and the API."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from budgets.errors import InputError
from budgets.queries import today
from portal.forms.policies import title_of
from scheduler.models import Simulation
from scheduler.queries import simulations as asked
from scheduler.services import simulations
from scheduler.services.simulations import File, History, Laboratories
from scheduler.simulator import parse
from scheduler.simulator.intervals import Again
from scheduler.simulator.measures import MEASURES
from scheduler.simulator.named_policies import read, registered
from scheduler.simulator.policy_table import run as measured
from tests.portal.conftest import Laboratory
from tests.portal.test_simulator import ACTION, FILE, run, uploaded

AsPerson = Callable[..., Client]
HOUR_S = 3_600
TRACE = "\n".join(
    [
        "job_id,submit_time,duration,num_gpus,vc",
        *(f"j{place},{place * 2 * HOUR_S},{HOUR_S * (1 + place % 4)},{1 + 3 * (place % 3)},v" for place in range(36)),
        "",
    ]
)
"""Three days."""


def form_of(**changes: Any) -> dict[str, Any]:
    """A form that is right: a file under two policies, once."""
    said = {
        "action": ACTION,
        "work": "file",
        "file": uploaded(FILE),
        "policies": ["contracts", "fifo"],
        "seeds": "1",
        **changes,
    }
    return {name: value for name, value in said.items() if value is not None}


def test_a_file_over_seeds(calm: Laboratory, as_person: AsPerson) -> None:
    client = as_person(calm.ada)
    said = form_of(seeds="3", placements=["packing=worst_fit"], more_policies="\n contracts, lookback_s=3d \n")
    answer = client.post("/simulator/policies/", said)
    assert answer.status_code == 302, answer.content.decode()
    row = Simulation.objects.get()
    assert (row.kind, row.asked["policies"], row.asked["seeds"], row.asked["again"]) == (
        "policies",
        ["contracts", "fifo", "packing=worst_fit", "contracts,lookback_s=3d"],
        3,
        "moved",
    )
    assert row.parts.count() == 12
    assert row.parts.get(number=3).change["placement"] == {"packing": "worst_fit"}
    waiting = client.get(f"/simulator/{row.pk}/").content.decode()
    assert "data-chart" not in waiting
    run(row)
    assert (row.state, row.error) == ("finished", "")
    first = row.parts.get(number=2)
    assert (first.name, first.change["seed"]) == ("fifo, seed 1", 1)
    assert first.figures == measured(parse(json.dumps(FILE)), read("fifo")), "the first seed is the work as it is"
    page = client.get(f"/simulator/{row.pk}/").content.decode()
    lines = asked.policies_compared(row, asked.parts_of(row)).lines
    assert page.count("data-chart") == sum(any(line[each.name] is not None for line in lines) for each in MEASURES)
    assert "Means over the seeds with 95 % intervals, of luck alone" in page
    chart = json.loads(re.findall(r'<script type="application/json">(.*?)</script>', page)[0])
    assert [note["text"] for note in chart["layout"]["annotations"]] == row.asked["policies"]
    assert chart["data"][0]["name"] == "contracts"
    answer = client.get(f"/simulator/{row.pk}/figures/")
    text = b"".join(answer.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined]
    lines = list(csv.DictReader(text.splitlines()))
    (line,) = (each for each in lines if (each["policy"], each["figure"]) == ("fifo", "wait_mean_s"))
    assert line["runs"] == "3"
    assert float(line["difference_low"]) < float(line["difference"]) < float(line["difference_high"])


def test_another_laboratory_with_each_seed(calm: Laboratory) -> None:
    row = simulations.compare_policies(by=calm.ada, source=Laboratories(1, 64), policies=["fifo-skip"], seeds=2)
    run(row)
    compared = asked.policies_compared(row, asked.parts_of(row))
    assert (compared.again, compared.done) == (Again.INVENTED, [2])
    first, second = (part.figures or {} for part in row.parts.all())
    assert first["wait_mean_s"] != second["wait_mean_s"]


def test_history_beside_what_really_happened(lab: Laboratory, as_person: AsPerson) -> None:
    answer = as_person(lab.ada).post(
        "/simulator/policies/",
        form_of(
            work="history",
            file=None,
            cluster="north",
            first_day=(today() - timedelta(days=1)).isoformat(),
            last_day=today().isoformat(),
        ),
    )
    assert answer.status_code == 302, answer.content.decode()
    row = Simulation.objects.get()
    run(row)
    assert (row.state, row.error) == ("finished", "")
    compared = asked.policies_compared(row, asked.parts_of(row))
    assert compared.real is not None
    assert compared.real["usable"] is None
    assert compared.real["occupancy"] is not None
    page = as_person(lab.ben).get(f"/simulator/{row.pk}/").content.decode()
    assert "what really happened" in page
    assert "The dotted line is what really happened." in page
    assert "One run of each policy: no intervals." in page


def test_a_trace(calm: Laboratory, as_person: AsPerson) -> None:
    answer = as_person(calm.ada).post(
        "/simulator/policies/",
        form_of(work="trace", file=None, trace=uploaded(TRACE.encode(), "jobs.csv"), trace_gpus="8", seeds="3"),
    )
    assert answer.status_code == 302, answer.content.decode()
    row = Simulation.objects.get()
    assert (row.title, row.asked["again"]) == ("jobs.csv", "drawn")
    run(row)
    compared = asked.policies_compared(row, asked.parts_of(row))
    told = compared.lines[0]["finished"]
    assert told is not None
    assert (told["value"], told["runs"]) == (36, 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policies": None}, "Choose at least one."),
        ({"policies": ["magic"]}, "magic is not one of the available choices"),
        ({"more_policies": "lifo"}, "lifo: there is no scheduler &#x27;lifo&#x27;"),
        ({"more_policies": "fifo"}, "fifo: is there twice"),
        ({"more_policies": "swap_margin=NaN"}, "policy.swap_margin: must be a number of at least 0"),
        ({"more_policies": "service_samples=" + "1/" * 60 + "1"}, "at most 100 characters"),
        ({"seeds": "21"}, "Ensure this value is less than or equal to 20"),
        ({"policies": [each.name for each in registered()], "seeds": "20"}, "20 seeds are more than 200 runs"),
        ({"file": None}, "Choose a scenario file."),
        ({"work": "lab", "file": None}, "Say how many."),
        ({"work": "lab", "file": None, "days": "1", "gpus": "60"}, "must be a multiple of 8 from 64"),
        ({"work": "lab", "file": None, "days": "300", "gpus": "1024"}, "times GPUs must be at most 20,000 here"),
        ({"work": "trace", "file": None}, "Choose a trace."),
        ({"work": "trace", "trace": uploaded(b"a,b\n1,2\n"), "trace_gpus": "8"}, "row 1"),
        ({"work": "trace", "trace": uploaded(TRACE.encode()), "trace_gpus": "9"}, "must be a multiple of 8 up to"),
        ({"knob": "lookback_s"}, "There is no field &#x27;knob&#x27; in this form."),
    ],
)
def test_what_cannot_be_read_is_said_and_nothing_is_asked(
    calm: Laboratory, as_person: AsPerson, changes: dict[str, Any], said: str
) -> None:
    answer = as_person(calm.ada).post("/simulator/policies/", form_of(**{"file": uploaded(FILE), **changes}))
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert not Simulation.objects.exists()


def test_work_laid_over_laboratories_is_refused(calm: Laboratory) -> None:
    with pytest.raises(InputError, match="is laid over one scenario"):
        simulations.compare_policies(
            by=calm.ada, source=Laboratories(1, 64), policies=["fifo"], more=File("more", '{"workloads": []}')
        )


def test_the_form_offers_whatever_is_registered(calm: Laboratory, as_person: AsPerson) -> None:
    page = as_person(calm.ada).get("/simulator/policies/").content.decode()
    for policy in registered():
        assert f'value="{policy.name}"' in page
    assert [policy.name for policy in registered() if title_of(policy.name) == policy.name] == [], "each has words"


def test_the_api_asks_and_tells(calm: Laboratory, as_person: AsPerson) -> None:
    client = as_person(calm.ada)

    def post(**said: Any) -> Any:
        return client.post("/api/v1/simulations/", json.dumps(said), content_type="application/json")

    policies = {"names": ["contracts", "fifo"], "seeds": 2}
    answer = post(laboratories={"days": 1, "gpus": 64}, policies=policies)
    assert answer.status_code == 201, answer.content
    row = Simulation.objects.get(pk=answer.json()["number"])
    run(row)
    found = client.get(f"/api/v1/simulations/{row.pk}/results/").json()
    assert (found["kind"], found["again"], found["real"]) == ("policies", "invented", None)
    contracts, fifo = found["policies"]
    assert (fifo["name"], fifo["done"], fifo["wanted"]) == ("fifo", 2, 2)
    assert contracts["measures"]["wait_mean_s"]["difference"] is None
    apart = fifo["measures"]["wait_mean_s"]["difference"]
    assert apart["low"] <= apart["value"] <= apart["high"]
    assert post(trace={"content": TRACE, "gpus": 8}, policies=policies).status_code == 201
    for said, field in (
        ({"laboratories": {"days": 1, "gpus": 64}}, "variants"),
        ({"laboratories": {"days": 1, "gpus": 64}, "variants": [{"name": "a"}]}, "policies"),
        ({"trace": {"content": "a,b\n1,2\n", "gpus": 8}, "policies": policies}, "trace"),
        ({"scenario": FILE, "policies": {"names": ["lifo"]}}, "policies"),
        ({"scenario": FILE, "policies": policies, "sweep": {"knob": "lookback_s", "values": [1]}}, "variants"),
    ):
        answer = post(**said)
        assert answer.status_code == 400, said
        assert field in json.dumps(answer.json()), said


def test_no_history_that_is_to_come(calm: Laboratory) -> None:
    now = timezone.now()
    with pytest.raises(InputError, match="still to come"):
        simulations.compare_policies(
            by=calm.ada, source=History(calm.cluster, now, now + timedelta(days=1)), policies=["contracts"]
        )
