"""The GPU timeline of a cluster: what it shows, what it hides, what its address may say, and what it costs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from portal import timelines
from scheduler.queries import timeline
from scheduler.simulator.timeline_cells import View, grid_of, held_in, taken_in
from scheduler.simulator.timeline_figures import by_team


def seen(lab, hours: int = 12) -> View:
    now_s = int(lab.now.timestamp())
    return View(now_s - hours * 3_600, now_s, 0, 2)


def test_every_run_is_a_bar_that_leads_to_its_workload(lab, as_person):
    page = as_person(lab.ada).get("/clusters/north/timeline/?window=6h").content.decode()
    for workload in (lab.holder, lab.taken, lab.taker):
        assert f'<a href="/workloads/{workload.code}/"><title>{workload.code}, ' in page
    assert f"preempted for {lab.taker.code}" in page
    assert 'class="edge"' in page


def test_names_owners_and_commands_are_not_in_it(lab, as_person):
    page = as_person(lab.nil).get("/clusters/north/timeline/").content.decode()
    assert lab.taker.code in page
    for hidden in ("taker-one", "fold-batch", "secret-flag", "Ben", "Ada"):
        assert hidden not in page
