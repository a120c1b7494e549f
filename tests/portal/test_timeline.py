"""The GPU timeline of a cluster: what it shows, what it hides, what its address may say, and what it costs."""

from __future__ import annotations

import gzip
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from portal import timelines
from portal.views import simulation_timeline
from scheduler.models import Node, Run, SimulationPart, TimelineTile
from scheduler.queries import overviews, timeline, timeline_tiles
from scheduler.services import nodes
from scheduler.services import timeline as service
from scheduler.simulator.recorded import unpack
from scheduler.simulator.timeline_cells import LOOK_KINDS, MARKS_MAX, View, grid_of, held_in, taken_in
from scheduler.simulator.timeline_figures import by_team
from scheduler.simulator.timeline_words import DAY_S
from tests.portal.test_simulator import a_simulation

FILLED = """
INSERT INTO scheduler_workload (code, cluster_id, leaf_id, name, size_milli, min_runtime_s, priority,
    cpu_milli_per_rank, memory_mib_per_rank, workload_class, resumable, checkpoint, checkpoint_every_s, save_command,
    restore_command, command, environment, secrets, demo, idempotency_key, state, submitted_at,
    first_started_at, ended_at, progress_s, preemptions, reason_code, reason_text, reason_numbers)
SELECT 'X-' || i, %(cluster)s, (%(leaves)s::bigint[])[1 + i %% 3], '', 4000, 3600, 0, 0, 0, 'standard', FALSE, '', 0,
    '{}', '{}', '{}', '{}', '{}', FALSE, '', 'finished', began, began, began + span, 0, 0, '', '', '{}'
FROM slot;
INSERT INTO scheduler_run (workload_id, number, cluster_id, leaf_id, path, size_milli, funded, min_runtime_s, state,
    started_at, running_at, contract_ends_at, stop_asked_at, ended_at, end_reason, preempted_by_id)
SELECT w.id, 1, %(cluster)s, w.leaf_id, '{}', 4000, i %% 4 > 0, 3600, 'ended', began, began + '1 min'::interval,
    CASE WHEN i %% 4 > 0 THEN began + '61 min'::interval END,
    CASE WHEN i %% 5 = 0 THEN began + span - '1 min'::interval END, began + span,
    CASE WHEN i %% 5 = 0 THEN 'preempted_fair_share' ELSE 'finished' END, CASE WHEN i %% 5 = 0 THEN w.id END
FROM slot JOIN scheduler_workload w ON w.code = 'X-' || i;
INSERT INTO scheduler_holding (run_id, device_id, node_id, milli, released_at)
SELECT r.id, d.id, d.node_id, 1000, began + span
FROM slot JOIN scheduler_workload w ON w.code = 'X-' || i JOIN scheduler_run r ON r.workload_id = w.id
JOIN scheduler_device d ON d.node_id = (%(nodes)s::bigint[])[1 + i / 2 %% %(count)s] AND d.index / 4 = i %% 2;
ANALYZE;
"""
"""Runs of four devices each, one after the other on each half of each node, over the last 30 days."""


def fill(lab, runs: int, machines: int) -> None:
    """Give the cluster so many runs on so many nodes."""
    for number in range(machines):
        nodes.register(cluster=lab.cluster, name=f"m{number:03d}", devices=8, now=lab.now - timedelta(days=40))
    ids = list(Node.objects.filter(name__startswith="m").order_by("name").values_list("pk", flat=True))
    span_s = 30 * DAY_S * 2 * machines // runs
    with connection.cursor() as cursor:
        cursor.execute(
            """
            CREATE TEMPORARY TABLE slot AS SELECT i, make_interval(secs => %(span)s) AS span,
                %(now)s::timestamptz - make_interval(secs => %(span)s * (1 + i / (2 * %(count)s))) AS began
            FROM generate_series(0, %(runs)s - 1) AS i
            """,
            {"span": span_s, "now": lab.now - timedelta(hours=5), "count": machines, "runs": runs},
        )
        leaves = [lab.node[code].pk for code in ("A1", "A2", "B1")]
        cursor.execute(FILLED, {"cluster": lab.cluster.pk, "leaves": leaves, "nodes": ids, "count": machines})
        cursor.execute("DROP TABLE slot")


def flat(sums) -> list[tuple[int, ...]]:
    """What was held, as `Held`, in order."""
    cells = sums.by_cell()
    return [(*at, *divmod(look, LOOK_KINDS), cells[at][look]) for at in cells for look in sorted(cells[at])]


def seen(lab, days: int = 1) -> View:
    """The last days on all nodes."""
    now_s = int(lab.now.timestamp())
    return View(now_s - days * DAY_S, now_s, 0, Node.objects.filter(cluster=lab.cluster).count())


