"""Simulations over the API: ask, list, look, end, try again, compare what came out."""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404
from django.urls import reverse
from django.utils.translation import gettext
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.models import BudgetNode, Person
from portal.api import filters
from portal.api.base import Api, Pages
from portal.api.given import Instant, cluster_given, person_given
from portal.api.problems import Strict
from portal.api.scopes import SUBMIT
from portal.api.serializers import moment
from portal.api.simulation_results import ResultsOut, results_out
from scheduler.models import Simulation, SimulationPart
from scheduler.queries import simulations as asked
from scheduler.services import simulations
from scheduler.services.simulations import File, History, Laboratories, Source, Variant

SOURCES = ("scenario", "history", "what_if", "laboratories", "trace")
ONLY_POLICIES = ("laboratories", "trace")


class HistoryIn(Strict):
    """A stretch of a cluster's history."""

    cluster = serializers.CharField(max_length=40)
    from_at = Instant()
    until_at = Instant()


class VariantIn(Strict):
    """Knobs under a name, as `policy` in a scenario file has them; `scheduler` is one of them."""

    name = serializers.CharField(max_length=120)
    policy = serializers.DictField(default=dict)


class SweepIn(Strict):
    """One knob over several values, in whole seconds (or a count), each so many times."""

    knob = serializers.CharField(max_length=40)
    values = serializers.ListField(child=serializers.IntegerField(min_value=0, max_value=10**9), min_length=1)
    seeds = serializers.IntegerField(min_value=1, max_value=100, default=1)


class PoliciesIn(Strict):
    """Policies over seeds; the others are compared with the first.

    A name is a scheduler, or contracts with knobs: `contracts,leaf_order=tiresias,lookback_s=3d`; `all` are all there
    are. Placements are parts of a name too (`packing=worst_fit`, `locality=2`, `classes=reserve`, `cells=shares`);
    `placements` are contracts, and all of these that need nothing of the work.
    """

    names = serializers.ListField(child=serializers.CharField(max_length=100), min_length=1, max_length=100)
    seeds = serializers.IntegerField(min_value=1, max_value=20, default=1)


class LaboratoriesIn(Strict):
    """Invented laboratories, another one with each seed."""

    days = serializers.IntegerField(min_value=1, max_value=366)
    gpus = serializers.IntegerField(min_value=64, max_value=100_000)


class TraceIn(Strict):
    """A trace (CSV, SWF, Alibaba's pods) as text, on nodes of 8 GPUs."""

    name = serializers.CharField(max_length=120, default="trace")
    content = serializers.CharField(max_length=simulations.FILE_BYTES, trim_whitespace=False)
    gpus = serializers.IntegerField(min_value=8, max_value=100_000)


class WhatIfIn(Strict):
    """Other shares of a node's children, over the last weeks: by the proposal's name, basis points by code."""

    node = serializers.CharField(max_length=16)
    cluster = serializers.CharField(max_length=40)
    weeks = serializers.IntegerField(min_value=1, max_value=8)
    proposals = serializers.DictField(
        child=serializers.DictField(child=serializers.IntegerField(min_value=0, max_value=10_000)), allow_empty=False
    )


class SimulationIn(Strict):
    """What is asked: one of `scenario` (a scenario file's object), `history`, `what_if`, `laboratories` and `trace`.

    The first two come with `variants`, a `sweep` or `policies`, the last two with `policies`; `more` is an object with
    `workloads`, laid over a scenario, history or trace.
    """

    title = serializers.CharField(max_length=160, allow_blank=True, default="")
    scenario = serializers.DictField(required=False)
    history = HistoryIn(required=False)
    what_if = WhatIfIn(required=False)
    laboratories = LaboratoriesIn(required=False)
    trace = TraceIn(required=False)
    more = serializers.DictField(required=False)
    variants = VariantIn(many=True, required=False)
    sweep = SweepIn(required=False)
    policies = PoliciesIn(required=False)
    idempotency_key = serializers.RegexField(r"^[0-9a-f]{32}$", default="")

    def validate(self, said: dict[str, Any]) -> dict[str, Any]:
        """Exactly one kind of work, and one thing to do with it."""
        work = [name for name in SOURCES if name in said]
        if len(work) != 1:
            message = gettext("Say exactly one of {sources}.").format(sources=", ".join(SOURCES))
            raise ValidationError({"scenario": [message]})
        what = [name for name in ("variants", "sweep", "policies") if name in said]
        if work == ["what_if"]:
            for name in ("more", "variants", "sweep", "policies"):
                if name in said:
                    raise ValidationError({name: [gettext("A what_if has none.")]})
        elif len(what) != 1:
            raise ValidationError({"variants": [gettext("Say one of variants, a sweep and policies.")]})
        elif work[0] in ONLY_POLICIES and what != ["policies"]:
            raise ValidationError(
                {"policies": [gettext("Say which policies: {source} has nothing else.").format(source=work[0])]}
            )
        return said


