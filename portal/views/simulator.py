"""The simulator: ask for a simulation, see how far it is, and its variants side by side."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from random import Random
from typing import Any, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext

from budgets.errors import InputError, NotAllowed
from budgets.models import Cluster, Person
from budgets.queries import today
from portal.csv_files import csv_response
from portal.forms.simulation import SimulationForm
from portal.forms.strict import StrictForm
from portal.forms.work import HISTORY, INVENTED, PICK, WorkForm, usual_days
from portal.pages import Page, clusters, new_action, prefilled, render_page, whole_number
from portal.views import policy_tables
from portal.views import simulation_tables as tables
from scheduler.models import Simulation, SimulationPart
from scheduler.queries import simulations as asked
from scheduler.services import simulations
from scheduler.services.simulations import File
from scheduler.simulator.lab import research_lab
from scheduler.simulator.policy_table import COLUMNS
from scheduler.simulator.sweeps import KNOBS

PER_PAGE = 30
SCENARIOS_OFFERED = 30
LAB_SEED, LAB_DAYS, LAB_GPUS = 1, 3, 64
"""The invented laboratory that can always be picked."""
POLL_S = 1
"""How often a page asks how far its simulation is."""
STOP_POLLING = 286
"""What htmx takes as the end of polling."""


class Simulations(Page):
    """All simulations that one may see, the latest first."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """One page of them."""
        self.allow("simulation.run")
        rows = asked.visible(person_of(request))
        count = rows.count()
        pages = max(1, -(-count // PER_PAGE))
        number = min(whole_number(request, "page", 1), pages)
        shown = list(rows[(number - 1) * PER_PAGE : number * PER_PAGE])
        parts = asked.parts_of_many(shown)
        lines = [(row, asked.progress(parts[row.pk])) for row in shown]
        context = {"here": "simulator", "lines": lines, "number": number, "pages": pages, "count": count}
        return render_page(request, "simulator", context)


Form = TypeVar("Form", bound=WorkForm)


class AskForSimulation(Page, Generic[Form]):
    """A form that asks; sent twice it asks once, since its id is the question's name. Who inherits says what."""

    form_class: type[Form]
    template: str
    usual: Mapping[str, Any]
    """What the form begins with, beside the last whole week of the first cluster."""

    def ask(self, form: Form, person: Person) -> Simulation:
        """Ask the service.

        Raises:
            InputError: names the field. ValidationError: a file can't be read.
        """
        raise NotImplementedError

    def get(self, request: HttpRequest) -> HttpResponse:
        """The form."""
        self.allow("simulation.run")
        first, last = usual_days(today())
        initial = {
            **self.usual,
            "action": new_action(),
            "first_day": first,
            "last_day": last,
            "cluster": prefilled(request, "cluster", [each.name for each in clusters()]),
            **self.begun(request),
        }
        return self.show(request, self.form(request, initial=initial), 200)

    def begun(self, request: HttpRequest) -> dict[str, Any]:
        """What else the address fills in.

        Raises:
            BadRequest: it says something that can't be.
        """
        return {}

    def post(self, request: HttpRequest) -> HttpResponse:
        """Ask, and go to the simulation's page; or show what is wrong beside its field."""
        self.allow("simulation.run")
        form = self.form(request, request.POST, request.FILES)
        if form.is_valid():
            try:
                made = self.ask(form, person_of(request))
            except ValidationError as error:
                form.add_error(None, error)
            except InputError as error:
                form.take(error)
            else:
                return HttpResponseRedirect(reverse("simulation", args=[made.pk]))
        return self.show(request, form, 400)

    def form(self, request: HttpRequest, *said: Any, **more: Any) -> Form:
        """The form, with what there is to choose from."""
        scenarios = asked.pickable(person_of(request), SCENARIOS_OFFERED)
        return self.form_class(*said, clusters=clusters(), scenarios=scenarios, **more)

    def show(self, request: HttpRequest, form: Form, status: int) -> HttpResponse:
        """The page with the form."""
        context = {
            "here": "simulator",
            "form": form,
            "most": simulations.MOST_AT_ONCE,
            "most_runs": simulations.MOST_PARTS,
        }
        return render_page(request, self.template, context, status=status)


class NewSimulation(AskForSimulation[SimulationForm]):
    """A week of the first cluster under contracts and first come, first served."""

    form_class = SimulationForm
    template = "simulation_form"
    usual = {"work": HISTORY, "schedulers": ["contracts", "fifo-skip"]}

    def begun(self, request: HttpRequest) -> dict[str, Any]:
        """A knob to sweep."""
        return {"knob": prefilled(request, "knob", KNOBS)}

    def ask(self, form: SimulationForm, person: Person) -> Simulation:
        """Schedulers side by side, or one knob over several values."""
        said = form.cleaned_data
        what: dict[str, Any] = {
            "by": person,
            "source": picked(person, said["picked"]) if said["work"] == PICK else form.source(),
            "title": said["title"],
            "more": form.more_work(),
            "action": said["action"],
        }
        if said["knob"]:
            seeds, values = said["seeds"] or 1, form.sweep_values()
            return simulations.sweep(**what, knob=said["knob"], values=values, seeds=seeds, policy=form.knobs(said))
        return simulations.compare(**what, variants=form.variants())


