"""What the API takes and gives of workloads, their runs, what they print, and the queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from budgets.authority import may
from budgets.glossary import lazily as meant
from budgets.models import Person
from portal import spread_words
from portal.api.problems import Strict
from portal.api.serializers import level, moment, pair
from portal.views.queue import leaves_seen_on
from scheduler.engine import locality as engine_locality
from scheduler.failures import FailureClass
from scheduler.models import Run, Workload
from scheduler.queries import spreading
from scheduler.queries.held import Held
from scheduler.queries.queue import QueuePage, Row
from scheduler.queries.spreading import Spreading
from scheduler.services.asked import RETRIES_MAX
from scheduler.services.workloads import ARRAY_MAX

TEN_YEARS_S = 315_360_000
AMOUNT_MAX = 2_000_000_000


class Word(serializers.CharField):
    """Text as it is, blanks included."""

    def __init__(self, **more: Any) -> None:
        """Maybe empty."""
        super().__init__(**{"allow_blank": True, "trim_whitespace": False, **more})


# --- what it takes ----------------------------------------------------------------------------------------------------


class Submission(Strict):
    """A workload, or `count` of them that differ in their index only (ALLOTMENT_ARRAY_INDEX)."""

    cluster = serializers.CharField(max_length=40)
    leaf = serializers.CharField(max_length=16, help_text=meant("leaf"))
    size_milli = serializers.IntegerField(
        min_value=1,
        max_value=AMOUNT_MAX,
        help_text="thousandths of the unit: whole ones, or a part of one where the cluster gives out parts",
    )
    min_runtime_s = serializers.IntegerField(min_value=0, max_value=TEN_YEARS_S, help_text=meant("contract"))
    command = serializers.ListField(child=Word(), min_length=1, help_text="argument list, never a shell line")
    name = serializers.CharField(max_length=120, allow_blank=True, default="")
    priority = serializers.IntegerField(min_value=-1_000, max_value=1_000, default=0, help_text=meant("priority"))
    time_limit_s = serializers.IntegerField(min_value=1, max_value=TEN_YEARS_S, allow_null=True, default=None)
    node = serializers.CharField(
        max_length=60, allow_null=True, default=None, help_text="the only node that it may run on"
    )
    after = serializers.CharField(
        max_length=32, allow_null=True, default=None, help_text="it enters the queue when this workload has ended"
    )
    cpu_milli_per_rank = serializers.IntegerField(min_value=0, max_value=AMOUNT_MAX, default=0)
    memory_mib_per_rank = serializers.IntegerField(min_value=0, max_value=AMOUNT_MAX, default=0)
    gpu_classes = serializers.ListField(
        child=serializers.CharField(max_length=60),
        default=list,
        max_length=32,
        help_text="the classes of GPUs that it can run on, such as V100; none is all",
    )
    needs_fast = serializers.BooleanField(
        allow_null=True,
        default=None,
        help_text="it tries high-end classes first; null: if work like it has used enough of its GPUs",
    )
    resumable = serializers.BooleanField(default=False, help_text=meant("resumable"))
    checkpoint = serializers.CharField(max_length=300, allow_blank=True, default="")
    checkpoint_every_s = serializers.IntegerField(min_value=0, max_value=TEN_YEARS_S, default=0)
    save_command = serializers.ListField(child=Word(), default=list)
    restore_command = serializers.ListField(child=Word(), default=list)
    secrets = serializers.DictField(
        child=Word(), default=dict, write_only=True, help_text="variables that nobody is shown"
    )
    environment = serializers.DictField(child=Word(), default=dict)
    program = serializers.DictField(
        child=Word(),
        default=dict,
        write_only=True,
        help_text="text by path of the files that it consists of: the advisor reads them; neither run nor kept",
    )
    communication = serializers.JSONField(
        allow_null=True,
        default=None,
        help_text="what it sends in each iteration, measured where nobody else used the network: "
        '{"period_ms": 100, "phases": [{"from_ms": 50, "until_ms": 100, "gbps": 45}]}',
    )
    retries = serializers.IntegerField(
        min_value=0,
        max_value=RETRIES_MAX,
        default=0,
        help_text="how often it is tried again where it failed by no fault of its own",
    )
    locality = serializers.IntegerField(
        min_value=min(engine_locality.LEVELS_OF_LOCALITY),
        max_value=max(engine_locality.LEVELS_OF_LOCALITY),
        default=engine_locality.ANY_RACK,
        help_text="how far it may be spread where it has waited long and the cluster relaxes: 0 the fewest nodes in "
        "one rack, 1 in any rack, 2 up to twice as many nodes, 3 any number of them",
    )
    canary = serializers.BooleanField(
        default=False, help_text="it enters the queue only if the same command has run on one device before"
    )
    count = serializers.IntegerField(min_value=1, max_value=ARRAY_MAX, default=1, help_text="tasks of an array")
    idempotency_key = serializers.CharField(
        max_length=70, allow_blank=True, default="", help_text="the same again gives the same workloads, for ever"
    )


class CancelIn(Strict):
    """Why it is cancelled; with `whole_array` every task of its array is."""

    reason = serializers.CharField(max_length=200, allow_blank=True, default="")
    whole_array = serializers.BooleanField(default=False)


class ReleaseIn(Strict):
    """With `whole_array` every task of its array that waits for a person's word is released."""

    whole_array = serializers.BooleanField(default=False)


