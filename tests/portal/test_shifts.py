"""Places on the network: what a submission says by the API and on its page, and what the workload's page tells."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.urls import reverse

from scheduler.models import Run, Workload
from scheduler.services import nodes, policies
from tests.portal.conftest import Laboratory
from tests.portal.test_api import fields_of, send

SENDS = {"period_ms": 240, "phases": [{"from_ms": 140, "until_ms": 240, "gbps": 45.0}]}


@pytest.fixture
def wide(transactional_db: None) -> Laboratory:
    """Two nodes below two leaves, whose uplinks carry 50 Gbit/s."""
    made = Laboratory()
    for name, leaf in (("n01", "L1"), ("n02", "L2")):
        nodes.register(
            cluster=made.cluster, name=name, devices=8, leaf=leaf, rail="A", now=made.now - timedelta(days=1)
        )
    policies.change(cluster=made.cluster, knobs={"leaf_uplink_gbps": 50})
    return made


def asked(communication: Any) -> dict[str, Any]:
    """A submission by the API."""
    return {
        "cluster": "north",
        "leaf": "A1",
        "size_milli": 16_000,
        "min_runtime_s": 3_600,
        "command": ["train"],
        "communication": communication,
    }


def words(answer: Any) -> str:
    """A page without its marks."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def test_from_the_submission_to_the_page(wide: Laboratory, as_person: Callable) -> None:
    client = as_person(wide.ada)
    code = send(client, "/api/v1/workloads/", asked(SENDS)).json()[0]["code"]
    wide.step()
    run = Run.objects.get(workload__code=code)
    place = {"shift_ms": 0, "period_ms": 240, "score": 1.0, "links": []}
    assert client.get(f"/api/v1/workloads/{code}/runs/").json()["results"][0]["time_shift"] == place
    assert "shifted by 0 ms of 240" in words(client.get(f"/workloads/{code}/"))
    assert "Beside it nobody" in words(client.get(f"/workloads/{code}/"))
    other = wide.submit("B1", 1, owner=wide.ben)
    run.time_shift = place | {"shift_ms": 100, "links": [{"leaf": "L2", "beside": [other.code], "score": 0.96}]}
    run.save()
    page = words(client.get(f"/workloads/{code}/"))
    assert "shifted by 100 ms of 240" in page
    assert f"Beside it on leaf L2 {other.code} ; score 0.96 of 1" in page
    assert "Place on the network" not in words(client.get(f"/workloads/{other.code}/"))


def test_nodes_say_their_leaf_and_rail(wide: Laboratory, as_person: Callable) -> None:
    page = words(as_person(wide.ops).get(reverse("nodes") + "?cluster=north"))
    assert "n01 rail A leaf switch L1" in page


@pytest.mark.parametrize(
    ("communication", "message"),
    [
        (SENDS | {"period_ms": 0}, "period_ms: must be a whole number from 1 to 3,600,000, but is 0"),
        ({"period_ms": 240, "phases": []}, "phases: must be 1 to 32, but are 0"),
        ("240", "must be an object with period_ms, phases"),
    ],
)
def test_the_api_names_the_place_of_what_is_wrong(
    wide: Laboratory, as_person: Callable, communication: Any, message: str
) -> None:
    answer = send(as_person(wide.ada), "/api/v1/workloads/", asked(communication))
    assert fields_of(answer) == ["communication"]
    assert answer.json()["errors"][0]["message"] == message
    assert not Workload.objects.exists()


def test_the_form_reads_what_people_type(wide: Laboratory, as_person: Callable) -> None:
    client = as_person(wide.ada)
    form = {
        "cluster": "north", "project": "A1", "size": "16", "contract": "1 h", "priority": "0", "command": "train",
        "tasks": "1", "communication": "240: 140-240",
    }  # fmt: skip
    said = words(client.post(reverse("submit"), form))
    assert "must be such as &quot;100: 50-100@45&quot;" in said
    assert not Workload.objects.exists()
    client.post(reverse("submit"), form | {"communication": "240: 140-240@45"})
    assert Workload.objects.get().communication == SENDS
