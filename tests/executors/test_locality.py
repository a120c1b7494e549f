"""Gangs on real agents that wait for their rack, look further after their wait, and are spread; read over HTTP."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from typing import Any

import pytest
from django.test import Client

from budgets.models import Person
from budgets.services import tokens
from scheduler.models import Node, Workload
from scheduler.services import policies, workloads
from tests.executors.conftest import Site, wait_for

SLEEP = ("/bin/sleep", "600")
WHERE = ("/bin/sh", "-c", "echo $ALLOTMENT_NODE of $ALLOTMENT_NODES: $ALLOTMENT_DEVICES; sleep 600")
RACKS = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
WAITS_S = [3, 5, 600]
"""From one rack to any, then to twice the nodes; nobody here waits until the last."""
PATIENCE_S = 60


class Reader:
    """Somebody who reads the portal over HTTP: its API with a token, its pages signed in."""

    def __init__(self, site: Site, person: Person) -> None:
        self._url = site.url
        self._token = tokens.create(person=person, name="laptop", scopes=("read",), days=1)[1]
        browser = Client()
        browser.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
        self._cookie = browser.cookies["sessionid"].value

    def _get(self, path: str, **headers: str) -> str:
        request = urllib.request.Request(f"{self._url}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.read().decode()

    def api(self, path: str) -> Any:
        return json.loads(self._get(f"/api/v1/{path}", Authorization=f"Bearer {self._token}"))

    def page(self, path: str) -> str:
        """A page's words, one blank between any two."""
        marked = self._get(path, Cookie=f"sessionid={self._cookie}")
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", marked))


def until_running(site: Site, workload: Workload) -> Workload:
    """Passes as time goes on, until it runs."""

    def runs() -> bool:
        site.look()
        workload.refresh_from_db()
        time.sleep(0.1)
        return workload.state == Workload.State.RUNNING

    wait_for(runs, within_s=PATIENCE_S)
    return workload


def hold_one(site: Site, node: str) -> Workload:
    """Another project's work on one GPU of a node."""
    return site.submit(*SLEEP, leaf=site.rival, node=Node.objects.get(name=node))


def said_of(delays: list[dict[str, Any]]) -> dict[str, int]:
    """Seconds waited, by cause; that no pass has looked yet ("unseen") takes up to a second at each submission."""
    return {each["cause"]: each["waited_s"] for each in delays if each["waited_s"]}


@pytest.mark.long
def test_a_gang_waits_for_its_rack_then_goes_anywhere_then_is_spread(site: Site, owners: list[Person]) -> None:
    policies.change(cluster=site.cluster, knobs={"locality_waits_s": WAITS_S, "reservations": 0})
    for name, rack in RACKS.items():
        site.agent(name, rack=rack, rail=f"{rack}-q1", leaf=f"{rack}-l1", joins=False)
    wait_for(lambda: Node.objects.exclude(wake_url="").count() == len(RACKS), within_s=PATIENCE_S)
    reader = Reader(site, owners[0])
    told = {
        each["name"]: (each["rack"], each["rail"], each["leaf"])
        for each in reader.api("clusters/bench/nodes/")["results"]
    }
    assert told == {name: (rack, f"{rack}-q1", f"{rack}-l1") for name, rack in RACKS.items()}

    # One whole node is free in each rack: enough for the gang, but not in one.
    for name in ("n1", "n4"):
        site.wait(hold_one(site, name), "running", within_s=PATIENCE_S)
    gang = site.submit(*WHERE, gpus=4, locality=1)
    said = reader.api(f"workloads/{gang.code}/")
    assert (said["state"], said["reason_code"]) == ("queued", "waiting_placement")
    assert said["reason"].endswith("It asks for 2 nodes of one rack, later of any rack.")
    assert "It asks for 2 nodes of one rack until" in reader.page(f"/workloads/{gang.code}/")
    until_running(site, gang)
    (run,) = reader.api(f"workloads/{gang.code}/runs/")["results"]
    assert [(held["node"], held["devices"]) for held in run["holds"]] == [("n2", [0, 1]), ("n3", [0, 1])]
    waited = said_of(reader.api(f"workloads/{gang.code}/explain/")["delays"])
    assert (waited.keys() - {"unseen"}, sum(waited.values()) >= WAITS_S[0]) == ({"fragmentation"}, True)
    assert "Room in one place" in reader.page(f"/workloads/{gang.code}/")
    workloads.cancel(workload=gang, by=None)
    site.wait(gang, "cancelled", within_s=PATIENCE_S)

    # One GPU is free on each of four nodes: no two whole nodes, in whatever rack.
    for name in ("n2", "n3"):
        site.wait(hold_one(site, name), "running", within_s=PATIENCE_S)
    gang = site.submit(*WHERE, gpus=4, locality=2, time_limit_s=3_600)
    said = reader.api(f"workloads/{gang.code}/")
    assert (said["state"], said["reason_code"]) == ("queued", "waiting_placement")
    price = said["spreading"]
    assert (price["level"], price["is_held"]) == (0, False)
    assert (price["fewest"], price["servers"], price["price"]) == (2, 4, 1.066)
    assert price["worth_waiting_s"] == 239
    page = reader.page(f"/workloads/{gang.code}/")
    assert "On 4 servers in place of 2 the same work takes 1.07 times the GPU-hours." in page
    assert "Waiting up to 3 min 59 s for the fewest would still finish earlier." in page
    until_running(site, gang)
    said = reader.api(f"workloads/{gang.code}/")
    assert said["reason"].endswith("It is spread over 4 nodes, where 2 would do.")
    assert said["spreading"]["is_held"]
    (run,) = reader.api(f"workloads/{gang.code}/runs/")["results"]
    assert [(held["node"], len(held["devices"])) for held in run["holds"]] == [(name, 1) for name in RACKS]
    for rank, name in enumerate(RACKS):
        assert wait_for(lambda rank=rank: site.printed(gang, rank)).startswith(f"{name} of n1,n2,n3,n4: ")
    waited = said_of(reader.api(f"workloads/{gang.code}/explain/")["delays"])
    assert (waited.keys() - {"unseen"}, sum(waited.values()) >= WAITS_S[1]) == ({"fragmentation"}, True)
    page = reader.page(f"/workloads/{gang.code}/")
    assert "It is spread over 4 servers, where 2 would do: 1.07 times the GPU-hours." in page
    over_time = said_of(reader.api("clusters/bench/waits/?node=A")["delays"])
    assert over_time.keys() - {"unseen"} == {"fragmentation"}
