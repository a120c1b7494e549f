"""The study of packing: what fits where, what is stranded, and the trace as it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.simulator.study import packing
from scheduler.simulator.study.packing import Hosts, Kind, Left, Mix, Pod, rule_of
from scheduler.traces import alibaba

ONE = Left(8_000, 1_024, 1)
PODS_CSV = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p1,4000,1024,1,500,,LS,Running,0,100,0\n"
    "p2,4000,1024,1,1000,,LS,Running,50,150,50\n"
    "p3,1000,512,0,0,,LS,Running,50,60,50\n"
    "p4,4000,1024,2,1000,,BE,Pending,60,70,\n"
)
NODES_CSV = "sn,cpu_milli,memory_mib,gpu,model\nn1,16000,8192,2,T4\nn2,16000,8192,0,\nn3,16000,8192,4,V100\n"


def pod(size_milli: int, cpu_milli: int = 1_000, memory_mib: int = 64) -> Pod:
    return Pod(cpu_milli, memory_mib, size_milli)


def placed(nodes: Sequence[Left], rule: str, sizes: Sequence[int]) -> list[int | None]:
    pods = [pod(size) for size in sizes]
    hosts = Hosts(nodes)
    return [hosts.place(each.kind, rule_of(rule, Mix(pods))) for each in pods]


@pytest.mark.parametrize(
    ("rule", "nodes"),
    [
        ("first fit", [0, 0]),
        ("best fit", [1, 0]),
        ("worst fit", [0, 1]),
        ("best fit, sharing first", [1, 0]),
    ],
)
def test_a_rule_chooses_the_node(rule: str, nodes: list[int]) -> None:
    assert placed([Left(8_000, 1_024, 3), Left(8_000, 1_024, 2)], rule, [2_000, 1_000]) == nodes


def test_a_fraction_fills_a_shared_device_first() -> None:
    nodes = [Left(8_000, 1_024, 4, (600,)), Left(8_000, 1_024, 1)]
    assert placed(nodes, "best fit", [500]) == [1]
    assert placed(nodes, "best fit, sharing first", [500]) == [0]
    assert nodes[0].after(Kind(0, 0, 500)) == Left(8_000, 1_024, 4, (100,))
    assert nodes[0].after(Kind(0, 0, 700)) == Left(8_000, 1_024, 3, (300, 600))


def test_cores_and_memory_bound_too() -> None:
    assert ONE.fits(Kind(8_000, 1_024, 1_000))
    assert not ONE.fits(Kind(8_001, 0, 1_000))
    assert not ONE.fits(Kind(0, 1_025, 1))
    assert not ONE.fits(Kind(0, 0, 2_000))
    assert not Left(1_000, 64, 0, (300,)).fits(Kind(0, 0, 301))
    assert Left(1_000, 64, 0).fits(Kind(1_000, 64, 0))


def test_what_is_stranded_is_what_the_mix_could_not_use() -> None:
    mix = Mix([pod(1_000, 4_000), pod(1_000, 4_000), pod(500, 2_000), pod(0, 99_000)])
    assert mix.stranded_milli(Left(4_000, 64, 1)) == pytest.approx(0)
    assert mix.stranded_milli(Left(3_000, 64, 1)) == pytest.approx(1_000 * 2 / 3)  # cores for the half alone
    assert mix.stranded_milli(Left(4_000, 64, 0, (500,))) == pytest.approx(500 * 2 / 3)
    assert mix.stranded_milli(Left(1_000, 64, 2, (500,))) == pytest.approx(2_500)


def test_least_stranded_keeps_cores_beside_devices() -> None:
    """A pod without devices goes where no devices are left to need its cores."""
    mix = Mix([pod(1_000, 4_000)])
    hosts = Hosts([Left(4_000, 64, 1), Left(4_000, 64, 0)])
    assert hosts.place(Kind(4_000, 64, 0), rule_of("least stranded", mix)) == 1


def test_what_sharing_saves() -> None:
    pods = [pod(500), pod(500)]
    found = packing.fill([Left(8_000, 1_024, 4)], pods, packing.SHARED_FIRST, cycle(pods).__next__)
    assert (found["allocated"], found["saved"], found["saved_of_fractions"]) == (1.0, 0.5, 0.5)
    assert (found["first_refused"], found["refused"], found["most_allocated"]) == (1.0, 0, 1.0)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.builds(pod, st.sampled_from([0, 200, 500, 700, 1_000, 2_000]), st.integers(0, 5_000)), min_size=1),
    st.sampled_from(packing.RULES),
    st.integers(0, 99),
)
def test_nothing_is_given_out_twice_and_nobody_is_refused_who_fits(pods: list[Pod], rule: str, seed: int) -> None:
    nodes = [Left(16_000, 512, 4), Left(8_000, 512, 2), Left(4_000, 512, 2)]
    hosts, mix, draw = Hosts(nodes), Mix(pods), partial(Random(seed).choice, pods)
    chosen = rule_of(rule, mix)
    for _ in range(40):
        kind = draw().kind
        could = any(left.fits(kind) for left in hosts.lefts)
        before = sum(left.free_milli for left in hosts.lefts)
        number = hosts.place(kind, chosen)
        assert (number is not None) == could
        given_out = before - sum(left.free_milli for left in hosts.lefts)
        assert given_out == (kind.size_milli if could else 0)
        for left, node in zip(hosts.lefts, nodes, strict=True):
            assert left.cpu_milli >= 0
            assert left.memory_mib >= 0
            assert 0 <= left.whole <= node.whole
            assert all(0 < each < 1_000 for each in left.begun)
            assert -1e-6 <= mix.stranded_milli(left) <= left.free_milli + 1e-6


def test_the_trace_as_it_was() -> None:
    every, ran = alibaba.read_shapes(PODS_CSV)
    assert [each.size_milli for each in every] == [500, 1_000, 0, 2_000]
    nodes = alibaba.read_lefts(NODES_CSV)
    assert nodes == [Left(16_000, 8_192, 2), Left(16_000, 8_192, 4)]
    found = packing.replay(nodes, ran)
    assert found == {"mean": (500 * 100 + 1_000 * 100) / 150 / 6_000, "most": 1_500 / 6_000, "refused": 0}
    assert packing.replay([Left(4_000, 8_192, 1)], ran)["refused"] == 2  # the cores of the first are back at 100 s


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a_pod_list.csv").write_text(PODS_CSV)
    (tmp_path / "a_node_list.csv").write_text(NODES_CSV)
    arguments = ["packing", "--trace", str(tmp_path), "--seeds", "1,2", "--processes", "1"]
    call_command("study", *arguments, "--json", "--html", str(tmp_path / "out.html"))
    found = json.loads(capsys.readouterr().out)
    assert [row["rule"] for row in found["rows"]] == list(packing.RULES)
    assert len(found["runs"]) == 2 * len(packing.RULES)
    assert found["replay"]["refused"] == 0
    html = (tmp_path / "out.html").read_text()
    assert html.count("<svg") == 2
    assert "http" not in html
    call_command("study", *arguments)
    assert "too idle to tell rules apart" in capsys.readouterr().out


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"^--trace: is needed: a folder with "):
        call_command("study", "packing")
    with pytest.raises(CommandError, match=r"^--trace: .* must hold one file \*pod_list\*.csv, and holds 0$"):
        call_command("study", "packing", "--trace", str(tmp_path))
    (tmp_path / "a_pod_list.csv").write_text(PODS_CSV.replace("4000", "four", 1))
    (tmp_path / "a_node_list.csv").write_text(NODES_CSV)
    with pytest.raises(CommandError, match="row 2, cpu_milli: must be a whole number, not 'four'"):
        call_command("study", "packing", "--trace", str(tmp_path))
    with pytest.raises(CommandError, match=r"^--trace: belongs to the study of packing$"):
        call_command("study", "sharing", "--trace", str(tmp_path))


def test_on_alibabas_trace_sharing_and_packing_fill_what_spreading_does_not(shared: Path) -> None:
    """One seed; `study packing` tells of several."""
    folder = shared / "traces"
    every, ran = alibaba.read_shapes((folder / "alibaba2023_openb_pod_list_default.csv").read_text())
    nodes = alibaba.read_lefts((folder / "alibaba2023_openb_node_list_gpu_node.csv").read_text())
    assert (len(every), len(ran), len(nodes), sum(left.whole for left in nodes)) == (8_152, 7_255, 1_213, 6_212)
    found = packing.fill(nodes, every, packing.SHARED_FIRST, partial(Random(1).choice, every))
    assert 0.92 < found["first_refused"] < 0.96
    assert 0.93 < found["allocated"] < 0.96
    assert 0.30 < found["saved_of_fractions"] < 0.40
