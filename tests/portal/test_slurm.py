"""The page of a cluster's Slurm, its banner, and the API: from rows alone, as nothing here calls a command."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from budgets.errors import InputError
from budgets.models import Cluster
from scheduler.executors.slurm.history import PastJob
from scheduler.loop import tick_one
from scheduler.models import Node, SlurmAccount, SlurmJob, SlurmLink, SlurmOrder
from scheduler.services import clusters, nodes, workloads
from scheduler.services.slurm import links, usage
from tests.portal.conftest import Laboratory

COMMAND = "sacctmgr --immediate modify account where name=a set fairshare=6000"


@pytest.fixture
def link(lab: Laboratory) -> SlurmLink:
    """The laboratory's cluster has a Slurm, whose account of A differs."""
    Cluster.objects.filter(pk=lab.cluster.pk).update(executor=Cluster.Executor.SLURM)
    lab.cluster.refresh_from_db()
    link = links.connect(cluster=lab.cluster, partition="gpu", writes=True)
    SlurmAccount.objects.create(cluster=lab.cluster, node=lab.node["A"], name="a")
    link.tried_at = link.contact_at = link.drift_at = timezone.now()
    link.drift = [
        {
            "account": "a",
            "node": "A",
            "what": "fairshare",
            "is_now": "1",
            "should_be": "6000",
            "commands": [COMMAND],
        }
    ]
    link.foreign = [
        {"job": 7, "user": "evelina", "account": "x", "name": "y", "nodes": ["n01"], "devices": 2, "state": "RUNNING"}
    ]
    link.save()
    return link


def page(client: Client) -> str:
    """The page's text."""
    return client.get("/clusters/north/slurm/").content.decode()


def test_everybody_sees_how_it_stands_and_operators_see_the_commands(
    lab: Laboratory, link: SlurmLink, as_person: Callable[..., Client]
) -> None:
    work = lab.submit("A1", 2)
    SlurmJob.objects.create(
        cluster=lab.cluster, workload=work, job_id=41, state="PENDING", reason="JobHeldUser", shape="1x2 gpu"
    )
    seen, operated = page(as_person(lab.ada)), page(as_person(lab.ops))
    for html in (seen, operated):
        for words in ("full: decided here", "41", work.code, "JobHeldUser", "6000"):
            assert words in html
    assert [words in seen for words in (COMMAND, "evelina", "Write shares to Slurm")] == [False] * 3
    assert [words in operated for words in (COMMAND, "evelina", "Write shares to Slurm")] == [True] * 3


def test_a_dry_run_shows_what_would_be_done_and_what_was_refused(
    lab: Laboratory, link: SlurmLink, as_person: Callable[..., Client]
) -> None:
    link.writes, link.plan, link.troubles = False, ["scontrol release 41"], ["A1-0002: Invalid qos specification"]
    link.save()
    SlurmOrder.objects.create(
        cluster=lab.cluster, node=None, asked_by=lab.ops, asked_at=timezone.now(), outcome="failed", message="Off."
    )
    html = page(as_person(lab.ops))
    for words in ("off: dry run", "scontrol release 41", "Invalid qos specification", "Off."):
        assert words in html


def test_an_outage_is_a_banner_on_every_page_of_the_cluster(
    lab: Laboratory, link: SlurmLink, as_person: Callable[..., Client]
) -> None:
    client = as_person(lab.ada)
    assert 'data-slurm="well"' in client.get("/nodes/north/").content.decode()
    link.failing_since, link.error = timezone.now(), "scontrol gave no answer within 10 s"
    link.save()
    for path in ("/nodes/north/", "/queue/north/", "/clusters/north/slurm/"):
        html = client.get(path).content.decode()
        assert "scontrol gave no answer within 10 s" in html
    link.failing_since, link.error, link.tried_at = None, "", timezone.now() - timedelta(minutes=5)
    link.save()
    assert "slurm_sync does not run" in client.get("/nodes/north/").content.decode()


def test_what_others_hold_stands_beside_the_node(
    lab: Laboratory, link: SlurmLink, as_person: Callable[..., Client]
) -> None:
    Node.objects.filter(name="n02").update(taken_milli=2_000)
    assert "GPUs held by jobs of others" in as_person(lab.ada).get("/nodes/north/").content.decode()