class StopIn(Strict):
    """Why, in a sentence: the owner reads it."""

    reason = serializers.CharField(max_length=200)


# --- what it gives ----------------------------------------------------------------------------------------------------


class SpreadingOut(serializers.Serializer):
    """How far it may be spread over nodes, and what that costs."""

    level = serializers.IntegerField(allow_null=True, help_text="at which it looks now, of one that waits: 0 to 3")
    relaxes_at = serializers.DateTimeField(allow_null=True, help_text="from when on it looks further")
    fewest = serializers.IntegerField(help_text="nodes that it needs")
    servers = serializers.IntegerField(help_text="nodes that it may be on at most, or is on")
    is_held = serializers.BooleanField(help_text="whether it is on them")
    price = serializers.FloatField(help_text="how many times the GPU-hours the same work takes there")
    worth_waiting_s = serializers.IntegerField(
        allow_null=True,
        help_text="a shorter wait for the fewest still finishes earlier; null: nobody knows how long it runs",
    )
    sentences = serializers.ListField(child=serializers.CharField(), help_text="the same in words")


class InsideOut(serializers.Serializer):
    """What of a workload is for its owner, its project's people, those above, and operators."""

    name = serializers.CharField(allow_blank=True)
    owner = serializers.CharField(allow_null=True)
    command = serializers.ListField(child=serializers.CharField(allow_blank=True))
    environment = serializers.DictField(child=serializers.CharField(allow_blank=True))
    secrets = serializers.ListField(child=serializers.CharField(), help_text="names of variables; never their values")
    checkpoint = serializers.CharField(allow_blank=True)
    checkpoint_every_s = serializers.IntegerField()
    save_command = serializers.ListField(child=serializers.CharField(allow_blank=True))
    restore_command = serializers.ListField(child=serializers.CharField(allow_blank=True))
    resumable = serializers.BooleanField()
    time_limit_s = serializers.IntegerField(allow_null=True)