class NothingIn(Strict):
    """There is nothing to say."""


class SimulationOut(serializers.Serializer):
    """A simulation; `parts` in the order of pages, number 0 being what really happened. Lists leave `figures` out."""

    number = serializers.IntegerField()
    kind = serializers.CharField()
    title = serializers.CharField()
    state = serializers.CharField()
    error = serializers.CharField()
    progress_percent = serializers.IntegerField()
    made_by = serializers.CharField(allow_null=True)
    made_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    cluster = serializers.CharField(allow_null=True)
    from_at = serializers.DateTimeField(allow_null=True)
    until_at = serializers.DateTimeField(allow_null=True)
    notes = serializers.ListField(child=serializers.CharField())
    parts = serializers.ListField(child=serializers.DictField())


class LatestFirst(Pages):
    """The newest first."""

    ordering = ("-pk",)


class Simulations(Api):
    """Those that one may see, the latest first; and asking for one more."""

    scopes = {"POST": SUBMIT}
    filters = (
        filters.one_of("state", "in this state", Simulation.State.values),
        filters.one_of("kind", "of this kind", Simulation.Kind.values),
        filters.text("made_by", "asked for by this person, by user name", at_most=150),
    )
    out = SimulationOut
    pagination_class = LatestFirst

    @extend_schema(responses=SimulationOut(many=True))
    def get(self, request: Request) -> Response:
        """The newest first, without figures."""
        said, rows = self.asked(), asked.visible(self.person())
        rows = rows.filter(**{name: said[name] for name in ("state", "kind") if said[name]})
        if said["made_by"] is not None:
            rows = rows.filter(made_by=person_given(said["made_by"], "made_by", may_be_gone=True))
        return self.page(rows, several)

    @extend_schema(request=SimulationIn, responses={201: SimulationOut})
    def post(self, request: Request) -> Response:
        """Ask. The same `idempotency_key` gives the same simulation again."""
        row = _ask(self.read(SimulationIn(data=request.data)), self.person())
        address = reverse("api-simulation", args=[row.pk])
        return Response(simulation(row, asked.parts_of(row)), status=201, headers={"Location": address})


class OneSimulation(Api):
    """What the views of one simulation share."""

    out: type[serializers.Serializer] | None = SimulationOut

    def row(self, number: int) -> Simulation:
        """The simulation, if the person may see it.

        Raises:
            Http404: there is none for them.
        """
        row = asked.named(self.person(), number)
        if row is None:
            raise Http404(gettext("There is no simulation {number}, or you may not see it.").format(number=number))
        return row

    def answer(self, number: int) -> Response:
        """As it is now."""
        row = self.row(number)
        return Response(simulation(row, asked.parts_of(row)))


class SimulationDetail(OneSimulation):
    """One simulation with all its figures."""

    @extend_schema(responses=SimulationOut)
    def get(self, request: Request, number: int) -> Response:
        """How far it is, and what came out."""
        return self.answer(number)


class CancelSimulation(OneSimulation):
    """Cancelling a simulation."""

    scopes = {"POST": SUBMIT}

    @extend_schema(request=NothingIn, responses=SimulationOut)
    def post(self, request: Request, number: int) -> Response:
        """Yours, or any for operators; parts that run notice it within a second. One that is over stays as it is."""
        row, _ = self.row(number), self.read(NothingIn(data=request.data))
        simulations.cancel(simulation=row, by=self.person())
        return self.answer(number)


