"""What Slurm's commands print is read strictly: every fault names its line and column, and nothing else is raised."""

import contextlib
import subprocess
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scheduler.executors.slurm import Unreadable, accounts, commands, history, jobs, nodes, reading
from scheduler.executors.slurm.script import ALIGN, script_of

SQUEUE = (
    "7|RUNNING|ada|lab|gpu|1|2|cpu=2,node=2,gres/gpu=8,gres/gpu:h100=8|2026-11-29T20:25:25|2026-11-29T20:25:27"
    "|N/A|0|100000|n[1,3]|n[1,3]|None|allotment:abcdef0123:A3-2214:18|A3|22|\n"
    "8|PENDING|bob|lab|gpu|0|2|cpu=2,mem=125G,node=2,gres/gpu=8|2026-11-29T20:28:06|N/A|N/A|0|0|||JobHeldAdmin"
    "|(null)|x JobState=RUNNING|\n"
    "9|FAILED|bob|lab|gpu|0|1|cpu=1,node=1|2026-11-29T20:28:06|2026-11-29T20:28:07|2026-11-29T20:28:09|768|1|n2||"
    "NonZeroExitCode|(null)|y|\n"
)
NODES = (
    "NodeName=n2 Arch=x86_64 CoresPerSocket=16  CPUAlloc=1 CPUEfctv=32 CPUTot=32 CPULoad=4.64 "
    "AvailableFeatures=rack7,fast ActiveFeatures=rack7,fast Gres=gpu:h100:4(S:0-1) NodeAddr=127.0.0.1 "
    "OS=Linux 6.1 #1 SMP RealMemory=64000 State=MIXED*+DRAIN Partitions=gpu,all "
    "CfgTRES=cpu=32,mem=62.50G,billing=32,gres/gpu=4 AllocTRES=cpu=1,gres/gpu=4,gres/gpu:h100=4 "
    "Reason=fan | broke = yes State=IDLE [root@2026-11-29T20:28:11]\n"
)
SACCT = (
    "JobID|JobName|Account|User|Partition|State|Submit|Start|End|TimelimitRaw|AllocTRES|NNodes|NodeList|ExitCode\n"
    "1|a|Lab|ada|gpu|REQUEUED|2026-11-29T20:25:24|2026-11-29T20:25:24|2026-11-29T20:25:25|UNLIMITED"
    "|cpu=2,gres/gpu:h100=8|2|n[2,4]|0:0\n"
    "1|a|lab|ada|gpu|CANCELLED by 1000|2026-11-29T20:25:25|2026-11-29T20:25:27|2026-11-29T20:25:31|60|gres/gpu=8|2"
    "|n[1,3]|0:15\n"
    "1.batch|batch|lab|||||||||||\n"
    "5_3|b|lab|bob|gpu|PENDING|2026-11-29T20:25:25|Unknown|Unknown|60||1|None assigned|0:0\n"
)  # fmt: skip
ASSOC = (
    "Cluster|Account|ParentName|User|Share\nc|root||||\nc|root||root|1\nc|lab|root||3\nc|a1|lab||parent\nc|a1||ada|1\n"
).replace("c|root||||\n", "c|root|||1\n")


def test_squeue_is_read_whatever_people_call_their_jobs() -> None:
    first, second, third = jobs.read(SQUEUE)
    assert (first.id, first.state, first.restarts, first.gpus, first.nodes) == (7, "RUNNING", 1, 8, ["n1", "n3"])
    assert first.started_at == datetime(2026, 11, 29, 20, 25, 27, tzinfo=UTC)
    assert (first.name, str(commands.mark_of(first.comment))) == ("A3|22", "allotment:abcdef0123:A3-2214:18")
    assert (second.state, second.is_held, second.holds, second.comment) == ("PENDING", True, False, "")
    assert second.name == "x JobState=RUNNING"
    assert (third.exit_code, third.is_held) == (3, False)


def test_nodes_are_read_with_what_they_hold_and_a_reason_cannot_pose_as_a_state() -> None:
    (node,) = nodes.read(NODES)
    assert (node.name, node.cpus, node.gpus, node.gpu_model, node.held_gpus) == ("n2", 32, 4, "h100", 4)
    assert node.flags == {"MIXED", "DRAIN", "NOT_RESPONDING"}
    assert (node.is_drained, node.is_silent, node.is_down) == (True, True, False)
    assert node.reason.startswith("fan | broke = yes")
    (placed,) = nodes.with_places([node], {})
    assert (placed.rack, placed.rail, placed.leaf) == ("rack7", "", "")
    (wired,) = nodes.with_places([replace(node, features=["leaf2", "rail1", "h100"])], {"n2": "sw"})
    assert (wired.rack, wired.rail, wired.leaf) == ("sw", "rail1", "leaf2")
    racks = nodes.read_topology("SwitchName=a Level=0 Nodes=n[1-2]\nSwitchName=top Level=1 Nodes=n[1-2] Switches=a\n")
    assert racks == {"n1": "a", "n2": "a"}
    again = nodes.read_sinfo("sinfo", "n1|idle|32|64000|gpu:8|(null)|none|\nn1|idle|32|64000|gpu:8|(null)|none|\n")
    assert [(each.name, each.gpus, each.gpu_model) for each in again] == [("n1", 8, "")]


