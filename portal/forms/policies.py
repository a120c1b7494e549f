"""The form that compares policies over seeds: what work, which policies, how often."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from budgets.errors import InputError
from portal.forms.simulation import ORDERS, SCHEDULERS
from portal.forms.work import HISTORY, PICK, UPLOAD, WorkForm
from scheduler.services import simulations
from scheduler.services.simulations import MOST_SEEDS, Laboratories, Source
from scheduler.simulator.named_policies import placements, registered

LABORATORIES, TRACE = "lab", "trace"
USUAL_DAYS, USUAL_GPUS, USUAL_SEEDS = 3, 64, 5
USUAL_POLICIES = ("contracts", "leaf_order=tiresias", "fifo-skip")
PLACEMENTS = {
    "packing=first_fit": gettext_lazy("contracts; small work on the first node with room, not on the fullest"),
    "packing=worst_fit": gettext_lazy("contracts; small work on the emptiest node"),
    "locality=0": gettext_lazy("contracts; gangs on as few nodes as possible, in one rack"),
    "locality=1": gettext_lazy("contracts; gangs in one rack, and in any racks after a wait (Philly)"),
    "locality=2": gettext_lazy(
        "contracts; gangs that wait for long over up to twice the nodes, for which they take longer"
    ),
    "locality=3": gettext_lazy(
        "contracts; gangs that wait for longest over any number of nodes, for which they take longer"
    ),
    "classes=pack": gettext_lazy("contracts; slow GPUs first for who does not need fast ones (PAI)"),
    "classes=reserve": gettext_lazy(
        "contracts; slow GPUs first, and some of the fast ones kept free for who needs them (PAI)"
    ),
    "cells=shares": gettext_lazy("contracts; each team has as many whole nodes as its share comes to (HiveD)"),
}
"""Ways to place beside the usual one, for people."""


def title_of(name: str) -> str:
    """What a policy is, for people; its name alone where nobody has written it down."""
    for word, knobs in ORDERS.items():
        if name == ",".join(f"{knob}={value}" for knob, value in knobs.items()):
            return str(SCHEDULERS[word])
    return str(SCHEDULERS.get(name) or PLACEMENTS.get(name) or name)


class PoliciesForm(WorkForm):
    """Work, policies and seeds."""

    work = forms.ChoiceField(
        choices=[
            (LABORATORIES, gettext_lazy("Invented laboratories, another one with each seed")),
            (HISTORY, gettext_lazy("A stretch of history")),
            (UPLOAD, gettext_lazy("A scenario file")),
            (TRACE, gettext_lazy("A trace: CSV, SWF or Alibaba's pods")),
            (PICK, gettext_lazy("A scenario that is here already")),
        ],
        widget=forms.RadioSelect,
        label=gettext_lazy("Work"),
    )
    days = forms.IntegerField(required=False, label=gettext_lazy("Days"), min_value=1, max_value=366)
    gpus = forms.IntegerField(
        required=False, label=gettext_lazy("GPUs"), min_value=8, help_text=gettext_lazy("A multiple of 8.")
    )
    trace = forms.FileField(required=False, label=gettext_lazy("Trace file"))
    trace_gpus = forms.IntegerField(
        required=False,
        label=gettext_lazy("GPUs for it"),
        min_value=8,
        help_text=gettext_lazy("A multiple of 8; on nodes of 8."),
    )
    policies = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, label=gettext_lazy("Policies")
    )
    placements = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, label=gettext_lazy("Placements")
    )
    more_policies = forms.CharField(
        required=False,
        max_length=2_000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        label=gettext_lazy("Others, one a line"),
        help_text=gettext_lazy(
            "A scheduler, or contracts with knobs and placements: contracts,leaf_order=tiresias,lookback_s=3d or "
            "fifo,packing=worst_fit"
        ),
    )
    seeds = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_SEEDS,
        label=gettext_lazy("Seeds"),
        help_text=gettext_lazy("Runs of each policy. With two or more there are intervals; 1 to 20."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Offer whatever policy is registered, and every way to place."""
        super().__init__(*args, **kwargs)
        for field_name, offered in (("policies", registered()), ("placements", placements())):
            choice = self.fields[field_name]
            assert isinstance(choice, forms.MultipleChoiceField)
            choice.choices = [(policy.name, title_of(policy.name)) for policy in offered]

    def clean(self) -> dict[str, Any]:
        """What belongs together is there together."""
        said = super().clean()
        self.check_work(said)
        wanted = {LABORATORIES: ("days", "gpus"), TRACE: ("trace", "trace_gpus")}.get(said.get("work") or "", ())
        for name in wanted:
            if not said.get(name) and name not in self.errors:
                missing = gettext("Choose a trace.") if name == "trace" else gettext("Say how many.")
                self.add_error(name, missing)
        if not self.chosen(said) and "policies" not in self.errors:
            self.add_error("policies", gettext("Choose at least one."))
        return said

    def take(self, error: InputError) -> None:
        """The GPUs of a trace have a field of their own."""
        is_of_trace = error.field == "gpus" and self.cleaned_data.get("work") == TRACE
        super().take(InputError("trace_gpus", error.message) if is_of_trace else error)

    @staticmethod
    def chosen(said: dict[str, Any]) -> list[str]:
        """The policies: those that were ticked in their order, placements after orders, then those that were typed."""
        typed = [line.strip() for line in (said.get("more_policies") or "").splitlines()]
        return [*(said.get("policies") or ()), *(said.get("placements") or ()), *(line for line in typed if line)]

    def work_asked(self) -> Source | Laboratories:
        """The work, unless it is picked.

        Raises:
            InputError: the trace or its GPUs are at fault. ValidationError: it can't be read.
        """
        said = self.cleaned_data
        if said["work"] == LABORATORIES:
            return Laboratories(said["days"], said["gpus"])
        if said["work"] == TRACE:
            upload = self.read("trace")
            return simulations.from_trace(upload.name, upload.content, said["trace_gpus"])
        return self.source()