class TrySimulationAgain(OneSimulation):
    """Trying again what failed or was cancelled."""

    scopes = {"POST": SUBMIT}

    @extend_schema(request=NothingIn, responses=SimulationOut)
    def post(self, request: Request, number: int) -> Response:
        """Its parts that came to nothing run once more. One without any stays as it is."""
        row, _ = self.row(number), self.read(NothingIn(data=request.data))
        simulations.try_again(simulation=row, by=self.person())
        return self.answer(number)


class SimulationResults(OneSimulation):
    """What came out of a simulation, side by side."""

    out = ResultsOut

    @extend_schema(responses=ResultsOut)
    def get(self, request: Request, number: int) -> Response:
        """Columns are its parts in their order; what has not finished is null."""
        row = self.row(number)
        return Response(results_out(row, asked.parts_of(row)))


class SimulationScenario(OneSimulation):
    """The work that a simulation is about."""

    out = None

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, number: int) -> Response:
        """A scenario file, which `scenario` of another simulation takes."""
        self.row(number)
        content = asked.scenario_of(self.person(), number)
        if content is None:
            raise Http404(gettext("Its scenario has not been made yet."))
        return Response(json.loads(content))


def several(rows: list[Simulation]) -> list[dict[str, Any]]:
    """SimulationOut of each, without figures."""
    parts = asked.parts_of_many(rows)
    return [simulation(row, parts[row.pk], has_figures=False) for row in rows]


def _ask(said: dict[str, Any], person: Person) -> Simulation:
    key = said["idempotency_key"]
    if "what_if" in said:
        what = said["what_if"]
        return simulations.propose(
            by=person,
            parent=_node(what["node"]),
            cluster=cluster_given(what["cluster"], "what_if.cluster"),
            proposals=what["proposals"],
            weeks=what["weeks"],
            action=key,
        )
    common: dict[str, Any] = {
        "by": person,
        "source": Laboratories(**said["laboratories"]) if "laboratories" in said else _source(said),
        "title": said["title"],
        "more": File("more", json.dumps(said["more"])) if "more" in said else None,
        "action": key,
    }
    if "policies" in said:
        policies = said["policies"]
        return simulations.compare_policies(**common, policies=policies["names"], seeds=policies["seeds"])
    if "sweep" in said:
        return simulations.sweep(**common, **said["sweep"])
    variants = [Variant(each["name"], each["policy"]) for each in said["variants"]]
    return simulations.compare(**common, variants=variants)


def _source(said: dict[str, Any]) -> Source:
    if "scenario" in said:
        return File(str(said["scenario"].get("name") or "scenario"), json.dumps(said["scenario"]))
    if "trace" in said:
        return simulations.from_trace(**said["trace"])
    history = said["history"]
    return History(cluster_given(history["cluster"], "history.cluster"), history["from_at"], history["until_at"])


def _node(code: str) -> BudgetNode:
    row = BudgetNode.objects.filter(code=code).first()
    if row is None:
        raise ValidationError({"what_if.node": [gettext("There is no node {code!r}.").format(code=code)]})
    return row


def simulation(row: Simulation, parts: list[SimulationPart], *, has_figures: bool = True) -> dict[str, Any]:
    """SimulationOut."""
    return {
        "number": row.pk,
        "kind": row.kind,
        "title": row.title,
        "state": row.state,
        "error": row.error,
        "progress_percent": asked.progress(parts).percent,
        "made_by": row.made_by.username if row.made_by else None,
        "made_at": moment(row.made_at),
        "ended_at": moment(row.ended_at),
        "cluster": row.cluster.name if row.cluster else None,
        "from_at": moment(row.from_at),
        "until_at": moment(row.until_at),
        "notes": row.notes,
        "parts": [_part(part, has_figures) for part in parts],
    }


def _part(part: SimulationPart, has_figures: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "number": part.number,
        "state": part.state,
        "progress_percent": part.progress_percent,
    }
    if has_figures:
        told |= {"name": part.name, "change": part.change, "error": part.error, "figures": part.figures}
    return told
