"""Asking for simulations: a scenario or a stretch of history under several policies or shares, carried out by workers.

Whoever is signed in may ask; each person has at most MOST_AT_ONCE that are not over. What a worker does with a part is
in `scheduler.services.simulating`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from budgets import queries
from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Cluster, Person
from scheduler.models import Simulation, SimulationPart
from scheduler.services import simulating
from scheduler.simulator import Scenario, ScenarioError, named_policies, parse
from scheduler.simulator.entitled import UNASSIGNED
from scheduler.simulator.lab import check_size
from scheduler.simulator.scenario import ROOT
from scheduler.simulator.sweeps import KNOBS, MOST_PARTS, parts, read_values, said
from scheduler.simulator.variants import changed, with_more
from scheduler.simulator.written import as_file
from scheduler.traces import TraceError, counted
from scheduler.traces.scenarios import GPUS_PER_NODE, on_plain_nodes

MOST_AT_ONCE = 3
"""Simulations of one person that are not over."""
MOST_VARIANTS = 6
MOST_PROPOSALS = 3
"""Variants of shares that one what-if puts beside the shares as they were."""
LONGEST = timedelta(weeks=13)
"""Of a stretch of history."""
FILE_BYTES = 16 * 1024 * 1024
"""Of a scenario file, and of a file with more work."""
MOST_WORKLOADS = 100_000
TITLE_LENGTH = 160
MOST_SEEDS = 20
POLICY_LENGTH = 100
MOST_LABORATORY = 20_000
"""Days times GPUs of an invented laboratory that the portal's workers simulate, which then takes minutes."""
MOST_TRACE_GPUS = 100_000
LABORATORY = "laboratory"
AS_THEY_WERE = "as they were"
"""The variant of a what-if that changes nothing."""


@dataclass(frozen=True, slots=True)
class File:
    """A scenario file: its name, and its text."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class History:
    """[start, end) of a cluster's history."""

    cluster: Cluster
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Variant:
    """What is different: knobs, with `scheduler` among them, in the words of a scenario file's `policy`."""

    name: str
    policy: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Laboratories:
    """Invented laboratories of so many days and GPUs, each seed one of its own."""

    days: int
    gpus: int


Source = File | History


# --- asking -----------------------------------------------------------------------------------------------------------


def compare(
    *,
    by: Person | None,
    source: Source,
    variants: Sequence[Variant],
    title: str = "",
    more: File | None = None,
    action: str = "",
    now: datetime | None = None,
) -> Simulation:
    """Ask for the same work under several policies.

    Args:
        by: who asks; None is the system, which has no limit.
        source: a scenario file, or a stretch of history of at most 13 weeks that is over.
        variants: 1 to 6, each with a name of its own.
        title: for people; empty says where the work is from.
        more: constructed work laid over it (scheduler/simulator/variants.py).
        action: the asker's own name for this question: asking twice is asking once.
        now: when; default is the clock's.

    Raises:
        InputError: names the field, and for a file the key in it.
        NotAllowed: somebody who is not signed in.
    """
    if not 1 <= len(variants) <= MOST_VARIANTS:
        raise InputError(
            "variants",
            gettext("must be 1 to {most_variants}, not {variants}").format(
                most_variants=MOST_VARIANTS, variants=len(variants)
            ),
        )
    if len({variant.name for variant in variants}) < len(variants):
        raise InputError("variants", gettext("need names of their own"))
    changes = [(variant.name, {"policy": dict(variant.policy)} if variant.policy else {}) for variant in variants]
    return _ask(Simulation.Kind.COMPARISON, by, source, changes, title=title, more=more, action=action, now=now)


