"""Submitting and cancelling workloads."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count
from django.utils import timezone
from django.utils.translation import gettext

from budgets import queries
from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import BudgetNode, Cluster, Limit, Person
from scheduler import failure_words
from scheduler.engine import Policy, Reason, refusal
from scheduler.engine import locality as engine_locality
from scheduler.models import WHOLE_DEVICE_MILLI, Advice, Decision, Node, Run, Workload
from scheduler.services import advice, agents, asked, efficiency, events, policies, predictions, runs
from scheduler.services.advice import Look
from scheduler.services.asked import Asked
from scheduler.services.events import Entry, Kind
from scheduler.services.slurm import door

DEBUG_CONTRACT_S = 900
"""A debug run: a contract of at most 15 min, and at most one node (semantics.md section 10)."""
LARGE_PART = 16
"""A large gang: at least this part of the cluster."""
CANARY_S = 600
"""How long a canary may run: whoever ran for so long without an error has passed."""
ARRAY_MAX = 1_000
"""Tasks of one array."""

NUMBERS_SQL = """
INSERT INTO scheduler_workloadnumber AS n (leaf_code, last) VALUES (%(code)s, %(count)s)
ON CONFLICT (leaf_code) DO UPDATE SET last = n.last + %(count)s RETURNING last
"""


@dataclass(frozen=True, slots=True)
class Room:
    """What a cluster has: all of it and its largest node, in thousandths, its nodes, and the knobs in force."""

    total_milli: int
    node_milli: int
    nodes: int
    policy: Policy


@dataclass(frozen=True, slots=True)
class Answer:
    """What a submission is told at the door: None where it may wait, else why it is refused; and its advice.

    `overrode` are the rules of the advisor that refuse its program, but not to an operator. `used_percent` is how much
    of its GPUs work like it has used, where that decides whether it needs fast ones.
    """

    room: Room
    reason: Reason | None
    predicted_s: int | None
    advice: Look
    overrode: Sequence[str]
    used_percent: int | None = None


def submit(
    *,
    cluster: Cluster,
    leaf: BudgetNode,
    owner: Person | None,
    size_milli: int,
    min_runtime_s: int,
    command: Sequence[str],
    name: str = "",
    priority: int = 0,
    time_limit_s: int | None = None,
    node: Node | None = None,
    cpu_milli_per_rank: int = 0,
    memory_mib_per_rank: int = 0,
    gpu_classes: Sequence[str] = (),
    needs_fast: bool | None = None,
    resumable: bool = False,
    checkpoint: str = "",
    checkpoint_every_s: int = 0,
    save_command: Sequence[str] = (),
    restore_command: Sequence[str] = (),
    secrets: Mapping[str, str] | None = None,
    after: Workload | None = None,
    environment: Mapping[str, str] | None = None,
    program: Mapping[str, str | bytes] | None = None,
    communication: Mapping[str, Any] | None = None,
    retries: int = 0,
    locality: int = engine_locality.ANY_RACK,
    canary: bool = False,
    demo: bool = False,
    idempotency_key: str = "",
    now: datetime | None = None,
) -> Workload:
    """Submit one workload; the loop is woken and places it.

    What the rules of the door refuse (closed, no entitlement, a contract out of bounds, larger than the cluster) is
    stored in state refused, with its reason. The same owner and `idempotency_key` give the same workload again.

    Args:
        cluster, leaf, owner: where, on whose budget, by whom. The owner must be a member there; None is the system.
        size_milli: thousandths of a unit: whole units, or a part of one where the policy gives out parts.
        min_runtime_s: the contract; 0 is unallocated.
        command: the argument list.
        name: for people.
        priority: higher first, inside the leaf.
        time_limit_s: it is stopped after running this long, over all its runs.
        node: a pin.
        cpu_milli_per_rank, memory_mib_per_rank: limits of each rank; 0 is none.
        gpu_classes: the classes of GPUs that it can run on; none is all.
        needs_fast: whether it needs the fast ones, where the policy ranks them; None is as work like it has used its
            GPUs (`services.efficiency`), where the policy says from how much on.
        resumable: whether it returns to the queue when it was preempted.
        checkpoint: where it saves, in its working directory; the age of that file is looked at.
        checkpoint_every_s: how often it saves; 0 is unsaid, and seen from the file's times.
        save_command: of a session: saves it when it is told to stop, within its grace. It is resumable then.
        restore_command: what runs in place of its command where it was saved before.
        secrets: more variables: nobody is shown their values, which are hidden in what it prints.
        after: it enters the queue when this one has ended, however it ended.
        environment: its own variables.
        program: the files that it consists of, by path, for the advisor to read; they are neither run nor kept.
        communication: what it sends in each iteration, measured where nobody else used the network, as
            `engine.cassini.read_profile` has it; what starts beside it is shifted by that. None is unsaid.
        retries: how often it is tried again where it failed by no fault of its own (services.retries), at most 3.
        locality: how far it may be spread, where the policy relaxes by wait (engine/policies/locality.py): 0 to 3.
        canary: it enters the queue only if the same command has run on one device before, without an error, to its end
            or for CANARY_S; else it is held until its owner releases it (`services.retries`).
        demo: its command is one of the demo's own.
        idempotency_key: the submitter's own name for this submission.
        now: when; default is the clock's.

    Raises:
        InputError: names the field; `program` where the advisor found what an operator has refused here.
        NotAllowed: the owner is no member of the leaf.
    """
    request = Asked(
        cluster=cluster,
        leaf=leaf,
        owner=owner,
        size_milli=size_milli,
        min_runtime_s=min_runtime_s,
        command=command,
        name=name,
        priority=priority,
        time_limit_s=time_limit_s,
        node=node,
        cpu_milli_per_rank=cpu_milli_per_rank,
        memory_mib_per_rank=memory_mib_per_rank,
        gpu_classes=gpu_classes,
        needs_fast=needs_fast,
        resumable=resumable,
        checkpoint=checkpoint,
        checkpoint_every_s=checkpoint_every_s,
        save_command=save_command,
        restore_command=restore_command,
        secrets=secrets or {},
        after=after,
        environment=environment or {},
        program=program or {},
        communication=communication,
        retries=retries,
        locality=locality,
        canary=canary,
        demo=demo,
        idempotency_key=idempotency_key,
    )
    return _submit([request], array=None, now=now)[0]


def submit_array(*, count: int, now: datetime | None = None, **request: object) -> list[Workload]:
    """Submit `count` workloads that differ in their index only (ALLOTMENT_ARRAY_INDEX, from 0); all or none.

    Takes what `submit` takes. The same owner and `idempotency_key` give the same array again.

    Raises:
        InputError, NotAllowed: as for `submit`.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= ARRAY_MAX:
        raise InputError(
            "count", gettext("must be 1 to {array_max}, not {count!r}").format(array_max=ARRAY_MAX, count=count)
        )
    one = Asked(**request)  # type: ignore[arg-type]
    if one.canary and count > 1:
        raise InputError("canary", gettext("the tasks of an array are not tried out: the first of them shows as much"))
    if not isinstance(one.environment, Mapping):
        raise InputError("environment", gettext("must be names with texts"))
    tasks = [
        replace(
            one,
            environment={**one.environment, "ALLOTMENT_ARRAY_INDEX": str(index)},
            idempotency_key=f"{one.idempotency_key}/{index}" if one.idempotency_key else "",
        )
        for index in range(count)
    ]
    return _submit(tasks, array=uuid.uuid4() if count > 1 else None, now=now)


