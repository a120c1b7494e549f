"""What a review meeting looks at, frozen: one JSON of whole numbers and texts from which its pages, PDF and CSV come.

Amounts are thousandths of the cluster's unit times seconds, shares are basis points of the review's node. Names of
nodes and clusters are copied, people stand in it by id, so that a name can be erased without touching it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Cluster, Request, Review, Share, State
from budgets.queries import in_force, midnight

FORMAT = 1
BOOKS = ("entitled", "within", "not_asked", "not_delivered", "in_repair", "moved_in", "moved_out", "borrowed")
"""The columns of one hour, after its Unix second. They balance: entitled = within + not_asked + not_delivered +
in_repair, and entitled = planned + moved_in - moved_out; borrowed stands beside them."""
ID_LENGTH = 16


@dataclass(frozen=True, slots=True)
class LineFigures:
    """What one child got on one cluster in the period, hour by hour.

    Attributes:
        hours: rows of the Unix second at which an hour begins, then BOOKS; in order of time, only known hours.
        owed: what was due: the smaller of demand and the entitlement to healthy devices.
        useful: of what was delivered, what runs did with all ranks running that came to something.
        planned: what these hours would have given it with the share of the period's first day.
    """

    node_id: int
    cluster_id: int
    hours: Sequence[Sequence[int]]
    owed: int
    useful: int
    planned: int


FiguresOf = Callable[[Sequence[BudgetNode], Cluster, datetime, datetime], Sequence[LineFigures]]
"""The figures of these nodes on the cluster over the hours that begin in [start, end); the packages above know them."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a meeting: a child on a cluster, what it has, what it got, and why it would be on the agenda."""

    node: BudgetNode
    cluster: Cluster
    now: int
    totals: Mapping[str, int]
    request: Request | None
    rule: str
    proposed: int

    @property
    def delivered(self) -> int:
        """All that was delivered, borrowed included."""
        return self.totals["within"] + self.totals["borrowed"]

    @property
    def is_on_agenda(self) -> bool:
        """A request or a rule puts it there."""
        return self.request is not None or bool(self.rule)


@dataclass(frozen=True, slots=True)
class Looked:
    """All lines of a review with their hours, and the open requests at its desk, as they are at an instant."""

    day: date
    lines: Sequence[Line]
    hours: Mapping[tuple[int, int], Sequence[Sequence[int]]]
    requests: Sequence[Request]
    given: Mapping[int, int]  # basis points of all children, by cluster id


def look(review: Review, figures_of: FiguresOf, day: date, now: datetime) -> Looked:
    """What the meeting would look at now; shares are those of `day`, figures of the period's hours that are over."""
    children = list(review.node.children.filter(closed_at=None).order_by("code"))
    start = midnight(review.period_from)
    end = min(midnight(review.period_until), now.replace(minute=0, second=0, microsecond=0))
    asked: dict[tuple[int, int], Request] = {}
    waiting = Request.objects.filter(parent=review.node, desk=review.node, state=State.SUBMITTED)
    requests = list(waiting.select_related("node", "cluster", "author").order_by("submitted_at", "pk"))
    for request in requests:
        asked.setdefault((request.node_id, request.cluster_id), request)
    lines, hours, given = [], {}, {}
    for cluster in Cluster.objects.order_by("position", "name"):
        shares = Share.objects.filter(in_force(day), parent=review.node, cluster=cluster)
        held = dict(shares.values_list("node_id", "basis_points"))
        given[cluster.pk] = sum(held.values())
        figures = {each.node_id: each for each in figures_of(children, cluster, start, end)}
        for child in children:
            own, wish = figures[child.pk], asked.get((child.pk, cluster.pk))
            has, totals = held.get(child.pk, 0), _totals(own)
            if not (has or wish or totals["entitled"] or totals["borrowed"]):
                continue
            hours[child.pk, cluster.pk] = own.hours
            rule = rule_about(review, has, totals)
            proposed = has
            if wish is not None:
                proposed = min(WHOLE_BASIS_POINTS, has + wish.more_basis_points)
            elif rule:
                proposed = has - has * review.hands_back_percent // 100
            lines.append(Line(child, cluster, has, totals, wish, rule, proposed))
    return Looked(day, lines, hours, requests, given)


def rule_about(review: Review, has: int, totals: Mapping[str, int]) -> str:
    """Why the rule points at a line, or nothing: it used less than so much of its entitlement."""
    used, entitled = totals["within"] + totals["borrowed"], totals["entitled"]
    if not has or not entitled or used * 100 >= entitled * review.hands_back_below_percent:
        return ""
    permille = used * 1_000 // entitled
    return (
        f"it used {permille // 10}.{permille % 10} % of its entitlement, less than "
        f"{review.hands_back_below_percent} %: proposed to hand back {review.hands_back_percent} % of its share"
    )


def frozen(review: Review, looked: Looked, now: datetime) -> dict[str, Any]:
    """The snapshot: what was looked at, as plain values."""
    clusters = {line.cluster.pk: line.cluster for line in looked.lines}
    return {
        "format": FORMAT,
        "review": {"id": review.pk, "title": review.title},
        "node": {"id": review.node.pk, "code": review.node.code, "name": review.node.name},
        "period": {"from": review.period_from.isoformat(), "until": review.period_until.isoformat()},
        "shares_on": looked.day.isoformat(),
        "frozen_at": now.astimezone(UTC).isoformat(timespec="seconds"),
        "rules": {"below_percent": review.hands_back_below_percent, "hands_back_percent": review.hands_back_percent},
        "clusters": [
            {
                "id": each.pk, "name": each.name, "unit": each.unit, "model": each.model,
                "given": looked.given[each.pk],
            }
            for each in clusters.values()
        ],
        "books": list(BOOKS),
        "lines": [
            {
                "node": line.node.pk, "code": line.node.code, "name": line.node.name, "colour": line.node.colour,
                "cluster": line.cluster.pk, "basis_points": line.now, "proposed": line.proposed, "rule": line.rule,
                "request": line.request.pk if line.request else None, "totals": dict(line.totals),
                "hours": [list(hour) for hour in looked.hours[line.node.pk, line.cluster.pk]],
            }
            for line in looked.lines
        ],
        "requests": [_request(each) for each in looked.requests],
    }  # fmt: skip


def id_of(snapshot: Mapping[str, Any]) -> str:
    """The first ID_LENGTH digits of the SHA-256 of the snapshot, written in one way only."""
    text = json.dumps(snapshot, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


def _totals(figures: LineFigures) -> dict[str, int]:
    sums = {name: sum(hour[at] for hour in figures.hours) for at, name in enumerate(BOOKS, 1)}
    return {**sums, "owed": figures.owed, "useful": figures.useful, "planned": figures.planned,
            "hours": len(figures.hours)}  # fmt: skip


def _request(request: Request) -> dict[str, Any]:
    return {
        "id": request.pk,
        "node": request.node_id,
        "cluster": request.cluster_id,
        "author": request.author_id,
        "more_basis_points": request.more_basis_points,
        "from": request.starts_on.isoformat(),
        "until": request.ends_on.isoformat() if request.ends_on else None,
        "useless_on": request.useless_on.isoformat() if request.useless_on else None,
        "why": request.why,
        "otherwise": request.otherwise,
    }
