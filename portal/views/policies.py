"""Comparing policies over seeds: the form that asks. What comes out is on the simulation's page."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest

from budgets.models import Person
from portal.forms.policies import LABORATORIES, USUAL_DAYS, USUAL_GPUS, USUAL_POLICIES, USUAL_SEEDS, PoliciesForm
from portal.forms.work import HISTORY, PICK
from portal.views.simulator import AskForSimulation, picked
from scheduler.models import Simulation
from scheduler.services import simulations
from scheduler.simulator.fields import ScenarioError
from scheduler.simulator.named_policies import read_all, registered


class ComparePolicies(AskForSimulation[PoliciesForm]):
    """Five invented laboratories under three policies."""

    form_class = PoliciesForm
    template = "policies_form"
    usual = {
        "work": LABORATORIES,
        "days": USUAL_DAYS,
        "gpus": USUAL_GPUS,
        "policies": USUAL_POLICIES,
        "seeds": USUAL_SEEDS,
    }

    def begun(self, request: HttpRequest) -> dict[str, Any]:
        """`?policy=`, as often as need be: to compare with contracts, on the history of `?cluster=`."""
        try:
            named = [each.name for each in read_all(dict.fromkeys(["contracts", *request.GET.getlist("policy")]))]
        except ScenarioError as error:
            raise BadRequest(str(error)) from None
        if len(named) < 2:
            return {}
        offered = {each.name for each in registered()}
        more = "\n".join(name for name in named if name not in offered)
        work = {"work": HISTORY} if request.GET.get("cluster") else {}
        return {"policies": [name for name in named if name in offered], "more_policies": more, **work}

    def ask(self, form: PoliciesForm, person: Person) -> Simulation:
        """Policies on the same work, seed by seed."""
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
