"""The laboratory's present: its people go on submitting, on every cluster, at about twice what the cluster holds.

What is submitted follows from the demo's seed and from the time, in slots of SLOT_S: two feeders in one slot submit the
same, and the submission's key lets it in once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any

from django.db.models import Sum
from django.utils import timezone

from budgets import queries
from budgets.models import BudgetNode, Cluster, LedgerEntry, Person, Role, RoleGrant
from portal.demo.stream import APPETITE, KINDS, MINUTE_S, draft, environment, some_kind
from scheduler.models import Device, Workload
from scheduler.services import policies, workloads

MILLI = 1_000
OVERSUBSCRIBED = 2
"""Demand kept up, as a multiple of the cluster."""
QUEUE_MAX = 30
"""Nothing is added to a queue that is as long."""
SLOT_S = 15
AT_ONCE = 2
"""Submissions in one slot on one cluster."""
DEBUG_CHANCE = 0.06
"""Of a debug run in a slot, although demand is kept up: somebody always tries something."""
FOUNDED = "demo, seed "
"""How the reason of the root's entry in the ledger begins, if the organisation is the demo's."""

Request = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """A leaf where something may be submitted: by these people, funded or not, so eagerly."""

    leaf: BudgetNode
    people: list[Person]
    is_entitled: bool
    weight: float


def seed() -> int | None:
    """The demo's seed; None where the organisation is somebody's own, or there is none."""
    root = BudgetNode.objects.filter(parent=None).first()
    entry = LedgerEntry.objects.filter(verb="node.created", node_id=root.pk).first() if root else None
    if entry is None or not entry.reason.startswith(FOUNDED):
        return None
    return int(entry.reason.removeprefix(FOUNDED))


def feed(cluster: Cluster, now: datetime | None = None) -> list[Workload]:
    """Submit what the cluster's people would submit now, if the demand falls short. What was submitted."""
    number = seed()
    if number is None:
        return []
    queued = Workload.objects.filter(cluster=cluster, state=Workload.State.QUEUED).count()
    if queued >= QUEUE_MAX:
        return []
    slot = int((now or timezone.now()).timestamp()) // SLOT_S
    chance = Random(f"{number} {cluster.name} {slot}")
    devices = Device.objects.filter(node__cluster=cluster, node__retired_at=None).count()
    places = _places(cluster)
    if not devices or not places:
        return []
    short = OVERSUBSCRIBED * devices * MILLI - _asked(cluster)
    if short <= 0:
        if chance.random() > DEBUG_CHANCE:
            return []
        return [_submit(cluster, places, chance, f"demo {cluster.name} {slot} 0", only_debug=True)]
    return [_submit(cluster, places, chance, f"demo {cluster.name} {slot} {index}") for index in range(AT_ONCE)]


def _asked(cluster: Cluster) -> int:
    """The demand that is there, in thousandths."""
    rows = Workload.objects.filter(cluster=cluster, state__in=Workload.OPEN_STATES).exclude(state="held")
    return rows.aggregate(sum=Sum("size_milli", default=0))["sum"]


def _places(cluster: Cluster) -> list[Place]:
    """The open leaves with people, whoever has changed them meanwhile."""
    entitled = {row.node.pk: row.entitlement for row in queries.tree_on(cluster, queries.today())}
    members: dict[int, list[Person]] = {}
    grants = RoleGrant.objects.filter(queries.in_force(queries.today()), role=Role.MEMBER)
    for grant in grants.select_related("person").order_by("pk"):
        if grant.person.is_active:
            members.setdefault(grant.node_id, []).append(grant.person)
    found = []
    for leaf in queries.open_leaves().order_by("code"):
        people = [person for node in leaf.path for person in members.get(node, ())]
        share = float(entitled.get(leaf.pk, 0))
        if people:
            found.append(Place(leaf, people, share > 0, share * APPETITE.get(leaf.code, 1.0) or 0.01))
    return found


