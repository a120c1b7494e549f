"""Home: what needs me, my workloads, my budget, and each cluster's figures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse

from budgets.authority import nodes_with
from budgets.models import OPEN_STATES, BudgetNode, Cluster, Person, Request, Role
from budgets.queries import entitlements_on, today
from budgets.services import follow_ups
from portal.clusters import sizes_milli
from portal.pages import Page, clusters, render_page
from portal.views.requests import on_desk
from portal.views.reviews import next_for
from scheduler.models import Workload
from scheduler.queries import figures, usage

MINE_SHOWN = 12
BUDGETS_SHOWN = 6
WINDOW = timedelta(days=7)
NEEDS_SINCE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Budget:
    """One of my nodes on one cluster, and what it got in the last 7 days."""

    node: BudgetNode
    cluster: Cluster
    entitlement: Fraction
    books: usage.Books

    @property
    def got(self) -> Fraction | None:
        """Delivered over entitled."""
        entitled = self.books.entitled_milli_s
        return Fraction(self.books.charged_milli_s, entitled) if entitled else None


class Home(Page):
    """The first page after signing in."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """What needs the person, what is theirs, and how the clusters do."""
        now = datetime.now(UTC)
        person: Person = request.user  # type: ignore[assignment]
        among = clusters()
        end = now.replace(minute=0, second=0, microsecond=0)
        sizes = sizes_milli()
        asked, proposed = on_desk(person)
        told = figures.of_clusters(among, end - WINDOW, end)
        context = {
            "here": "home",
            "needs": needs_me(person, now),
            "to_decide": [*asked, *proposed],
            "asks": my_requests(person),
            "due": list(follow_ups.due_for(person)[:MINE_SHOWN]),
            "next_review": next_for(person),
            "mine": my_workloads(person),
            "budgets": my_budgets(person, among, end),
            "pyramid": [(cluster, sizes.get(cluster.pk, 0), told[cluster.pk]) for cluster in among],
            "may_submit": bool(nodes_with(person, [Role.MEMBER])),
        }
        return render_page(request, "home", context)


def needs_me(person: Person, now: datetime) -> list[Workload]:
    """My workloads that do not go on by themselves: held, or ended otherwise than they should within a day."""
    bad_ends = ("failed", "preempted", "lost", "refused")
    rows = Workload.objects.filter(owner=person).select_related("leaf", "cluster")
    found = rows.filter(Q(state=Workload.State.HELD) | Q(state__in=bad_ends, ended_at__gte=now - NEEDS_SINCE))
    return list(found.order_by(F("ended_at").desc(nulls_first=True), "submitted_at", "pk")[: 2 * MINE_SHOWN])


def my_requests(person: Person) -> list[Request]:
    """What I asked for that is not decided yet."""
    rows = Request.objects.filter(author=person, state__in=OPEN_STATES).select_related(
        "node", "parent", "desk", "cluster"
    )
    return list(rows[:MINE_SHOWN])


def my_workloads(person: Person) -> list[Workload]:
    """What of mine is open, the latest first, or the last ones where nothing is."""
    rows = Workload.objects.filter(owner=person).select_related("leaf", "cluster").order_by("-submitted_at", "-pk")
    return list(rows.filter(state__in=Workload.OPEN_STATES)[:MINE_SHOWN]) or list(rows[:3])


def my_budgets(person: Person, among: list[Cluster], end: datetime) -> list[Budget]:
    """The nodes at which I have a role, on each cluster where they are entitled to something."""
    mine = nodes_with(person, [Role.MANAGER, Role.MEMBER, Role.REVIEWER])
    nodes = list(BudgetNode.objects.filter(pk__in=mine, closed_at=None).order_by("path")) if mine else []
    if not nodes:
        return []
    entitled = entitlements_on(nodes, among, today())
    places = [(node, cluster) for cluster in among for node in nodes if entitled[node.pk, cluster.pk]][:BUDGETS_SHOWN]
    books = usage.totals_on_each(list({node.pk: node for node, _ in places}.values()), among, end - WINDOW, end)
    return [
        Budget(node, cluster, entitled[node.pk, cluster.pk], books[node.pk, cluster.pk]) for node, cluster in places
    ]