def propose(
    *,
    by: Person | None,
    parent: BudgetNode,
    cluster: Cluster,
    proposals: Mapping[str, Mapping[str, int]],
    weeks: int,
    action: str = "",
    now: datetime | None = None,
) -> Simulation:
    """Ask what the last weeks would have been with other shares below a budget node, beside the shares as they were.

    Args:
        by: who asks; None is the system.
        parent: whose shares are divided differently.
        cluster: on which cluster.
        proposals: 1 to 3, by name: basis points by the children's codes; children that are not named keep today's. They
            hold over the whole time.
        weeks: 1 to 8, up to the last whole hour.
        action: as for `compare`.
        now: when; default is the clock's.

    Raises:
        InputError: names the field: no such child, more than the whole, a number that is no share.
    """
    if isinstance(weeks, bool) or not isinstance(weeks, int) or not 1 <= weeks <= 8:
        raise InputError("weeks", gettext("must be 1 to 8, not {weeks!r}").format(weeks=weeks))
    if not 1 <= len(proposals) <= MOST_PROPOSALS:
        raise InputError(
            "proposals",
            gettext("must be 1 to {most_proposals}, not {proposals}").format(
                most_proposals=MOST_PROPOSALS, proposals=len(proposals)
            ),
        )
    if AS_THEY_WERE in proposals:
        raise InputError(
            "proposals",
            gettext("one is called {as_they_were!r}, which is what it stands beside").format(as_they_were=AS_THEY_WERE),
        )
    end = (now or timezone.now()).replace(minute=0, second=0, microsecond=0)
    changes: list[tuple[str, dict[str, Any]]] = [(AS_THEY_WERE, {})]
    changes += [(name, {"shares": _whole(parent, cluster, given)}) for name, given in proposals.items()]
    return _ask(
        Simulation.Kind.WHAT_IF,
        by,
        History(cluster, end - timedelta(weeks=weeks), end),
        changes,
        title=f"Shares of {parent.code} on {cluster.name}: {', '.join(proposals)}"[:TITLE_LENGTH],
        parent=parent,
        action=action,
        now=now,
    )


def _whole(parent: BudgetNode, cluster: Cluster, given: Mapping[str, int]) -> dict[str, int]:
    """Shares of all children, and of what is not given to any of them, in a scenario's names."""
    rows = queries.tree_on(cluster, queries.today())
    children = {row.node.code: row.basis_points for row in rows if row.parent_id == parent.pk}
    for code, amount in given.items():
        if code not in children:
            raise InputError("shares", gettext("{code} is no child of {parent}").format(code=code, parent=parent.code))
        if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= WHOLE_BASIS_POINTS:
            raise InputError(
                "shares",
                gettext("{code}: must be 0 to {whole_basis_points} basis points, not {amount!r}").format(
                    code=code, whole_basis_points=WHOLE_BASIS_POINTS, amount=amount
                ),
            )
    shares = children | dict(given)
    rest = WHOLE_BASIS_POINTS - sum(shares.values())
    if rest < 0:
        raise InputError(
            "shares",
            gettext("sum to {values:,} basis points, more than {whole_basis_points:,}").format(
                values=sum(shares.values()), whole_basis_points=WHOLE_BASIS_POINTS
            ),
        )
    name = ROOT if parent.parent_id is None else parent.code
    return {**shares, f"{name}{UNASSIGNED}": rest}


