"""The queue of a cluster: the order, and the numbers that make it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext

from budgets.authority import INSIDE_ROLES, nodes_with
from budgets.models import BudgetNode, Cluster, Person
from budgets.queries import TreeRow, today, tree_on
from portal import formats, order_words, queue_rows
from portal.pages import CHOICES_OFFERED, Live, Page, cluster_named, clusters, is_part, render_live, whole_number
from portal.pieces import rendered
from scheduler.models import Workload
from scheduler.queries import queue
from scheduler.queries.levels import Level, Levels
from scheduler.queries.moments import Moment, moment_of, shared
from scheduler.queries.recent import Recent

REFRESH_S = 10
"""How often the page asks again: as often as a pass is made."""
FIND_LENGTH = 80
LEVELS_SHOWN = 120
NUMBERS_KEPT = 8
_numbers: Recent[Hashable, SafeString] = Recent(NUMBERS_KEPT)


class Queue(Page):
    """The live order, filtered and paged; to htmx only what refreshes itself.

    It is made once at each moment for all who may see the same of it.
    """

    def get(self, request: HttpRequest, cluster: str | None = None) -> HttpResponse:
        """The whole page, or its live part."""
        self.allow("cluster.see")
        among = clusters()
        where = cluster_named(cluster, among)
        now = datetime.now(UTC)
        with moment_of(where, now, "queue", is_poll=is_part(request)) as moment:
            return self.at(moment, request, where, among, now)

    def at(
        self, moment: Moment, request: HttpRequest, cluster: Cluster, among: list[Cluster], now: datetime
    ) -> HttpResponse:
        """What it says of that moment."""
        tree = tree_offered(request, cluster, moment)
        filters = filters_of(request, {row.node.code for row in tree or ()})
        number = whole_number(request, "page", 1)
        page = page_of(cluster, number, filters, moment)
        person: Person = request.user  # type: ignore[assignment]
        inside = leaves_seen_on(page, person)
        context = {
            "here": "queue",
            "clusters": among,
            "cluster": cluster,
            "page": page,
            "totals": page.totals,
            "goes_first": order_words.goes_first(page.policy),
            "first": next((row for row in page.rows if row.place == 1), None) if page.number == 1 else None,
            "tree": None if tree is None or len(tree) > CHOICES_OFFERED else [row for row in tree if row.depth],
            "classes": Workload.Class.choices,
            "refresh_s": REFRESH_S,
            "now": now,
        }

        def live() -> Live:
            rows = rendered("queue/_row.html", queue_rows.shown_rows(page, person.pk, inside, now))
            made = context | {"rows": rows, "numbers": numbers_of(request, page)}
            return Live(render_to_string("queue/_live.html", made, request=request))

        if filters.find:
            return render_live(request, "queue", context, live())
        owner = person.pk if any(row.owner_id == person.pk for row in page.rows) else None
        seen_by = (get_language(), is_part(request), request.GET.urlencode(), frozenset(inside), owner)
        return render_live(request, "queue", context, shared(moment, ("queue", *seen_by), live))


def page_of(cluster: Cluster, number: int, filters: queue.Filters, moment: Moment) -> queue.QueuePage:
    """A page of the queue: where nothing is looked for that only some may find, the same for all who ask for it."""
    if filters.find:
        return queue.page(cluster, number, filters)
    plain = replace(filters, asker_id=None, inside=())
    key = ("queue page", number, plain.leaf, plain.workload_class)
    return shared(moment, key, lambda: queue.page(cluster, number, plain))


def numbers_of(request: HttpRequest, page: queue.QueuePage) -> SafeString:
    """The table of the levels and their figures: the same for all who read it in one language, until the next pass."""
    decays = order_words.use_decays(page.policy)
    among = order_words.among_siblings(page.policy)
    key = (page.cluster.pk, page.levels.name, page.window_s, decays, among, get_language())
    if (known := _numbers.get(key)) is not None:
        return known
    levels = shown_levels(page.levels.rows)
    order = page.policy.tree_order
    rows = queue_rows.shown_levels(levels, page.cluster, order, is_holding=bool(among))
    context = {
        "cluster": page.cluster,
        "rows": rendered("queue/_level.html", rows),
        "levels_left_off": len(page.levels.rows) - len(levels),
        "lookback_days": page.window_s // 86_400,
        "use_decays": decays,
        "among": among,
        "tree_order": order,
        "served_said": served_said(page.levels),
    }
    made = render_to_string("queue/_numbers.html", context, request)
    _numbers.put(key, made)
    return made


def tree_offered(request: HttpRequest, cluster: Cluster, moment: Moment) -> Sequence[TreeRow] | None:
    """The tree where the page offers its nodes, or one of them was chosen: of a large tree only the latter."""
    is_small = shared(moment, "is the tree small", lambda: BudgetNode.objects.count() <= CHOICES_OFFERED)
    if not is_small and not request.GET.get("project"):
        return None
    day = today()
    return shared(moment, ("tree", day), lambda: tree_on(cluster, day))


def shown_levels(rows: Sequence[Level]) -> Sequence[Level]:
    """The levels that the page lists, in their order: of a large tree the programs, and below them first those for
    which something waits.
    """
    if len(rows) <= LEVELS_SHOWN:
        return rows
    rank = {row.code: (row.depth > 1, not row.waiting, at) for at, row in enumerate(rows)}
    chosen = set(sorted(rank, key=rank.__getitem__)[:LEVELS_SHOWN])
    return [row for row in rows if row.code in chosen]


def filters_of(request: HttpRequest, codes: set[str]) -> queue.Filters:
    """The filters of a URL.

    Raises:
        BadRequest: a project or class that is not there, or a search that is too long.
    """
    find, leaf = request.GET.get("find", "").strip(), request.GET.get("project", "")
    workload_class = request.GET.get("class", "")
    if len(find) > FIND_LENGTH or "\0" in find:
        raise BadRequest(gettext("find: at most {find_length} plain characters").format(find_length=FIND_LENGTH))
    if leaf and leaf not in codes:
        raise BadRequest(gettext("project: there is no node {leaf!r} in the tree").format(leaf=leaf))
    if workload_class and workload_class not in Workload.Class.values:
        raise BadRequest(
            gettext("class: {workload_class!r} is none of {choices}").format(
                workload_class=workload_class, choices=", ".join(Workload.Class.values)
            )
        )
    person: Person = request.user  # type: ignore[assignment]
    return queue.Filters(
        find=find,
        leaf=leaf,
        workload_class=workload_class,
        asker_id=person.pk,
        inside=nodes_with(person, INSIDE_ROLES),
    )


def leaves_seen_inside(person: Person, leaf_ids: list[int]) -> set[int]:
    """Which of these leaves the person sees inside: names of workloads are for them. One query at most."""
    mine = nodes_with(person, INSIDE_ROLES)
    if not mine or not leaf_ids:
        return set()
    rows = BudgetNode.objects.filter(pk__in=leaf_ids, path__overlap=mine)
    return set(rows.values_list("pk", flat=True))


def leaves_seen_on(page: queue.QueuePage, person: Person) -> set[int]:
    """The same of the leaves of a page, which has their paths."""
    mine = set(nodes_with(person, INSIDE_ROLES))
    return {row.leaf_id for row in page.rows if not mine.isdisjoint(row.leaf_path)}


def served_said(levels: Levels) -> str:
    """What the programs have had of their shares, in words: "Vision has had 62.0 % of its share, Robotics 118.0 %"."""
    had = [(level.name, level.served) for level in levels.rows if level.depth == 1 and level.served is not None]
    if not had:
        return ""
    name, served = had[0]
    words = gettext("{name} has had {part} of its share")
    if any(level.standing for level in levels.rows):
        words = gettext("{name} holds {part} of its part now")
    first = words.format(name=name, part=formats.measured_percent(served))
    return formats.joined([first, *(f"{name} {formats.measured_percent(served)}" for name, served in had[1:])]) + "."