def test_every_run_is_a_bar_that_leads_to_its_workload(lab, as_person):
    page = as_person(lab.ada).get("/clusters/north/timeline/?window=6h").content.decode()
    for workload in (lab.holder, lab.taken, lab.taker):
        assert f'<a href="/workloads/{workload.code}/"><title>{workload.code}, ' in page
    assert f"preempted for {lab.taker.code}" in page
    assert 'class="edge"' in page


def test_bars_are_on_the_devices_that_were_held(lab):
    machine = timeline.machine_of(lab.cluster, lab.now - timedelta(days=1))
    shown = timeline.show(machine, seen(lab), lab.now)
    found = {(bar.workload, machine.rows[bar.node].name, bar.lane_milli, bar.size_milli) for bar in shown.bars}
    wanted = set()
    for run in Run.objects.select_related("workload").exclude(ended_at=None, state="ended"):
        held = run.holdings.order_by("device__index").values_list("node__name", "device__index")
        for name in {node for node, _ in held}:
            devices = [index for node, index in held if node == name]
            assert devices == list(range(devices[0], devices[0] + len(devices)))
            wanted.add((run.workload.code, name, devices[0] * 1_000, len(devices) * 1_000))
    assert found == wanted


def test_names_owners_and_commands_are_not_in_it(lab, as_person):
    page = as_person(lab.nil).get("/clusters/north/timeline/").content.decode()
    assert lab.taker.code in page
    for hidden in ("taker-one", "fold-batch", "secret-flag", "Ben", "Ada"):
        assert hidden not in page


def test_cells_and_sums_of_the_database_are_those_of_the_bars(lab):
    fill(lab, 120, 3)
    machine = timeline.machine_of(lab.cluster, lab.now - timedelta(days=30))
    now_s = int(lab.now.timestamp())
    for view in (seen(lab, 30), seen(lab)._replace(first_row=1, end_row=4)):
        grid = grid_of(view)
        for leaf_ids in (None, [lab.node["A1"].pk]):
            wanted = timeline.wanted_of(machine, grid.view, now_s, leaf_ids)
            bars = timeline.joined(machine, wanted.bars())
            assert bars
            sums = timeline.sums_of(machine, grid, leaf_ids)
            sums.add((wanted.held(grid.column_s), wanted.taken(grid.column_s)))
            held, taken = flat(sums), sums.taken()
            assert held == sorted(held_in(bars, grid, now_s))
            assert taken == taken_in(bars, grid)
            lines = timeline.lines_of(machine, sums.totals(), wanted.counts())
            assert lines == by_team(machine.teams, bars, grid.view, now_s)
            assert wanted.runs_at_most(10_000) == len({bar.run for bar in bars})


def test_days_that_are_summed_up_say_what_their_runs_say(lab):
    fill(lab, 200, 3)
    machine = timeline.machine_of(lab.cluster, lab.now - timedelta(days=30))
    now_s = int(lab.now.timestamp())
    grids = [grid_of(View(now_s - days * DAY_S, now_s + 3_600, 0, 5)) for days in (7, 20, 30, 88)]
    assert [grid.column_s for grid in grids] == [3_600, 10_800, 21_600, 43_200]

    def read(grid):
        sums = timeline.sums_of(machine, grid, None)
        timeline_tiles.read_into(sums, lab.cluster, machine.node_ids, grid, now_s)
        return flat(sums), sums.taken()

    before = [read(grid) for grid in grids]
    assert service.fill(lab.cluster, lab.now) > 50
    assert [read(grid) for grid in grids] == before
    bars = timeline.joined(machine, timeline.wanted_of(machine, grids[2].view, now_s, None).bars())
    assert before[2] == (sorted(held_in(bars, grids[2], now_s)), taken_in(bars, grids[2]))
    assert service.fill(lab.cluster, lab.now) == 0
    service.forget(lab.cluster)
    assert not TimelineTile.objects.exists()


def test_a_day_is_summed_up_when_it_is_settled(lab):
    fill(lab, 60, 1)
    service.fill(lab.cluster, lab.now)
    last = TimelineTile.objects.order_by("-day").values_list("day", flat=True).first()
    assert last == (int(lab.now.timestamp()) - service.SETTLED_S) // DAY_S - 1


def test_an_address_says_which_time_and_which_nodes(lab, as_person):
    client = as_person(lab.ada)
    there = "/clusters/north/timeline/?from=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z"
    assert client.get(f"{there}&nodes=n02:n02").context["permalink"] == f"{there}&nodes=n02%3An02".replace(
        ":00:00", "%3A00%3A00"
    )
    assert client.get(there).context["panel"].total.runs == 0


