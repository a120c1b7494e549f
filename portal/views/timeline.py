"""The GPU timeline of a cluster: who held which devices, now and in the past."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from budgets.models import BudgetNode
from portal import formats, timelines
from portal.pages import Page, choice, cluster_named, clusters, offered, render_page
from scheduler.queries import timeline
from scheduler.queries.timeline import Machine
from scheduler.simulator.timeline_cells import View
from scheduler.simulator.timeline_svg import Look

WINDOWS = {"6h": 6 * 3_600, "1d": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
WINDOW_WORDS = {
    "6h": gettext_lazy("6 hours"),
    "1d": gettext_lazy("1 day"),
    "7d": gettext_lazy("7 days"),
    "30d": gettext_lazy("30 days"),
}
AHEAD_PART = 8
"""The last hours also show what is to come: this part of the window."""
AHEAD_UP_TO_S = 86_400
TAKEN_SHOWN = 12
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DEFAULT_WINDOW = "1d"


class ClusterTimeline(Page):
    """One cluster's devices over a stretch of time; to htmx only the part that is drawn anew."""

    def get(self, request: HttpRequest, cluster: str | None = None) -> HttpResponse:
        """The whole page, or the drawing with its tables."""
        self.allow("cluster.see")
        among = clusters()
        where = cluster_named(cluster, among)
        now = datetime.now(UTC).replace(microsecond=0)
        window = choice(request, "window", WINDOW_WORDS, DEFAULT_WINDOW)
        start, end = stretch_of(request, window, now)
        machine = timeline.machine_of(where, start)
        context = {
            "here": "timeline",
            "clusters": among,
            "cluster": where,
            "window": window,
            "windows": list(WINDOW_WORDS.items()),
            "is_latest": not request.GET.get("until"),
            "now": now,
            "nodes_count": len(machine.rows),
            "projects": offered(machine.teams[:-1]),
            "team": request.GET.get("team", ""),
        }
        if machine.rows:
            context |= self.drawn(request, machine, (start, end), now)
        return render_page(request, "timeline", context, part="_drawing")

    def drawn(
        self, request: HttpRequest, machine: Machine, stretch: tuple[datetime, datetime], now: datetime
    ) -> dict[str, Any]:
        """The drawing, its tables, and where one can go from it."""
        from_s, until_s = (int(at.timestamp()) for at in stretch)
        view = timelines.checked(View(from_s, until_s, *timelines.rows_named(request, machine.rows)))
        team = request.GET.get("team", "")
        leaf_ids = leaves_of(team) if team else None
        shown = timeline.show(machine, view, now, leaf_ids)
        kept = {"team": team} if team else {}
        path = reverse("timeline", args=[machine.cluster.name])

        def link(to: View) -> str:
            return timelines.address(path, to, machine.rows, kept, EPOCH)

        look = Look(
            prefix="tl",
            width=timelines.WIDTH,
            label=gettext("{unit} of {cluster}, who held them when").format(
                unit=formats.unit_word(machine.cluster.unit), cluster=machine.cluster.name
            ),
            ticks=timelines.real_ticks(view, EPOCH, timelines.TICKS_MAX),
            when=timelines.when_really(EPOCH),
            workload_href=lambda code: reverse("workload", args=[code]),
            rows_href=lambda first, end: link(view._replace(first_row=first, end_row=end)),
            say=gettext,
        )
        what = shown.bars if shown.cells is None else shown.cells
        panel = timelines.draw(shown.timeline, view, what or (), shown.lines, look, machine.cluster.name)
        return {
            "panels": [panel],
            "panel": panel,
            "legend": timelines.teams_shown([panel]),
            "legend_left_off": timelines.teams_left_off([panel]),
            "view": view,
            "start": stretch[0],
            "end": stretch[1],
            "permalink": link(view),
            "steps": [(words, link(to)) for words, to in timelines.steps(view, len(machine.rows))],
            "taken": timeline.last_taken(machine, view, leaf_ids, TAKEN_SHOWN),
            "first_node": machine.rows[view.first_row].name,
            "last_node": machine.rows[view.end_row - 1].name,
            "is_part": (view.first_row, view.end_row) != (0, len(machine.rows)),
        }


def stretch_of(request: HttpRequest, window: str, now: datetime) -> tuple[datetime, datetime]:
    """What the address asks for: `from` and `until`, or the last window, with a little of what is to come.

    Raises:
        BadRequest: one of the two without the other, or no instant.
    """
    start, end = timelines.instant_named(request, "from"), timelines.instant_named(request, "until")
    if start is not None and end is not None:
        return start, end
    if start is not None or end is not None:
        raise BadRequest(gettext("from and until: give both, or neither"))
    span_s = WINDOWS[window]
    ahead_s = span_s // AHEAD_PART if span_s <= AHEAD_UP_TO_S else 0
    return now - timedelta(seconds=span_s - ahead_s), now + timedelta(seconds=ahead_s)


def leaves_of(code: str) -> list[int]:
    """The ids of all nodes at or below the one of that code. Two queries.

    Raises:
        BadRequest: there is no such node.
    """
    node = BudgetNode.objects.filter(code=code).first()
    if node is None:
        raise BadRequest(gettext("team: there is no node {code!r} in the tree").format(code=code))
    return list(BudgetNode.objects.filter(path__contains=[node.pk]).values_list("pk", flat=True))
