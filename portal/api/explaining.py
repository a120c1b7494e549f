"""The API about one workload's why: the explanation with its forecast, another size tried, one preemption."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from django.utils.translation import gettext
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from budgets.authority import may
from budgets.errors import InputError
from budgets.models import Person
from portal.api import filters
from portal.api.base import Api
from portal.api.explaining_out import ExplanationOut, PreemptedOut, TriedOut
from portal.api.serializers import level, moment, pair
from portal.api.workloads_out import workload
from portal.binding import GroupLine, binding_of, lines_of
from portal.views.preempted import preempted_run
from portal.views.workload import workload_named
from scheduler import failure_words
from scheduler.queries import forecast
from scheduler.queries.delays import Delay
from scheduler.queries.forecast import Foretold
from scheduler.queries.preempted import Preempted, Preemption, RunLine, Side
from scheduler.queries.trying import Answer, Tried, try_other
from scheduler.queries.workload import Explanation, Neighbour, explanation


class Explain(Api):
    """Why: the order from the root down, who is ahead, when it may start, its runs and preemptions."""

    out = ExplanationOut

    @extend_schema(operation_id="workload_explain", responses=ExplanationOut)
    def get(self, request: Request, code: str) -> Response:
        """The numbers behind its sentence."""
        told = explanation(workload_named(code))
        foretold = forecast.of_workload(told.workload, told.waits_since, told.now)
        return Response(explained(told, foretold, self.person()))


class TryOther(Api):
    """What would become of a waiting workload if it asked for something else; nothing is changed."""

    out = TriedOut
    filters = (
        filters.whole("size_milli", "another size, in thousandths of the unit", at_most=2_000_000_000),
        filters.whole("min_runtime_s", "another contract, in seconds", at_most=2_000_000_000),
    )

    @extend_schema(operation_id="workload_try", responses=TriedOut)
    def get(self, request: Request, code: str) -> Response:
        """The engine's answer on the present snapshot. What is not given stays as it is."""
        row, said = workload_named(code), self.asked()
        size, contract = said["size_milli"], said["min_runtime_s"]
        try:
            answer = try_other(row, size_milli=size, min_runtime_s=contract)
        except InputError as error:
            names = {"size": "size_milli", "contract": "min_runtime_s"}
            raise ValidationError({names.get(error.field, "workload"): [error.message]}) from None
        return Response(answered(answer))


class WhyPreempted(Api):
    """Why one run was preempted."""

    out = PreemptedOut

    @extend_schema(operation_id="run_preempted", responses=PreemptedOut)
    def get(self, request: Request, code: str, number: int) -> Response:
        """The stored decision with its numbers."""
        told = preempted_run(workload_named(code), number)
        now = timezone.now()
        foretold = Foretold()
        if told.next_run is None and told.run.ended_at is not None:
            foretold = forecast.of_workload(told.workload, told.run.ended_at, now)
        return Response(preempted_out(told, foretold, self.person()))


def answered(answer: Answer) -> dict[str, Any]:
    """TriedOut."""
    return {
        "at": moment(answer.at),
        "waiting": answer.waiting,
        "as_it_is": tried(answer.as_it_is),
        "tried": tried(answer.tried),
    }


def tried(row: Tried) -> dict[str, Any]:
    """What would become of it."""
    return {
        "size_milli": row.size_milli,
        "min_runtime_s": row.min_runtime_s,
        "action": row.action,
        "code": row.code,
        "reason": row.text,
        "nodes": list(row.nodes),
        "takes_from": [{"workload": code, "rule": rule} for code, rule in row.takes_from],
        "place": row.place,
        "certain_at": moment(row.certain_at),
        "room_at": moment(row.room_at),
    }


def preempted_out(told: Preempted, foretold: Foretold, person: Person) -> dict[str, Any]:
    """PreemptedOut."""
    is_inside = may(person, "workload.see_inside", told.workload)
    return {
        "workload": workload(told.workload, person),
        "decision": preemption(told.decision),
        "run": run(told.run, is_inside=is_inside),
        "safe_s": told.safe_s,
        "open_s": told.open_s,
        "saved_s": told.saved_s,
        "lost_milli_s": told.lost_milli_s,
        "next_run": None if told.next_run is None else run(told.next_run, is_inside=is_inside),
        "forecast": range_out(foretold),
    }