def _submit(cluster: Cluster, places: list[Place], chance: Random, key: str, *, only_debug: bool = False) -> Workload:
    place = chance.choices(places, weights=[each.weight for each in places])[0]
    make = _simulated if cluster.executor == Cluster.Executor.SIMULATED else _real
    request = make(cluster, chance, only_debug)
    if not place.is_entitled:
        request["min_runtime_s"] = 0
    return workloads.submit(
        cluster=cluster,
        leaf=place.leaf,
        owner=chance.choice(place.people),
        demo=True,
        idempotency_key=key,
        **request,
    )


def _simulated(cluster: Cluster, chance: Random, only_debug: bool) -> Request:
    """Work for invented nodes, of the same kinds as in the past."""
    kinds = KINDS.get(cluster.name, KINDS["north"])
    name = cluster.name if cluster.name in KINDS else "north"
    kind = kinds[-1] if only_debug else some_kind(chance, name, largest=max(max(each.sizes) for each in kinds))
    one = draft(chance, kind)
    return {
        "name": one.name,
        "size_milli": one.size * MILLI,
        "min_runtime_s": one.min_runtime_s,
        "resumable": one.is_resumable,
        "priority": one.priority,
        "command": ["python", "train.py", "--config", f"{one.name}.yaml"],
        "environment": environment(one),
    }


def _real(cluster: Cluster, chance: Random, only_debug: bool) -> Request:
    """Work for this machine: programs of portal/demo/programs, that run for minutes and mostly sleep."""
    kinds = {"debug": _debug, "train": _train, "sweep": _sweep, "evaluate": _evaluate, "notebook": _notebook}
    weights = (2, 5, 3, 2, 4)
    kind = "debug" if only_debug else chance.choices(list(kinds), weights=weights)[0]
    size_milli, contract_s, command, is_resumable = kinds[kind](chance)
    least_milli = policies.as_policy(policies.latest(cluster)).fraction_min_milli
    if size_milli < MILLI and not 0 < least_milli <= size_milli:
        size_milli = MILLI  # parts are not given out, or none so small
    return {
        "name": f"{kind}-{chance.randrange(1_000):03d}",
        "size_milli": size_milli,
        "min_runtime_s": contract_s,
        "resumable": is_resumable,
        "priority": chance.choice((0, 0, 0, 10)),
        "checkpoint": "checkpoint-0.json" if kind == "train" else "",
        "command": command,
    }


Asked = tuple[int, int, list[str], bool]
"""Thousandths of a GPU, contract in seconds, command, resumable."""


def _debug(chance: Random) -> Asked:
    command = ["demo-debug", "--seconds", str(chance.randrange(5, 40)), *(["--fail"] if chance.random() < 0.2 else [])]
    return chance.choice((1, 1, 2)) * MILLI, MINUTE_S, command, False


def _train(chance: Random) -> Asked:
    size = chance.choice((1, 2, 4, 4, 8))
    steps = chance.randrange(2 * MINUTE_S, 10 * MINUTE_S)
    return size * MILLI, chance.choice((1, 2, 3)) * MINUTE_S, ["demo-train", "--steps", str(steps)], True


def _sweep(chance: Random) -> Asked:
    return chance.choice((1, 2)) * MILLI, 0, ["demo-sweep", "--pieces", str(chance.randrange(90, 480))], True


def _evaluate(chance: Random) -> Asked:
    command = ["demo-evaluate", "--batches", str(chance.randrange(40, 200))]
    return chance.choice((1, 2)) * MILLI, 2 * MINUTE_S, command, False


def _notebook(chance: Random) -> Asked:
    """A session that needs a part of one GPU, beside others."""
    command = ["demo-session", "--minutes", str(chance.randrange(4, 12))]
    return chance.choice((250, 250, 500)), chance.choice((2, 4)) * MINUTE_S, command, True