def sweep(
    *,
    by: Person | None,
    source: Source,
    knob: str,
    values: Sequence[object],
    seeds: int = 1,
    policy: Mapping[str, Any] | None = None,
    title: str = "",
    more: File | None = None,
    action: str = "",
    now: datetime | None = None,
) -> Simulation:
    """Ask for one knob over several values, each with the work as it was and `seeds` - 1 times a little different.

    Args:
        by, source, title, more, action, now: as for `compare`.
        knob: one of scheduler.simulator.sweeps.KNOBS.
        values: numbers, or durations such as "7d", within the knob's bounds.
        seeds: how often each value is run; at most 200 runs in all.
        policy: other knobs, the same in all of them.

    Raises:
        InputError: as for `compare`.
    """
    if knob not in KNOBS:
        raise InputError(
            "knob", gettext("must be one of {choices}, not {knob!r}").format(choices=", ".join(KNOBS), knob=knob)
        )
    try:
        numbers = read_values(KNOBS[knob], values)
        changes = parts(KNOBS[knob], numbers, seeds)
    except ScenarioError as error:
        raise InputError("seeds" if error.path == "seeds" else "values", error.message) from None
    named = []
    for change in changes:
        change["policy"] = {**(policy or {}), **change["policy"]}
        again = f", seed {change['seed']}" if seeds > 1 else ""
        named.append((f"{said(KNOBS[knob], change['policy'][knob])}{again}", change))
    asked = {"knob": knob, "values": numbers, "seeds": seeds}
    title = title or f"{KNOBS[knob].title.capitalize()}: {', '.join(said(KNOBS[knob], number) for number in numbers)}"
    return _ask(Simulation.Kind.SWEEP, by, source, named, title=title, more=more, action=action, now=now, asked=asked)


def compare_policies(
    *,
    by: Person | None,
    source: Source | Laboratories,
    policies: Sequence[str],
    seeds: int = 1,
    title: str = "",
    more: File | None = None,
    action: str = "",
    now: datetime | None = None,
) -> Simulation:
    """Ask for policies on the same work, seed by seed, with how sure their differences are.

    Args:
        by, title, more, action, now: as for `compare`.
        source: as for `compare`; or invented laboratories.
        policies: names as `named_policies.read` takes them; the others are compared with the first.
        seeds: 1 to 20. The first is the work as it is; in the others it comes again (`policy_table.again`).

    Raises:
        InputError: names the field: policies, seeds, or as for `compare`.
    """
    chosen = _policies(policies, seeds)
    asked: dict[str, Any] = {"policies": [policy.name for policy in chosen], "seeds": seeds}
    if isinstance(source, Laboratories):
        if more is not None:
            raise InputError("more", gettext("is laid over one scenario, and each laboratory is another"))
        asked["lab"] = {"days": source.days, "gpus": source.gpus}
        title = title or f"Invented laboratories of {source.gpus} GPUs, {source.days} d"
        source = _first_of(source)
    changes = [
        (
            policy.name if seeds == 1 else f"{policy.name}, seed {seed}",
            {"policy": dict(policy.knobs), "placement": dict(policy.placement), "seed": seed},
        )
        for seed in range(1, seeds + 1)
        for policy in chosen
    ]
    return _ask(
        Simulation.Kind.POLICIES, by, source, changes, title=title, more=more, action=action, now=now, asked=asked
    )


def _policies(names: Sequence[str], seeds: int) -> list[named_policies.NamedPolicy]:
    """The policies of those names, as many as may be run so often.

    Raises:
        InputError: names policies or seeds.
    """
    try:
        chosen = named_policies.read_all(names)
    except ScenarioError as error:
        raise InputError("policies", str(error)) from None
    if not chosen:
        raise InputError("policies", gettext("at least one is needed"))
    for policy in chosen:
        if len(policy.name) > POLICY_LENGTH:
            raise InputError(
                "policies",
                gettext("{policy}…: at most {most} characters").format(policy=policy.name[:40], most=POLICY_LENGTH),
            )
    if not 1 <= seeds <= MOST_SEEDS:
        raise InputError("seeds", gettext("must be 1 to {most}, not {seeds}").format(most=MOST_SEEDS, seeds=seeds))
    if len(chosen) * seeds > MOST_PARTS:
        raise InputError(
            "seeds",
            gettext("{policies} policies times {seeds} seeds are more than {most} runs").format(
                policies=len(chosen), seeds=seeds, most=MOST_PARTS
            ),
        )
    return chosen