class WorkloadOut(serializers.Serializer):
    """A workload. `inside` is null for those who do not see inside it."""

    code = serializers.CharField()
    cluster = serializers.CharField()
    leaf = serializers.CharField(help_text=meant("leaf"))
    size_milli = serializers.IntegerField()
    cpu_milli_per_rank = serializers.IntegerField(help_text="cores that it asks for on each node; 0 is unsaid")
    memory_mib_per_rank = serializers.IntegerField(help_text="memory likewise")
    min_runtime_s = serializers.IntegerField(help_text=meant("contract"))
    priority = serializers.IntegerField(help_text=meant("priority"))
    gpu_classes = serializers.ListField(child=serializers.CharField(), help_text="that it can run on; none is all")
    needs_fast = serializers.BooleanField(help_text="it tries high-end classes first")
    workload_class = serializers.CharField(help_text=meant("class"))
    state = serializers.ChoiceField(Workload.State.values)
    place = serializers.IntegerField(allow_null=True, help_text="in the order of the last pass")
    reason_code = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    submitted_at = serializers.DateTimeField()
    first_started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    cancel_asked_at = serializers.DateTimeField(allow_null=True)
    earliest_start_at = serializers.DateTimeField(allow_null=True)
    progress_s = serializers.IntegerField(help_text="run time kept over preemptions")
    preemptions = serializers.IntegerField()
    retries = serializers.IntegerField(help_text="how often it may be tried again after a failure that may pass")
    retried = serializers.IntegerField(help_text="how often it was")
    locality = serializers.IntegerField(help_text="how far it may be spread, as its owner says: 0 to 3")
    spreading = SpreadingOut(allow_null=True, help_text="null where nothing is relaxed for it")
    array = serializers.UUIDField(allow_null=True, help_text="tasks of one array share it")
    array_index = serializers.IntegerField(allow_null=True)
    inside = InsideOut(allow_null=True)


class SharedLinkOut(serializers.Serializer):
    """The uplink of a leaf switch, who else was on it at the start, and how well they share it; 1 is at its best."""

    leaf = serializers.CharField()
    beside = serializers.ListField(child=serializers.CharField())
    score = serializers.FloatField()


class TimeShiftOut(serializers.Serializer):
    """Its place on the network: its iterations begin `shift_ms` after whole periods of the clock since 1970."""

    shift_ms = serializers.IntegerField()
    period_ms = serializers.IntegerField()
    score = serializers.FloatField(help_text="the mean over its links")
    links = SharedLinkOut(many=True)


class HeldOut(serializers.Serializer):
    """Devices of one node, by their indexes, and how much of each: 1,000 is the whole device."""

    node = serializers.CharField()
    devices = serializers.ListField(child=serializers.IntegerField())
    milli = serializers.IntegerField()


class RunOut(serializers.Serializer):
    """One holding of devices by a workload, from `started_at` to `ended_at`."""

    workload = serializers.CharField()
    number = serializers.IntegerField()
    leaf = serializers.CharField(help_text=meant("leaf"))
    state = serializers.ChoiceField(Run.State.values)
    size_milli = serializers.IntegerField()
    is_funded = serializers.BooleanField()
    min_runtime_s = serializers.IntegerField(help_text=meant("contract"))
    nodes = serializers.ListField(child=serializers.CharField(), help_text="by rank")
    holds = HeldOut(many=True, help_text="what it was given, by node; empty where nobody kept it")
    started_at = serializers.DateTimeField()
    running_at = serializers.DateTimeField(allow_null=True, help_text="every rank runs: the contract begins")
    contract_ends_at = serializers.DateTimeField(allow_null=True)
    stop_asked_at = serializers.DateTimeField(allow_null=True)
    leave_by = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    end_reason = serializers.CharField(allow_blank=True)
    exit_code = serializers.IntegerField(allow_null=True)
    failure_class = serializers.ChoiceField(
        [each.value for each in FailureClass], allow_null=True, help_text="why it failed, once that was judged"
    )
    preempted_by = serializers.CharField(allow_null=True)
    checkpoint_at = serializers.DateTimeField(allow_null=True)
    lost_s = serializers.IntegerField(allow_null=True, help_text="worked since its last checkpoint, and lost")
    time_shift = TimeShiftOut(allow_null=True, help_text="null: it is on no link between leaves, or says nothing of it")


class StoppedOut(serializers.Serializer):
    """Whether its run was told to stop, and the workload."""

    changed = serializers.BooleanField()
    workload = WorkloadOut()


class LogOut(serializers.Serializer):
    """What a rank printed from `offset` on. Ask again from `next_offset`, until `is_over`."""

    workload = serializers.CharField()
    run = serializers.IntegerField(allow_null=True, help_text="null: it has no run yet")
    rank = serializers.IntegerField()
    ranks = serializers.IntegerField(help_text="how many the run has")
    offset = serializers.IntegerField(help_text="of the first byte of `text`")
    next_offset = serializers.IntegerField()
    text = serializers.CharField(allow_blank=True)
    is_over = serializers.BooleanField(help_text="nothing more will come of this rank")


