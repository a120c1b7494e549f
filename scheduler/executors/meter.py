"""How busy the devices of each rank are: by NVML, and where there is none by the processor time of its processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.executors.base import UtilizationSample
from scheduler.executors.gpus import Gpus
from scheduler.executors.minder import boottime_s, descendants
from scheduler.executors.ranks import Rank

EVERY_S = 60
"""A sample is about so long: shorter ones would say the same with more rows."""
KEPT_MAX = 500
"""While the portal is away; older ones are dropped first."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Stretch:
    """What is measured of one rank just now."""

    from_s: float
    cpu_s: float
    busy: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sample:
    """A finished one. Instants are seconds of CLOCK_BOOTTIME."""

    run: int
    rank: int
    busy_milli_s: int
    memory_milli: int | None
    from_s: float
    until_s: float


class Meter:
    """Measures at each heartbeat."""

    def __init__(self, gpus: Gpus | None, every_s: int = EVERY_S) -> None:
        self._gpus, self._every_s = gpus, every_s
        self._going: dict[tuple[int, int], Stretch] = {}
        self._samples: list[Sample] = []

    def look(self, ranks: Iterable[Rank]) -> None:
        """Take one look at each rank that runs."""
        now_s = boottime_s()
        running = {rank.key: rank for rank in ranks if rank.devices and rank.record.get("state") == "running"}
        for key in set(self._going) - set(running):
            del self._going[key]  # what was since its last sample is not known
        for key, rank in running.items():
            stretch = self._going.get(key)
            if stretch is None:
                self._going[key] = Stretch(now_s, cpu_s(rank))
                self._activity(rank)  # so that the next look counts from now
                continue
            for busy, memory in self._activity(rank):
                stretch.busy.append(busy)
                if memory is not None:
                    stretch.memory.append(memory)
            if now_s - stretch.from_s >= self._every_s:
                self._finish(rank, stretch, now_s)
        del self._samples[:-KEPT_MAX]

    def samples(self) -> list[UtilizationSample]:
        """What the portal does not know yet."""
        now_s = boottime_s()
        return [
            UtilizationSample(
                run_id=str(each.run),
                rank_index=each.rank,
                busy_milli_s=each.busy_milli_s,
                memory_milli=each.memory_milli,
                from_age_s=int(now_s - each.from_s),
                until_age_s=int(now_s - each.until_s),
            )
            for each in self._samples
        ]

    def told(self, count: int) -> None:
        """The portal knows the first so many."""
        del self._samples[:count]

    def _finish(self, rank: Rank, stretch: Stretch, now_s: float) -> None:
        # Whole seconds, as the sample says them: never more activity than devices times its length.
        seconds = int(now_s - stretch.from_s)
        most = seconds * len(rank.devices) * 1_000
        memory = None
        self._going[rank.key] = Stretch(now_s, cpu_s(rank))
        if self._gpus is not None:
            if not stretch.busy:
                return  # no GPU answered: that is not known, which is not the same as idle
            busy_milli_s = int(sum(stretch.busy) / len(stretch.busy) * most)
            memory = min(int(max(stretch.memory) * 1_000), 1_000) if stretch.memory else None
        else:
            busy_milli_s = int((cpu_s(rank) - stretch.cpu_s) * 1_000)
        busy_milli_s = min(max(busy_milli_s, 0), most)
        self._samples.append(Sample(*rank.key, busy_milli_s, memory, now_s - seconds, now_s))

    def _activity(self, rank: Rank) -> list[tuple[float, float | None]]:
        if self._gpus is None:
            return []
        return [seen for index in rank.devices if (seen := self._gpus.activity(index)) is not None]


def cpu_s(rank: Rank) -> float:
    """Processor time of a rank's processes, and of those of them that have ended and been waited for."""
    total = 0
    for pid in descendants(rank.record.get("minder", 0)):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(each) for each in fields[11:15])
    return total / TICKS