def _first_of(source: Laboratories) -> File:
    """The laboratory of the first seed, which policies are checked on.

    Raises:
        InputError: names days or gpus.
    """
    if (fault := check_size(days=source.days, gpus=source.gpus)) is not None:
        raise InputError(fault[0].removeprefix("--"), fault[1])
    if source.days * source.gpus > MOST_LABORATORY:
        raise InputError("days", gettext("times GPUs must be at most {most:,} here").format(most=MOST_LABORATORY))
    name = f"{LABORATORY}-{source.days}d-{source.gpus}.json"
    return File(name, simulating.laboratory(1, days=source.days, gpus=source.gpus))


def from_trace(name: str, content: str, gpus: int) -> File:
    """A trace (CSV, SWF or Alibaba's pods) as a scenario on nodes of 8 GPUs, with contracts of at most an hour.

    Raises:
        InputError: names gpus, or the trace with its row and field.
    """
    if not 1 <= gpus <= MOST_TRACE_GPUS or gpus % GPUS_PER_NODE:
        raise InputError(
            "gpus",
            gettext("must be a multiple of {node} up to {most:,}, not {gpus}").format(
                node=GPUS_PER_NODE, most=MOST_TRACE_GPUS, gpus=gpus
            ),
        )
    try:
        jobs = counted.read_any(content)
    except TraceError as error:
        raise InputError("trace", str(error)) from None
    if not jobs:
        raise InputError("trace", gettext("there are no jobs in it"))
    return File(name, json.dumps(on_plain_nodes(jobs, name=name, gpus=gpus)))


