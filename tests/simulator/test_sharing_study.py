"""The study of sharing: quotas make gangs wait for whole nodes, cells make them wait as in a cluster of their own."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduler.simulator.study import sharing, sharing_engine, sharing_page
from scheduler.simulator.study.sharing import APART, CELLS, GANGS, HOUR_S, NODE_GPUS, PACKED, SMALL, SPREAD, WAYS, Job


def test_what_a_tenant_asks_for_is_its_load_and_comes_by_its_seed() -> None:
    work = sharing.jobs(random.Random(1), 100)
    assert work == sharing.jobs(random.Random(1), 100)
    assert [job.arrives_s for job in work] == sorted(job.arrives_s for job in work)
    for tenant, tolerance in ((GANGS, 0.1), (SMALL, 0.25)):  # the latter's durations have a long tail
        asked = sum(job.gpus * job.runs_s for job in work if job.tenant == tenant)
        share = sharing.NODES * NODE_GPUS / 2 * 100 * 24 * HOUR_S
        assert asked / share == pytest.approx(sharing.LOAD[tenant], rel=tolerance)


def test_a_quota_is_free_and_no_node_is() -> None:
    """One small job on each node, and a gang that its quota would allow waits for the first of them to end."""
    small = [Job(SMALL, 1, 0.0, 1_000.0 + node) for node in range(sharing.NODES)]
    gang = Job(GANGS, 8, 10.0, 100.0)
    assert sharing.delays([*small, gang], sharing.room_of(SPREAD))[-1] == 990
    for way in (PACKED, CELLS, APART):
        assert sharing.delays([*small, gang], sharing.room_of(way))[-1] == 0


def test_nobody_gets_more_than_half() -> None:
    half = sharing.NODES // 2
    for tenant, gpus in ((GANGS, NODE_GPUS), (SMALL, 4)):
        fits = half * NODE_GPUS // gpus
        work = [Job(tenant, gpus, float(at), 1_000.0) for at in range(fits + 1)]
        for way in WAYS:
            waits = sharing.delays(work, sharing.room_of(way))
            assert waits == [*[0] * fits, 1_000 - fits], way


def test_nothing_is_lost_or_left_behind() -> None:
    """After all of it has ended, both tenants have all that is theirs again."""
    work = sharing.jobs(random.Random(3), 3)
    end_s = max(job.arrives_s for job in work) + 1e9
    for way in WAYS:
        room = sharing.room_of(way)
        assert min(sharing.delays(work, room)) >= 0
        full = [Job(tenant, 8 * NODE_GPUS, end_s, 1.0) for tenant in sharing.TENANTS]
        assert sharing.delays(full, room) == [0, 0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_cells_each_job_waits_as_in_a_cluster_of_its_tenants_own(seed: int) -> None:
    work = sharing.jobs(random.Random(seed), 14)
    waits = {way: sharing.delays(work, sharing.room_of(way)) for way in WAYS}
    assert waits[CELLS] == waits[APART]
    gangs = [number for number, job in enumerate(work) if job.tenant == GANGS]
    longer = {way: max(waits[way][number] - waits[APART][number] for number in gangs) for way in (SPREAD, PACKED)}
    assert longer[SPREAD] > max(longer[PACKED], 24 * HOUR_S)


def test_under_the_engine_cells_make_a_tenant_wait_as_in_a_cluster_of_its_own_and_shares_do_not() -> None:
    work = sharing.jobs(random.Random(1), 3)
    waits = {way: sharing_engine.delays(work, way) for way in sharing_engine.WAYS if way.endswith("spread")}
    assert waits["cells, spread"] == waits["apart, spread"]
    gangs = [number for number, job in enumerate(work) if job.tenant == GANGS]
    for kind in ("shares", "quotas"):
        longer = [waits[f"{kind}, spread"][number] - waits["apart, spread"][number] for number in gangs]
        assert max(longer) > HOUR_S, kind


def test_the_command_prints_plots_and_tells_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sharing", "--seeds", "1,2", "--days", "5", "--processes", "1"]
    call_command("study", *arguments, "--json", "--html", str(tmp_path / "out.html"))
    found = json.loads(capsys.readouterr().out)
    rows = {(row["tenant"], row["way"]): row for row in found["rows"]}
    assert rows[GANGS, CELLS]["longer_most_s"] == [0, 0, 0]
    assert rows[GANGS, SPREAD]["longer_mean_s"][0] > 3_600
    assert [run["seed"] for run in found["runs"]] == [1, 2]
    engine = {(row["tenant"], row["way"]): row for row in found["engine"]}
    assert engine[GANGS, "cells, spread"]["longer_most_s"] == [0, 0, 0]
    assert engine[GANGS, "quotas, spread"]["longer_mean_s"][0] > 3_600
    html = (tmp_path / "out.html").read_text()
    assert html.count("<svg") == 2
    assert "http" not in html
    call_command("study", *arguments)
    assert "published, up to" in capsys.readouterr().out


def test_nothing_asked_for_is_told_as_nothing() -> None:
    found = sharing_engine.run(1, 0, random.Random)
    assert found["jobs"] == 0
    assert sharing_page.tables([found])[0].rows[0][1:] == ["0 min"] * 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sharing", "--days", "0"], "--days: must be from 1 to 366, but is 0"),
        (["sharing", "file.json"], "FILE: does not belong to the study of sharing"),
        (["sharing", "--gpus", "64"], "--gpus: does not belong to the study of sharing"),
        (["sharing", "--minutes", "3"], "--minutes: belongs to the study of network"),
    ],
)
def test_what_does_not_belong_is_refused_by_name(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=f"^{message}$"):
        call_command("study", *arguments)
