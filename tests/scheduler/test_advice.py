"""Advice at submission: kept with the workload, refused where an operator chose so, held against what was measured."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from budgets.errors import InputError, NotAllowed
from budgets.models import LedgerEntry, Person, Role, RoleGrant
from scheduler.advisor import RULES
from scheduler.models import Advice, AdviceFinding, BlockingRule, Run, UtilizationHour, Workload
from scheduler.queries import advice as queries
from scheduler.queries.advice import Share
from scheduler.services import advice, workloads
from tests.scheduler.conftest import DAY, World, at

SLOW = "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=64)\n"
FINE = (
    "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=64, num_workers=8)\n"
)
UNSURE = SLOW.replace("batch_size=64", "batch_size=64, num_workers=args.workers")
WORKERS = "HOST_GPU.workers"
TRAIN = {"command": ["python", "train.py"]}


def world_of(nodes: dict[str, int]) -> World:
    """Ana is a member of A, Olga a member of A and an operator."""
    world = World({"A": 5_000, "B": 5_000}, nodes, "simulated", {})
    world.ana = somebody(world, "ana", ("A", Role.MEMBER))
    world.olga = somebody(world, "olga", ("A", Role.MEMBER), ("lab", Role.OPERATOR))
    return world


@pytest.fixture
def world(db: None) -> World:
    """One node of 8 devices. No pass is made."""
    return world_of({"h1": 8})


def somebody(world: World, name: str, *roles: tuple[str, str]) -> Person:
    """A person with these roles."""
    person = Person.objects.create(username=name, display_name=name.capitalize())
    for code, role in roles:
        node = world.leaves.get(code, world.root)
        RoleGrant.objects.create(person=person, node=node, role=role, valid_from=DAY - timedelta(days=30))
    return person


def submit(world: World, program: dict[str, Any] | None = None, **more: Any) -> Workload:
    """Ana's, of what is in train.py."""
    return world.submit("A", **{"owner": world.ana, "program": program or {}, **TRAIN, **more})


def kept(workload: Workload) -> list[tuple[str, str, str, int, str]]:
    """What was kept with it."""
    rows = AdviceFinding.objects.filter(advice=workload.advice_id).order_by("position")
    return [(row.rule, row.severity, row.file, row.line, row.evidence) for row in rows]


# --- kept -------------------------------------------------------------------------------------------------------------


def test_what_is_found_is_kept_with_the_workload(world: World) -> None:
    workload = submit(world, {"train.py": SLOW})
    assert kept(workload) == [(WORKERS, "warn", "train.py", 3, "loader = DataLoader(data, batch_size=64)")]
    told = Advice.objects.get()
    assert (told.pk, told.cluster, told.read_at, told.files, told.overrode) == (
        workload.advice_id, world.cluster, at(0), 1, [],
    )  # fmt: skip


def test_a_program_without_findings_was_read_all_the_same(world: World) -> None:
    workload = submit(world, {"train.py": FINE})
    assert kept(workload) == []
    assert Advice.objects.get(pk=workload.advice_id).files == 1


def test_without_a_program_the_command_is_read_and_that_it_is_unknown_is_no_news(world: World) -> None:
    assert submit(world).advice is None
    workload = submit(world, command=["sh", "-c", "python train.py && sleep 1h"])
    assert [each[:3] for each in kept(workload)] == [("UNRELEASED", "error", "the command")]
    assert Advice.objects.get().files == 0


def test_an_array_is_read_once(world: World) -> None:
    tasks = workloads.submit_array(
        count=3, cluster=world.cluster, leaf=world.leaves["A"], owner=world.ana, size_milli=1_000,
        min_runtime_s=3_600, program={"train.py": SLOW}, now=at(0), **TRAIN,
    )  # fmt: skip
    assert len({each.advice_id for each in tasks}) == 1
    assert Advice.objects.get().workloads.count() == 3


def test_where_nothing_is_submitted_nothing_is_kept(world: World) -> None:
    with pytest.raises(InputError, match=r"^name: "):
        submit(world, {"train.py": SLOW}, name="x" * 200)
    with pytest.raises(NotAllowed):
        world.submit("B", owner=world.ana, program={"train.py": SLOW}, **TRAIN)
    assert not Advice.objects.exists()


def test_the_systems_own_work_is_not_read(world: World) -> None:
    world.submit("A", program={"train.py": SLOW}, command=["sleep", "9999"])
    assert not Advice.objects.exists()


