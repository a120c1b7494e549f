"""What a waiting workload might have asked for instead."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from budgets.models import Cluster
from portal import formats
from portal.forms.typed import DurationField, UnitsField
from scheduler.models import Workload


class TryForm(forms.Form):
    """A size, a contract, or both; what is left empty stays as it is."""

    size = UnitsField(required=False)
    contract = DurationField(required=False, label=gettext_lazy("Contract"))

    def __init__(self, data: Any, *, workload: Workload, cluster: Cluster) -> None:
        """Take what was typed, or begin with what the workload asks for."""
        super().__init__(data)
        self.fields["size"].label = formats.unit_word(cluster.unit)
        self.fields["size"].initial = formats.units(workload.size_milli)
        self.fields["contract"].initial = (
            formats.duration(workload.min_runtime_s).replace(formats.NBSP, " ") if workload.min_runtime_s else "0"
        )