def picked(person: Person, which: str) -> File:
    """The scenario that was picked: the invented laboratory, or an earlier simulation's.

    Raises:
        InputError: there is none of that number for them.
    """
    if which == INVENTED:
        scenario = research_lab(Random(LAB_SEED), seed=LAB_SEED, days=LAB_DAYS, gpus=LAB_GPUS)
        return File(gettext("invented laboratory"), json.dumps(scenario))
    content = asked.scenario_of(person, int(which))
    if content is None:
        raise InputError("picked", gettext("there is no such scenario"))
    return File(gettext("the work of no. {number}").format(number=which), content)


class SimulationPage(Page):
    """One simulation: progress while it runs, then its variants side by side. To htmx its live part."""

    def get(self, request: HttpRequest, number: int) -> HttpResponse:
        """The page, or its part; with 286 when there is nothing more to wait for."""
        person = person_of(request)
        row = simulation_named(person, number)
        response = render_page(request, "simulation", context_of(row, person), part="_live")
        if row.is_over and request.htmx and not request.htmx.history_restore_request:  # type: ignore[attr-defined]
            response.status_code = STOP_POLLING
        return response


def context_of(row: Simulation, person: Person) -> dict[str, Any]:
    """Everything that the page shows."""
    parts = asked.parts_of(row)
    is_sweep, is_policies = row.kind == Simulation.Kind.SWEEP, row.kind == Simulation.Kind.POLICIES
    sides = None
    if not is_sweep and not is_policies and any(part.figures for part in parts):
        sides = asked.sides(row, parts)
    return {
        "here": "simulator",
        "simulation": row,
        "cluster": row.cluster or Cluster(unit=Cluster.Unit.GPU),
        "parts": [part for part in parts if part.number],
        "progress": asked.progress(parts),
        "told": None if sides is None else tables.told(sides, row.cluster),
        "sweep": tables.sweep_table(row, asked.sweep_lines(row, parts)) if is_sweep else None,
        "compared": policies_told(row, parts) if is_policies else None,
        "can_change": asked.may_cancel(person, row),
        "poll_s": POLL_S,
        "action": new_action(),
    }


def policies_told(row: Simulation, parts: list[SimulationPart]) -> policy_tables.Told:
    """What has finished of a comparison over seeds; with charts once it is over, as a page that is redrawn flickers."""
    what = "charts" if row.is_over else "tables"
    return policy_tables.told(asked.policies_compared(row, parts), with_charts=what)


class ChangeSimulation(Page):
    """Cancel it, or try again what failed; done twice it is done once."""

    verb = ""

    def post(self, request: HttpRequest, number: int) -> HttpResponse:
        """Do it, and show the page."""
        person = person_of(request)
        row = simulation_named(person, number)
        form = StrictForm(request.POST)
        if not form.is_valid():
            return render_page(request, "simulation", {**context_of(row, person), "form": form}, status=400)
        try:
            act = simulations.cancel if self.verb == "cancel" else simulations.try_again
            act(simulation=row, by=person)
        except NotAllowed:
            raise Http404 from None
        except InputError as error:
            form.take(error)
            return render_page(request, "simulation", {**context_of(row, person), "form": form}, status=400)
        return HttpResponseRedirect(reverse("simulation", args=[number]))


class SimulationFile(Page):
    """What came out as CSV, or the scenario that went in."""

    what = ""

    def get(self, request: HttpRequest, number: int) -> HttpResponseBase:
        """A download.

        Raises:
            Http404: there is none yet.
        """
        row = simulation_named(person_of(request), number)
        if self.what == "scenario":
            stored = Simulation.objects.values_list("scenario", flat=True).get(pk=row.pk)
            if stored is None:
                raise Http404(gettext("Its scenario has not been made yet."))
            return download(f"simulation-{row.pk}.json", "application/json", zlib.decompress(bytes(stored)))
        parts = asked.parts_of(row)
        if row.kind == Simulation.Kind.POLICIES:
            compared = asked.policies_compared(row, parts)
            return csv_response(f"simulation {row.pk}", COLUMNS, policy_tables.csv_rows(compared))
        return csv_response(f"simulation {row.pk}", tables.CSV_HEADER, tables.csv_rows(parts))


def download(name: str, kind: str, content: bytes) -> HttpResponse:
    """A file to keep."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return HttpResponse(content, content_type=kind, headers=headers)


def person_of(request: HttpRequest) -> Person:
    """Who asks."""
    person: Person = request.user  # type: ignore[assignment]
    return person


def simulation_named(person: Person, number: int) -> Simulation:
    """The simulation of that number.

    Raises:
        Http404: there is none, or one may not see it.
    """
    row = asked.named(person, number)
    if row is None:
        raise Http404(gettext("There is no simulation {number}, or you may not see it.").format(number=number))
    return row