def test_history_is_read_without_steps_and_with_each_part_of_a_requeued_job() -> None:
    first, second, third = history.read("sacct", SACCT)
    assert (first.account, first.state, first.gpus, first.ran_s, first.limit_s) == ("lab", "REQUEUED", 8, 1, None)
    assert (second.state, second.exit_code, second.limit_s) == ("CANCELLED", -15, 3_600)
    assert (third.id, third.started_at, third.nodes) == ("5_3", None, [])


def test_accounts_become_what_should_be_by_commands_that_can_be_read() -> None:
    found = accounts.read("sacctmgr", ASSOC)
    assert found.accounts["a1"] == accounts.Account("a1", "lab", None)
    assert found.users == {"root": {"root"}, "ada": {"a1"}}
    wanted = accounts.Tree(
        {
            "lab": accounts.Account("lab", "root", 7),
            "new": accounts.Account("new", "lab", 2),
        },
        {"bob": frozenset({"new"})},
    )
    told = accounts.differences(wanted, found, "c")
    assert [(each.account, each.what, each.is_now, each.should_be) for each in told] == [
        ("lab", "fairshare", "3", "7"),
        ("new", "account", "is missing", "below lab, fairshare 2"),
        ("new", "user bob", "may not use it", "may use it"),
        ("a1", "account", "is in Slurm", "is no budget's: left alone"),
    ]
    assert [commands.shown(line) for each in told for line in each.commands] == [
        "sacctmgr --immediate modify account where name=lab cluster=c set fairshare=7",
        "sacctmgr --immediate add account new parent=lab fairshare=2 cluster=c",
        "sacctmgr --immediate add user bob account=new cluster=c",
    ]


@pytest.mark.parametrize(
    ("reader", "text", "said"),
    [
        (jobs.read, "7|RUNNING\n", "squeue, line 1: has 2 cells, not 18"),
        (jobs.read, SQUEUE.replace("RUNNING", "DANCING", 1), "squeue, line 1, State: is not known: 'DANCING'"),
        (
            jobs.read,
            SQUEUE.replace("|0|2|cpu", "|x|2|cpu"),
            "squeue, line 2, RestartCnt: must be a whole number, not 'x'",
        ),
        (jobs.read, SQUEUE.replace("gres/gpu=8", "gres/gpu=many", 1), "squeue, line 1, tres-alloc: 'gres/gpu=many'"),
        (jobs.read, SQUEUE.replace("n[1,3]", "n[3-1]", 1), "squeue, line 1, NodeList: [3-1] counts down"),
        (nodes.read, "Node=7", "scontrol show node, line 1, NodeName: is not where the line begins"),
        (
            nodes.read,
            NODES.replace("RealMemory=64000", ""),
            "scontrol show node, line 1, RealMemory: is missing",
        ),
        (
            lambda text: history.read("x.txt", text),
            "Account|User\n",
            "x.txt, line 1, State: this column is missing",
        ),
        (
            lambda text: history.read("x.txt", text),
            SACCT.replace("2026-11-29T20:25:31", "2026-11-29T20:25:61"),
            "x.txt, line 3, End: 2026-11-29T20:25:61: second must be in 0..59",
        ),
        (lambda text: history.read("x.txt", text), "", "x.txt: is empty"),
        (
            lambda text: accounts.read("a.txt", text),
            ASSOC.replace("lab|root", "lab|a1"),
            "a.txt, line 4, Account: hangs below itself",
        ),
    ],
)
def test_faults_are_named_by_place(reader, text: str, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Unreadable) as caught:
        reader(text)
    if "hangs" in said:
        assert str(caught.value).startswith("a.txt, line 4, ParentName")
    else:
        assert str(caught.value).startswith(said)


def test_lists_of_nodes_and_resources() -> None:
    assert reading.expand("n[01-03,7],login,r[1-2]n[8-9]") == [
        *("n01", "n02", "n03", "n7", "login", "r1n8", "r1n9", "r2n8", "r2n9"),
    ]
    assert reading.tres("cpu=2,mem=1.5G,gres/gpu:h100=8") == {"cpu": 2, "mem": 1_610_612_736, "gres/gpu:h100": 8}
    for huge in ("n[1-999999999]", "a[1-1000]b[1-1000]c[1-1000]"):
        with pytest.raises(ValueError, match="names more than"):
            reading.expand(huge)


