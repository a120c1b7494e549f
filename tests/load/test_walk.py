"""No page needs more than 30 queries, 300 ms, 300 KB of charts or 10,000 marks, with 2,000 projects, 500 requests and
50,000 workloads: every address of pages and API, as people of four kinds.
"""

from __future__ import annotations

import pytest

from budgets.models import BudgetNode, Request
from scheduler.models import Run, UsageHour, Workload
from tests.addresses import filled, patterns
from tests.load import figures, walk
from tests.load.people import PROGRAMS, PROJECTS
from tests.load.work import WORKLOADS
from tests.load.world import World

MORE = (
    "/workloads/?state=finished&page=200",
    "/workloads/?find=P00.00-",
    "/workloads/?owner=me",
    "/queue/north/?page=3",
    "/queue/north/?find=train",
    "/clusters/north/timeline/?window=30d",
    "/clusters/north/timeline/?window=7d&team=P00",
    "/clusters/north/timeline/?window=1d&nodes=n000:n015",
    "/audit/?page=300",
    "/audit/?node=P00",
    "/messages/?page=30",
    "/requests/?page=9",
    "/decisions/?page=4",
    "/people/?page=5",
    "/people/?find=res01",
    "/search/?find=P00",
    "/search/?find=Project+7",
    "/tree/north/?open=P00&open=P01",
    "/budget/LAB/?cluster=north&tab=history",
    "/files/usage/?node=LAB&cluster=north",
    "/api/v1/budget/LAB/usage/?cluster=north",
    "/api/v1/workloads/?limit=200",
    "/api/v1/requests/?limit=200",
    "/api/v1/requests/?desk=mine&limit=200",
    "/api/v1/reallocations/?limit=200",
    "/api/v1/decisions/?limit=200",
    "/api/v1/people/?limit=200",
    "/api/v1/budget/P00/children/?limit=200",
)
"""Addresses whose parameters ask for more than the plain page."""

NOT_READY = ("/readyz",)
"""What rightly answers 503 here, where neither worker nor beat runs."""


@pytest.mark.alone
@pytest.mark.long
def test_every_page_is_quick(world: World) -> None:
    assert BudgetNode.objects.filter(kind="project").count() == PROGRAMS * PROJECTS == 2_000
    assert Request.objects.count() == 500
    assert Workload.objects.count() == WORKLOADS == 50_000
    assert Run.objects.count() >= world.runs >= 50_000
    assert UsageHour.objects.count() > 500_000
    values = walk.values(world)
    paths = [path for pattern in patterns() for path in filled(pattern, values)]
    wrong = []
    for person in walk.PEOPLE:
        client = walk.signed_in(person)
        for cost in [walk.measure(client, person, path) for path in [*paths, *MORE]]:
            is_broken = cost.status >= 500 and cost.path not in NOT_READY
            # A machine that was taken from us for seconds says nothing of the page: it is asked once more, later.
            again = walk.measure(client, person, cost.path) if cost.too_much() and not is_broken else cost
            wrong += [f"{person} {cost.path}: {cost.status}"] if is_broken else again.too_much()
    wrong += figures.too_much()  # now that every route was asked for
    assert not wrong, "\n".join(wrong)
