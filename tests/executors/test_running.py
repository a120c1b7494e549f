"""Commands really run: told their part of the gang, heard, stopped in their grace, resumed where they were."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from budgets.models import Person
from scheduler.models import Holding, Rank, Run
from scheduler.services import nodes, workloads
from tests.executors.conftest import GRACE_S, Site, wait_for

PRINT_ENVIRONMENT = ("/usr/bin/python3", "-c", "import json, os; print(json.dumps(dict(os.environ)))")
COUNT_UP = """
count=$(cat saved 2>/dev/null || echo 0)
echo "from $count"
trap 'echo $count > saved; echo "saved $count"; exit 143' TERM
while true; do count=$((count + 1)); sleep 0.05; done
"""


def test_a_command_runs_and_what_it_prints_is_kept(site: Site) -> None:
    site.agent()
    workload = site.submit("/bin/sh", "-c", "echo to people; echo to others >&2; printf 'gr\\303\\274n\\n'")
    site.wait(workload, "finished")
    run = site.run(workload)
    assert (run.exit_code, run.end_reason) == (0, "finished")
    assert run.started_at <= run.running_at <= run.ended_at
    assert run.contract_ends_at == run.running_at + timedelta(seconds=300)
    assert site.printed(workload) == "to people\nto others\ngrün\n"
    assert workload.reason_text == "All ranks exited with status 0."
    assert not Holding.objects.filter(run=run, released_at=None).exists()


def test_a_gang_over_two_nodes_is_told_its_part(site: Site) -> None:
    site.agent("n1")
    site.agent("n2")
    workload = site.submit(*PRINT_ENVIRONMENT, gpus=4, environment={"SEED": "7", "RANK": "99"}, checkpoint="saved/last")
    site.wait(workload, "finished")
    run = site.run(workload)
    directory = site.folder / "work" / workload.code
    common = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
        "NNODES": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20_000 + run.pk % 10_000),
        "ALLOTMENT_WORKLOAD": workload.code,
        "ALLOTMENT_RUN": str(run.pk),
        "ALLOTMENT_NODES": "n1,n2",
        "ALLOTMENT_DEVICES": "0,1",
        "ALLOTMENT_GPU_MILLI": "2000",
        "ALLOTMENT_GPU_MEMORY_MIB": "",
        "ALLOTMENT_DIRECTORY": str(directory),
        "ALLOTMENT_CHECKPOINT": str(directory / "saved/last"),
        "ALLOTMENT_GRACE_S": str(GRACE_S),
        "ALLOTMENT_PROGRESS_S": "0",
        "ALLOTMENT_RESTORED": "",
        "SEED": "7",
        "HOME": str(directory),
        "TMPDIR": str(directory),
        "LANG": "C.UTF-8",
    }
    for rank in (0, 1):
        told = json.loads(site.printed(workload, rank))
        told.pop("LC_CTYPE", None)  # Python's own
        node = f"n{rank + 1}"
        own = {"RANK": str(rank), "NODE_RANK": str(rank), "ALLOTMENT_NODE": node}
        assert told == common | own | {"PATH": f"{site.folder}/{node}/programs:/usr/local/bin:/usr/bin:/bin"}


def test_workloads_on_one_node_see_devices_of_their_own(site: Site) -> None:
    site.agent(gpus=3)
    command = ("/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES; sleep 60")
    two, one = site.submit(*command, gpus=2), site.submit(*command, gpus=1)
    site.wait(two, "running")
    site.wait(one, "running")
    assert wait_for(lambda: (site.printed(two), site.printed(one)) == ("0,1\n", "2\n"))


def test_of_a_gang_that_cannot_start_everywhere_nothing_goes_on(site: Site) -> None:
    site.agent("n1")
    site.agent("n2", work=site.folder / "elsewhere")
    (site.folder / "elsewhere" / "A-0001").write_text("in the way of its directory")
    workload = site.submit("/bin/sleep", "60", gpus=4)
    site.wait(workload, "failed")
    run = site.run(workload)
    assert [(rank.state, rank.exit_code) for rank in run.ranks.all()] == [("exited", -15), ("failed", None)]
    assert run.running_at is None
    assert workload.reason_text == "Rank 1 could not be started on n2."
    assert site.marked(run) == []


@pytest.mark.parametrize("last_node", ["comes back", "is dead"])
def test_a_gang_of_four_nodes_never_starts_in_part(site: Site, last_node: str) -> None:
    agents = [site.agent(f"n{number}") for number in range(1, 5)]
    agents[3].kill()  # nobody knows yet
    workload = site.submit("/bin/sleep", "60", gpus=8, resumable=True)
    run = site.run(workload)
    wait_for(lambda: Rank.objects.filter(run=run, state="running").count() == 3)
    site.look()
    run.refresh_from_db()
    assert (run.state, run.running_at, run.contract_ends_at) == ("starting", None, None)
    if last_node == "comes back":
        agents[3].start()
        site.wait(workload, "running")
        run.refresh_from_db()
        began = dict(run.ranks.values_list("index", "began_at"))
        assert began[3] == max(began.values())
        assert (run.running_at, run.contract_ends_at) == (began[3], began[3] + timedelta(seconds=300))
    else:
        assert nodes.set_health(node=agents[3].row, health="down")
        site.wait(workload, "queued")
        run.refresh_from_db()
        assert (run.running_at, run.end_reason) == (None, "node_lost")
        wait_for(lambda: site.marked(run) == [])
        site.look()
        assert workload.runs.count() == 1  # three nodes are no four


def test_a_rank_that_fails_takes_its_gang_along(site: Site) -> None:
    site.agent("n1")
    site.agent("n2")
    workload = site.submit("/bin/sh", "-c", "[ $RANK = 0 ] && exec sleep 60; sleep 0.3; exit 3", gpus=4)
    site.wait(workload, "failed")
    run = site.run(workload)
    assert [(rank.state, rank.exit_code) for rank in run.ranks.all()] == [("exited", -15), ("exited", 3)]
    assert (run.exit_code, run.end_reason) == (3, "failed")
    assert workload.reason_text == "Rank 1 on n2 exited with status 3."
    assert site.marked(run) == []


def test_what_cannot_be_executed_fails_and_only_its_people_read_why(site: Site) -> None:
    site.agent()
    workload = site.submit("/no/such/secret-program")
    site.wait(workload, "failed")
    rank = site.run(workload).ranks.get()
    assert rank.message == "executing /no/such/secret-program: No such file or directory"
    assert workload.reason_text == "Rank 0 could not be started on n1."


def test_what_ignores_the_stop_signal_is_killed_after_its_grace_with_all_it_started(site: Site) -> None:
    site.agent()
    stubborn = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 60; true' & sleep 60; sleep 60"
    workload = site.submit("/bin/sh", "-c", stubborn)
    site.wait(workload, "running")
    run = site.run(workload)
    wait_for(lambda: len(site.marked(run)) == 4)
    workloads.cancel(workload=workload, by=None, reason="enough")
    site.wait(workload, "cancelled")
    run.refresh_from_db()
    assert site.marked(run) == []
    assert run.exit_code == -9
    assert GRACE_S - 1 <= (run.ended_at - run.stop_asked_at).total_seconds() <= GRACE_S + 2


def test_what_a_command_leaves_behind_ends_with_it(site: Site) -> None:
    site.agent()
    workload = site.submit("/bin/sh", "-c", "setsid sleep 60 & echo started")
    site.wait(workload, "finished")
    assert site.marked(site.run(workload)) == []


def test_a_preempted_run_saves_and_goes_on_elsewhere(site: Site, owners: list[Person]) -> None:
    site.agent("n1", gpus=2)
    filler = site.submit("/bin/sh", "-c", COUNT_UP, gpus=2, min_runtime_s=0, resumable=True)
    site.wait(filler, "running")
    wait_for(lambda: "from 0" in site.printed(filler))
    taker = site.submit("/bin/sleep", "1", gpus=2, leaf=site.rival)
    first = site.run(filler)
    wait_for(lambda: Run.objects.get(pk=first.pk).state == "ended")
    first.refresh_from_db()
    assert (first.end_reason, first.exit_code) == ("preempted_unallocated", 143)
    assert first.ended_at <= first.leave_by
    saved = site.printed(filler).splitlines()[-1].removeprefix("saved ")
    assert int(saved) > 0
    filler.refresh_from_db()
    assert (filler.state, filler.preemptions) == ("queued", 1)
    assert filler.progress_s == max(0, (first.stop_asked_at - first.running_at).total_seconds())
    site.look()
    site.wait(taker, "finished")
    site.look()
    site.wait(filler, "running")
    assert wait_for(lambda: site.printed(filler)) == f"from {saved}\n"
    assert site.run(filler).number == 2


def test_output_is_kept_up_to_a_cap_and_does_not_hold_the_command_up(site: Site) -> None:
    site.agent(**{"output-max-kib": 100})
    workload = site.submit("/usr/bin/python3", "-c", "print('é' * 200_000)")
    site.wait(workload, "finished")
    assert site.printed(workload) == "é" * (50 * 1024)


def test_a_run_that_was_told_to_stop_before_it_began_ends(site: Site) -> None:
    agent = site.agent(**{"heartbeat-s": 3_000, "wake-port": -1}, joins=False)
    wait_for(lambda: site.cluster.nodes.exclude(heartbeat_at=None).exists())
    workload = site.submit("/bin/sleep", "60")
    workloads.cancel(workload=workload, by=None, reason="a slip", now=timezone.now())
    agent.kill()
    agent.start()
    site.wait(workload, "cancelled")
    assert site.run(workload).ranks.get().message == "told to stop before it began"
    assert agent.process.poll() is None