def _submit(requests: Sequence[Asked], *, array: uuid.UUID | None, now: datetime | None) -> list[Workload]:
    """All of them or none; they share cluster, leaf, size and contract."""
    first = requests[0]
    for request in requests:
        asked.check(request)
    if first.owner is not None and not may(first.owner, "workload.submit", first.leaf):
        raise NotAllowed("workload.submit", gettext("you are no member of {leaf}").format(leaf=first.leaf.code))
    door.check(cluster=first.cluster, owner=first.owner, size_milli=first.size_milli, command=first.command)
    _check_may_run(first)
    _check_variables(first)
    at = (now or timezone.now()).replace(microsecond=0)
    known = _submitted_before(requests)
    if known:
        return known
    found = advice.look(first)
    with transaction.atomic():
        leaf = _keep_leaf(first.leaf)
        answer = _at_the_door(first, leaf, at, found)
        if first.canary and answer.reason is None:
            requests = [_after_its_canary(first, leaf, answer, at)]
        return _store(requests, answer, array, at)


def _after_its_canary(request: Asked, leaf: BudgetNode, answer: Answer, at: datetime) -> Asked:
    """Submit the canary of a gang: its command on one device, with the shortest contract if the gang has any.

    Raises:
        InputError: the rules of the door refuse it.
    """
    contract_s = min(request.min_runtime_s, answer.room.policy.min_runtime_min_s)
    asks = replace(
        request,
        size_milli=WHOLE_DEVICE_MILLI,
        min_runtime_s=contract_s,
        time_limit_s=max(CANARY_S, contract_s),
        name=f"{request.name} canary".strip()[: asked.NAME_LENGTH],
        resumable=False,
        save_command=(),
        restore_command=(),
        environment={**request.environment, "ALLOTMENT_CANARY": "1"},
        communication=None,
        retries=0,
        canary=False,
        idempotency_key=f"{request.idempotency_key}/canary"[-asked.KEY_LENGTH :] if request.idempotency_key else "",
    )
    told = _at_the_door(asks, leaf, at, Look())
    if told.reason is not None:
        raise InputError("canary", told.reason.text)
    (canary,) = _store([asks], told, None, at)
    return replace(request, after=canary, after_passed=True)


