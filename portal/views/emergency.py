"""An operator's emergency stop, asked once more before it is done: of a workload's run, a node, a whole cluster."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from budgets.authority import may
from budgets.models import Cluster, Person
from portal import formats
from portal.forms.emergency import StartForm, StopClusterForm, StopForm
from portal.pages import Once, cluster_named, clusters, new_action, render_page
from portal.views.nodes import host_named
from portal.views.workload import workload_named
from scheduler.models import Rank, Run
from scheduler.services import emergency
from scheduler.services.runs import HOLDING_STATES


class Stop(Once):
    """What all stops share: the question, what runs there, and that it is done once."""

    form: Any = StopForm

    def get(self, request: HttpRequest, **named: str) -> HttpResponse:
        """The question."""
        self.look(**named)
        return self.ask(request, self.made(initial={"action": new_action()}), 200)

    def post(self, request: HttpRequest, **named: str) -> HttpResponse:
        """Do it once."""
        self.look(**named)
        form = self.made(request.POST)
        led_to = self.led_to()
        answer, status = self.once(request, form, led_to, self.said, lambda said: self.do(said["reason"]))
        return self.ask(request, form, status) if answer is None else answer

    def made(self, *args: Any, **more: Any) -> Any:
        """The form."""
        return self.form(*args, **more)

    def ask(self, request: HttpRequest, form: Any, status: int) -> HttpResponse:
        """The page with the question."""
        context = {
            "here": "nodes",
            "form": form,
            "cluster": self.cluster,
            "led_to": self.led_to(),
            "going": formats.count(self.going()),
            "number": self.going(),
            **self.context(),
        }
        return render_page(request, "emergency", context, status=status)

    def operated(self, cluster: Cluster) -> None:
        """Go on only if the person operates it.

        Raises:
            PermissionDenied: they do not.
        """
        self.cluster = cluster
        if not may(self.request.user, "node.operate", cluster):
            raise PermissionDenied(gettext("Stopping what runs is for operators."))

    @property
    def person(self) -> Person:
        """Who asks."""
        person: Person = self.request.user  # type: ignore[assignment]
        return person

    def look(self, **named: str) -> None:
        """Find what the address names."""
        raise NotImplementedError

    def going(self) -> int:
        """How many runs would be stopped."""
        raise NotImplementedError

    def do(self, reason: str) -> Any:
        """Stop it."""
        raise NotImplementedError

    def said(self, done: Any) -> str:
        """What was done, in words."""
        raise NotImplementedError

    def led_to(self) -> str:
        """Where one goes on."""
        return reverse("nodes", args=[self.cluster.name])

    def context(self) -> dict[str, Any]:
        """What else the page shows."""
        raise NotImplementedError


def runs_told(number: int) -> str:
    """How many were told to stop."""
    said = ngettext("{runs} run was told to stop.", "{runs} runs were told to stop.", number)
    return said.format(runs=formats.count(number))


class StopCluster(Stop):
    """Of a whole cluster: its name is typed."""

    def look(self, **named: str) -> None:
        """The cluster."""
        self.operated(cluster_named(named["cluster"], clusters()))

    def made(self, *args: Any, **more: Any) -> StopClusterForm:
        """With its name to type."""
        return StopClusterForm(*args, cluster=self.cluster.name, **more)

    def going(self) -> int:
        """All that run there."""
        return Run.objects.filter(cluster=self.cluster, state__in=HOLDING_STATES).count()

    def do(self, reason: str) -> Any:
        """Stop it."""
        return emergency.stop_cluster(cluster=self.cluster, by=self.person, reason=reason)

    def said(self, done: Any) -> str:
        """In words."""
        return gettext("{cluster} is stopped.").format(cluster=self.cluster.name) + " " + runs_told(done.runs)

    def context(self) -> dict[str, Any]:
        """What it is."""
        return {"what": "cluster", "name": self.cluster.name}


class StartCluster(StopCluster):
    """Its end."""

    def made(self, *args: Any, **more: Any) -> Any:
        """Only why."""
        return StartForm(*args, **more)

    def do(self, reason: str) -> bool:
        """Let it go on."""
        return emergency.start_cluster(cluster=self.cluster, by=self.person, reason=reason)

    def said(self, done: Any) -> str:
        """In words."""
        words = gettext("{cluster} goes on.") if done else gettext("{cluster} was not stopped.")
        return words.format(cluster=self.cluster.name)

    def context(self) -> dict[str, Any]:
        """With the stop that would end."""
        return {"what": "start", "name": self.cluster.name, "stop": emergency.standing(self.cluster)}


class StopNode(Stop):
    """Of a node."""

    def look(self, **named: str) -> None:
        """The node."""
        self.operated(cluster_named(named["cluster"], clusters()))
        self.node = host_named(self.cluster, named["name"])

    def going(self) -> int:
        """Those with a part on it."""
        on_it = Rank.objects.filter(node=self.node, run__state__in=HOLDING_STATES)
        return on_it.values("run").distinct().count()

    def do(self, reason: str) -> emergency.Stopped:
        """Stop it."""
        return emergency.stop_node(node=self.node, by=self.person, reason=reason)

    def said(self, done: emergency.Stopped) -> str:
        """In words."""
        return gettext("{name} is stopped, and drains.").format(name=self.node.name) + " " + runs_told(done.runs)

    def context(self) -> dict[str, Any]:
        """What it is."""
        return {"what": "node", "name": self.node.name}


class StopWorkload(Stop):
    """Of what a workload runs."""

    def look(self, **named: str) -> None:
        """The workload."""
        self.workload = workload_named(named["code"])
        self.operated(self.workload.cluster)

    def going(self) -> int:
        """One, or none."""
        return Run.objects.filter(workload=self.workload, state__in=HOLDING_STATES).count()

    def do(self, reason: str) -> bool:
        """Stop it."""
        return emergency.stop_workload(workload=self.workload, by=self.person, reason=reason)

    def said(self, done: bool) -> str:
        """In words."""
        words = (
            gettext("{code} was told to stop.") if done else gettext("{code} had been told before, or runs nothing.")
        )
        return words.format(code=self.workload.code)

    def led_to(self) -> str:
        """Its page."""
        return reverse("workload", args=[self.workload.code])

    def context(self) -> dict[str, Any]:
        """What it is, and what becomes of it."""
        return {"here": "queue", "what": "workload", "name": self.workload.code, "resumable": self.workload.resumable}