class LevelOut(serializers.Serializer):
    """The numbers of one node of the tree, as the last pass had them. Ratios are [numerator, denominator]."""

    node = serializers.CharField()
    name = serializers.CharField()
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]
    basis_points = serializers.IntegerField(help_text=meant("shares"))
    entitlement = serializers.ListField(child=serializers.IntegerField(), help_text=meant("entitlement"))
    entitled_milli_s = serializers.ListField(
        child=serializers.IntegerField(), help_text="what that comes to in one lookback, on all devices"
    )
    used_milli_s = serializers.IntegerField()
    committed_milli_s = serializers.IntegerField(help_text=meant("committed"))
    uncharged_milli_s = serializers.IntegerField()
    served = serializers.ListField(child=serializers.IntegerField(), allow_null=True, help_text=meant("served"))
    turn = serializers.IntegerField(allow_null=True)
    waiting = serializers.IntegerField()
    waiting_milli = serializers.IntegerField()


class QueueRowOut(serializers.Serializer):
    """One waiting workload. `served` is that of each node on the way down to its leaf.

    `name` is null for those who do not see inside it.
    """

    place = serializers.IntegerField(allow_null=True)
    code = serializers.CharField()
    name = serializers.CharField(allow_null=True, allow_blank=True)
    is_mine = serializers.BooleanField()
    leaf = serializers.CharField(help_text=meant("leaf"))
    size_milli = serializers.IntegerField()
    min_runtime_s = serializers.IntegerField(help_text=meant("contract"))
    priority = serializers.IntegerField(help_text=meant("priority"))
    workload_class = serializers.CharField(help_text=meant("class"))
    state = serializers.ChoiceField(Workload.State.values)
    submitted_at = serializers.DateTimeField()
    waited_s = serializers.IntegerField()
    served = serializers.ListField(child=serializers.ListField(child=serializers.IntegerField(), allow_null=True))
    reason_code = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    earliest_start_at = serializers.DateTimeField(allow_null=True)
    certain_at = serializers.DateTimeField(allow_null=True)
    is_promised = serializers.BooleanField()


class QueueOut(serializers.Serializer):
    """A page of the queue, as of the last pass. Places move with every pass, so pages are numbered."""

    cluster = serializers.CharField()
    as_of = serializers.DateTimeField(allow_null=True)
    page = serializers.IntegerField()
    pages = serializers.IntegerField()
    count = serializers.IntegerField()
    rows = QueueRowOut(many=True)
    levels = LevelOut(many=True)


def workload(row: Workload, person: Person) -> dict[str, Any]:
    """WorkloadOut, with what this person may see."""
    return workloads([row], person)[0]


def _workload(row: Workload, person: Person, told: Spreading | None, now: datetime) -> dict[str, Any]:
    return {
        "code": row.code,
        "cluster": row.cluster.name,
        "leaf": row.leaf.code,
        "size_milli": row.size_milli,
        "cpu_milli_per_rank": row.cpu_milli_per_rank,
        "memory_mib_per_rank": row.memory_mib_per_rank,
        "min_runtime_s": row.min_runtime_s,
        "priority": row.priority,
        "gpu_classes": row.gpu_classes,
        "needs_fast": row.needs_fast,
        "workload_class": row.workload_class,
        "state": row.state,
        "place": row.place,
        "reason_code": row.reason_code,
        "reason": row.reason_text,
        "submitted_at": moment(row.submitted_at),
        "first_started_at": moment(row.first_started_at),
        "ended_at": moment(row.ended_at),
        "cancel_asked_at": moment(row.cancel_asked_at),
        "earliest_start_at": moment(row.earliest_start_at),
        "progress_s": row.progress_s,
        "preemptions": row.preemptions,
        "retries": row.retries,
        "retried": row.retried,
        "locality": row.locality,
        "spreading": None if told is None else _spreading(told, now),
        "array": None if row.array is None else str(row.array),
        "array_index": row.array_index,
        "inside": _inside(row) if may(person, "workload.see_inside", row) else None,
    }