def test_what_is_meant_for_people_may_wait_for_people(world: World) -> None:
    assert kept(submit(world, command=["jupyter", "lab"]))[0][0] == "INTERACTIVE"
    assert submit(world, command=["jupyter", "lab"], min_runtime_s=900).advice is None
    assert submit(world, command=["jupyter", "lab"], min_runtime_s=0).advice is None


def test_whole_nodes_are_counted(db: None) -> None:
    world = world_of({"h1": 4, "h2": 4})
    right = ["torchrun", "--nproc_per_node=4", "--nnodes=2", "train.py"]
    assert submit(world, gpus=8, command=right).advice is None
    wrong = ["torchrun", "--nproc_per_node=8", "train.py"]
    assert [each[0] for each in kept(submit(world, gpus=8, command=wrong))] == ["OVERSUB.nproc"]


@pytest.mark.parametrize(
    ("content", "rule", "line"),
    [
        pytest.param("def f(:\n", "READ", 1, id="syntax error"),
        pytest.param("print 'x'\n", "READ", 1, id="another Python"),
        pytest.param(b"\x89PNG\xff\x00", "READ", 0, id="binary"),
        pytest.param("x = 1\n" * 1_700_000, "READ", 0, id="10 MB of text"),
        pytest.param("((((" * 20_000, "READ", 1, id="a long line"),
        pytest.param("\ud800", "READ", 0, id="half a surrogate pair"),
    ],
)
def test_what_cant_be_read_is_one_finding_and_is_submitted(
    world: World, content: str | bytes, rule: str, line: int
) -> None:
    workload = submit(world, {"train.py": content})
    assert workload.state == "queued"
    (found,) = [each for each in kept(workload) if each[0] == "READ"]
    assert (found[0], found[2], found[3]) == (rule, "train.py", line)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(["train.py"], id="a list"),
        pytest.param({"train.py": 5}, id="no text"),
        pytest.param({"": "x"}, id="no path"),
        pytest.param({"a\nb": "x"}, id="two lines"),
        pytest.param({"x" * 256: ""}, id="a long path"),
        pytest.param({f"m{number}": "" for number in range(501)}, id="too many"),
    ],
)
def test_what_is_no_program_is_named(world: World, program: Any) -> None:
    with pytest.raises(InputError) as caught:
        submit(world, program)
    assert caught.value.field == "program"
    assert not Workload.objects.exists()


def test_reading_asks_nothing_of_the_database_that_grows_with_findings(world: World) -> None:
    submit(world)  # what is asked once
    counts = []
    for program in ({"train.py": SLOW}, {f"train{number}.py": SLOW for number in range(20)}):
        with CaptureQueriesContext(connection) as asked:
            submit(world, program)
        counts.append(len(asked))
    assert counts[0] == counts[1]


# --- refused ----------------------------------------------------------------------------------------------------------


def block(world: World, *rules: str) -> list[str]:
    """Olga has these refuse programs."""
    return advice.block(cluster=world.cluster, rules=rules, by=world.olga, reason="loaders starve our GPUs", now=at(0))


def test_out_of_the_box_nothing_is_refused(world: World) -> None:
    everything_wrong = "import torch\ninput()\n"
    assert submit(world, {"train.py": everything_wrong}, gpus=8).state == "queued"
    assert advice.rules_of(world.cluster) == []


def test_a_rule_that_an_operator_chose_refuses_and_says_which_where_and_who(world: World) -> None:
    block(world, WORKERS)
    with pytest.raises(InputError) as caught:
        submit(world, {"train.py": SLOW + SLOW.replace("import torch\n", "")})
    assert caught.value.field == "program"
    assert caught.value.message == (
        "train.py, line 3: This loader has no num_workers: the GPU waits while each batch is loaded. HOST_GPU.workers "
        "is not taken on north, as Olga decided: “loaders starve our GPUs”. To do: num_workers=4 to 8 for each GPU, "
        "persistent_workers=True: batches are loaded while the GPU computes. An operator may submit it all the same. "
        "1 more place is refused by such a rule."
    )
    assert not Workload.objects.exists()
    assert not Advice.objects.exists()
    assert submit(world, {"train.py": FINE}).state == "queued"


def test_what_is_unknown_refuses_nothing(world: World) -> None:
    block(world, WORKERS)
    assert [each[:2] for each in kept(submit(world, {"train.py": UNSURE}))] == [(WORKERS, "unknown")]