def _at_the_door(request: Asked, leaf: BudgetNode, at: datetime, found: Look) -> Answer:
    """What becomes of it. Before the cluster's lock: whoever holds that keeps passes and all other writers waiting."""
    room = room_of(request.cluster)
    asked.check_part("size_milli", request.size_milli, request.cluster, room.policy)
    overrode = advice.refuse(found, request)
    predicted_s = None
    if room.policy.leaf_order in predictions.ASKED_BY:
        predicted_s = predictions.predicted_s(request.cluster, request.owner, request.name, at)
    elif room.policy.locality_waits_s and request.locality > engine_locality.ANY_RACK:  # its owner is told a price
        predicted_s = predictions.thought_s(request.cluster, request.owner, request.name, at)
    used_percent = None
    if request.needs_fast is None and room.policy.class_order and room.policy.high_efficiency_percent:
        used_percent = efficiency.percent_used(request.cluster, request.owner, request.name, at)
    return Answer(room, _refusal(request, leaf, room), predicted_s, found, overrode, used_percent)


def _store(requests: Sequence[Asked], answer: Answer, array: uuid.UUID | None, at: datetime) -> list[Workload]:
    """Write them down, queued or refused, and wake the loop; what was submitted before is returned as it is."""
    first, reason = requests[0], answer.reason
    with events.changing(first.cluster.pk):
        known = _submitted_before(requests)
        if known:
            return known
        waits = first.after is not None and _is_open(first.after)
        numbers = take_numbers(first.leaf, len(requests))
        told = advice.keep(answer.advice, first.cluster, answer.overrode, at)
        rows = Workload.objects.bulk_create(
            _row(request, code, answer, waits, at, array, index, told)
            for index, (request, code) in enumerate(zip(requests, numbers, strict=True))
        )
        if reason is not None:
            Decision.objects.bulk_create(_refused(row, reason, at) for row in rows)
        kind = Kind.SUBMITTED if reason is None else Kind.REFUSED
        entries = [Entry(kind, workload_id=row.pk) for row in rows]
        events.record_all(cluster_id=first.cluster.pk, entries=entries, at=at, by=first.owner)
        if reason is None and not waits:
            events.wake(first.cluster.pk)
    return rows


