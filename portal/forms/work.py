"""The part of a form that says what work is simulated: history, a file, or a scenario that is here already."""

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
from scheduler.services.simulations import FILE_BYTES, File, History, Source

HISTORY, UPLOAD, PICK = "history", "file", "picked"
INVENTED = "lab"
"""The scenario that is always there."""
USUAL_WEEKS = 1
KINDS = (
    (HISTORY, gettext_lazy("A stretch of history")),
    (UPLOAD, gettext_lazy("A scenario file")),
    (PICK, gettext_lazy("A scenario that is here already")),
)


class WorkForm(StrictForm):
    """Work from history or a file; those who inherit say what to do with it."""

    error_fields = {"scenario": "file", "from": "first_day", "until": "last_day"}

    work = forms.ChoiceField(choices=KINDS, widget=forms.RadioSelect, label=gettext_lazy("Work"))
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
        for each in self.fields.values():
            if isinstance(each, forms.IntegerField):
                each.widget = forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"})

    def check_work(self, said: dict[str, Any]) -> None:
        """What says which work it is must be complete."""
        if said.get("work") == UPLOAD and not said.get("file") and "file" not in self.errors:
            self.add_error("file", gettext("Choose a scenario file."))
        if said.get("work") == PICK and not said.get("picked") and "picked" not in self.errors:
            self.add_error("picked", gettext("Say which one."))
        if said.get("work") == HISTORY:
            for name in ("cluster", "first_day", "last_day"):
                if not said.get(name) and name not in self.errors:
                    self.add_error(name, gettext("Say which one.") if name == "cluster" else gettext("Say which day."))

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


def usual_days(today: date) -> tuple[date, date]:
    """The days that the form offers."""
    return today - timedelta(weeks=USUAL_WEEKS), today