def range_out(foretold: Foretold) -> dict[str, Any] | None:
    """The range of likely starts; null without one. Instants that are null are after `until`."""
    if not foretold.is_known:
        return None
    return {
        "as_of": moment(foretold.at),
        "low_at": moment(foretold.low_at),
        "middle_at": moment(foretold.middle_at),
        "high_at": moment(foretold.high_at),
        "until": moment(foretold.until),
        "draws": foretold.draws,
        "forecasts_known": foretold.record.count,
        "forecasts_held": foretold.record.held,
    }


def group(line: GroupLine) -> dict[str, Any]:
    """Those who are ahead for one reason, which `why` says in words."""
    row = line.group
    return {
        "reason": row.reason,
        "why": line.why,
        "theirs": None if row.theirs is None else row.theirs.code,
        "mine": None if row.mine is None else row.mine.code,
        "count": row.count,
        "size_milli": row.size_milli,
        "first": list(row.first),
    }


def explained(told: Explanation, foretold: Foretold, person: Person) -> dict[str, Any]:
    """ExplanationOut."""
    binding = binding_of(told)
    is_inside = may(person, "workload.see_inside", told.workload)
    return {
        "workload": workload(told.workload, person),
        "as_of": moment(told.as_of),
        "promised_at": moment(told.promised_at),
        "certain_at": moment(told.certain_at),
        "forecast": range_out(foretold),
        "levels": [
            {"node": step.node.code, "child": step.mine.code, "siblings": [level(each) for each in step.siblings]}
            for step in told.steps
        ],
        "ahead": [neighbour(each) for each in told.ahead],
        "ahead_count": told.ahead_count,
        "ahead_by_reason": [group(each) for each in lines_of(told)],
        "runs": [run(each, is_inside=is_inside) for each in told.runs],
        "preemptions": [preemption(each) for each in told.preemptions],
        "delays": [delay(each) for each in told.delays],
        "charged_milli_s": told.charged_milli_s,
        "window_s": told.window_s,
        "binding": None if binding is None else {"limit": binding.limit, "changes": list(binding.changes)},
    }


def neighbour(row: Neighbour) -> dict[str, Any]:
    """Somebody who is ahead."""
    return {
        "code": row.code,
        "leaf": row.leaf_code,
        "size_milli": row.size_milli,
        "place": row.place,
        "certain_at": moment(row.certain_at),
    }


def delay(row: Delay) -> dict[str, Any]:
    """DelayOut."""
    return {"cause": row.cause, "waited_s": row.waited_s, "waited_milli_s": row.waited_milli_s}


def failure(row: RunLine, *, is_inside: bool) -> dict[str, Any] | None:
    """FailureOut."""
    if row.failure is None:
        return None
    return {
        "failure_class": row.failure,
        "origin": row.failure_origin,
        "why": gettext(failure_words.CLASSES[row.failure]),
        "line": (row.failure_line or None) if is_inside else None,
    }


def run(row: RunLine, *, is_inside: bool) -> dict[str, Any]:
    """A run with its contract and charge."""
    return {
        "number": row.number,
        "state": row.state,
        "size_milli": row.size_milli,
        "is_funded": row.funded,
        "nodes": list(row.nodes),
        "device": row.device,
        "started_at": moment(row.started_at),
        "running_at": moment(row.running_at),
        "contract_ends_at": moment(row.contract_ends_at),
        "ended_at": moment(row.ended_at),
        "end_reason": row.end_reason,
        "preempted_by": row.preempted_by,
        "charged_milli_s": row.charged_milli_s,
        "is_saved": row.saved,
        "lost_milli_s": row.lost_milli_s,
        "failure": failure(row, is_inside=is_inside),
    }


def preemption(row: Preemption) -> dict[str, Any]:
    """Who took it, under which rule, with both sides' numbers."""
    return {
        "at": moment(row.at),
        "run": row.run_number,
        "code": row.code,
        "reason": row.text,
        "by": row.by,
        "contract_over_for_s": row.contract_over_for_s,
        "took": side(row.took),
        "gave": side(row.gave),
        "priorities": None if row.priorities is None else list(row.priorities),
        "pass": row.pass_id,
    }


def side(row: Side | None) -> dict[str, Any] | None:
    """One side of a comparison."""
    if row is None:
        return None
    return {
        "node": row.code,
        "used_milli_s": row.used_milli_s,
        "committed_milli_s": row.committed_milli_s,
        "served": pair(row.served),
    }
