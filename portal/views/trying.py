""" "Try 4 GPUs instead of 8", "2 h instead of 8 h": the engine is asked at once, and nothing is changed."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from budgets import sentences
from budgets.errors import InputError
from portal.forms.trying import TryForm
from portal.pages import Page, render_page
from portal.views.workload import workload_named
from scheduler.models import Workload
from scheduler.queries.trying import try_other


class TryOther(Page):
    """What would become of a waiting workload if it asked for something else."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """The answer as a page of its own, or as the part of the workload's page."""
        workload = workload_named(code)
        self.allow("workload.see", workload)
        form = TryForm(request.GET or None, workload=workload, cluster=workload.cluster)
        answer, problem, status = None, "", 200
        if workload.state != Workload.State.QUEUED:
            problem, status = (
                gettext("{code} does not wait: it is {state}").format(code=code, state=sentences.said(workload.state)),
                400,
            )
        elif form.is_bound and form.is_valid():
            said = form.cleaned_data
            try:
                answer = try_other(workload, size_milli=said["size"], min_runtime_s=said["contract"])
            except InputError as error:
                problem, status = f"{error.field}: {error.message}" if error.field else error.message, 400
        elif form.is_bound:
            field, errors = next(iter(form.errors.items()))
            problem, status = f"{field}: {errors[0]}", 400
        context = {
            "here": "queue",
            "workload": workload,
            "cluster": workload.cluster,
            "form": form,
            "answer": answer,
            "problem": problem,
        }
        # A part must come with 200, or it would not be put in its place; the page itself says 400.
        is_part = bool(request.htmx)  # type: ignore[attr-defined]
        return render_page(request, "try_other", context, part="_answer", status=200 if is_part else status)
