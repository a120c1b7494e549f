"""Parts of one GPU in the live system: at the door, on devices that several runs have, in the books."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from budgets.errors import InputError
from budgets.models import Cluster, Person
from budgets.sentences import taken_apart
from scheduler.models import Device, Holding, Node, Rank, Run, Workload
from scheduler.queries import usage as usage_queries
from scheduler.queries.trying import try_other
from scheduler.services import clusters, facts, policies, usage
from tests.scheduler.conftest import World, at, check_books

MPS = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"


@pytest.fixture
def house(make_world: Callable[..., World]) -> World:
    """A node of two GPUs, of which a hundredth may be asked for."""
    return make_world(nodes={"h1": 2}, fraction_min_milli=10)


def devices_of(workload: Workload) -> list[tuple[int, int]]:
    """(index, thousandths) of what its last run holds."""
    rows = Holding.objects.filter(run__workload=workload, released_at=None).order_by("device__index")
    return list(rows.values_list("device__index", "milli"))


def client_of(username: str) -> Client:
    """Somebody's browser."""
    client = Client()
    client.force_login(Person.objects.create_user(username), backend="django.contrib.auth.backends.ModelBackend")
    return client


def refused(house: World, gpus: float, **more: Any) -> str:
    """What the door says, of the size."""
    with pytest.raises(InputError) as caught:
        house.submit("A", gpus, **more)
    assert caught.value.field == "size_milli"
    return caught.value.message


def test_the_door_takes_parts_of_one_device_where_the_cluster_gives_them_out(house: World) -> None:
    assert refused(house, 2.5) == "2.5 is neither a number of whole devices nor a part of one"
    assert refused(house, 0.005) == "the smallest part of a device on north is 0.01, and 0.005 is less"
    with pytest.raises(InputError) as caught:
        house.submit("A", 0.5, environment={MPS: "0=80G"})
    assert caught.value.field == f"environment.{MPS}"
    assert house.submit("A", 1, environment={MPS: "0=80G"}).state == "queued"  # among its own processes
    kept = house.submit("A", 0.5)
    policies.change(cluster=house.cluster, knobs={"fraction_min_milli": 0})
    assert refused(house, 0.5) == "north gives out whole devices only, and 0.5 is a part of one"
    house.live(40)
    kept.refresh_from_db()
    assert kept.state == "running"  # what was taken is kept


def test_only_gpus_that_agents_look_after_are_given_out_in_parts() -> None:
    for cluster in (Cluster(unit="core", executor="agent"), Cluster(executor="slurm"), Cluster(executor="advised")):
        assert not policies.gives_out_parts(cluster)
    assert policies.gives_out_parts(Cluster(executor="agent"))


def test_a_cluster_of_cores_does_not_take_the_knob(db: None) -> None:
    cores = clusters.create(name="cores", unit="core")
    with pytest.raises(InputError, match="only GPUs that agents look after") as caught:
        policies.change(cluster=cores, knobs={"fraction_min_milli": 10})
    assert caught.value.field == "fraction_min_milli"


def test_two_halves_are_on_one_device_and_a_whole_one_beside_them(house: World) -> None:
    rows = [house.submit("A", gpus, sim={"startup_s": 5, "duration_s": 600}) for gpus in (0.5, 1, 0.5)]
    house.step(0)
    waits = house.submit("B", 0.25, now=1)
    house.live(60, since=10)
    assert [devices_of(row) for row in rows] == [[(0, 500)], [(1, 1_000)], [(0, 500)]]
    waits.refresh_from_db()
    assert (waits.state, devices_of(waits)) == ("queued", [])
    node = Node.objects.get(name="h1")
    told = {each.workload: (each.devices, each.device_milli) for each in facts.desired(node, at(60))}
    assert told == {rows[0].code: ([0], 500), rows[1].code: ([1], 1_000), rows[2].code: ([0], 500)}
    house.live(700, since=70)
    waits.refresh_from_db()
    assert (waits.state, devices_of(waits)) == ("running", [(0, 250)])
    run = Run.objects.get(workload=rows[0])
    assert (run.size_milli, run.funded) == (500, True)
    length_s = int((run.ended_at - run.started_at).total_seconds())
    usage.rebuild(house.cluster, at(0), at(7_200), now=at(7_200))
    books = usage_queries.totals([house.leaves["A"]], house.cluster, at(0), at(7_200))[house.leaves["A"].pk]
    assert books.charged_milli_s == (500 + 1_000 + 500) * length_s
    shown = client_of("ops").get("/nodes/north/").content.decode()
    assert all(
        words in shown for words in ("0.25\N{NO-BREAK SPACE}GPU of GPU 0", "GPU 0: 0.75\N{NO-BREAK SPACE}GPU free")
    )
    page = client_of("ana").get(f"/workloads/{waits.code}/").content.decode()
    assert "<td>h1, GPU 0</td>" in page
    viewer = client_of("bo")
    for row, devices, milli in ((rows[0], [0], 500), (rows[1], [1], 1_000)):
        (found,) = viewer.get(f"/api/v1/workloads/{row.code}/runs/").json()["results"]
        assert found["holds"] == [{"node": "h1", "devices": devices, "milli": milli}]


def test_one_that_waits_is_told_where_the_most_is_free(house: World) -> None:
    for gpus in (0.7, 0.6):
        house.submit("A", gpus)
    waits = house.submit("B", 0.5, min_runtime_s=0, now=1)
    house.live(30)
    waits.refresh_from_db()
    assert waits.reason_text == (
        "Waiting: parts of GPUs are free, but no GPU has 0.5 GPU free. "
        "The most that is free on one GPU is 0.4 GPU, on h1."
    )
    assert taken_apart(waits.reason_text.partition(" The most")[0]) is not None
    smaller = try_other(waits, size_milli=400, min_runtime_s=None, now=at(40))
    assert (smaller.tried.action, smaller.tried.nodes) == ("start", ["h1"])
    for size_milli in (5, 1_500):
        with pytest.raises(InputError) as caught:
            try_other(waits, size_milli=size_milli, min_runtime_s=None, now=at(40))
        assert caught.value.field == "size"


def test_whatever_comes_and_goes_no_device_is_given_out_twice(make_world: Callable[..., World]) -> None:
    """Parts, whole devices and gangs, funded and not, by chance; devices are filled before new ones are begun."""
    world = make_world(nodes={"h1": 2, "h2": 3}, fraction_min_milli=10)
    chance = random.Random(93)
    most = 0
    for second in range(0, 1_200, 60):
        for _each in range(chance.randint(1, 3)):
            world.submit(
                chance.choice("AB"),
                chance.choice([0.1, 0.25, 0.5, 0.5, 0.75, 0.9, 1, 1, 2]),
                min_runtime_s=chance.choice([0, 300, 300]),
                now=second,
                resumable=True,
                sim={"startup_s": 0, "duration_s": chance.randint(50, 500), "exit_delay_s": 5},
            )
        world.step(second)
        check_books()
        sharing = Device.objects.filter(holdings__released_at=None).order_by("pk")
        most = max(most, len(sharing) - len(set(sharing)))
    assert most >= 2  # devices were shared
    assert Rank.objects.filter(run__size_milli__lt=1_000).count() > 10
    assert Run.objects.filter(end_reason__startswith="preempted", size_milli__lt=1_000).exists()
