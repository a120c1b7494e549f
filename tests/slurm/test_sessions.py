"""Sessions and checkpoints on a real Slurm: saved inside the grace, restored elsewhere, told at the best moment."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.utils import timezone

from budgets.models import Cluster, Message, Person
from scheduler.models import LogChunk, Run, ThroughputReport, Workload
from scheduler.services import bad_ends, nodes, policies, workloads
from tests.slurm.cluster import SlurmSite
from tests.slurm.conftest import Site, make_site, tidy

pytestmark = pytest.mark.long

GRACE_S = 8
SESSION = """
echo "{word} on $ALLOTMENT_NODE: $(cat kernel-$RANK 2>/dev/null)"
trap '{on_term}' TERM
while :; do sleep 0.1; done
"""
SAVE = "echo rank $RANK of $WORLD_SIZE on $ALLOTMENT_NODE > kernel-$RANK"
TRAIN = """
trap 'echo told; exit 143' TERM
for n in $(seq 1000); do
    for piece in $(seq $1); do sleep 0.25; done
    if [ "$RANK" = 0 ]; then echo $n > last; {call}; fi
done
"""
"""Only the first rank writes: ranks start at different times, and what another writes just after is a new one."""


@pytest.fixture(params=["gpu"])
def site(slurm: SlurmSite, transactional_db: None, request: pytest.FixtureRequest) -> Site:
    """A cluster that Slurm carries out, with a grace that leaves time for saving, and contracts of seconds."""
    tidy(slurm)
    site = make_site(slurm, Cluster.Executor.SLURM, unit=request.param)
    policies.change(cluster=site.cluster, knobs={"grace_s": GRACE_S, "min_runtime_min_s": 2})
    return site


def session(
    site: Site, *, save: str = SAVE, on_term: str = "exit 143", min_runtime_s: int = 0, **more: Any
) -> Workload:
    """A session on one node."""
    return site.submit(
        *("sh", "-c", SESSION.format(word="new", on_term=on_term)),
        min_runtime_s=min_runtime_s,
        save_command=["sh", "-c", save],
        restore_command=["sh", "-c", SESSION.format(word="restored", on_term=on_term)],
        **more,
    )


def drained_away(site: Site, workload: Workload) -> tuple[Run, Run]:
    """Drain its nodes once it is running and has printed something; the run that left, and the one that goes on."""
    site.wait(workload, "running")
    site.until(lambda: f"on {site.nodes_of(site.run(workload))[-1]}" in site.printed(workload))
    first = site.run(workload)
    for name in site.nodes_of(first):
        nodes.ask_drain(node=site.node(name), reason="firmware")
    site.until(lambda: workload.runs.count() == 2)
    site.wait(workload, "running")
    before, after = workload.runs.order_by("number")
    return before, after


def seconds_to_leave(run: Run) -> float:
    """From when it was asked to stop until it was gone."""
    assert run.stop_asked_at is not None
    assert run.ended_at is not None
    return (run.ended_at - run.stop_asked_at).total_seconds()


@pytest.mark.parametrize(("site", "size"), [("gpu", 8), ("core", 64)], indirect=["site"])
def test_a_session_is_saved_for_a_drain_and_restored_elsewhere_with_its_directory(site: Site, size: int) -> None:
    owner = Person.objects.create(username="ana", display_name="Ana")
    workload = session(site, gpus=size)
    Workload.objects.filter(pk=workload.pk).update(owner=owner)
    first, second = drained_away(site, workload)
    assert (first.saved, first.lost_s, first.end_reason, first.exit_code) == (True, 0, "drained", -15)
    assert seconds_to_leave(first) <= GRACE_S
    left, there = site.nodes_of(first), site.nodes_of(second)
    assert len(left) == len(there) == 2
    assert not set(left) & set(there)
    site.until(lambda: site.printed(workload).count("restored") == 2)
    said = [line for line in site.printed(workload).splitlines() if line.startswith(("new", "restored"))]
    assert sorted(said) == sorted(
        [f"new on {name}: " for name in left]
        + [
            f"restored on {now}: rank {rank} of 2 on {was}"
            for rank, (was, now) in enumerate(zip(left, there, strict=True))
        ]
    )
    bad_ends.tell(timezone.now())
    assert list(Message.objects.order_by("pk").values_list("subject", flat=True)) == [
        f"{workload.code} was saved and left {', '.join(left)}: drained; it is restored when it runs again",
        f"{workload.code} is restored on {', '.join(there)}",
    ]


def test_at_the_end_of_its_contract_it_is_saved_for_who_is_next_even_if_it_will_not_leave(site: Site) -> None:
    workload = session(site, gpus=16, min_runtime_s=3, on_term="")  # it ignores SIGTERM
    site.wait(workload, "running")
    run = site.run(workload)
    taker = site.submit("sleep", "2", gpus=16, leaf=site.rival, min_runtime_s=2)
    site.wait(taker, "finished", within_s=60)
    run.refresh_from_db()
    assert (run.saved, run.lost_s, run.end_reason) == (True, 0, "preempted_fair_share")
    assert run.contract_ends_at is not None
    assert run.stop_asked_at is not None
    assert run.stop_asked_at >= run.contract_ends_at
    assert GRACE_S / 2 < seconds_to_leave(run) <= GRACE_S
    site.wait(workload, "running")
    site.until(lambda: site.printed(workload).count("restored") == 4)


@pytest.mark.parametrize("save", ["echo cannot >&2; exit 1", "sleep 60"])
def test_one_that_cannot_be_saved_in_time_leaves_in_time_and_begins_anew(site: Site, save: str) -> None:
    workload = session(site, save=save, gpus=4)
    first, _second = drained_away(site, workload)
    assert (first.saved, first.lost_s) == (False, None)
    assert seconds_to_leave(first) <= GRACE_S + 1
    site.until(lambda: site.printed(workload).count("new on") == 2)
    assert ("cannot" in "".join(chunk.text for chunk in first.ranks.get().chunks.all())) == save.startswith("echo")


def preempted(site: Site, workload: Workload) -> Run:
    """Somebody funded takes its devices; its run when that is over."""
    run = site.run(workload)
    site.submit("sleep", "60", gpus=16, leaf=site.rival)
    site.until(lambda: Run.objects.filter(pk=run.pk, state="ended").exists())
    run.refresh_from_db()
    return run


@pytest.mark.parametrize("how", ["file", "call"])
def test_a_preemption_waits_for_a_checkpoint_that_is_about_to_be_written(site: Site, how: str) -> None:
    policies.change(cluster=site.cluster, knobs={"grace_s": 20})
    said = {"checkpoint": "last", "checkpoint_every_s": 4} if how == "file" else {}
    calls = "allotment-checkpoint --next-in 4; allotment-report --tokens 3000 --seconds=1.5 --parameters 7e9"
    script = TRAIN.replace("{call}", calls if how == "call" else ":")
    workload = site.submit(*("sh", "-c", script, "train", "16"), gpus=16, min_runtime_s=0, resumable=True, **said)
    site.wait(workload, "running")
    last = site.slurm.root / "jobs" / workload.code / "last"
    site.until(lambda: site.run(workload).ranks.exclude(checkpoint_at=None).count() == 4)
    before = int(last.read_text())
    time.sleep(1)  # rows have whole seconds: what was written in the second in which it is told to stop counts as later
    run = preempted(site, workload)
    assert int(last.read_text()) == before + 1
    told = set(ThroughputReport.objects.filter(run=run).values_list("tokens", "span_ms", "parameters"))
    assert told == ({(3_000, 1_500, 7_000_000_000)} if how == "call" else set())
    assert run.lost_s is not None
    assert run.lost_s <= 3
    assert seconds_to_leave(run) < 10


def test_one_whose_next_checkpoint_is_far_away_is_told_at_once_and_what_it_loses_is_said(site: Site) -> None:
    policies.change(cluster=site.cluster, knobs={"grace_s": 20})
    script = TRAIN.replace("{call}", ":")
    asked = {"checkpoint": "last", "checkpoint_every_s": 900, "gpus": 16, "min_runtime_s": 0, "resumable": True}
    workload = site.submit("sh", "-c", script, "train", "10000", **asked)
    site.wait(workload, "running")
    time.sleep(3)
    run = preempted(site, workload)
    assert run.running_at is not None
    assert run.ended_at is not None
    assert seconds_to_leave(run) <= 4
    assert run.lost_s == (run.ended_at - run.running_at).total_seconds() >= 3


def test_a_secret_that_is_printed_is_not_kept(site: Site) -> None:
    value = "hf_0123456789abcdef"
    pieces = 'printf "%s" "token: ${HF_TOKEN%cdef}"; sleep 3; echo cdef; echo "$HF_TOKEN"; printf "%s" hf_01; sleep 1'
    work = site.submit("sh", "-c", pieces, secrets={"HF_TOKEN": value})
    site.wait(work, "finished")
    kept = "".join(LogChunk.objects.filter(rank__run__workload=work).order_by("offset").values_list("text", flat=True))
    assert kept == "token: [HF_TOKEN]\n[HF_TOKEN]\nhf_01"
    assert value in site.printed(work)  # in the owner's own directory


def test_a_session_that_is_cancelled_is_saved_and_does_not_come_back(site: Site) -> None:
    workload = session(site, gpus=4)
    site.wait(workload, "running")
    site.until(lambda: site.printed(workload))
    workloads.cancel(workload=workload, by=None)
    site.wait(workload, "cancelled")
    assert site.run(workload).saved is True
    assert workload.runs.count() == 1
