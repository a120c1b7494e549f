"""The forecast of one workload: the part that asks again while it is being made, and "try again" where it failed."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from portal.foretold import said_of
from portal.pages import Page
from portal.views.workload import workload_named
from scheduler.models import Workload
from scheduler.queries import forecast
from scheduler.queries.queue import waits_since
from scheduler.services import forecasts

STOP_POLLING = 286


class ForecastPart(Page):
    """When it may start, as the last forecast says."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The part alone; with 286 when there is nothing more to wait for."""
        workload = workload_named(code)
        self.allow("workload.see", workload)
        now = timezone.now()
        foretold = forecast.of_workload(workload, waits_since([workload])[workload.pk], now)
        context = {"workload": workload, "cluster": workload.cluster, "said": said_of(foretold, now), "now": now}
        is_over = bool(request.htmx) and not foretold.is_coming  # type: ignore[attr-defined]
        return render(request, "workload/_forecast.html", context, status=STOP_POLLING if is_over else 200)


class ForecastAgain(Page):
    """Make a forecast again, after one that failed."""

    def post(self, request: HttpRequest, code: str) -> HttpResponse:
        """Ask for it, and go back to the page."""
        workload = workload_named(code)
        self.allow("workload.see", workload)
        if workload.state != Workload.State.QUEUED:
            messages.info(request, gettext("{code} does not wait any longer.").format(code=code))
        else:
            forecasts.look(workload.cluster, again=True)
        return HttpResponseRedirect(reverse("workload", args=[code]))
