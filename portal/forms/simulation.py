"""The form of a simulation: what work, and what to run it under."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from portal.forms.typed import DurationField, seconds_of
from portal.forms.work import WorkForm
from scheduler.services.simulations import Variant
from scheduler.simulator.sweeps import KNOBS, MOST_PARTS

SCHEDULERS = {
    "contracts": gettext_lazy("contracts, as here: shares, and contracts that hold"),
    "attained": gettext_lazy("contracts; inside a project whoever has attained less goes first (Tiresias)"),
    "gittins": gettext_lazy("contracts; inside a project by attained service and the Gittins index (Tiresias)"),
    "shortest": gettext_lazy("contracts; inside a project the shortest first, as what ended before predicts it"),
    "finish-time": gettext_lazy("contracts; inside a project whoever is furthest behind a fair share (Themis)"),
    "half-life": gettext_lazy("contracts; use counts the less the longer ago it was (Slurm's Fair Tree)"),
    "fair-share": gettext_lazy("contracts; among teams whoever holds less of a fair share now goes first (YARN)"),
    "dominant": gettext_lazy(
        "contracts; among teams whoever holds the smallest part of GPUs, cores or memory goes first (DRF)"
    ),
    "fifo": gettext_lazy("first come, first served, strictly"),
    "fifo-skip": gettext_lazy("first come, first served; who does not fit is passed"),
    "easy": gettext_lazy("first come, with EASY backfill"),
    "priority": gettext_lazy("priorities, with caps of protected GPUs for each team"),
    "partition": gettext_lazy("each team owns its GPUs alone"),
    "sjf": gettext_lazy("shortest first (it must know durations)"),
    "srtf": gettext_lazy("shortest remaining time first (it must know durations, and preempts)"),
    "themis": gettext_lazy("leases, auctioned to those furthest behind a fair share (it must know durations)"),
}
ORDERS: dict[str, dict[str, Any]] = {
    "attained": {"leaf_order": "tiresias"},
    "gittins": {"leaf_order": "gittins"},
    "shortest": {"leaf_order": "shortest"},
    "finish-time": {"leaf_order": "themis"},
    "half-life": {"tree_order": "half_life"},
    "fair-share": {"tree_order": "fair"},
    "dominant": {"tree_order": "drf"},
}
"""Those of them that are contracts with an order that others have published, and the knobs that say so."""
OTHER_KNOBS = "contracts, other knobs"


class SimulationForm(WorkForm):
    """Work from history or a file, and either schedulers side by side or one knob swept."""

    error_fields = {**WorkForm.error_fields, "variants": "schedulers"}

    schedulers = forms.MultipleChoiceField(
        required=False,
        choices=list(SCHEDULERS.items()),
        widget=forms.CheckboxSelectMultiple,
        label=gettext_lazy("Schedulers"),
    )
    lookback = DurationField(required=False, label=gettext_lazy("Lookback"), help_text=gettext_lazy("1 d to 28 d"))
    longest_contract = DurationField(
        required=False, label=gettext_lazy("Longest contract"), help_text=gettext_lazy("1 h to 24 h")
    )
    reservations = forms.IntegerField(
        required=False, label=gettext_lazy("Reservations"), min_value=0, max_value=16, help_text=gettext_lazy("0 to 16")
    )
    knob = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Knob"),
        choices=[
            ("", gettext_lazy("none: compare the schedulers above")),
            *((knob.name, gettext_lazy(knob.title)) for knob in KNOBS.values()),
        ],
    )
    values = forms.CharField(
        label=gettext_lazy("Values"),
        required=False,
        max_length=300,
        help_text=gettext_lazy("With commas: 1 d, 7 d, 14 d, 28 d; or 0, 1, 4, 16 for reservations."),
    )
    seeds = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=20,
        initial=1,
        label=gettext_lazy("Runs of each value"),
        help_text=gettext_lazy(
            "With more than one, the work comes a little differently each time, so that luck shows."
        ),
    )

    def clean(self) -> dict[str, Any]:
        """What belongs together is there together."""
        said = super().clean()
        self.check_work(said)
        if said.get("knob") and not said.get("values"):
            self.add_error("values", gettext("Say at least one value."))
        if said.get("values") and not said.get("knob"):
            self.add_error("knob", gettext("Say of which knob these are the values."))
        if not said.get("knob") and not said.get("schedulers") and not self.knobs(said):
            self.add_error("schedulers", gettext("Choose at least one, or a knob to sweep."))
        return said

    @staticmethod
    def knobs(said: dict[str, Any]) -> dict[str, int]:
        """The knobs that were typed, as a scenario file has them."""
        named = {"lookback": "lookback_s", "longest_contract": "min_runtime_max_s", "reservations": "reservations"}
        return {knob: said[name] for name, knob in named.items() if said.get(name) is not None}

    def variants(self) -> list[Variant]:
        """Schedulers side by side; the usual knobs first, then contracts with the knobs that were typed."""
        found = [
            Variant(name) if name == "contracts" else Variant(name, ORDERS.get(name, {"scheduler": name}))
            for name in SCHEDULERS
            if name in self.cleaned_data["schedulers"]
        ]
        knobs = self.knobs(self.cleaned_data)
        return [*found, Variant(OTHER_KNOBS, {"scheduler": "contracts", **knobs})] if knobs else found

    def sweep_values(self) -> list[int | str]:
        """The values of the knob, as numbers; what is none is left as it stands, for the service to name."""
        is_count = KNOBS[self.cleaned_data["knob"]].is_count
        return [_value(text.strip(), is_count) for text in self.cleaned_data["values"].split(",")][: MOST_PARTS + 1]


def _value(text: str, is_count: bool) -> int | str:
    try:
        return int(text) if is_count else seconds_of(text)
    except ValueError:
        return text
