"""Why one run was preempted: the stored decision, with the numbers of that instant."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from portal.foretold import said_of
from portal.pages import Page, render_page
from portal.views.workload import workload_named
from scheduler.models import Reservation, Workload
from scheduler.queries import forecast
from scheduler.queries.preempted import Preempted, Preemption, preempted

DAY_S = 86_400
RULES: Mapping[str, str | Promise] = {
    "preempted_unallocated": gettext_lazy("It ran unallocated. Any funded workload may take over from such runs."),
    "preempted_fair_share": gettext_lazy(
        "Its contract was over, and the other side had had less of its share than this side."
    ),
    "preempted_priority": gettext_lazy("Its contract was over, and one of the same project had a higher priority."),
    "preempted_reservation": gettext_lazy(
        "Its contract was over, and the instant had come from which its GPUs had been promised to another."
    ),
    "preempted_cell": gettext_lazy(
        "Its contract was over, and it was on a node that is a private cell of the other side."
    ),
    "drained": gettext_lazy("Its node is being drained, and no contract protected it any longer."),
    "maintenance": gettext_lazy("Maintenance began on its node, and no contract protected it any longer."),
}


class WhyPreempted(Page):
    """The page that messages about a preemption lead to."""

    def get(self, request: HttpRequest, code: str, number: int) -> HttpResponse:
        """The page; 404 for a run that is not there, or was not preempted."""
        workload = workload_named(code)
        self.allow("workload.see", workload)
        now = timezone.now()
        told = preempted_run(workload, number)
        waits = workload.state == Workload.State.QUEUED and told.next_run is None
        foretold = None
        if waits and told.run.ended_at is not None:
            foretold = said_of(forecast.of_workload(workload, told.run.ended_at, now), now)
        promise = Reservation.objects.filter(workload=workload, ended_at=None).first() if waits else None
        context = {
            "here": "queue",
            "workload": workload,
            "cluster": workload.cluster,
            "told": told,
            "preemption": told.decision,
            "rule": rule_of(told.decision),
            "waits": waits,
            "said": foretold,
            "promise": promise,
            "now": now,
            "lookback_days": told.window_s // DAY_S,
        }
        return render_page(request, "preempted", context)


def rule_of(decision: Preemption) -> str | Promise:
    """The rule of a decision in words; "" for one that has none. Orders by what is held stored what was compared."""
    if decision.code == "preempted_fair_share" and decision.took is not None and decision.took.standing:
        if decision.took.dominant is not None:
            return gettext("Its contract was over, and the other side had a smaller dominant share than this side.")
        return gettext("Its contract was over, and the other side held less of its fair share than this side.")
    return RULES.get(decision.code, "")


def preempted_run(workload: Workload, number: int) -> Preempted:
    """One run of a workload that was preempted.

    Raises:
        Http404: there is no such run, or it was not preempted.
    """
    told = preempted(workload, number, timezone.now())
    if told is None:
        raise Http404(
            gettext("{code} has no run {number} that was preempted.").format(code=workload.code, number=number)
        )
    return told
