"""The emergency stop on pages and by the API: asked once more, done once, for operators alone."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client

from scheduler.models import EmergencyStop, Node, Run, Workload
from scheduler.services.runs import HOLDING_STATES
from tests.portal.conftest import Laboratory
from tests.portal.test_api import fields_of
from tests.portal.test_api_base import send

NORTH = "/api/v1/clusters/north/"


def going(lab: Laboratory) -> set[str]:
    """The workloads that go on."""
    return set(Run.objects.filter(state__in=HOLDING_STATES).values_list("workload__code", flat=True))


def test_a_cluster_is_stopped_on_its_page_by_who_types_its_name(lab: Laboratory, as_person: Callable) -> None:
    client, path = as_person(lab.ops), "/clusters/north/stop/"
    assert path in client.get("/nodes/north/").content.decode()
    asked = client.get(path)
    before = len(going(lab))
    assert asked.context["number"] == before > 1
    form = {"action": asked.context["form"].initial["action"], "reason": "smoke", "confirm": "south"}
    refused = client.post(path, form)
    assert (refused.status_code, list(refused.context["form"].errors)) == (400, ["confirm"])
    assert len(going(lab)) == before
    for _ in range(2):
        assert client.post(path, {**form, "confirm": "north"}).headers["Location"] == "/nodes/north/"
    assert going(lab) == set()
    assert EmergencyStop.objects.count() == 1

    page = as_person(lab.ada).get("/queue/north/").content.decode()
    assert 'data-rules="stopped"' in page
    assert "“smoke”" in page
    lab.step()
    waits = as_person(lab.ada).get(f"/workloads/{lab.waits.code}/").content.decode()
    assert "An operator: nothing starts on north now." in waits

    start = client.get("/clusters/north/start/")
    assert "“smoke”" in start.content.decode()
    form = {"action": start.context["form"].initial["action"], "reason": "a toaster"}
    client.post("/clusters/north/start/", form)
    assert 'data-rules="stopped"' not in client.get("/queue/north/").content.decode()


def test_a_node_and_a_workload_are_stopped_on_their_pages(lab: Laboratory, as_person: Callable) -> None:
    client = as_person(lab.ops)
    run = Run.objects.get(workload=lab.taker, state__in=HOLDING_STATES)
    node = run.ranks.get().node
    other = going(lab) - {lab.taker.code}
    assert f"/workloads/{lab.taker.code}/stop/" in client.get(f"/workloads/{lab.taker.code}/").content.decode()
    client.post(f"/workloads/{lab.taker.code}/stop/", {"action": "a" * 32, "reason": "a leak"})
    assert going(lab) == other
    assert Workload.objects.get(pk=lab.taker.pk).reason_text == "Stopped by an operator: a leak"
    assert f"/nodes/north/{node.name}/stop/" in client.get("/nodes/north/").content.decode()
    client.post(f"/nodes/north/{node.name}/stop/", {"action": "b" * 32, "reason": "a leak"})
    assert Node.objects.get(pk=node.pk).drain_reason == "a leak"


def test_pages_of_stops_are_for_operators(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    workload, before = f"/workloads/{lab.taker.code}/", going(lab)
    for person in (lab.ada, lab.mia, lab.max):
        client = as_person(person)
        for path in ("/clusters/north/stop/", "/clusters/north/start/", "/nodes/north/n01/stop/", f"{workload}stop/"):
            assert client.get(path).status_code == 403
            assert client.post(path, {"reason": "r", "confirm": "north"}).status_code == 403
        assert "Emergency stop" not in client.get(workload).content.decode()
    assert going(lab) == before


def test_the_api_stops_and_starts_a_cluster(lab: Laboratory, as_person: Callable) -> None:
    client, before = as_person(lab.ops), len(going(lab))
    assert fields_of(send(client, f"{NORTH}stop/", {})) == ["reason"]
    first, again = (send(client, f"{NORTH}stop/", {"reason": "smoke"}).json() for _ in range(2))
    assert (first["changed"], first["stopped_runs"], again["changed"], again["stopped_runs"]) == (
        True,
        before,
        False,
        0,
    )
    assert (first["cluster"]["stopped"]["by"], first["cluster"]["stopped"]["reason"]) == ("ops", "smoke")
    assert as_person(lab.ada).get("/api/v1/clusters/").json()[0]["stopped"] == first["cluster"]["stopped"]
    lab.step()
    rows = client.get(f"{NORTH}queue/").json()["rows"]
    assert {row["reason_code"] for row in rows} == {"cluster_stopped"}
    done = send(client, f"{NORTH}start/", {"reason": "a toaster"}).json()
    assert (done["changed"], done["cluster"]["stopped"]) == (True, None)
    assert send(client, f"{NORTH}start/", {"reason": "again"}).json()["changed"] is False
    verbs = [each["verb"] for each in client.get("/api/v1/audit/?fields=verb").json()["results"]]
    assert verbs[:2] == ["cluster.started", "cluster.stopped"]
    assert set(verbs[2:4]) == {"run.stopped"}


def test_the_api_stops_a_node_and_a_workload(lab: Laboratory, as_person: Callable) -> None:
    client = as_person(lab.ops)
    stop = f"/api/v1/workloads/{lab.taker.code}/stop/"
    assert fields_of(send(as_person(lab.ada), stop, {"reason": "r"}), 403) == []
    first, again = (send(client, stop, {"reason": "a leak"}).json() for _ in range(2))
    assert (first["changed"], first["workload"]["state"], again["changed"]) == (True, "leaving", False)
    left = going(lab)
    node = Run.objects.filter(workload__code__in=left)[0].ranks.get().node
    on_it = set(Run.objects.filter(ranks__node=node, state__in=HOLDING_STATES).values_list("workload__code", flat=True))
    done = send(client, f"{NORTH}nodes/{node.name}/stop/", {"reason": "a leak"}).json()
    assert (done["changed"], done["stopped_runs"], done["node"]["drain_reason"]) == (True, len(on_it), "a leak")
    assert going(lab) == left - on_it
