"""The form of cells: how many whole nodes and racks are a budget node's own."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from portal.forms.strict import StrictForm
from portal.pages import new_action
from scheduler.engine import CellCounts
from scheduler.services.cells import MOST


class CellsForm(StrictForm):
    """Two numbers and a reason; none of both withdraws what there is."""

    error_fields = {"cells.node": "nodes", "cells.rack": "racks"}

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    nodes = forms.IntegerField(label=gettext_lazy("Whole nodes"), min_value=0, max_value=MOST)
    racks = forms.IntegerField(label=gettext_lazy("Racks"), min_value=0, max_value=MOST)
    reason = forms.CharField(label=gettext_lazy("Reason"), max_length=2_000)

    def __init__(self, *args: Any, cells: CellCounts, version: int, **more: Any) -> None:
        """Filled in with what is in force."""
        initial = {"version": version, "action": new_action(), "nodes": cells.node, "racks": cells.rack}
        super().__init__(*args, initial=initial, **more)

    def cells(self) -> CellCounts:
        """What was typed."""
        return CellCounts(self.cleaned_data["nodes"], self.cleaned_data["racks"])