def test_a_script_quotes_whatever_it_is_given() -> None:
    shape = commands.Shape(2, 4)
    job = commands.Submission(
        commands.Mark("abcdef0123", "A3-1", 0), shape, ["sh", "-c", "echo 'a' $(id)"], {"X": "a'b\n", "BAD-NAME": "1"}
    )
    script = script_of(job)
    assert "export X='a'\"'\"'b\n'\n" in script
    assert "BAD-NAME" not in script
    assert "rank sh -c 'echo '\"'\"'a'\"'\"' $(id)'" in script
    argv = commands.submit(job, "/s")
    assert {"--hold", "--no-requeue", "--gres=gpu:4", "--nodes=2-2", "--time=UNLIMITED"} <= set(argv)
    assert commands.parse_submitted("12;test\n") == 12
    with pytest.raises(ValueError, match="sbatch printed"):
        commands.parse_submitted("Submitted batch job 12")


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (commands.Mark("abcdef0123", "A3-1", 7), "allotment:abcdef0123:A3-1:7"),
        (commands.Mark("abcdef0123", "A3-1", 7, 30), "allotment:abcdef0123:A3-1:7:stop=30"),
        (commands.Mark("abcdef0123", "A3-1", 7, shift="10/60/1"), "allotment:abcdef0123:A3-1:7:shift=10/60/1"),
        (commands.Mark("abcdef0123", "A3-1", 7, 5, "0/60/"), "allotment:abcdef0123:A3-1:7:shift=0/60/:stop=5"),
    ],
)
def test_a_comment_says_whose_a_job_is_where_its_run_lies_and_when_it_must_be_gone(
    mark: commands.Mark, text: str
) -> None:
    assert (str(mark), commands.mark_of(text)) == (text, mark)
    assert commands.mark_of(f"{text}:") is None
    job = commands.Submission(mark, commands.Shape(1, 1), ["train"], {}, aligns=True)
    lines = script_of(job).splitlines()
    reads = lines[
        lines.index('mark="${mark%%:stop=*}"') : lines.index("esac", lines.index('mark="${mark%%:stop=*}"')) + 1
    ]
    says = 'echo "${mark##*:} $ALLOTMENT_TIME_SHIFT_MS $ALLOTMENT_PERIOD_MS $ALLOTMENT_TIME_SHIFT_KEEPS"'
    program = "\n".join([f"mark={text}", *reads, says])
    told = subprocess.run(["/bin/sh", "-c", program], env={}, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["7", *filter(None, mark.shift.split("/"))]


def test_only_who_may_be_shifted_is_brought_the_program_that_keeps_places() -> None:
    job = commands.Submission(commands.Mark("abcdef0123", "A3-1", 0), commands.Shape(1, 1), ["train"], {})
    assert ALIGN.read_text() in script_of(replace(job, aligns=True))
    assert "allotment-align" not in script_of(job)


def test_a_gang_in_equal_parts_asks_for_so_much_of_each_node_and_shares_it() -> None:
    job = commands.Submission(commands.Mark("abcdef0123", "A3-1", 0), commands.Shape(4, 4), ["train"], {})
    argv = commands.submit(job, "/s")
    assert {"--nodes=4-4", "--gres=gpu:4", "--ntasks-per-node=1"} <= set(argv)
    assert "--exclusive" not in argv
    assert "ALLOTMENT_DEVICES=4\n" in script_of(job)
    cores = commands.Submission(commands.Mark("abcdef0123", "A3-1", 0), commands.Shape(4, 8, "core"), ["train"], {})
    assert "--cpus-per-task=8" in commands.submit(cores, "/s")


def _parts(sample: str) -> some.SearchStrategy[str]:
    """Texts much like a good one: pieces of it, out of place, doubled, cut off, with strange letters between."""
    pieces = some.sampled_from(
        sorted({*sample.split("|"), *sample.split(), "|", "\n", "=", "[", "]", "-", "\x1f", "9" * 20})
    )
    return some.one_of(some.text(), some.lists(some.one_of(pieces, some.text(max_size=3))).map("|".join))


@given(_parts(SQUEUE))
def test_any_queue_is_read_or_unreadable(text: str) -> None:
    _read_or_unreadable(jobs.read, text)


@given(_parts(NODES), some.booleans())
def test_any_nodes_are_read_or_unreadable(text: str, begins: bool) -> None:
    _read_or_unreadable(nodes.read, ("NodeName=a " if begins else "") + text.replace("|", " "))
    _read_or_unreadable(nodes.read_topology, ("SwitchName=a " if begins else "") + text.replace("|", " "))
    _read_or_unreadable(lambda each: nodes.read_sinfo("sinfo", each), text)


@given(_parts(SACCT), some.booleans())
def test_any_history_is_read_or_unreadable(text: str, begins: bool) -> None:
    header = SACCT.partition("\n")[0] + "\n" if begins else ""
    _read_or_unreadable(lambda each: history.read("file", each), header + text)
    _read_or_unreadable(lambda each: accounts.read("file", each), ASSOC.partition("\n")[0] + "\n" + text)


def _read_or_unreadable(reader, text: str) -> None:  # type: ignore[no-untyped-def]
    with contextlib.suppress(Unreadable):
        reader(text)
