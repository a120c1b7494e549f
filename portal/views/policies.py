"""Comparing policies over seeds: the form that asks. What comes out is on the simulation's page."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from budgets.errors import InputError
from budgets.models import Person
from budgets.queries import today
from portal.forms.policies import LABORATORIES, USUAL_DAYS, USUAL_GPUS, USUAL_POLICIES, USUAL_SEEDS, PoliciesForm
from portal.forms.work import PICK, usual_days
from portal.pages import Page, clusters, new_action, prefilled, render_page
from portal.views.simulator import SCENARIOS_OFFERED, person_of, picked
from scheduler.models import Simulation
from scheduler.queries import simulations as asked
from scheduler.services import simulations


class ComparePolicies(Page):
    """The form; sent twice it asks once, since its id is the question's name."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Five invented laboratories under three policies."""
        self.allow("simulation.run")
        first, last = usual_days(today())
        initial = {
            "action": new_action(),
            "work": LABORATORIES,
            "days": USUAL_DAYS,
            "gpus": USUAL_GPUS,
            "first_day": first,
            "last_day": last,
            "policies": USUAL_POLICIES,
            "seeds": USUAL_SEEDS,
            "cluster": prefilled(request, "cluster", [each.name for each in clusters()]),
        }
        return self.show(request, self.form(request, initial=initial), 200)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Ask, and go to the simulation's page; or show what is wrong beside its field."""
        self.allow("simulation.run")
        form = self.form(request, request.POST, request.FILES)
        if form.is_valid():
            try:
                made = ask(form, person_of(request))
            except ValidationError as error:
                form.add_error(None, error)
            except InputError as error:
                form.take(error)
            else:
                return HttpResponseRedirect(reverse("simulation", args=[made.pk]))
        return self.show(request, form, 400)

    def form(self, request: HttpRequest, *said: Any, **more: Any) -> PoliciesForm:
        """The form, with what there is to choose from."""
        scenarios = asked.pickable(person_of(request), SCENARIOS_OFFERED)
        return PoliciesForm(*said, clusters=clusters(), scenarios=scenarios, **more)

    def show(self, request: HttpRequest, form: PoliciesForm, status: int) -> HttpResponse:
        """The page with the form."""
        context = {
            "here": "simulator",
            "form": form,
            "most": simulations.MOST_AT_ONCE,
            "most_runs": simulations.MOST_PARTS,
        }
        return render_page(request, "policies_form", context, status=status)


def ask(form: PoliciesForm, person: Person) -> Simulation:
    """Ask the service.

    Raises:
        InputError: names the field. ValidationError: a file can't be read.
    """
    said = form.cleaned_data
    source: simulations.Source | simulations.Laboratories
    source = picked(person, said["picked"]) if said["work"] == PICK else form.work_asked()
    return simulations.compare_policies(
        by=person,
        source=source,
        policies=form.chosen(said),
        seeds=said["seeds"] or 1,
        title=said["title"],
        more=form.more_work(),
        action=said["action"],
    )