def test_what_warns_again_refuses_nothing(world: World) -> None:
    block(world, WORKERS)
    advice.unblock(cluster=world.cluster, rules=[WORKERS], by=world.olga, reason="enough")
    assert submit(world, {"train.py": SLOW}).state == "queued"


def test_its_owner_cant_override_and_an_operator_can(world: World) -> None:
    block(world, WORKERS)
    with pytest.raises(InputError, match=r"HOST_GPU\.workers"):
        submit(world, {"train.py": SLOW})
    workload = submit(world, {"train.py": SLOW}, owner=world.olga)
    assert Advice.objects.get(pk=workload.advice_id).overrode == [WORKERS]


def test_where_what_is_not_read_is_refused_a_program_has_to_be_given(world: World) -> None:
    block(world, "READ")
    with pytest.raises(InputError, match=r"^program: the command: It starts train\.py, which was not"):
        submit(world)
    with pytest.raises(InputError, match=r"^program: train\.py, line 1: It was not read: it is not Python 3\.11"):
        submit(world, {"train.py": "def f(:\n"})
    assert submit(world, {"train.py": FINE}).state == "queued"
    assert submit(world, command=["sleep", "5"]).state == "queued"


def test_the_same_submission_again_is_the_same_also_after_a_rule_refuses_it(world: World) -> None:
    first = submit(world, {"train.py": SLOW}, idempotency_key="k")
    block(world, WORKERS)
    assert submit(world, {"train.py": SLOW}, idempotency_key="k").pk == first.pk


def test_choosing_is_on_the_ledger_and_is_done_once(world: World) -> None:
    assert block(world, WORKERS, "BATCH") == ["BATCH", WORKERS]
    assert block(world, WORKERS) == []
    gone = advice.unblock(cluster=world.cluster, rules=[WORKERS, "TF"], by=world.olga, reason="it cries wolf")
    assert gone == [WORKERS]
    entries = LedgerEntry.objects.filter(verb="cluster.advice").order_by("pk")
    assert [(each.person_id, each.before, each.after, each.reason) for each in entries] == [
        (world.olga.pk, {"rules": []}, {"rules": ["BATCH", WORKERS]}, "loaders starve our GPUs"),
        (world.olga.pk, {"rules": ["BATCH", WORKERS]}, {"rules": ["BATCH"]}, "it cries wolf"),
    ]
    assert [(each.rule, each.made_by, each.made_at) for each in advice.rules_of(world.cluster)] == [
        ("BATCH", world.olga, at(0))
    ]


@pytest.mark.parametrize(
    ("rules", "reason", "field"),
    [
        (["NO_SUCH"], "why", "rules"),
        ([], "why", "rules"),
        (["BATCH"], "  ", "reason"),
        (["BATCH"], "x" * 201, "reason"),
    ],
)
def test_what_cant_be_chosen_is_named(world: World, rules: list[str], reason: str, field: str) -> None:
    for service in (advice.block, advice.unblock):
        with pytest.raises(InputError) as caught:
            service(cluster=world.cluster, rules=rules, by=world.olga, reason=reason)
        assert caught.value.field == field
    assert not BlockingRule.objects.exists()


def test_only_operators_choose(world: World) -> None:
    for service in (advice.block, advice.unblock):
        with pytest.raises(NotAllowed):
            service(cluster=world.cluster, rules=["BATCH"], by=world.ana, reason="I may")
    assert not BlockingRule.objects.exists()


# --- held against what was measured -----------------------------------------------------------------------------------


def ran(world: World, program: dict[str, str], *, percent: int | None, minutes: int = 60, memory: int | None = None,
        number: int = 1) -> list[Workload]:  # fmt: skip
    """So many tasks that ran for an hour and have ended; how busy they were as far as measured (None: not at all)."""
    tasks = workloads.submit_array(
        count=number, cluster=world.cluster, leaf=world.leaves["A"], owner=world.ana, size_milli=1_000,
        min_runtime_s=3_600, program=program, now=at(0), **TRAIN,
    )  # fmt: skip
    for each in tasks:
        Workload.objects.filter(pk=each.pk).update(state="finished", ended_at=at(3_600))
        run = Run.objects.create(
            workload=each, number=1, cluster=world.cluster, leaf=each.leaf, path=each.leaf.path, size_milli=1_000,
            funded=True, min_runtime_s=3_600, state="ended", started_at=at(0), running_at=at(0), ended_at=at(3_600),
            end_reason="finished",
        )  # fmt: skip
        if percent is not None:
            measured = minutes * 60 * 1_000
            UtilizationHour.objects.create(
                cluster=world.cluster, run=run, hour=at(0), measured_milli_s=measured,
                busy_milli_s=measured * percent // 100, memory_milli=memory,
            )  # fmt: skip
        each.refresh_from_db()
    return tasks


