"""Several ranks on one GPU: told which part is theirs, and measured apart."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.executors import meter
from scheduler.executors.agent_config import Config
from scheduler.executors.base import DesiredRank
from scheduler.executors.gpus import Use
from scheduler.executors.heartbeat import Answer
from scheduler.executors.meter import Meter
from scheduler.executors.reading import Malformed
from scheduler.executors.surroundings import Surroundings
from scheduler.models import Holding, UtilizationHour
from scheduler.services import policies, workloads
from tests.executors.conftest import Site, wait_for

SHARE = ("ALLOTMENT_GPU_MILLI", "ALLOTMENT_GPU_MEMORY_MIB", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")  # fmt: skip
PRINT = "import json, os, time; print(json.dumps(dict(os.environ)), flush=True); time.sleep(600)"


def want(devices: list[int], **more: Any) -> DesiredRank:
    said: dict[str, Any] = {
        "run": 7, "workload": "A-0001", "rank": 0, "nodes": ["n1"], "unit": "gpu", "command": ["train"],
        "environment": {}, "checkpoint": "", "owner": 0, "master": "n1", "began": False, "grace_s": 5,
    }  # fmt: skip
    return DesiredRank(devices=devices, **{**said, **more})


def test_agents_of_before_are_told_of_whole_devices_as_ever() -> None:
    whole, part = want([0, 1]), want([0], device_milli=250)
    assert "device_milli" not in Answer(1, [whole], 60).write()["desired"][0]
    assert [DesiredRank.read(each.write(), "desired[0]") for each in (whole, part)] == [whole, part]
    for wrong in (0, 1_001):
        with pytest.raises(Malformed, match="device_milli"):
            DesiredRank.read(part.write() | {"device_milli": wrong}, "desired[0]")


@pytest.mark.parametrize(
    ("known_mib", "rank", "told"),
    [
        (0, want([0, 1]), ["2000", "", None, None]),
        (81_559, want([0, 1]), ["2000", "81559", None, None]),
        (81_559, want([1], device_milli=250), ["250", "20389", "25", "0=20389M"]),
        (0, want([1], device_milli=5), ["5", "", "1", None]),
        (0, want([0], unit="core"), [None, None, None, None]),
    ],
)
def test_what_a_rank_is_told_of_its_part(tmp_path: Any, known_mib: int, rank: DesiredRank, told: list[Any]) -> None:
    config = Config(portal="http://p", cluster="c", node="n1", state="s", gpu_memory_mib=known_mib)
    spec = Surroundings(config, tmp_path, tmp_path).specify(rank)
    assert [spec["environment"].get(name) for name in SHARE] == told


def test_of_unequal_gpus_the_least_memory_counts_as_nvml_says(tmp_path: Any) -> None:
    config = Config(portal="http://p", cluster="c", node="n1", state="s")
    gpus: Any = SimpleNamespace(memory_mib={0: 40_000, 1: 80_000}.__getitem__)
    spec = Surroundings(config, tmp_path, tmp_path, gpus).specify(want([0, 1]))
    assert spec["environment"]["ALLOTMENT_GPU_MEMORY_MIB"] == "40000"


def test_two_halves_run_on_one_gpu_at_once_and_a_third_waits_for_one_of_them(site: Site) -> None:
    policies.change(cluster=site.cluster, knobs={"fraction_min_milli": 10})
    site.agent(gpus=1, gpu_memory_mib=16_384, sample_every_s=1)
    halves = [site.submit("/usr/bin/python3", "-c", PRINT, gpus=0.5) for _each in range(2)]
    third = site.submit("/usr/bin/python3", "-c", PRINT, gpus=0.25, leaf=site.rival)
    for row in halves:
        site.wait(row, "running")
        told = json.loads(wait_for(lambda row=row: site.printed(row)))
        assert [told[name] for name in ("CUDA_VISIBLE_DEVICES", *SHARE)] == ["0", "500", "8192", "50", "0=8192M"]
    assert all(len(site.marked(site.run(row))) == 1 for row in halves)
    held = Holding.objects.filter(released_at=None)
    assert sorted(held.values_list("run__workload__code", "device__index", "milli")) == [
        (row.code, 0, 500) for row in halves
    ]
    site.look()
    third.refresh_from_db()
    assert third.state == "queued"
    assert third.reason_code == "waiting_capacity"

    def measured() -> set[int]:
        """Of which runs there are samples: none is refused for saying more than its half could do."""
        return set(UtilizationHour.objects.values_list("run", flat=True))

    wait_for(lambda: measured() == {site.run(row).pk for row in halves})
    workloads.cancel(workload=halves[0], by=None)
    site.wait(halves[0], "cancelled")
    site.look()
    site.wait(third, "running")
    told = json.loads(wait_for(lambda: site.printed(third)))
    assert [told[name] for name in SHARE] == ["250", "4096", "25", "0=4096M"]
    assert sorted(held.values_list("device__index", "milli")) == [(0, 250), (0, 500)]


# --- measuring --------------------------------------------------------------------------------------------------------


class Told:
    """NVML's answers about one GPU of 80 GiB: what it does in all, and who does what."""

    def __init__(self, uses: dict[int, Use] | None) -> None:
        self.uses = uses

    def activity(self, index: int) -> tuple[float, float | None]:
        return 0.3, 0.2

    def processes(self, index: int) -> dict[int, Use] | None:
        return self.uses

    def memory_mib(self, index: int) -> int:
        return 80_000


def seen(monkeypatch: pytest.MonkeyPatch, uses: dict[int, Use] | None, *parts: int) -> dict[int, Any]:
    """(thousandths busy, of memory) by run, of ranks with such parts of GPU 0: run 1's processes are 10 to 19."""
    monkeypatch.setattr(meter, "descendants", lambda minder: range(10 * minder, 10 * minder + 10))
    ranks: list[Any] = [
        SimpleNamespace(key=(run, 0), devices=[0], device_milli=milli, record={"state": "running", "minder": run})
        for run, milli in enumerate(parts, 1)
    ]
    told: Any = Told(uses)
    found = Meter(told, every_s=0)
    return {key[0]: (round(1_000 * busy), None if memory is None else round(1_000 * memory))
        for key, (busy, memory) in found._parts(ranks).items()}  # fmt: skip


def test_who_shares_a_gpu_is_measured_by_its_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    uses = {10: Use(0.1, 10_000), 11: Use(0.15, 10_000), 20: Use(0.6, None), 99: Use(0.0, 500)}
    assert seen(monkeypatch, uses, 500, 250) == {1: (500, 500), 2: (1_000, None)}  # of its part, and never above it


def test_where_processes_are_not_told_apart_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(monkeypatch, None, 500, 250) == {}
    assert seen(monkeypatch, {10: Use(0.1), 99: Use(0.4)}, 500, 250) == {}  # perhaps the MPS server, for both


def test_who_is_alone_on_its_gpu_does_all_that_is_done_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(monkeypatch, None, 500) == {1: (600, 400)}
    assert seen(monkeypatch, None, 100) == {1: (1_000, 1_000)}
