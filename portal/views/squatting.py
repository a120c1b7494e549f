"""Squatting: devices that are held and do nothing, by team for everybody, by workload and person for few.

What a person's workloads left idle is for that person and the managers above them; nobody else gets it, in any part.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext

from budgets.authority import nodes_with
from budgets.models import BudgetNode, Cluster, Person, Role
from portal import formats
from portal.pages import Page, cluster_named, clusters, render_page, whole_number
from portal.period import period_named
from portal.views.waits import node_of
from scheduler.queries import squatting
from scheduler.queries.behind import PER_PAGE, Window
from scheduler.queries.squatting import IDLE_BELOW_PERCENT, MEASURED_MIN_S, TeamIdle


@dataclass(frozen=True, slots=True)
class Team:
    """A node with what of its devices stood idle."""

    node: BudgetNode
    idle: TeamIdle

    @property
    def share(self) -> Fraction | None:
        """Idle over measured."""
        measured = self.idle.measured_milli_s
        return Fraction(self.idle.idle_milli_s, measured) if measured else None


class SquattingPage(Page):
    """`?node=` chooses the level, `?window=`, `?from=&until=` and `?as_of=` the time, `?page=` the list's page."""

    def get(self, request: HttpRequest, cluster: str | None = None) -> HttpResponse:
        """The whole page."""
        self.allow("tree.see")
        among = clusters()
        where = cluster_named(cluster, among)
        period = period_named(request)
        node = node_of(request)
        number = whole_number(request, "page", 1)
        person: Person = request.user  # type: ignore[assignment]
        window = Window(where, period.start, period.end, period.now)
        children = list(BudgetNode.objects.filter(parent=node).order_by("code"))
        idle = squatting.by_node([node, *children], window)
        managed = nodes_with(person, [Role.MANAGER])
        listed = squatting.workloads(node, window, number, person_id=person.pk, managed=managed)
        if number > 1 and not listed.rows:
            raise Http404(gettext("There is no page {number} of this list.").format(number=number))
        teams = [Team(child, idle[child.pk]) for child in children if idle[child.pk].held_milli_s]
        context = {
            **period.context(),
            "here": "squatting",
            "clusters": among,
            "cluster": where,
            "node": node,
            "above": list(BudgetNode.objects.filter(pk__in=node.path[:-1]).order_by("path")),
            "own": Team(node, idle[node.pk]),
            "teams": teams,
            "with_children": set(BudgetNode.objects.filter(parent__in=children).values_list("parent", flat=True)),
            "sentence": sentence(node, where, idle[node.pk]),
            "rows": listed.rows,
            "leaves": BudgetNode.objects.in_bulk([row.leaf_id for row in listed.rows]) if listed.rows else {},
            "people": squatting.people(node, window, person_id=person.pk, managed=managed) if listed.rows else [],
            "manages": any(pk in managed for pk in node.path) or bool(managed),
            "number": number,
            "pages": max(1, -(-listed.count // PER_PAGE)),
            "count": listed.count,
            "below_percent": IDLE_BELOW_PERCENT,
            "measured_min": formats.duration(MEASURED_MIN_S),
        }
        return render_page(request, "squatting", context)


def sentence(node: BudgetNode, cluster: Cluster, idle: TeamIdle) -> str:
    """What stood idle, as one would say it."""
    if not idle.held_milli_s:
        return gettext("{code} held nothing on {cluster} in this time.").format(code=node.code, cluster=cluster.name)
    if not idle.measured_milli_s:
        return gettext("What {code} held was not measured: whether it was used is not known.").format(code=node.code)
    if not idle.idle_milli_s:
        return gettext("Nothing that {code} held stood idle.").format(code=node.code)
    return gettext("{hours} that {code} held stood idle, {part} of what was measured.").format(
        hours=formats.unit_hours_alone(idle.idle_milli_s, cluster.unit),
        code=node.code,
        part=formats.measured_percent(Fraction(idle.idle_milli_s, idle.measured_milli_s)),
    )
