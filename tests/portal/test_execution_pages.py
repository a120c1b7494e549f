"""What pages and the API say of sessions, secrets, lost work, repairs and shadows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.test import Client
from django.utils import timezone

from scheduler.models import Node, Repair, Run, Workload
from scheduler.services import node_health, rollout
from tests.portal.conftest import Laboratory
from tests.portal.test_pages import hidden, text_of

TOKEN = "hf_very-secret-token"


def form(client: Client, **changed: str) -> dict[str, str]:
    """A filled submission of a session."""
    page = client.get("/workloads/new/")
    return {
        "action": hidden(page, "action"),
        "cluster": "north",
        "project": "A1",
        "name": "notebook",
        "size": "1",
        "contract": "30 min",
        "priority": "0",
        "command": "jupyter lab",
        "time_limit": "",
        "tasks": "1",
        "checkpoint": "out/last",
        "checkpoint_every": "10 min",
        "save_command": "save --all",
        "restore_command": "jupyter lab --restore",
        "secrets": f"HF_TOKEN={TOKEN}\nOTHER = 12345678\n",
        **changed,
    }


def test_a_session_is_submitted_with_its_checkpoint_and_secrets_that_no_page_shows(
    calm: Laboratory, as_person: Callable[..., Client]
) -> None:
    client = as_person(calm.ada)
    answer = client.post("/workloads/new/", form(client))
    assert answer.status_code == 302
    made = Workload.objects.get()
    assert (made.save_command, made.restore_command) == (["save", "--all"], ["jupyter", "lab", "--restore"])
    assert (made.checkpoint, made.checkpoint_every_s, made.resumable) == ("out/last", 600, True)
    assert made.secrets == {"HF_TOKEN": TOKEN, "OTHER": "12345678"}
    page = client.get(f"/workloads/{made.code}/").content.decode()
    assert "HF_TOKEN" in page
    assert "is saved, returns to the queue, and is restored where it runs next" in page
    told = client.get(f"/api/v1/workloads/{made.code}/").content.decode()
    assert '"secrets":["HF_TOKEN","OTHER"]' in told
    assert TOKEN not in page + told


def test_what_was_wrong_with_a_form_does_not_show_its_secrets_again(
    calm: Laboratory, as_person: Callable[..., Client]
) -> None:
    client = as_person(calm.ada)
    for changed, words in (
        ({"size": "lots"}, "is not a number"),
        ({"secrets": f"HF_TOKEN={TOKEN}\nHF_TOKEN=again-again"}, "line 2 is not NAME=value"),
        ({"secrets": "HF_TOKEN=short"}, "HF_TOKEN: must be 8 to"),
        ({"command": f"run {TOKEN}"}, "HF_TOKEN: its value stands in the command"),
        ({"save_command": ""}, "a session that can be restored has both"),
    ):
        answer = client.post("/workloads/new/", form(client, **changed))
        page = answer.content.decode()
        assert answer.status_code == 400, changed
        assert words in page, changed
        assert "<details open>" in page
        assert f"HF_TOKEN={TOKEN}" not in page
    assert not Workload.objects.exists()


def test_lost_work_is_said_by_run_and_in_all(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    run = Run.objects.filter(workload=lab.taken, state="ended").first()
    assert run is not None
    Run.objects.filter(pk=run.pk).update(lost_s=900)
    page = text_of(as_person(lab.ben).get(f"/workloads/{lab.taken.code}/"))
    assert "Lost since its checkpoints 2.0 GPU-h" in page
    told = as_person(lab.ben).get(f"/api/v1/workloads/{lab.taken.code}/explain/").json()
    assert told["runs"][0]["lost_milli_s"] == 900 * 8_000


def test_nodes_say_their_trouble_and_how_they_were_repaired(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    node = Node.objects.order_by("name").first()
    assert node is not None
    now = timezone.now().replace(microsecond=0)
    for alone in (True, True, False):
        Repair.objects.create(node=node, cause="x", state="done", began_at=now, ended_at=now, needed_person=not alone)
    node_health.report(node=node, problems=["GPU 3 is lost"])
    Repair.objects.create(node=node, cause="GPU 3 is lost", began_at=now)
    page = text_of(as_person(lab.ops).get("/nodes/north/"))
    assert "3 nodes came back from repair in 30 days; 2 of them (66.7 %) needed no person." in page
    assert page.count("GPU 3 is lost") == 2
    told = as_person(lab.ben).get("/api/v1/clusters/north/repairs/").json()
    assert (told["done"], told["by_themselves"], told["has_hook"]) == (3, 2, False)
    assert [(each["node"], each["state"], each["cause"]) for each in told["going"]] == [
        (node.name, "draining", "GPU 3 is lost")
    ]


def test_pages_say_which_cluster_shadows_and_until_when(lab: Laboratory, as_person: Callable[..., Client]) -> None:
    now = timezone.now().replace(microsecond=0)
    client = as_person(lab.ben)
    assert "shadow" not in text_of(client.get("/queue/north/"))
    for mode, starts_at in (("shadow", now), ("contracts", now + timedelta(days=3))):
        rollout.plan(cluster=lab.cluster, mode=mode, starts_at=starts_at, by=None, reason="compare first", now=now)
    for path in ("/queue/north/", "/nodes/north/", "/tree/north/"):
        page = text_of(client.get(path))
        assert "north shadows: what contracts would decide is shown" in page, path
        assert "contracts are carried out." in page, path
    (cluster,) = client.get("/api/v1/clusters/").json()
    assert cluster["rules"] == "shadow"
    assert "rules of a cluster changed" in text_of(as_person(lab.ops).get("/audit/"))
