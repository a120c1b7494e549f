"""The form of a submission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster
from portal import spread_words
from portal.forms.program import ENDINGS, ProgramField
from portal.forms.strict import StrictForm
from portal.forms.typed import CommandField, DurationField, MemoryField, SecretsField, UnitsField
from scheduler.engine import cassini, locality
from scheduler.services.asked import RETRIES_MAX

MORE = (
    "gpu_class",
    "fast",
    "cpus",
    "memory",
    "checkpoint",
    "checkpoint_every",
    "save_command",
    "restore_command",
    "secrets",
    "communication",
)
"""What most submissions leave alone."""


class SubmissionForm(StrictForm):
    """What a workload asks for. Bounds are the services' to check; this reads what was typed."""

    error_fields = {
        "leaf": "project",
        "size_milli": "size",
        "min_runtime_s": "contract",
        "time_limit_s": "time_limit",
        "count": "tasks",
        "checkpoint_every_s": "checkpoint_every",
        "gpu_classes": "gpu_class",
        "needs_fast": "fast",
        "cpu_milli_per_rank": "cpus",
        "memory_mib_per_rank": "memory",
    }

    cluster = forms.ChoiceField(label=gettext_lazy("Cluster"))
    project = forms.ChoiceField(
        label=gettext_lazy("Project"), help_text=gettext_lazy("Its share is charged, and orders the queue.")
    )
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=120,
        required=False,
        help_text=gettext_lazy("For people; may stay empty."),
    )
    size = UnitsField(
        label=gettext_lazy("GPUs"),
        initial="1",
        help_text=gettext_lazy(
            "All at once or none. More than one node's worth takes whole nodes. A part of one, such as 0.25, where the "
            "cluster gives out parts."
        ),
    )
    contract = DurationField(
        label=gettext_lazy("Contract"),
        initial="1 h",
        help_text=gettext_lazy(
            "Once it runs, nobody can take its GPUs for this long: say 2 h, or 45 min. A short contract starts sooner. "
            "0 is unallocated: free of charge, and interrupted when anybody funded needs them."
        ),
    )
    priority = forms.IntegerField(
        label=gettext_lazy("Priority"),
        min_value=-1_000,
        max_value=1_000,
        initial=0,
        help_text=gettext_lazy("Higher first, inside the project only."),
    )
    resumable = forms.BooleanField(
        label=gettext_lazy("Resumable"),
        required=False,
        help_text=gettext_lazy(
            "When it is preempted it saves, returns to the queue in its old place, and goes on where it was."
        ),
    )
    command = CommandField(
        label=gettext_lazy("Command"),
        help_text=gettext_lazy(
            "A program and its arguments, quoted as for a shell. No shell reads it; for one, write sh -c '…'."
        ),
    )
    program = ProgramField(
        label=gettext_lazy("Program"),
        required=False,
        help_text=gettext_lazy(
            "Python files and launch scripts, or a zip of them: the advisor reads them for what leaves GPUs idle. "
            "They are not run, and not kept."
        ),
    )
    time_limit = DurationField(
        required=False,
        label=gettext_lazy("Time limit"),
        help_text=gettext_lazy("It is stopped after running this long; empty is no limit."),
    )
    cpus = UnitsField(
        required=False,
        label=gettext_lazy("Cores on each node"),
        help_text=gettext_lazy(
            "It starts only where so many are free, and uses no more. Empty leaves it to the cluster: it asks for "
            "none, and is not limited."
        ),
    )
    memory = MemoryField(
        required=False,
        label=gettext_lazy("Memory on each node"),
        help_text=gettext_lazy("Likewise, such as 64 GiB or 512 MiB."),
    )
    checkpoint = forms.CharField(
        label=gettext_lazy("Checkpoint"),
        max_length=300,
        required=False,
        help_text=gettext_lazy(
            "A file or folder in its working directory: its age is watched, and a preemption waits for one that is "
            "due. A program may call allotment-checkpoint in its place."
        ),
    )
    checkpoint_every = DurationField(
        required=False,
        label=gettext_lazy("Written every"),
        help_text=gettext_lazy("Say 10 min; empty is seen from the file's times."),
    )
    save_command = CommandField(
        required=False,
        label=gettext_lazy("Save command"),
        help_text=gettext_lazy(
            "Of a session: runs in its working directory when it is told to stop, within its grace."
        ),
    )
    restore_command = CommandField(
        required=False,
        label=gettext_lazy("Restore command"),
        help_text=gettext_lazy(
            "Runs in place of the command where it was saved before, with the same working directory."
        ),
    )
    secrets = SecretsField(
        required=False,
        label=gettext_lazy("Secrets"),
        help_text=gettext_lazy(
            "More variables, NAME=value, one a line. Nobody is shown the values; they are hidden in what it prints, "
            "and forgotten when it has ended."
        ),
    )
    communication = forms.CharField(
        label=gettext_lazy("Communication"),
        max_length=1_000,
        required=False,
        help_text=gettext_lazy(
            "Of a gang that trains over several leaf switches: the milliseconds of one iteration, and when in it it "
            "sends at how many Gbit/s, such as 100: 50-100@45. It is then shifted beside others; its loop calls "
            "allotment-align."
        ),
    )
    gpu_class = forms.CharField(
        label=gettext_lazy("Classes of GPUs"),
        max_length=300,
        required=False,
        help_text=gettext_lazy("Those that it can run on, with commas between them, such as V100, T4; empty is all."),
    )
    fast = forms.NullBooleanField(
        label=gettext_lazy("Needs fast ones"),
        required=False,
        widget=forms.Select(
            choices=[
                ("", gettext_lazy("as work like it has used its GPUs")),
                ("true", gettext_lazy("yes: high-end classes first")),
                ("false", gettext_lazy("no: the weaker classes first")),
            ]
        ),
        help_text=gettext_lazy("Counts on clusters that rank their classes."),
    )
    retries = forms.IntegerField(
        min_value=0,
        max_value=RETRIES_MAX,
        initial=0,
        required=False,
        label=gettext_lazy("Retries"),
        help_text=gettext_lazy(
            "How often it is tried again, at most 3, where it failed by no fault of its own: a network, a file system, "
            "a GPU. A missing file or an error of its program is not tried again."
        ),
    )
    canary = forms.BooleanField(
        label=gettext_lazy("Canary"),
        required=False,
        help_text=gettext_lazy(
            "The command runs on one GPU first, for at most 10 minutes; the gang enters the queue only if that passed."
        ),
    )
    locality = forms.TypedChoiceField(
        label=gettext_lazy("Spreading"),
        choices=spread_words.LEVELS,
        coerce=int,
        initial=locality.ANY_RACK,
        required=False,
        empty_value=None,
        help_text=gettext_lazy(
            "How far it may go where it has waited long and the cluster relaxes: first one rack, then any, then more "
            "nodes, with equal parts on each. On 8 servers in place of 2 the same work takes 1.53 times the GPU-hours."
        ),
    )
    tasks = forms.IntegerField(
        min_value=1,
        max_value=1_000,
        initial=1,
        label=gettext_lazy("Tasks"),
        help_text=gettext_lazy("More than 1 makes an array: each task has its number in ALLOTMENT_ARRAY_INDEX."),
    )

    def __init__(self, *args: Any, clusters: Sequence[Cluster], leaves: Sequence[BudgetNode], **kwargs: Any) -> None:
        """Offer these clusters and these leaves."""
        super().__init__(*args, **kwargs)
        cluster, project = self.fields["cluster"], self.fields["project"]
        assert isinstance(cluster, forms.ChoiceField)
        assert isinstance(project, forms.ChoiceField)
        cluster.choices = [(each.name, f"{each.name}, {each.model}" if each.model else each.name) for each in clusters]
        project.choices = [(each.code, f"{each.code} {each.name}") for each in leaves]
        for name in ("size", "priority", "tasks", "retries", "cpus"):
            self.fields[name].widget = forms.TextInput(attrs={"inputmode": "decimal"})
            self.fields[name].widget.attrs.update({"autocomplete": "off"})
        for name, rows in (("command", 3), ("save_command", 2), ("restore_command", 2), ("secrets", 3)):
            self.fields[name].widget.attrs.update({"rows": rows, "spellcheck": "false", "class": "mono"})
        self.fields["secrets"].widget.attrs["autocomplete"] = "off"
        self.fields["program"].widget.attrs["accept"] = ",".join((*ENDINGS, ".zip"))

    def clean_gpu_class(self) -> list[str]:
        """The names."""
        return [each.strip() for each in self.cleaned_data["gpu_class"].split(",") if each.strip()]

    def clean_communication(self) -> dict[str, Any] | None:
        """As the API takes it; None where nothing is said."""
        typed = self.cleaned_data["communication"]
        if not typed:
            return None
        try:
            return cassini.written_profile(cassini.typed_profile(typed))
        except cassini.ProfileError as error:
            raise forms.ValidationError(str(error)) from None

    def take(self, error: InputError) -> None:
        """Show a service's error beside its field; of a variable, beside all of them."""
        name, _, variable = error.field.partition(".")
        if name == "secrets" and variable:
            self.add_error(name, f"{variable}: {error.message}")
        else:
            super().take(error)

    @property
    def has_more(self) -> bool:
        """Whether the part that most leave alone says anything, or something is wrong with it."""
        return any(self[name].errors or self[name].value() for name in MORE)


class SpreadingForm(StrictForm):
    """What of a submission decides what spreading would cost."""

    cluster = forms.ChoiceField()
    size = UnitsField()
    locality = forms.TypedChoiceField(choices=spread_words.LEVELS, coerce=int)
    time_limit = DurationField(required=False)
    name = forms.CharField(max_length=120, required=False)

    def __init__(self, *args: Any, clusters: Sequence[Cluster], **kwargs: Any) -> None:
        """Of one of these clusters."""
        super().__init__(*args, **kwargs)
        cluster = self.fields["cluster"]
        assert isinstance(cluster, forms.ChoiceField)
        cluster.choices = [(each.name, each.name) for each in clusters]