def _keep_leaf(leaf: BudgetNode) -> BudgetNode:
    """The leaf as it is now: nobody divides, moves or closes it between our look at the tree and our commit.

    Before the cluster's lock, as changes of the tree do it: in the other order they would wait for each other.
    """
    return BudgetNode.objects.select_for_update(no_key=True).get(pk=leaf.pk)


def _check_may_run(request: Asked) -> None:
    """Running other people's commands is the danger of this product: where nothing keeps them apart, few may."""
    if request.owner is None or settings.ANY_COMMANDS or request.cluster.executor != Cluster.Executor.AGENT:
        return
    commands = {name: getattr(request, name) for name in ("command", "save_command", "restore_command")}
    closed = [name for name, words in commands.items() if words and words[0] not in settings.OPEN_PROGRAMS]
    if closed and not may(request.owner, "workload.run_any_command", request.cluster):
        programs = ", ".join(settings.OPEN_PROGRAMS)
        raise InputError(
            closed[0],
            gettext("on these nodes only an operator may run that; everybody may run {programs}").format(
                programs=programs
            ),
        )


def _check_variables(request: Asked) -> None:
    """An open program is harmless with any arguments, not with any environment: PATH or PYTHONPATH would replace it."""
    if request.owner is None or settings.ANY_COMMANDS or request.cluster.executor != Cluster.Executor.AGENT:
        return
    foreign = [f"environment.{name}" for name in sorted(set(request.environment) - {asked.ARRAY_INDEX})]
    foreign += [f"secrets.{name}" for name in sorted(request.secrets)]
    if foreign and not may(request.owner, "workload.run_any_command", request.cluster):
        raise InputError(foreign[0], gettext("on these nodes only an operator may set variables"))


def _submitted_before(requests: Sequence[Asked]) -> list[Workload]:
    first = requests[0]
    keys = [request.idempotency_key for request in requests]
    if not keys[0]:
        return []
    rows = Workload.objects.filter(owner=first.owner, idempotency_key__in=keys).select_related("leaf", "cluster")
    found = {row.idempotency_key: row for row in rows}
    return [found[key] for key in keys if key in found]


def _is_open(workload: Workload) -> bool:
    """As it is now: it may have ended since it was read."""
    return Workload.objects.filter(pk=workload.pk, state__in=Workload.OPEN_STATES).exists()


def room_of(cluster: Cluster) -> Room:
    """What the cluster has, fit or not; retired nodes do not count."""
    sizes = Node.objects.filter(cluster=cluster, retired_at=None).annotate(size=Count("devices"))
    counts = list(sizes.values_list("size", flat=True))
    policies.ensure(cluster)
    policy = policies.as_policy(policies.latest(cluster))
    largest_milli = max(counts, default=0) * WHOLE_DEVICE_MILLI
    return Room(sum(counts) * WHOLE_DEVICE_MILLI, largest_milli, len(counts), policy)


def _refusal(request: Asked, leaf: BudgetNode, room: Room) -> Reason | None:
    """What the engine's rules of the door say."""
    place = queries.place_on(leaf, request.cluster, queries.today())
    if place.has_children:
        raise InputError("leaf", gettext("{leaf} has nodes below it: submit to one of these").format(leaf=leaf.code))
    room_milli = room.total_milli
    if request.node is not None:
        room_milli = request.node.devices.count() * WHOLE_DEVICE_MILLI
    return refusal(
        policy=room.policy,
        size_milli=request.size_milli,
        min_runtime_s=request.min_runtime_s,
        is_entitled=place.entitlement > 0,
        is_closed=place.is_closed,
        room_milli=room_milli,
        leaf_name=leaf.name,
        maximum=least_maximum(request.leaf, request.cluster),
        node_milli=room.node_milli,
        has_host_room=has_host_room(request),
        gpu_classes=request.gpu_classes,
        known_classes=known_classes(request.cluster) if request.gpu_classes else (),
    )


