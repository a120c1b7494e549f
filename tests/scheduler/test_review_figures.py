"""What a budget review looks at: useful time told from runs, and what was moved since the period began."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from budgets.models import BudgetNode
from budgets.queries import midnight, today
from budgets.services import shares
from budgets.services.review_snapshots import BOOKS, LineFigures
from scheduler.models import Run
from scheduler.queries import review_figures
from scheduler.services.usage import rebuild
from tests.portal.conftest import Laboratory

HOUR = timedelta(hours=1)


@pytest.fixture
def lab(db: None) -> Laboratory:
    """Sixteen GPUs; A1 has 70 % of A, which has 60 %."""
    return Laboratory()


def ran(lab: Laboratory, at: datetime, ended: str, *, resumable: bool = False, funded: bool = True) -> None:
    """A1 held 4 GPUs for an hour from `at`, of which 10 minutes went by until all ranks ran."""
    workload = lab.submit("A1", 4, owner=lab.ada, resumable=resumable, minutes=60 if funded else 0)
    leaf = lab.node["A1"]
    Run.objects.create(
        workload=workload, number=1, cluster=lab.cluster, leaf=leaf, path=leaf.path, size_milli=4_000, funded=funded,
        min_runtime_s=3_600 if funded else 0, state=Run.State.ENDED, started_at=at, running_at=at + HOUR / 6,
        ended_at=at + HOUR, end_reason=ended,
    )  # fmt: skip


def figures(lab: Laboratory, node: BudgetNode, start: datetime, end: datetime) -> LineFigures:
    [own] = review_figures.of_lines([node], lab.cluster, start, end)
    return own


@pytest.mark.parametrize(
    ("ended", "more", "counts"),
    [
        ("finished", {}, True),
        ("cancelled", {}, True),
        ("failed", {}, False),
        ("failed", {"resumable": True}, False),
        ("preempted_fair_share", {}, False),
        ("preempted_fair_share", {"resumable": True}, True),
        ("node_lost", {}, False),
        ("stopped_by_operator", {"resumable": True}, False),  # its charge was given back
        ("finished", {"funded": False}, False),
    ],
)
def test_what_is_useful(lab: Laboratory, ended: str, more: dict[str, bool], counts: bool) -> None:
    at = midnight(today()) - 6 * HOUR
    ran(lab, at, ended, **more)
    useful = 4_000 * 50 * 60 if counts else 0
    for node in ("A1", "A", "LAB"):
        assert figures(lab, lab.node[node], at, at + HOUR).useful == useful
    assert figures(lab, lab.node["A2"], at, at + HOUR).useful == 0
    # Only the part within the period counts: the last half hour.
    assert figures(lab, lab.node["A1"], at + HOUR / 2, at + 2 * HOUR).useful == useful * 3 // 5


def test_what_was_moved_since_the_period_began(lab: Laboratory) -> None:
    first, moved = today() - timedelta(days=3), today() - timedelta(days=1)
    for points, day in ((5_000, moved), (7_000, moved + timedelta(days=1))):
        shares.set_shares(
            parent=lab.node["A"], cluster=lab.cluster, shares={lab.node["A1"]: points}, valid_from=day, by=None
        )
    start, end = midnight(first), midnight(today())
    rebuild(lab.cluster, start, end)
    own = figures(lab, lab.node["A1"], start, end)
    sums = {name: sum(hour[at] for hour in own.hours) for at, name in enumerate(BOOKS, 1)}
    a_day = 16_000 * 24 * 3_600
    assert own.planned == a_day * 3 * 42 // 100
    assert sums["moved_out"] == a_day * 12 // 100  # a fifth of 60 %, for a day
    assert (sums["moved_in"], sums["entitled"]) == (0, own.planned - sums["moved_out"])


def test_what_was_taken_altogether_is_moved_out(lab: Laboratory) -> None:
    start, end = midnight(today() - timedelta(days=2)), midnight(today())
    shares.set_shares(
        parent=lab.node["A"], cluster=lab.cluster, shares={lab.node["A2"]: 0}, valid_from=today() - timedelta(days=1),
        by=None,
    )  # fmt: skip
    rebuild(lab.cluster, start, end)
    own = figures(lab, lab.node["A2"], start, end)
    assert len(own.hours) == 48
    assert sum(hour[1] for hour in own.hours) == sum(hour[7] for hour in own.hours) == own.planned // 2 > 0