def workloads(rows: Sequence[Workload], person: Person) -> list[dict[str, Any]]:
    """WorkloadOut of each."""
    told, now = spreading.of_workloads(rows), timezone.now()
    return [_workload(each, person, told.get(each.pk), now) for each in rows]


def _spreading(told: Spreading, now: datetime) -> dict[str, Any]:
    said = spread_words.said_of(told, now)
    look = told.look
    return {
        "level": None if look is None else look.level,
        "relaxes_at": moment(None if look is None else look.relaxes_at),
        "fewest": told.fewest,
        "servers": told.servers,
        "is_held": told.is_held,
        "price": round(told.price, 3),
        "worth_waiting_s": told.worth_s,
        "sentences": [] if said is None else list(said.sentences),
    }


def _inside(row: Workload) -> dict[str, Any]:
    return {
        "name": row.name,
        "owner": row.owner.username if row.owner else None,
        "command": row.command,
        "environment": row.environment,
        "secrets": sorted(row.secrets),
        "checkpoint": row.checkpoint,
        "checkpoint_every_s": row.checkpoint_every_s,
        "save_command": row.save_command,
        "restore_command": row.restore_command,
        "resumable": row.resumable,
        "time_limit_s": row.time_limit_s,
    }


def run(row: Run, holds: Sequence[Held]) -> dict[str, Any]:
    """RunOut, of a run whose ranks are at hand, and what it holds or held."""
    return {
        "workload": row.workload.code,
        "number": row.number,
        "leaf": row.leaf.code,
        "state": row.state,
        "size_milli": row.size_milli,
        "is_funded": row.funded,
        "min_runtime_s": row.min_runtime_s,
        "nodes": [each.node.name for each in row.ranks.all()],
        "holds": [each._asdict() for each in holds],
        "started_at": moment(row.started_at),
        "running_at": moment(row.running_at),
        "contract_ends_at": moment(row.contract_ends_at),
        "stop_asked_at": moment(row.stop_asked_at),
        "leave_by": moment(row.leave_by),
        "ended_at": moment(row.ended_at),
        "end_reason": row.end_reason,
        "exit_code": row.exit_code,
        "failure_class": row.failure_class or None,
        "preempted_by": row.preempted_by.code if row.preempted_by else None,
        "checkpoint_at": moment(row.checkpoint_at),
        "lost_s": row.lost_s,
        "time_shift": row.time_shift,
    }


def queue_page(page: QueuePage, person: Person) -> dict[str, Any]:
    """QueueOut, with what this person may see."""
    inside = leaves_seen_on(page, person)
    return {
        "cluster": page.cluster.name,
        "as_of": moment(page.as_of),
        "page": page.number,
        "pages": page.pages,
        "count": page.count,
        "rows": [queue_row(row, person, inside) for row in page.rows],
        "levels": [level(each) for each in page.levels.rows],
    }


def queue_row(row: Row, person: Person, inside: Collection[int]) -> dict[str, Any]:
    """One waiting workload: what everyone may see, and its name for its owner and those who see inside its leaf."""
    is_mine = row.owner_id == person.pk
    return {
        "place": row.place,
        "code": row.code,
        "name": row.name if is_mine or row.leaf_id in inside else None,
        "is_mine": is_mine,
        "leaf": row.leaf_code,
        "size_milli": row.size_milli,
        "min_runtime_s": row.min_runtime_s,
        "priority": row.priority,
        "workload_class": row.workload_class,
        "state": row.state,
        "submitted_at": moment(row.submitted_at),
        "waited_s": row.waited_s,
        "served": [pair(each) for each in row.served],
        "reason_code": row.reason_code,
        "reason": row.reason_text,
        "earliest_start_at": moment(row.earliest_start_at),
        "certain_at": moment(row.certain_at),
        "is_promised": row.promise is not None,
    }
