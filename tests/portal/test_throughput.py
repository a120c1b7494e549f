"""Throughput that runs report, and their MFU: the formula, the table of peaks, the service, the API and the page."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import Cluster, LedgerEntry
from scheduler.executors.base import RankFact, RankState
from scheduler.flops import mfu, peak_flops
from scheduler.models import Run, ThroughputReport, Workload
from scheduler.queries.throughput import of_workload
from scheduler.services import throughput
from scheduler.services.facts import Said
from tests.portal.conftest import Laboratory

TERA = 10**12


@pytest.mark.parametrize(
    ("parameters", "tokens_per_s", "devices", "peak", "percent"),
    [(175 * 10**9, 2_000_000, 12_288, 312, "54.78"), (175 * 10**9, 2_015_513, 12_288, 312, "55.20"),
     (70 * 10**9, 250_000, 256, 989, "41.47")],
)  # fmt: skip
def test_the_formula(parameters: int, tokens_per_s: int, devices: int, peak: int, percent: str) -> None:
    found = mfu(
        parameters=parameters,
        tokens_per_s=Fraction(tokens_per_s),
        devices=Fraction(devices),
        peak=Fraction(peak * TERA),
    )
    assert f"{float(found) * 100:.2f}" == percent


@pytest.mark.parametrize(
    ("model", "tflops"),
    [("H100", 989), ("NVIDIA H100 80GB HBM3", 989), ("NVIDIA H100 PCIe", 756), ("NVIDIA A100-SXM4-80GB", 312),
     ("a10", 125), ("RTX A1000", None), ("", None), ("Tesla V100-SXM2-32GB", 125), ("L40S", 362)],
)  # fmt: skip
def test_peaks_by_model(model: str, tflops: int | None) -> None:
    assert peak_flops(model) == (None if tflops is None else tflops * TERA)


def reports_of(workload: Workload) -> list[tuple[int, int, int]]:
    """What is kept."""
    rows = ThroughputReport.objects.filter(run__workload=workload).order_by("at")
    return list(rows.values_list("tokens", "span_ms", "parameters"))


BAD = [
    ("tokens", -1), ("tokens", True), ("tokens", 10**16), ("seconds", 0), ("seconds", -3.0), ("seconds", float("nan")),
    ("seconds", float("inf")), ("parameters", 0), ("parameters", -7), ("parameters", 1.5),
]  # fmt: skip


def test_what_makes_no_sense_is_refused_by_name(calm: Laboratory) -> None:
    workload = calm.submit("A1", 1, owner=calm.ada)
    for field, value in BAD:
        said: dict[str, Any] = {"tokens": 1, "seconds": 1.0, "parameters": 1, field: value}
        with pytest.raises(InputError) as refused:
            throughput.report(workload=workload, by=calm.ada, **said)
        assert refused.value.field == field


def test_reports_are_kept_and_those_close_together_added_up(lab: Laboratory) -> None:
    for after_s, tokens in ((0, 100), (9, 50), (10, 70)):
        throughput.report(
            workload=lab.taker,
            tokens=tokens,
            seconds=5,
            parameters=9,
            by=lab.ada,
            now=lab.now + timedelta(seconds=after_s),
        )
    assert reports_of(lab.taker) == [(150, 10_000, 9), (70, 5_000, 9)]
    found = of_workload(lab.taker)
    assert found is not None
    assert (found.peak, found.over_all.tokens_per_s, found.over_all.mfu) == (None, Fraction(220, 15), None)
    Cluster.objects.update(model="H100")
    lab.cluster.refresh_from_db()
    assert throughput.set_peak(cluster=lab.cluster, tflops=0.5, by=lab.ops, reason="measured")
    assert not throughput.set_peak(cluster=lab.cluster, tflops=0.5, by=lab.ops, reason="measured")
    found = of_workload(Workload.objects.select_related("cluster").get(pk=lab.taker.pk))
    assert found is not None
    assert (found.peak, found.is_said) == (Fraction(TERA, 2), True)
    assert found.over_all.mfu == Fraction(6 * 9 * 220, 15) / (8 * Fraction(TERA, 2))
    assert LedgerEntry.objects.filter(verb="cluster.peak").count() == 1


def test_only_for_what_runs_and_only_by_its_people(lab: Laboratory) -> None:
    with pytest.raises(ConflictError, match="nothing of"):
        throughput.report(workload=lab.waits, tokens=1, seconds=1, parameters=1, by=lab.ada)
    with pytest.raises(NotAllowed):
        throughput.report(workload=lab.taker, tokens=1, seconds=1, parameters=1, by=lab.ben)
    with pytest.raises(NotAllowed):
        throughput.set_peak(cluster=lab.cluster, tflops=1, by=lab.mia)
    for value in (0, -1, float("nan"), float("inf"), 10**7):
        with pytest.raises(InputError) as refused:
            throughput.set_peak(cluster=lab.cluster, tflops=value, by=lab.ops)
        assert refused.value.field == "peak_tflops"


def test_what_agents_tell_is_kept_once_and_of_their_own_ranks(lab: Laboratory) -> None:
    run = Run.objects.get(workload=lab.taker, ended_at=None)
    rank = run.ranks.get()

    def said(age_s: int, tokens: int, *, node_id: int = rank.node_id, now_s: int = 0) -> Said:
        fact = RankFact(run.pk, 0, RankState.RUNNING, began_age_s=60, report_age_s=age_s, tokens=tokens, span_ms=9_000,
                        parameters=7)  # fmt: skip
        return Said(node_id, fact, lab.now + timedelta(seconds=now_s))

    throughput.keep([said(20, 500)])
    throughput.keep([said(31, 500, now_s=10)])  # the same again
    throughput.keep([said(5, 900, node_id=rank.node_id + 1)])  # of a node that has no part in it
    throughput.keep([said(2, 600, now_s=12)])
    assert reports_of(lab.taker) == [(500, 9_000, 7), (600, 9_000, 7)]


def test_by_the_api_and_on_the_page(lab: Laboratory, as_person: Any) -> None:
    ada = as_person(lab.ada)
    at = f"/api/v1/workloads/{lab.taker.code}/throughput/"
    assert ada.get(at).json() == {"workload": lab.taker.code, "peak_tflops": None, "over_all": None, "reports": []}
    body = {"tokens": 4_000_000, "seconds": 2, "parameters": 70_000_000_000}
    found = ada.post(at, body, content_type="application/json").json()
    assert (found["over_all"]["tokens_per_s"], found["over_all"]["mfu"]) == (2_000_000, None)
    assert "nobody has said of what model" in ada.get(f"/workloads/{lab.taker.code}/").content.decode()
    bad = ada.post(at, body | {"seconds": 0}, content_type="application/json")
    assert bad.status_code == 400
    assert [each["field"] for each in bad.json()["errors"]] == ["seconds"]
    peak = as_person(lab.ops).put(
        "/api/v1/clusters/north/peak/", {"peak_tflops": 250_000, "reason": "a rack"}, content_type="application/json"
    )
    assert peak.json() == {"cluster": "north", "model": "", "peak_tflops": 250_000, "is_said": True}
    assert ada.get(at).json()["over_all"]["mfu"] == 0.42
    page = ada.get(f"/workloads/{lab.taker.code}/").content.decode()
    assert "<b>42.00\N{NARROW NO-BREAK SPACE}%</b>" in page
    assert "6 × 70,000,000,000 × 2,000,000 / (8 × 250,000 × 10¹²)" in page
    assert "FLOPs utilization" not in as_person(lab.ben).get(f"/workloads/{lab.taker.code}/").content.decode()
