"""Why something is stopped at once, and, of a whole cluster, that it is meant."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from portal.forms.strict import StrictForm
from scheduler.services.emergency import REASON_MAX_CHARS


class StopForm(StrictForm):
    """Why; whoever's work is stopped reads it."""

    reason = forms.CharField(
        max_length=REASON_MAX_CHARS,
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("Goes to the owners of what is stopped, and to the ledger."),
    )


class StartForm(StrictForm):
    """Why a cluster goes on."""

    reason = forms.CharField(
        max_length=REASON_MAX_CHARS, label=gettext_lazy("Reason"), help_text=gettext_lazy("Goes to the ledger.")
    )


class StopClusterForm(StopForm):
    """The name of the cluster is typed: nobody stops all of it by a slip."""

    confirm = forms.CharField(max_length=40, label=gettext_lazy("Name of the cluster"))

    def __init__(self, *args: Any, cluster: str, **kwargs: Any) -> None:
        """Of this cluster."""
        super().__init__(*args, **kwargs)
        self.cluster = cluster
        self.fields["confirm"].help_text = gettext("Type {cluster} to confirm.").format(cluster=cluster)

    def clean_confirm(self) -> str:
        """The very name."""
        said: str = self.cleaned_data["confirm"].strip()
        if said != self.cluster:
            raise forms.ValidationError(gettext("Type {cluster} to confirm.").format(cluster=self.cluster))
        return said
