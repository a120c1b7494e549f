"""Submitting a workload, the preview of its arguments, and what the advisor says of its program."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster, Person
from budgets.queries import submittable_leaves
from portal import formats, spread_words
from portal.advised import Shown, shown
from portal.forms.submission import SpreadingForm, SubmissionForm
from portal.forms.typed import arguments
from portal.pages import Page, clusters, new_action, prefilled, render_page
from scheduler.engine import locality
from scheduler.models import Workload
from scheduler.queries import advice, hosts
from scheduler.services import advice as reading
from scheduler.services import workloads
from scheduler.services.asked import Asked

PREVIEW_LENGTH = 32_000


class Submit(Page):
    """The form; sent twice it submits once, since its id is the submission's key."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """An empty form."""
        among, leaves = clusters(), list(submittable_leaves(request.user))  # type: ignore[arg-type]
        initial = {"action": new_action(), "cluster": prefilled(request, "cluster", [each.name for each in among])}
        return self.show(request, SubmissionForm(clusters=among, leaves=leaves, initial=initial), 200)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Submit, and go to the workload's page; or show what can't be read, beside its field."""
        person: Person = request.user  # type: ignore[assignment]
        among, leaves = clusters(), list(submittable_leaves(person))
        form = SubmissionForm(request.POST, request.FILES, clusters=among, leaves=leaves)
        if form.is_valid():
            try:
                made = submitted(form, person, among, leaves)
            except InputError as error:
                form.take(error)
            else:
                if len(made) > 1:
                    messages.info(
                        request,
                        gettext("{made} tasks were submitted, from {code} to {code_2}.").format(
                            made=formats.count(len(made)), code=made[0].code, code_2=made[-1].code
                        ),
                    )
                found = len(advice.findings_of(made[0])) if made[0].advice_id else 0
                if found:
                    words = ngettext(
                        "The advisor found {count} thing in its program: it stands below.",
                        "The advisor found {count} things in its program: they stand below.",
                        found,
                    )
                    messages.info(request, words.format(count=formats.count(found)))
                return HttpResponseRedirect(reverse("workload", args=[made[0].code]))
        return self.show(request, form, 400)

    def show(
        self, request: HttpRequest, form: SubmissionForm, status: int, advised: Shown | None = None
    ) -> HttpResponse:
        """The page with the form; with what the advisor said, where it was asked."""
        words, problem = preview(str(form["command"].value() or ""))
        has_leaf = bool(form.fields["project"].choices)  # type: ignore[attr-defined]
        context = {
            "here": "submit",
            "form": form,
            "words": words,
            "problem": problem,
            "has_leaf": has_leaf,
            "open_programs": open_programs(),
            "advised": advised,
            "host_most": hosts.most_by_cluster(),
        }
        return render_page(request, "submit", context, status=status)


class Advise(Submit):
    """What the advisor says of a program before it is submitted: the part, or without scripts the whole page."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Asked for without a form it leads to the form."""
        return HttpResponseRedirect(reverse("submit"))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Read it; nothing is submitted, and nothing kept."""
        person: Person = request.user  # type: ignore[assignment]
        among, leaves = clusters(), list(submittable_leaves(person))
        form = SubmissionForm(request.POST, request.FILES, clusters=among, leaves=leaves)
        is_part = bool(request.htmx)  # type: ignore[attr-defined]
        if not form.is_valid():
            # A part must come with 200, or it would not be put in its place; the page itself says 400.
            if is_part:
                return render(request, "submit/_advice.html", {"problems": problems_of(form)})
            return self.show(request, form, 400)
        advised = shown(reading.look(Asked(**described(form, person, among, leaves))).kept)
        if is_part:
            return render(request, "submit/_advice.html", {"advised": advised})
        return self.show(request, form, 200, advised)


def problems_of(form: SubmissionForm) -> list[str]:
    """What can't be read of a form, a sentence each."""
    return [
        f"{form.fields[name].label}: {error}" if name in form.fields else str(error)
        for name, errors in form.errors.items()
        for error in errors
    ]


class Preview(Page):
    """How a command would be split: the part alone."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The arguments, or why there are none."""
        text = request.GET.get("command", "")
        if len(text) > PREVIEW_LENGTH:
            raise BadRequest(
                gettext("command: more than {preview_length:,} characters").format(preview_length=PREVIEW_LENGTH)
            )
        words, problem = preview(text)
        return render(request, "submit/_preview.html", {"words": words, "problem": problem})


class Spreading(Page):
    """What spreading would cost, before it is asked for: the part alone."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Sentences; nothing where there is nothing to say, or what the form holds can't be read yet.

        Raises:
            BadRequest: an address that was written by hand can't be read.
        """
        among = clusters()
        form = SpreadingForm(request.GET, clusters=among)
        said = None
        if not form.is_valid() and not request.htmx:  # type: ignore[attr-defined]
            name, errors = next(iter(form.errors.items()))
            raise BadRequest(f"{name}: {errors[0]}")
        if form.is_valid():
            typed = form.cleaned_data
            cluster = next(each for each in among if each.name == typed["cluster"])
            person: Person = request.user  # type: ignore[assignment]
            asks = typed["size"], typed["locality"], typed["time_limit"]
            said = spread_words.foreseen_said(cluster, person, typed["name"], *asks)
        return render(request, "submit/_spreading.html", {"spreading": said})


def open_programs() -> list[str]:
    """The programs that every member may run on nodes with agents; empty where they may run any."""
    return [] if settings.ANY_COMMANDS else list(settings.OPEN_PROGRAMS)


def preview(text: str) -> tuple[list[str], str]:
    """The arguments of a typed command, and what is wrong with it."""
    try:
        return arguments(text), ""
    except forms.ValidationError as error:
        return [], error.messages[0]


def described(form: SubmissionForm, person: Person, among: list[Cluster], leaves: list[BudgetNode]) -> dict[str, Any]:
    """What the form asks for, as the services take it."""
    said = form.cleaned_data
    return {
        "cluster": next(each for each in among if each.name == said["cluster"]),
        "leaf": next(each for each in leaves if each.code == said["project"]),
        "owner": person,
        "name": said["name"],
        "size_milli": said["size"],
        "min_runtime_s": said["contract"],
        "priority": said["priority"],
        "gpu_classes": said["gpu_class"],
        "needs_fast": said["fast"],
        "resumable": said["resumable"],
        "command": said["command"],
        "program": said["program"],
        "time_limit_s": said["time_limit"],
        "cpu_milli_per_rank": said["cpus"] or 0,
        "memory_mib_per_rank": said["memory"] or 0,
        "checkpoint": said["checkpoint"],
        "checkpoint_every_s": said["checkpoint_every"] or 0,
        "save_command": said["save_command"],
        "restore_command": said["restore_command"],
        "communication": said["communication"],
        "retries": said["retries"] or 0,
        "locality": locality.ANY_RACK if said["locality"] is None else said["locality"],
        "canary": said["canary"],
        "secrets": said["secrets"],
        "idempotency_key": said["action"],
    }


def submitted(form: SubmissionForm, person: Person, among: list[Cluster], leaves: list[BudgetNode]) -> list[Workload]:
    """Ask the service.

    Raises:
        InputError: names the field.
    """
    return workloads.submit_array(count=form.cleaned_data["tasks"], **described(form, person, among, leaves))
