"""What keeps one owner's commands from another's, from the portal's secrets and from its databases."""

import json
import os
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from budgets.errors import InputError
from budgets.models import Person
from budgets.services import roles
from scheduler.executors import cgroups
from scheduler.executors.agent_config import interpreter
from tests.conftest import REPOSITORY
from tests.executors.conftest import FIRST_UID, AgentProcess, Site, wait_for

only_as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make workloads somebody else")
STRANGER_UID = 54_321
SINCE = date(2026, 1, 1)

WHO_AM_I = """
import json, os, resource
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
mask = os.umask(0)
print(json.dumps({
    "uids": status["Uid"].split(), "gids": status["Gid"].split(), "groups": status["Groups"].split(),
    "no_new_privs": status["NoNewPrivs"].strip(), "capabilities": int(status["CapEff"], 16), "umask": oct(mask),
    "core": resource.getrlimit(resource.RLIMIT_CORE), "memory": resource.getrlimit(resource.RLIMIT_AS),
    "oom": open("/proc/self/oom_score_adj").read().strip(),
    "descriptors": sorted(os.listdir("/proc/self/fd")), "stdin": os.readlink("/proc/self/fd/0"),
    "leader": os.getsid(0) == os.getpgid(0) == os.getpid(), "directory": os.getcwd(),
}))
"""
TRY = """
import json, os, socket, sys
said = {}
for path in sys.argv[1:]:
    try:
        if path.startswith("unix:"):
            socket.socket(socket.AF_UNIX).connect(path[5:])
        elif path.startswith("kill:"):
            os.kill(int(path[5:]), 0)
        else:
            os.listdir(path) if os.path.isdir(path) else open(path).close()
        said[path] = "open"
    except OSError as error:
        said[path] = type(error).__name__
print(json.dumps(said))
"""


def with_roles(site: Site, owners: list[Person]) -> list[Person]:
    """Make them members of the leaf."""
    for person in owners:
        roles.grant(person=person, node=site.leaf, role="member", valid_from=SINCE, by=None)
    return owners


@only_as_root
def test_a_command_is_nobody_else_and_has_no_way_up(site: Site, owners: list[Person]) -> None:
    site.agent(memory_limit="rlimit")
    ana, _bo = with_roles(site, owners)
    workload = site.submit("/usr/bin/python3", "-c", WHO_AM_I, owner=ana, memory_mib_per_rank=512)
    site.wait(workload, "finished")
    uid = str(FIRST_UID + ana.pk)
    told = json.loads(site.printed(workload))
    assert told.pop("descriptors") in (["0", "1", "2"], ["0", "1", "2", "3"])  # the last is of the look itself
    assert told == {
        "uids": [uid] * 4,
        "gids": [uid] * 4,
        "groups": [],
        "no_new_privs": "1",
        "capabilities": 0,
        "umask": "0o77",
        "core": [0, 0],
        "memory": [512 * 1024 * 1024] * 2,
        "oom": "500",
        "stdin": "/dev/null",
        "leader": True,
        "directory": str(site.folder / "work" / workload.code),
    }


@only_as_root
def test_a_command_reaches_no_secret_no_server_and_nobody_elses_files(site: Site, owners: list[Person]) -> None:
    agent = site.agent()
    ana, bo = with_roles(site, owners)
    hers = site.submit("/bin/sh", "-c", "echo hers > secret; sleep 60", owner=ana)
    site.wait(hers, "running")
    her_directory = site.folder / "work" / hers.code
    wait_for(lambda: (her_directory / "secret").exists())
    sockets = settings.ADDRESSES.sockets_dir
    assert (sockets / ".s.PGSQL.5432").is_socket()
    paths = [
        str(her_directory),
        str(her_directory / "secret"),
        str(agent.state),
        str(agent.state / "token"),
        str(agent.state / "ranks"),
        str(site.folder / "join_token"),
        str(settings.TEST_DIR / "secrets" / "secret_key"),
        str(sockets),
        f"unix:{sockets / '.s.PGSQL.5432'}",
        f"unix:{sockets / 'valkey.sock'}",
        f"kill:{site.run(hers).ranks.get().pid}",
    ]
    (site.folder / "join_token").chmod(0o600)
    his = site.submit("/usr/bin/python3", "-c", TRY, *paths, owner=bo)
    site.wait(his, "finished")
    assert json.loads(site.printed(his)) == dict.fromkeys(paths, "PermissionError")
    again = site.submit("/usr/bin/python3", "-c", TRY, str(her_directory), owner=ana)
    site.wait(again, "finished")
    assert json.loads(site.printed(again)) == {str(her_directory): "open"}


@only_as_root
def test_a_command_beyond_its_memory_fails_alone(site: Site) -> None:
    site.agent(memory_limit="rlimit")
    greedy = site.submit("/usr/bin/python3", "-c", "x = bytearray(600_000_000)", memory_mib_per_rank=256)
    site.wait(greedy, "failed")
    assert "MemoryError" in site.printed(greedy)


SHARE_MEMORY = """
import os, time
for child in range(4):
    if os.fork() == 0:
        kept = bytearray(100_000_000)
        time.sleep(60)
time.sleep(60)
"""