def least_maximum(leaf: BudgetNode, cluster: Cluster) -> tuple[str, int] | None:
    """The node at or above a leaf that may hold least on a cluster, by its name, and how much; None without a bound."""
    rows = Limit.objects.filter(cluster=cluster, node__in=leaf.path, maximum_milli__isnull=False)
    found = rows.order_by("maximum_milli", "node__code").values_list("node__name", "maximum_milli").first()
    return None if found is None or found[1] is None else (found[0], found[1])


def known_classes(cluster: Cluster) -> list[str]:
    """The classes of the cluster's nodes, by name; retired ones do not count."""
    rows = Node.objects.filter(cluster=cluster, retired_at=None).exclude(gpu_class="")
    return sorted(set(rows.order_by().values_list("gpu_class", flat=True)))


def has_host_room(request: Asked) -> bool:
    """Whether nodes that are not retired have the class, cores and memory asked for; 0 is unsaid, and bounds not.

    For one on one node one of them with the devices; for a larger gang all that have them, together.
    """
    if not (request.cpu_milli_per_rank or request.memory_mib_per_rank or request.gpu_classes):
        return True
    nodes = Node.objects.filter(cluster=request.cluster, retired_at=None).annotate(size=Count("devices"))
    if request.node is not None:
        nodes = nodes.filter(pk=request.node.pk)
    counts = list(nodes.values_list("size", "cpu_milli", "memory_mib", "gpu_class"))
    sizes = [
        size * WHOLE_DEVICE_MILLI
        for size, cpu_milli, memory_mib, gpu_class in counts
        if (not cpu_milli or request.cpu_milli_per_rank <= cpu_milli)
        and (not memory_mib or request.memory_mib_per_rank <= memory_mib)
        and (not request.gpu_classes or gpu_class in request.gpu_classes)
    ]
    largest_milli = max((size for size, *_ in counts), default=0) * WHOLE_DEVICE_MILLI
    return (sum(sizes) if request.size_milli > largest_milli else max(sizes, default=0)) >= request.size_milli


def take_numbers(leaf: BudgetNode, count: int) -> list[str]:
    """The next codes for workloads of this leaf: unique, rising, perhaps with gaps."""
    with connection.cursor() as cursor:
        cursor.execute(NUMBERS_SQL, {"code": leaf.code, "count": count})
        (last,) = cursor.fetchone()
    return [f"{leaf.code}-{number:04d}" for number in range(last - count + 1, last + 1)]


def _row(
    request: Asked,
    code: str,
    answer: Answer,
    waits: bool,
    at: datetime,
    array: uuid.UUID | None,
    index: int,
    told: Advice | None,
) -> Workload:
    reason = answer.reason
    row = Workload(
        code=code,
        predicted_s=answer.predicted_s,
        advice=told,
        workload_class=class_of(request.size_milli, request.min_runtime_s, answer.room),
        submitted_at=at,
        array=array,
        array_index=None if array is None else index,
        needs_fast=needs_fast(request, answer),
        efficiency_percent=answer.used_percent,
        **asked.columns(request),
    )
    if reason is not None:
        row.state, row.ended_at, row.secrets = Workload.State.REFUSED, at, {}
        row.reason_code, row.reason_text, row.reason_numbers = reason.code, reason.text, dict(reason.numbers)
    elif waits:
        assert request.after is not None
        row.state, row.reason_code = Workload.State.HELD, events.AFTER
        row.reason_text = f"Waiting: it enters the queue when {request.after.code} has ended."
        if request.after_passed:
            row.reason_text = failure_words.CANARY_WAITS.format(code=request.after.code)
        row.reason_numbers = {"after": request.after.code}
    return row