def _ask(
    kind: str,
    by: Person | None,
    source: Source,
    changes: Sequence[tuple[str, dict[str, Any]]],
    *,
    title: str,
    action: str,
    now: datetime | None,
    more: File | None = None,
    parent: BudgetNode | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Simulation:
    """Check what can be checked at once, store it, and have the workers begin."""
    if by is not None and not may(by, "simulation.run"):
        raise NotAllowed("simulation.run")
    if len(title) > TITLE_LENGTH:
        raise InputError("title", gettext("at most {title_length} characters").format(title_length=TITLE_LENGTH))
    at = (now or timezone.now()).replace(microsecond=0)
    said_of_it: dict[str, Any] = {"more": None if more is None else {"name": more.name, "content": more.content}}
    row = Simulation(kind=kind, made_by=by, made_at=at, action=action, parent=parent, title=title)
    if isinstance(source, File):
        said_of_it["file"] = source.name
        base = _checked(kind, source, more, changes)
        content = source.content if more is None else json.dumps(as_file(base))
        row.scenario = zlib.compress(content.encode())
        said_of_it |= simulating.how_again(kind, base, dict(asked or {}))
    else:
        _check_time(source, at)
        said_of_it["cluster"] = source.cluster.name
        row.cluster, row.from_at, row.until_at = source.cluster, source.start, source.end
    row.title = title or _title(source)
    row.asked = said_of_it | dict(asked or {})
    with transaction.atomic():
        if by is not None:
            known = _asked_before(by, action)
            if known is not None:
                return known
        row.save()
        SimulationPart.objects.bulk_create(
            SimulationPart(simulation=row, number=number, name=name, change=change)
            for number, (name, change) in enumerate(changes, start=1)
        )
        simulating.send(row)
    return row


def _asked_before(by: Person, action: str) -> Simulation | None:
    """The simulation that the same form asked for before.

    Raises:
        InputError: there is none, and the person has too many that are not over.
    """
    Person.objects.select_for_update().get(pk=by.pk)  # two forms sent at once count each other
    if action and (known := Simulation.objects.filter(made_by=by, action=action).first()):
        return known
    if Simulation.objects.filter(made_by=by, state__in=Simulation.OPEN_STATES).count() >= MOST_AT_ONCE:
        message = gettext("You have {count} simulations that are not over: wait for one of them, or cancel it.").format(
            count=MOST_AT_ONCE
        )
        raise InputError("", message)
    return None


def _title(source: Source) -> str:
    if isinstance(source, File):
        return source.name[:TITLE_LENGTH]
    return f"{source.cluster.name}, {source.start:%Y-%m-%d %H:%M} to {source.end:%Y-%m-%d %H:%M} UTC"


def _check_time(source: History, now: datetime) -> None:
    if source.end <= source.start:
        raise InputError("until", gettext("must be after the start"))
    if source.end > now:
        raise InputError("until", gettext("is still to come: only what is over can be replayed"))
    if source.end - source.start > LONGEST:
        raise InputError("from", gettext("at most {days} weeks can be replayed").format(days=LONGEST.days // 7))


def _checked(kind: str, source: File, more: File | None, changes: Sequence[tuple[str, dict[str, Any]]]) -> Scenario:
    """The scenario, with what is laid over it, when it is one that every variant can be made of."""
    for field_name, file in (("scenario", source), ("more", more)):
        if file is not None and len(file.content) > FILE_BYTES:
            raise InputError(
                field_name,
                gettext("{file} is larger than {file_bytes} MB").format(
                    file=file.name, file_bytes=FILE_BYTES // 1024 // 1024
                ),
            )
    try:
        base = parse(source.content)
    except ScenarioError as error:
        raise InputError("scenario", str(error)) from None
    if not base.jobs:
        raise InputError("scenario", gettext("workloads: there are none"))
    if len(base.jobs) > MOST_WORKLOADS:
        raise InputError(
            "scenario",
            gettext("workloads: at most {most_workloads:,} can be simulated here").format(
                most_workloads=MOST_WORKLOADS
            ),
        )
    try:
        base = base if more is None else with_more(base, more.content)
    except ScenarioError as error:
        raise InputError("more", str(error)) from None
    once = {json.dumps(change | {"seed": 0}, sort_keys=True): (name, change) for name, change in reversed(changes)}
    for name, change in once.values():
        try:
            changed(base, change, None)
        except ScenarioError as error:
            field_name = "policies" if kind == Simulation.Kind.POLICIES else "variants"
            raise InputError(field_name, f"{name}: {error}") from None
    return base


# --- cancelling, trying again -----------------------------------------------------------------------------------------


def cancel(*, simulation: Simulation, by: Person, now: datetime | None = None) -> bool:
    """End a simulation; parts that run notice it within a second. Says False for one that is over.

    Raises:
        NotAllowed: it is not theirs.
    """
    if not may(by, "simulation.cancel", simulation):
        raise NotAllowed("simulation.cancel", gettext("this simulation is not yours to cancel"))
    at = (now or timezone.now()).replace(microsecond=0)
    open_states = Simulation.OPEN_STATES
    with transaction.atomic():
        changed_rows = Simulation.objects.filter(pk=simulation.pk, state__in=open_states).update(
            state=Simulation.State.CANCELLED, ended_at=at
        )
        if changed_rows:
            simulation.parts.filter(state__in=open_states).update(state=Simulation.State.CANCELLED, ended_at=at)
    return bool(changed_rows)


def try_again(*, simulation: Simulation, by: Person, now: datetime | None = None) -> bool:
    """Run the parts that failed or were cancelled once more. Says False where there are none, or it is not over.

    Raises:
        NotAllowed: it is not theirs. InputError: they have too many that are not over.
    """
    if not may(by, "simulation.cancel", simulation):
        raise NotAllowed("simulation.cancel", gettext("this simulation is not yours to try again"))
    again = (Simulation.State.FAILED, Simulation.State.CANCELLED)
    with transaction.atomic():
        _asked_before(by, "")
        changed_rows = Simulation.objects.filter(pk=simulation.pk, state__in=again).update(
            state=Simulation.State.WAITING, ended_at=None, error=""
        )
        if not changed_rows:
            return False
        simulation.parts.filter(state__in=again).update(
            state=Simulation.State.WAITING,
            ended_at=None,
            error="",
            progress_percent=0,
        )
        simulation.refresh_from_db()
        simulating.send(simulation)
    return True