@only_as_root
def test_a_memory_limit_counts_all_of_a_ranks_processes_together(site: Site) -> None:
    if cgroups.base() is None:
        pytest.skip("this machine permits no control groups with a memory limit")
    site.agent()
    greedy = site.submit("/usr/bin/python3", "-c", SHARE_MEMORY, memory_mib_per_rank=256)
    modest = site.submit("/usr/bin/python3", "-c", "x = bytearray(100_000_000); print('fits')", memory_mib_per_rank=256)
    site.wait(modest, "finished")
    site.look()
    site.wait(greedy, "failed")
    (rank,) = site.run(greedy).ranks.all()
    assert rank.message == "it went over its memory limit of 256 MiB"
    assert list(Path(str(cgroups.base())).glob("bench.n1.*")) == []


@only_as_root
def test_without_a_user_for_its_owner_nothing_runs(site: Site, owners: list[Person]) -> None:
    site.agent(uids=f"{FIRST_UID}-{FIRST_UID}")
    ana, _bo = with_roles(site, owners)
    workload = site.submit("/bin/true", owner=ana)
    site.wait(workload, "failed")
    assert site.run(workload).ranks.get().message == f"no user left for owner {ana.pk} in {FIRST_UID}-{FIRST_UID}"


@only_as_root
def test_anothers_directory_is_not_taken_over(site: Site) -> None:
    site.agent()
    directory = site.folder / "work" / "A-0001"
    directory.mkdir()
    os.chown(directory, STRANGER_UID, STRANGER_UID)
    workload = site.submit("/bin/true")
    site.wait(workload, "failed")
    assert site.run(workload).ranks.get().message == "the working directory of A-0001 belongs to another user"


def test_where_nothing_keeps_owners_apart_only_operators_run_commands_of_their_own(
    site: Site, owners: list[Person], settings: Any
) -> None:
    settings.ANY_COMMANDS = False
    ana, bo = with_roles(site, owners)
    roles.grant(person=bo, node=site.leaf.parent, role="operator", valid_from=SINCE, by=None)
    with pytest.raises(InputError) as caught:
        site.submit("/bin/true", owner=ana)
    programs = "demo-debug, demo-evaluate, demo-session, demo-sweep, demo-train"
    assert str(caught.value) == (f"command: on these nodes only an operator may run that; everybody may run {programs}")
    assert site.submit("demo-debug", owner=ana).state == "refused"  # the cluster has no nodes: too large
    assert site.submit("/bin/true", owner=bo).state == "refused"


@only_as_root
def test_an_agent_without_root_runs_commands_as_itself(site: Site) -> None:
    python = interpreter()
    probe = subprocess.run(
        [python, "-c", "import scheduler.executors.agent"],
        check=False,
        cwd="/",
        user=STRANGER_UID,
        group=STRANGER_UID,
        extra_groups=[],
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    if probe.returncode:
        pytest.skip("this user's files cannot be read by another one")
    agent = site.agent(joins=False)
    agent.kill()
    home = site.folder / "stranger"
    home.mkdir(mode=0o700)
    os.chown(home, STRANGER_UID, STRANGER_UID)
    os.chmod(site.folder / "join_token", 0o644)
    with (site.folder / "n1.log").open("ab") as log:
        process = subprocess.Popen(
            [
                python,
                "-m",
                "scheduler.executors.agent",
                *agent.options,
                "--state",
                home / "n1",
                "--work",
                home / "work",
            ],
            cwd="/",
            user=STRANGER_UID,
            group=STRANGER_UID,
            extra_groups=[],
            env={"PYTHONPATH": str(REPOSITORY)},
            stdout=log,
            stderr=log,
        )
    site.agents.append(AgentProcess("n1", home, [], process=process))
    wait_for(lambda: site.cluster.nodes.exclude(wake_url="").exists())
    workload = site.submit("/usr/bin/python3", "-c", WHO_AM_I)
    site.wait(workload, "finished")
    told = json.loads(site.printed(workload))
    assert (told["uids"], told["no_new_privs"], told["umask"]) == ([str(STRANGER_UID)] * 4, "1", "0o77")


def test_the_demos_programs_are_found_by_name_and_save_what_they_did(site: Site) -> None:
    site.agent(programs=REPOSITORY / "portal" / "demo" / "programs")
    training = site.submit("demo-train", "--steps", "40", "--step-ms", "40", "--save-ms", "1", resumable=True)
    site.wait(training, "running")
    wait_for(lambda: "step 10/40" in site.printed(training))
    debugging = site.submit("demo-debug", "--seconds", "1", environment={"PATH": "/usr/bin"})
    failing = site.submit("demo-debug", "--seconds", "1", "--fail", node=site.cluster.nodes.get())
    site.wait(training, "finished")
    site.look()
    site.wait(debugging, "finished")
    site.look()
    site.wait(failing, "failed")
    assert site.printed(training).splitlines()[-2:] == ["step 40/40 loss 3.3178", "saved at step 40"]
    saved = json.loads(Path(site.folder / "work" / training.code / "checkpoint-0.json").read_text())
    assert saved["step"] == 40
    assert site.printed(debugging).splitlines()[-1] == "shapes agree"