def _refused(row: Workload, reason: Reason, at: datetime) -> Decision:
    return Decision(
        workload=row, at=at, action="refuse", code=reason.code, text=reason.text, numbers=dict(reason.numbers)
    )


def needs_fast(request: Asked, answer: Answer) -> bool:
    """By its own word, else by what work like it has used."""
    if request.needs_fast is not None:
        return request.needs_fast
    return answer.used_percent is not None and answer.used_percent >= answer.room.policy.high_efficiency_percent


def class_of(size_milli: int, min_runtime_s: int, room: Room) -> str:
    """The class by which waits are told apart (semantics.md section 10); a debug run is no large gang."""
    if not min_runtime_s:
        return Workload.Class.UNALLOCATED
    if min_runtime_s <= DEBUG_CONTRACT_S and size_milli <= room.node_milli:
        return Workload.Class.DEBUG
    return Workload.Class.LARGE if size_milli * LARGE_PART >= room.total_milli else Workload.Class.STANDARD


def cancel(*, workload: Workload, by: Person | None, reason: str = "", now: datetime | None = None) -> bool:
    """Cancel a workload: at once if it waits, by a stop signal and its grace if it runs.

    Says False where there is nothing to cancel: it has ended, or was cancelled before.

    Raises:
        NotAllowed: it is not theirs.
    """
    if by is not None and not may(by, "workload.cancel", workload):
        raise NotAllowed("workload.cancel", gettext("this workload is not yours to cancel"))
    at = (now or timezone.now()).replace(microsecond=0)
    cluster_id = workload.cluster_id
    with events.changing(cluster_id):
        changed = Workload.objects.filter(pk=workload.pk, state__in=("queued", "held"), cancel_asked_at=None).update(
            state=Workload.State.CANCELLED,
            cancel_asked_at=at,
            ended_at=at,
            place=None,
            earliest_start_at=None,
            secrets={},
        )
        if changed:
            runs.end_plans(workload, at, "cancelled")
            _log(workload, Kind.CANCELLED, at, by, reason)
            runs.release_followers(workload, at)
            events.wake(cluster_id)
            return True
        changed = Workload.objects.filter(pk=workload.pk, state__in=Workload.OPEN_STATES, cancel_asked_at=None).update(
            cancel_asked_at=at
        )
        if not changed:
            return False
        _log(workload, Kind.CANCEL_ASKED, at, by, reason)
        run = Run.objects.filter(workload=workload).exclude(state=Run.State.ENDED).first()
        if run is not None:
            policies.ensure(workload.cluster)
            policy = policies.as_policy(policies.latest(workload.cluster))
            runs.tell_to_stop(run=run, code=runs.CANCELLED, at=at, policy=policy, by=by)
            agents.wake(set(run.ranks.values_list("node_id", flat=True)))
        events.wake(cluster_id)
        return True


def cancel_array(*, workload: Workload, by: Person | None, reason: str = "", now: datetime | None = None) -> int:
    """Cancel every task of the array that a workload is one of, or the workload alone. How many there were to cancel.

    Raises:
        NotAllowed: one of them is not theirs; nothing is cancelled then.
    """
    if workload.array is None:
        return int(cancel(workload=workload, by=by, reason=reason, now=now))
    tasks = Workload.objects.filter(array=workload.array, state__in=Workload.OPEN_STATES, cancel_asked_at=None)
    with events.changing(workload.cluster_id):
        rows = list(tasks.select_related("leaf", "cluster").order_by("pk"))
        return sum(cancel(workload=row, by=by, reason=reason, now=now) for row in rows)


def _log(workload: Workload, kind: Kind, at: datetime, by: Person | None, reason: str) -> None:
    data = {"reason": reason} if reason else {}
    events.record(cluster_id=workload.cluster_id, kind=kind, at=at, workload=workload, by=by, data=data)