@pytest.mark.parametrize(
    "asked",
    [
        "window=2y",
        "from=yesterday&until=2026-01-02T00:00:00Z",
        "from=2026-01-01T00:00:00Z",
        "from=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z",
        "from=2020-01-02T00:00:00Z&until=2026-01-01T00:00:00Z",
        "nodes=n09",
        "nodes=n02:n01",
        "team=Z9",
    ],
)
def test_what_an_address_gets_wrong_is_one_clear_line(lab, as_person, asked):
    answer = as_person(lab.ada).get(f"/clusters/north/timeline/?{asked}")
    assert answer.status_code == 400
    assert asked.partition("=")[0] in answer.content.decode() or "until" in answer.content.decode()


def test_an_unknown_cluster_is_not_there(lab, as_person):
    assert as_person(lab.ada).get("/clusters/nowhere/timeline/").status_code == 404


def test_a_team_alone(lab, as_person):
    panel = as_person(lab.ada).get("/clusters/north/timeline/?team=B").context["panel"]
    assert [line.team.code for line in panel.lines] == ["B1"]


def test_ticks_begin_days_at_the_organisations_midnight(settings):
    settings.TIME_ZONE = "Europe/Berlin"
    view = View(
        int(datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp()),
        int(datetime(2026, 3, 30, 12, tzinfo=UTC).timestamp()),
        0,
        1,
    )
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    midnights = [
        datetime.fromtimestamp(tick.at_s, UTC) for tick in timelines.real_ticks(view, epoch, 12) if tick.is_major
    ]
    assert midnights == [datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 3, 29, 22, tzinfo=UTC)]


def test_a_month_of_many_runs_stays_small(lab, as_person, django_assert_max_num_queries):
    fill(lab, 12_000, 64)
    service.fill(lab.cluster, lab.now)
    client = as_person(lab.ada)
    client.get("/clusters/north/timeline/")
    with django_assert_max_num_queries(25):
        answer = client.get("/clusters/north/timeline/?window=30d")
    page = answer.content.decode()
    assert not answer.context["panel"].shows_bars
    assert len(re.findall(r"M[\d.-]+ [\d.-]+h", page)) < MARKS_MAX + 1_000
    assert len(gzip.compress(answer.content)) < 300_000
    closer = client.get(answer.context["steps"][0][1] + "&nodes=m000:m007")
    assert closer.context["panel"].shows_bars


def test_two_variants_of_a_simulation_side_by_side(lab, as_person):
    row = a_simulation(lab)
    client = as_person(lab.ada)
    answer = client.get(f"/simulator/{row.pk}/timeline/")
    left, right = answer.context["panels"]
    assert [left.name, right.name] == ["contracts", "first come"]
    assert [panel.total.runs for panel in (left, right)] == [
        len(unpack(bytes(part.runs)).runs) for part in SimulationPart.objects.filter(simulation=row).order_by("number")
    ]
    assert {team.code: team.colour for team in answer.context["legend"]} == {"A": 1, "B": 2}
    closer = client.get(answer.context["steps"][0][1])
    assert closer.context["panels"][0].total.known_milli_s < left.total.known_milli_s
    assert client.get(f"/simulator/{row.pk}/timeline/?left=2&right=2").context["panels"] == [right]


def test_variants_and_simulations_that_are_not_there(lab, as_person):
    row = a_simulation(lab)
    client = as_person(lab.ada)
    assert client.get(f"/simulator/{row.pk}/timeline/?left=9").status_code == 400
    assert client.get("/simulator/999999/timeline/").status_code == 404
    assert client.get(f"/simulator/{a_simulation(lab, is_run=False).pk}/timeline/").status_code == 404
    assert f'href="/simulator/{row.pk}/timeline/"' in client.get(f"/simulator/{row.pk}/").content.decode()


def test_the_first_look_at_a_large_simulation_reads_no_runs(lab, as_person, monkeypatch):
    row = a_simulation(lab)
    client = as_person(lab.ada)
    before = client.get(f"/simulator/{row.pk}/timeline/").context["panels"]
    monkeypatch.setattr(overviews, "BARS_MAX", 1)
    assert overviews.keep(row) == 2
    simulation_timeline.overview_of.cache_clear()
    SimulationPart.objects.filter(simulation=row).update(runs=b"none")
    answer = client.get(f"/simulator/{row.pk}/timeline/")
    after = answer.context["panels"]
    assert [(panel.name, panel.total, panel.shows_bars) for panel in after] == [
        (panel.name, panel.total, False) for panel in before
    ]
    assert [panel.lines for panel in after] == [panel.lines for panel in before]
    assert answer.context["legend"]
