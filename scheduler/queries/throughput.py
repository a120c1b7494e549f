"""The throughput that a workload's runs have reported, and their MFU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from budgets.models import Cluster
from scheduler.flops import mfu, peak_flops
from scheduler.models import WHOLE_DEVICE_MILLI, DevicePeak, ThroughputReport, Workload

GIGA = 10**9
SHOWN = 1_000
"""So many reports are shown, the latest."""


@dataclass(frozen=True, slots=True)
class Reported:
    """One report, and what of the devices' peak that was; None where the peak is not known."""

    run: int
    at: datetime
    tokens: int
    seconds: Fraction
    parameters: int
    devices: Fraction
    mfu: Fraction | None

    @property
    def tokens_per_s(self) -> Fraction:
        """On all devices together."""
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a workload has reported, the latest last; `over_all` is of the last run, with its last model."""

    peak: Fraction | None
    is_said: bool
    reports: Sequence[Reported]
    over_all: Reported


def peak_of(cluster: Cluster) -> tuple[Fraction | None, bool]:
    """Operations a second of one device at most, and whether an operator has said so rather than the table."""
    said = DevicePeak.objects.filter(cluster=cluster).values_list("gflops", flat=True).first()
    if said is not None:
        return Fraction(said * GIGA), True
    return (peak_flops(cluster.model) if cluster.unit == Cluster.Unit.GPU else None), False


def of_workload(workload: Workload) -> Throughput | None:
    """None where it has reported nothing. Two queries at most."""
    rows = ThroughputReport.objects.filter(run__workload=workload).order_by("-run__number", "-at")
    found = list(rows.values_list("run__number", "at", "tokens", "span_ms", "parameters", "run__size_milli")[:SHOWN])
    if not found:
        return None
    peak, is_said = peak_of(workload.cluster)
    reports = [_reported(row, peak) for row in reversed(found)]
    last = reports[-1]
    alike = [each for each in reports if (each.run, each.parameters) == (last.run, last.parameters)]
    tokens, seconds = sum(each.tokens for each in alike), sum((each.seconds for each in alike), Fraction(0))
    over_all = Reported(
        last.run,
        last.at,
        tokens,
        seconds,
        last.parameters,
        last.devices,
        _mfu(last.parameters, Fraction(tokens) / seconds, last.devices, peak),
    )
    return Throughput(peak, is_said, reports, over_all)


def _reported(row: tuple[int, datetime, int, int, int, int], peak: Fraction | None) -> Reported:
    run, at, tokens, span_ms, parameters, size_milli = row
    seconds, devices = Fraction(span_ms, 1_000), Fraction(size_milli, WHOLE_DEVICE_MILLI)
    return Reported(run, at, tokens, seconds, parameters, devices, _mfu(parameters, tokens / seconds, devices, peak))


def _mfu(parameters: int, tokens_per_s: Fraction, devices: Fraction, peak: Fraction | None) -> Fraction | None:
    if peak is None:
        return None
    return mfu(parameters=parameters, tokens_per_s=tokens_per_s, devices=devices, peak=peak)
