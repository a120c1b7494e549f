"""The form of a simulation: what work, and what to run it under."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext, gettext_lazy

from budgets import queries
from budgets.models import Cluster
from portal.forms.strict import StrictForm
from portal.forms.typed import DurationField, seconds_of
from scheduler.services.simulations import FILE_BYTES, File, History, Source, Variant
from scheduler.simulator.sweeps import KNOBS, MOST_PARTS

SCHEDULERS = {
    "contracts": gettext_lazy("contracts, as here: shares, and contracts that hold"),
    "attained": gettext_lazy("contracts; inside a project whoever has attained less goes first (Tiresias)"),
    "gittins": gettext_lazy("contracts; inside a project by attained service and the Gittins index (Tiresias)"),
    "shortest": gettext_lazy("contracts; inside a project the shortest first, as what ended before predicts it"),
    "half-life": gettext_lazy("contracts; use counts the less the longer ago it was (Slurm's Fair Tree)"),
    "fifo": gettext_lazy("first come, first served, strictly"),
    "fifo-skip": gettext_lazy("first come, first served; who does not fit is passed"),
    "easy": gettext_lazy("first come, with EASY backfill"),
    "priority": gettext_lazy("priorities, with caps of protected GPUs for each team"),
    "partition": gettext_lazy("each team owns its GPUs alone"),
    "sjf": gettext_lazy("shortest first (it must know durations)"),
    "srtf": gettext_lazy("shortest remaining time first (it must know durations, and preempts)"),
}
ORDERS: dict[str, dict[str, Any]] = {
    "attained": {"leaf_order": "tiresias"},
    "gittins": {"leaf_order": "gittins"},
    "shortest": {"leaf_order": "shortest"},
    "half-life": {"tree_order": "half_life"},
}
"""Those of them that are contracts with an order that others have published, and the knobs that say so."""
HISTORY, UPLOAD, PICK = "history", "file", "picked"
INVENTED = "lab"
"""The scenario that is always there."""
USUAL_WEEKS = 1
OTHER_KNOBS = "contracts, other knobs"


class SimulationForm(StrictForm):
    """Work from history or a file, and either schedulers side by side or one knob swept."""

    error_fields = {"scenario": "file", "from": "first_day", "until": "last_day", "variants": "schedulers"}

    work = forms.ChoiceField(
        choices=[
            (HISTORY, gettext_lazy("A stretch of history")),
            (UPLOAD, gettext_lazy("A scenario file")),
            (PICK, gettext_lazy("A scenario that is here already")),
        ],
        widget=forms.RadioSelect,
        label=gettext_lazy("Work"),
    )
    cluster = forms.ChoiceField(required=False, label=gettext_lazy("Cluster"))
    first_day = forms.DateField(
        required=False,
        label=gettext_lazy("First day"),
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )
    last_day = forms.DateField(
        required=False,
        label=gettext_lazy("Last day"),
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text=gettext_lazy("All of it; today up to the last whole hour."),
    )
    file = forms.FileField(
        required=False,
        label=gettext_lazy("Scenario file"),
        help_text=format_lazy(gettext_lazy("JSON, at most {file_bytes} MB."), file_bytes=FILE_BYTES // 1024 // 1024),
    )
    picked = forms.ChoiceField(
        required=False,
        label=gettext_lazy("Scenario"),
        help_text=gettext_lazy("An invented one, or the work of an earlier simulation."),
    )
    more = forms.FileField(
        required=False,
        label=gettext_lazy("Work laid over it"),
        help_text=gettext_lazy("JSON with “workloads” as in a scenario file: say, more debug runs."),
    )
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
    title = forms.CharField(
        required=False,
        label=gettext_lazy("Title"),
        max_length=160,
        help_text=gettext_lazy("For people; may stay empty."),
    )

    def __init__(
        self, *args: Any, clusters: Sequence[Cluster], scenarios: Sequence[tuple[int, str]] = (), **kwargs: Any
    ) -> None:
        """Offer these clusters, and the scenarios of these simulations (number and title)."""
        super().__init__(*args, **kwargs)
        picked = self.fields["picked"]
        assert isinstance(picked, forms.ChoiceField)
        invented = gettext("an invented laboratory: three days of 64 GPUs")
        picked.choices = [(INVENTED, invented), *((str(pk), f"{pk}: {title}") for pk, title in scenarios)]
        self._clusters = {each.name: each for each in clusters}
        choice = self.fields["cluster"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [(each.name, each.name) for each in clusters]
        for name in ("reservations", "seeds"):
            self.fields[name].widget = forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"})

    def clean(self) -> dict[str, Any]:
        """What belongs together is there together."""
        said = super().clean()
        if said.get("work") == UPLOAD and not said.get("file") and "file" not in self.errors:
            self.add_error("file", gettext("Choose a scenario file."))
        if said.get("work") == PICK and not said.get("picked") and "picked" not in self.errors:
            self.add_error("picked", gettext("Say which one."))
        if said.get("work") == HISTORY:
            for name in ("cluster", "first_day", "last_day"):
                if not said.get(name) and name not in self.errors:
                    self.add_error(name, gettext("Say which one.") if name == "cluster" else gettext("Say which day."))
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

    def source(self, now: datetime | None = None) -> Source:
        """The work, unless it is picked."""
        said = self.cleaned_data
        if said["work"] == UPLOAD:
            return self.read("file")
        at = now or timezone.now()
        end = queries.midnight(said["last_day"] + timedelta(days=1))
        if end > at and said["last_day"] == queries.day_of(at):
            end = at.replace(minute=0, second=0, microsecond=0)
        return History(self._clusters[said["cluster"]], queries.midnight(said["first_day"]), end)

    def more_work(self) -> File | None:
        """What is laid over it."""
        return self.read("more") if self.cleaned_data["more"] else None

    def read(self, name: str) -> File:
        """The text of an uploaded file.

        Raises:
            ValidationError: it is too large, or not UTF-8.
        """
        upload: UploadedFile = self.cleaned_data[name]
        if (upload.size or 0) > FILE_BYTES:
            raise forms.ValidationError(
                {
                    name: gettext("{upload} is larger than {file_bytes} MB.").format(
                        upload=upload.name, file_bytes=FILE_BYTES // 1024 // 1024
                    )
                }
            )
        try:
            return File(upload.name or "scenario", upload.read().decode("utf-8-sig"))
        except UnicodeDecodeError:
            raise forms.ValidationError(
                {name: gettext("{upload} is not UTF-8 text.").format(upload=upload.name)}
            ) from None

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


def usual_days(today: date) -> tuple[date, date]:
    """The days that the form offers."""
    return today - timedelta(weeks=USUAL_WEEKS), today
