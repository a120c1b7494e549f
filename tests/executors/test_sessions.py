"""Interactive work that is saved when it is told to stop, and restored elsewhere with the same working directory."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from budgets.models import Message, Person
from scheduler.models import Run, SavedDirectory, Workload
from scheduler.services import bad_ends, directories, nodes
from tests.executors.conftest import Site, wait_for

SESSION = """
mkdir -p notes; echo "began on $ALLOTMENT_NODE" >> notes/log; ln -sf notes/log latest
echo "{word} on $ALLOTMENT_NODE: $(cat kernel 2>/dev/null)"
trap 'exit 143' TERM
while true; do sleep 0.05; done
"""
SAVE = "echo state of $ALLOTMENT_NODE > kernel"


@pytest.fixture(autouse=True)
def data_folder(settings: Any, tmp_path: Any) -> None:
    """Archives lie in a folder of the test's."""
    settings.DATA_DIR = tmp_path


def session(site: Site, save: str = SAVE, **more: Any) -> Workload:
    """A session that waits for somebody; unallocated, so that anybody funded takes its place."""
    return site.submit(
        *("/bin/sh", "-c", SESSION.format(word="new")),
        gpus=2,
        min_runtime_s=0,
        save_command=["/bin/sh", "-c", save],
        restore_command=["/bin/sh", "-c", SESSION.format(word="restored")],
        **more,
    )


def move_away(site: Site, workload: Workload) -> None:
    """Drain its node, wait until it goes on elsewhere."""
    first = site.run(workload)
    (rank,) = first.ranks.select_related("node")
    nodes.ask_drain(node=rank.node)

    def moved() -> bool:
        site.look()
        return site.run(workload).pk != first.pk

    wait_for(moved)


def test_a_session_is_saved_for_a_drain_and_restored_elsewhere_with_its_directory(
    site: Site, owners: list[Person]
) -> None:
    site.agent("n1", work=site.folder / "work1")
    workload = session(site, owner=None)
    site.wait(workload, "running")
    assert wait_for(lambda: site.printed(workload)) == "new on n1: \n"
    Workload.objects.filter(pk=workload.pk).update(owner=owners[0])
    site.agent("n2", work=site.folder / "work2")
    move_away(site, workload)
    site.wait(workload, "running", within_s=30)
    assert wait_for(lambda: site.printed(workload)) == "restored on n2: state of n1\n"
    assert (site.folder / "work2" / workload.code / "notes" / "log").read_text() == "began on n1\nbegan on n2\n"
    assert (site.folder / "work2" / workload.code / "latest").is_symlink()
    first, second = Run.objects.filter(workload=workload).order_by("number")
    assert (first.saved, first.lost_s, first.end_reason) == (True, 0, "drained")
    assert (second.saved, second.state) == (None, "running")
    (kept,) = SavedDirectory.objects.all()
    assert (kept.run, kept.node.name, kept.stored_at is not None) == (first, "n1", True)
    bad_ends.tell(timezone.now())
    bad_ends.tell(timezone.now())
    told = list(Message.objects.order_by("pk").values_list("subject", flat=True))
    assert told == [
        f"{workload.code} was saved and left n1: drained; it is restored when it runs again",
        f"{workload.code} is restored on n2",
    ]


def test_it_returns_to_a_node_that_has_an_older_directory_with_the_newer_one(site: Site) -> None:
    site.agent("n1", work=site.folder / "work1")
    workload = session(site)
    site.wait(workload, "running")
    wait_for(lambda: site.printed(workload))
    site.agent("n2", work=site.folder / "work2")
    move_away(site, workload)
    site.wait(workload, "running", within_s=30)
    wait_for(lambda: site.printed(workload))
    nodes.resume(node=site.agents[0].row)
    move_away(site, workload)
    site.wait(workload, "running", within_s=30)
    assert wait_for(lambda: site.printed(workload)) == "restored on n1: state of n2\n"
    log = site.folder / "work1" / workload.code / "notes" / "log"
    assert log.read_text() == "began on n1\nbegan on n2\nbegan on n1\n"
    wait_for(lambda: SavedDirectory.objects.filter(stored_at=None).count() == 0)
    assert directories.forget() == 1  # the older of the two
    assert len(list(directories.folder().iterdir())) == 1


def test_where_nodes_share_their_file_system_nothing_travels(site: Site) -> None:
    site.agent("n1", shared_work=True)
    workload = session(site)
    site.wait(workload, "running")
    wait_for(lambda: site.printed(workload))
    site.agent("n2", shared_work=True)
    move_away(site, workload)
    site.wait(workload, "running", within_s=30)
    assert wait_for(lambda: site.printed(workload)) == "restored on n2: state of n1\n"
    assert SavedDirectory.objects.get().received_bytes == 0


def test_a_session_that_cannot_be_saved_begins_anew(site: Site) -> None:
    site.agent("n1", work=site.folder / "work1")
    workload = session(site, save="echo cannot >&2; exit 1")
    site.wait(workload, "running")
    wait_for(lambda: site.printed(workload))
    site.agent("n2", work=site.folder / "work2")
    move_away(site, workload)
    site.wait(workload, "running", within_s=30)
    assert wait_for(lambda: site.printed(workload)) == "new on n2: \n"
    first = Run.objects.filter(workload=workload).earliest("number")
    assert (first.saved, first.lost_s) == (False, None)
    assert "cannot" in "".join(chunk.text for chunk in first.ranks.get().chunks.all())
    assert not SavedDirectory.objects.exists()


def test_saving_that_takes_too_long_does_not_outlast_the_grace(site: Site) -> None:
    site.agent("n1", work=site.folder / "work1")
    workload = session(site, save="sleep 60")
    site.wait(workload, "running")
    site.agent("n2", work=site.folder / "work2")
    move_away(site, workload)
    first = Run.objects.filter(workload=workload).earliest("number")
    assert first.saved is False
    assert first.ended_at is not None
    assert first.stop_asked_at is not None
    assert (first.ended_at - first.stop_asked_at).total_seconds() <= 4
    assert site.marked(first) == []


def test_a_directory_that_is_too_large_to_travel_is_said_so(site: Site) -> None:
    site.agent("n1", work=site.folder / "work1", archive_max_mib=1)
    workload = session(site, save="head -c 3000000 /dev/urandom > big")
    site.wait(workload, "running")
    site.agent("n2", work=site.folder / "work2")
    move_away(site, workload)
    site.wait(workload, "failed", within_s=30)
    rank = site.run(workload).ranks.get()
    assert rank.message == "its saved directory did not travel: pack: it is larger than 1048576 bytes"


@pytest.fixture
def cpu_site(site: Site) -> Site:
    """The same with cores in place of GPUs."""
    site.cluster.unit = "core"
    site.cluster.save()
    return site


def test_a_session_on_a_cluster_without_gpus_works_the_same(cpu_site: Site) -> None:
    site = cpu_site
    site.agent("n1", gpus=0, cores=2, work=site.folder / "work1")
    workload = session(site)
    site.wait(workload, "running")
    wait_for(lambda: site.printed(workload))
    site.agent("n2", gpus=0, cores=2, work=site.folder / "work2")
    move_away(site, workload)
    site.wait(workload, "running", within_s=30)
    assert wait_for(lambda: site.printed(workload)) == "restored on n2: state of n1\n"
