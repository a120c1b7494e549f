"""The nodes of a cluster: health, what holds them, and, for operators, drain and resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Count, Sum
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext

from budgets.authority import may
from budgets.errors import InputError
from budgets.models import Cluster, Person
from portal.forms.reason import OperateForm
from portal.pages import Page, cluster_named, clusters, new_action, render_page, spend, spent_on, whole_number
from portal.private_nodes import spoken_for
from scheduler.models import WHOLE_DEVICE_MILLI, Holding, MaintenanceWindow, Node
from scheduler.queries import repairs
from scheduler.services import emergency, nodes

PER_PAGE = 50
HEALTH_TAGS = {"healthy": "run", "unhealthy": "stop", "unreachable": "wait", "down": "stop"}


@dataclass(frozen=True, slots=True)
class Tenant:
    """A run on a node: whose, how much of the node, and until when nobody can take it.

    `device` is the index of the one of which it has a part; None where it has whole ones.
    """

    workload: str
    milli: int
    funded: bool
    contract_ends_at: datetime | None
    device: int | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """A device that is given out in parts: its index, and what of it is free, in thousandths."""

    device: int
    free_milli: int


@dataclass(frozen=True, slots=True)
class Line:
    """A node with what holds it. Amounts in thousandths; `cell_of` is the budget node whose cell it is now, if any.

    `shared` are the devices of which runs have parts, by their index; those who have the parts stand together.
    """

    node: Node
    size_milli: int
    held_milli: int
    tenants: Sequence[Tenant]
    windows: Sequence[MaintenanceWindow]
    tag: str
    cell_of: str
    shared: Sequence[Shared] = ()

    @property
    def state(self) -> str:
        """What may happen there: its health, or how far the drain of a healthy one is."""
        if self.node.health == Node.Health.HEALTHY and self.node.drain_asked_at:
            return "draining" if self.held_milli else "drained"
        return self.node.health

    @property
    def word(self) -> str:
        """The same in words."""
        return self.state if self.state in ("draining", "drained") else str(self.node.get_health_display()).lower()


class Nodes(Page):
    """The nodes in order of name, paged."""

    def get(self, request: HttpRequest, cluster: str | None = None) -> HttpResponse:
        """The whole page, or its live part."""
        self.allow("cluster.see")
        among = clusters()
        where = cluster_named(cluster, among)
        rows = Node.objects.filter(cluster=where, retired_at=None).select_related("rack")
        rows = rows.annotate(devices_count=Count("devices"), held=Sum("devices__held_milli")).order_by("name")
        paginator = Paginator(rows, PER_PAGE)
        page = paginator.get_page(whole_number(request, "page", 1))
        health = dict(Node.objects.filter(cluster=where, retired_at=None).values_list("health").annotate(Count("pk")))
        spoken = spoken_for(where)
        context = {
            "here": "nodes",
            "clusters": among,
            "cluster": where,
            "lines": lines(list(page.object_list), spoken["bound"] if spoken else {}),
            "number": page.number,
            "pages": paginator.num_pages,
            "count": paginator.count,
            "healthy": health.get("healthy", 0),
            "unfit": sum(number for name, number in health.items() if name != "healthy"),
            "may_operate": may(request.user, "node.operate"),
            "is_stopped": emergency.standing(where) is not None,
            "spoken": spoken,
            "repairs": repairs.of_cluster(where, datetime.now(UTC)),
        }
        return render_page(request, "nodes", context, part="_table")


def lines(page: Sequence[Node], cells: Mapping[str, str]) -> list[Line]:
    """The nodes of one page. Two queries, whatever their number."""
    now = datetime.now(UTC)
    tenants: dict[int, dict[str, Tenant]] = {node.pk: {} for node in page}
    shared: dict[int, dict[int, Shared]] = {node.pk: {} for node in page}
    held = Holding.objects.filter(node__in=list(tenants), released_at=None).select_related("run__workload", "device")
    for each in held.order_by("run__workload__code"):
        code, run, device = each.run.workload.code, each.run, each.device
        before = tenants[each.node_id].get(code)
        milli = each.milli + (before.milli if before else 0)
        part_of = device.index if each.milli < WHOLE_DEVICE_MILLI else None
        tenants[each.node_id][code] = Tenant(code, milli, run.funded, run.contract_ends_at, part_of)
        if part_of is not None:
            shared[each.node_id][part_of] = Shared(part_of, WHOLE_DEVICE_MILLI - device.held_milli)
    windows: dict[int, list[MaintenanceWindow]] = {node.pk: [] for node in page}
    planned = MaintenanceWindow.objects.filter(node__in=list(tenants), cancelled_at=None, ends_at__gt=now)
    for window in planned.select_related("node", "made_by"):
        windows[window.node_id].append(window)
    return [
        Line(
            node=node,
            size_milli=node.devices_count * WHOLE_DEVICE_MILLI,  # type: ignore[attr-defined]
            held_milli=node.held or 0,  # type: ignore[attr-defined]
            tenants=sorted(tenants[node.pk].values(), key=lambda each: -1 if each.device is None else each.device),
            windows=windows[node.pk],
            tag="wait" if node.drain_asked_at else HEALTH_TAGS[node.health],
            cell_of=cells.get(node.name, ""),
            shared=[shared[node.pk][index] for index in sorted(shared[node.pk])],
        )
        for node in page
    ]


class OperateNode(Page):
    """Drain or resume one node, with a reason; the version guards against an old tab."""

    verb = ""

    def get(self, request: HttpRequest, cluster: str, name: str) -> HttpResponse:
        """The question."""
        node = self.node(cluster, name)
        return self.ask(request, node, OperateForm(initial={"action": new_action(), "version": node.version}), 200)

    def post(self, request: HttpRequest, cluster: str, name: str) -> HttpResponse:
        """Do it once."""
        node = self.node(cluster, name)
        led_to = reverse("nodes", args=[node.cluster.name])
        if spent_on(request, request.POST.get("action", "")) is not None:
            messages.info(request, gettext("That had been done already; nothing was changed again."))
            return HttpResponseRedirect(led_to)
        form = OperateForm(request.POST)
        if not form.is_valid():
            return self.ask(request, node, form, 400)
        if form.cleaned_data["version"] != node.version:
            form.add_error(
                None,
                gettext("{name} was changed since you opened this page. Read it again, then decide.").format(name=name),
            )
            return self.ask(request, node, form, 409)
        person: Person = request.user  # type: ignore[assignment]
        act = nodes.ask_drain if self.verb == "drain" else nodes.resume
        try:
            did = act(node=node, by=person, reason=form.cleaned_data["reason"])
        except InputError as error:
            form.take(error)
            return self.ask(request, node, form, 400)
        spend(request, form.cleaned_data["action"], led_to)
        done = gettext("drains now") if self.verb == "drain" else gettext("takes work again")
        messages.info(
            request,
            f"{name} {done}."
            if did
            else gettext("{name} had been asked that before; nothing was changed.").format(name=name),
        )
        return HttpResponseRedirect(led_to)

    def node(self, cluster: str, name: str) -> Node:
        """The node, if the person operates it.

        Raises:
            Http404: there is none. PermissionDenied: they are no operator.
        """
        node = host_named(cluster_named(cluster, clusters()), name)
        if not may(self.request.user, "node.operate", node):
            raise PermissionDenied(gettext("Draining and resuming nodes is for operators."))
        return node

    def ask(self, request: HttpRequest, node: Node, form: OperateForm, status: int) -> HttpResponse:
        """The page with the question."""
        context = {"here": "nodes", "node": node, "cluster": node.cluster, "form": form, "verb": self.verb}
        return render_page(request, "operate", context, status=status)


def host_named(cluster: Cluster, name: str) -> Node:
    """The node of that name on a cluster, with its cluster and rack.

    Raises:
        Http404: there is none, or it is retired.
    """
    node = Node.objects.filter(cluster=cluster, name=name, retired_at=None).select_related("cluster", "rack").first()
    if node is None:
        raise Http404(gettext("There is no node {name!r} on {cluster}.").format(name=name, cluster=cluster.name))
    return node