def test_other_clusters_have_no_such_page_and_no_banner(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(lab.ops)
    assert client.get("/clusters/north/slurm/").status_code == 404
    assert "data-slurm" not in client.get("/nodes/north/").content.decode()


def test_an_operator_has_one_node_written_once(
    lab: Laboratory, link: SlurmLink, as_person: Callable[..., Client]
) -> None:
    client = as_person(lab.ops)
    sent = {"action": "a" * 32, "node": "A"}
    for _twice in (1, 2):
        assert client.post("/clusters/north/slurm/", sent).status_code == 302
    order = SlurmOrder.objects.get()
    assert (order.node, order.asked_by, order.outcome) == (lab.node["A"], lab.ops, "waiting")
    wrong = client.post("/clusters/north/slurm/", {"action": "b" * 32, "node": "NONE"})
    assert (wrong.status_code, "There is no budget node" in wrong.content.decode()) == (400, True)
    assert as_person(lab.ada).post("/clusters/north/slurm/", sent).status_code == 403
    order.outcome, order.commands, order.done_at = "done", [COMMAND], datetime.now(UTC)
    order.save()
    assert COMMAND in page(client)


def test_the_api_says_the_same(lab: Laboratory, link: SlurmLink, as_person: Callable[..., Client]) -> None:
    seen = as_person(lab.ada).get("/api/v1/clusters/north/slurm/").json()
    assert (seen["mode"], seen["writes"], seen["trouble"], seen["plan"]) == ("full", True, "", [])
    assert seen["drift"][0] | {"commands": None} == {
        "account": "a",
        "node": "A",
        "what": "fairshare",
        "is_now": "1",
        "should_be": "6000",
        "commands": None,
    }
    assert seen["drift"][0]["commands"] == []
    client = as_person(lab.ops)
    assert client.get("/api/v1/clusters/north/slurm/").json()["drift"][0]["commands"] == [COMMAND]
    answer = client.post("/api/v1/clusters/north/slurm/", {"node": "B"}, content_type="application/json")
    assert (answer.status_code, answer.json()["outcome"]) == (202, "waiting")
    refused = as_person(lab.ada).post("/api/v1/clusters/north/slurm/", {}, content_type="application/json")
    assert refused.status_code == 403


def test_the_number_of_queries_does_not_grow_with_jobs(
    lab: Laboratory, link: SlurmLink, as_person: Callable[..., Client], django_assert_max_num_queries: Callable
) -> None:
    client, counts = as_person(lab.ops), []
    for number in (1, 3):
        for each in range(number):
            work = lab.submit("A1", 1)
            SlurmJob.objects.create(cluster=lab.cluster, workload=work, job_id=100 * number + each)
        page(client)
        with django_assert_max_num_queries(60) as captured:
            page(client)
        counts.append(len(captured))
    assert counts[0] == counts[1]
    assert SlurmJob.objects.count() == 4


def test_pages_of_a_cluster_that_never_decides(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    south = clusters.create(name="south", executor=Cluster.Executor.ADVISED)
    nodes.register(cluster=south, name="s1", devices=8)
    links.connect(cluster=south, name="hpc")
    SlurmAccount.objects.create(cluster=south, node=lab.node["A1"], name="a1")
    start = lab.now - timedelta(hours=2)
    job = PastJob(
        *("12", "a1", "ada", "gpu", "COMPLETED", start, start, start + timedelta(hours=1)),
        *(None, 4, 8, 1, ["s1"], 0, "train"),
    )
    assert usage.store(SlurmLink.objects.get(cluster=south), [job]).jobs == 1
    assert tick_one(south) == 0
    client = as_person(lab.ada)
    for path in ("tree/south/", "queue/south/", "nodes/south/", "budget/A1/?cluster=south", "workloads/"):
        assert client.get(f"/{path}").status_code == 200, path
    for page_of in ("slurm", "timeline", "pyramid", "fairness", "waits", "squatting"):
        assert client.get(f"/clusters/south/{page_of}/").status_code == 200, page_of
    assert "Nobody has looked at it yet: slurm_sync does not run." in client.get("/nodes/south/").content.decode()
    with pytest.raises(InputError, match="Slurm decides: submit there"):
        workloads.submit(
            cluster=south, leaf=lab.node["A1"], owner=None, size_milli=1_000, min_runtime_s=3_600, command=["train"]
        )