def record_of(world: World, rule: str = WORKERS) -> queries.RuleRecord:
    """How a rule did."""
    found = queries.record(world.cluster, at(0), at(1))
    return next(each for each in found.rules if each.rule == rule)


def test_a_rule_is_right_where_what_it_warned_of_used_at_most_half(world: World) -> None:
    for percent in (20, 50, 51):
        ran(world, {"train.py": SLOW}, percent=percent)
    for percent in (10, 90, 95, 99):
        ran(world, {"train.py": FINE}, percent=percent)
    found = record_of(world)
    assert (found.warned, found.unknown) == (3, 0)
    assert (found.with_warning, found.without) == (Share(2, 3), Share(1, 4))
    assert found.is_telling is None
    whole = queries.record(world.cluster, at(0), at(1))
    assert (whole.read, whole.all) == (7, Share(3, 7))
    assert [each.rule for each in whole.rules] == [rule for rule in RULES if rule != "READ"]


def test_what_was_not_measured_is_neither_and_never_idle(world: World) -> None:
    ran(world, {"train.py": SLOW}, percent=None)
    ran(world, {"train.py": SLOW}, percent=0, minutes=9)
    ran(world, {"train.py": FINE}, percent=None)
    ran(world, {"train.py": SLOW}, percent=80, minutes=10)
    found = record_of(world)
    assert (found.warned, found.with_warning, found.without) == (3, Share(0, 1), Share(0, 0))


def test_what_is_unknown_counts_as_neither(world: World) -> None:
    ran(world, {"train.py": UNSURE}, percent=10)
    found = record_of(world)
    assert (found.warned, found.unknown, found.with_warning, found.without) == (0, 1, Share(0, 0), Share(0, 0))


def test_an_array_is_one_submission_and_its_tasks_are_taken_together(world: World) -> None:
    tasks = ran(world, {"train.py": SLOW}, percent=100, number=2)
    UtilizationHour.objects.filter(run__workload=tasks[0]).update(busy_milli_s=0)
    assert record_of(world).with_warning == Share(1, 1)


def test_what_is_open_or_of_another_time_or_was_not_given_does_not_count(world: World) -> None:
    (running,) = ran(world, {"train.py": SLOW}, percent=10)
    Workload.objects.filter(pk=running.pk).update(state="running", ended_at=None)
    ran(world, {}, percent=10)
    assert record_of(world).with_warning == Share(0, 0)
    assert queries.record(world.cluster, at(1), at(2)).read == 0


def test_a_rule_tells_something_where_the_intervals_are_apart(world: World) -> None:
    for _number in range(6):
        ran(world, {"train.py": SLOW}, percent=10)
        ran(world, {"train.py": FINE}, percent=90)
    assert record_of(world).is_telling is True
    UtilizationHour.objects.update(busy_milli_s=0)
    assert record_of(world).is_telling is None
    warned = Run.objects.filter(workload__advice__findings__rule=WORKERS)
    UtilizationHour.objects.filter(run__in=warned).update(busy_milli_s=F("measured_milli_s"))
    assert record_of(world).is_telling is False


def test_the_record_takes_one_query(world: World) -> None:
    for _number in range(3):
        ran(world, {"train.py": SLOW}, percent=10)
    with CaptureQueriesContext(connection) as asked:
        queries.record(world.cluster, at(0), at(1))
    assert len(asked) == 1


def test_what_was_measured_of_a_workload_says_something_after_the_fact(world: World) -> None:
    (workload,) = ran(world, {"train.py": FINE}, percent=30, memory=200)
    found = queries.measured_of(workload)
    assert found == queries.Measured(1_080_000, 3_600_000, 200)
    assert [each.rule for each in found.findings] == ["MEASURED.batch"]
    (short,) = ran(world, {"train.py": FINE}, percent=30, memory=200, minutes=9)
    assert queries.measured_of(short) is None
    (unmeasured,) = ran(world, {"train.py": FINE}, percent=None)
    assert queries.measured_of(unmeasured) is None
