"""Home: what needs me, my workloads, my budget, and each cluster's figures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from django.http import HttpRequest, HttpResponse

from budgets.authority import nodes_with
from budgets.models import OPEN_STATES, BudgetNode, Cluster, Person, Request, Role
from budgets.queries import today, tree_on
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
        context = {
            "here": "home",
            "needs": needs_me(person, now),
            "to_decide": [*asked, *proposed],
            "asks": my_requests(person),
            "due": list(follow_ups.due_for(person)[:MINE_SHOWN]),
            "next_review": next_for(person),
            "mine": my_workloads(person),
            "budgets": my_budgets(person, among, end),
            "pyramid": [
                (cluster, sizes.get(cluster.pk, 0), figures.of_cluster(cluster, end - WINDOW, end)) for cluster in among
            ],
            "may_submit": bool(nodes_with(person, [Role.MEMBER])),
        }
        return render_page(request, "home", context)


def needs_me(person: Person, now: datetime) -> list[Workload]:
    """My workloads that do not go on by themselves: held, or ended otherwise than they should within a day."""
    bad_ends = ("failed", "preempted", "lost", "refused")
    rows = Workload.objects.filter(owner=person).select_related("leaf", "cluster")
    held = rows.filter(state=Workload.State.HELD)
    ended = rows.filter(state__in=bad_ends, ended_at__gte=now - NEEDS_SINCE)
    return [*held[:MINE_SHOWN], *ended.order_by("-ended_at")[:MINE_SHOWN]]


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
    mine = set(nodes_with(person, [Role.MANAGER, Role.MEMBER, Role.REVIEWER]))
    found: list[Budget] = []
    for cluster in among if mine else ():
        rows = [row for row in tree_on(cluster, today()) if row.node.pk in mine and row.entitlement]
        books = usage.totals([row.node for row in rows], cluster, end - WINDOW, end)
        found += [Budget(row.node, cluster, row.entitlement, books[row.node.pk]) for row in rows]
    return found[:BUDGETS_SHOWN]
