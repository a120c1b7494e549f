"""How busy the devices of each rank are: by NVML, and where there is none by the processor time of its processes.

Of a GPU that ranks share, each has what its own processes did there, as far as the driver tells processes apart; where
it does not, that is not known. Who has a part of a GPU is at most as busy as all of its part.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.executors.base import WHOLE_MILLI, UtilizationSample
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
        parts = self._parts([rank for rank in running.values() if rank.device_milli < WHOLE_MILLI])
        for key, rank in running.items():
            stretch = self._going.get(key)
            if stretch is None:
                self._going[key] = Stretch(now_s, cpu_s(rank))
                self._activity(rank, parts)  # so that the next look counts from now
                continue
            for busy, memory in self._activity(rank, parts):
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
        most = seconds * len(rank.devices) * rank.device_milli
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

    def _activity(
        self, rank: Rank, parts: Mapping[tuple[int, int], tuple[float, float | None]]
    ) -> list[tuple[float, float | None]]:
        """How busy each of its devices, or its part of one, is, and how full its memory; nothing where nobody says."""
        if self._gpus is None:
            return []
        if rank.device_milli < WHOLE_MILLI:
            return [parts[rank.key]] if rank.key in parts else []
        return [seen for index in rank.devices if (seen := self._gpus.activity(index)) is not None]

    def _parts(self, ranks: Sequence[Rank]) -> dict[tuple[int, int], tuple[float, float | None]]:
        """The same of those that have a part of a GPU, by their names, as parts of their part."""
        found: dict[tuple[int, int], tuple[float, float | None]] = {}
        if self._gpus is None:
            return found
        by_device: dict[int, list[Rank]] = {}
        for rank in ranks:
            by_device.setdefault(rank.devices[0], []).append(rank)
        for index, sharing in by_device.items():
            if len(sharing) == 1:  # all that is done there is its own
                found |= {rank.key: _of_part(rank, *seen) for rank in sharing if (seen := self._gpus.activity(index))}
            else:
                found |= self._told_apart(self._gpus, index, sharing)
        return found

    def _told_apart(
        self, gpus: Gpus, index: int, sharing: Sequence[Rank]
    ) -> dict[tuple[int, int], tuple[float, float | None]]:
        """Of ranks that share a GPU, what the processes of each do there.

        Nothing where somebody else is busy there: under CUDA's multi-process service that may be its server, for them.
        """
        uses = gpus.processes(index)
        trees = {rank.key: set(descendants(rank.record.get("minder", 0))) for rank in sharing}
        known = set().union(*trees.values())
        if uses is None or any(use.busy for pid, use in uses.items() if pid not in known):
            return {}
        all_mib = gpus.memory_mib(index)
        found = {}
        for rank in sharing:
            own = [use for pid, use in uses.items() if pid in trees[rank.key]]
            sizes = [use.memory_mib for use in own if use.memory_mib is not None]
            memory = sum(sizes) / all_mib if all_mib and len(sizes) == len(own) else None
            found[rank.key] = _of_part(rank, sum(use.busy for use in own), memory)
        return found


def _of_part(rank: Rank, busy: float, memory: float | None) -> tuple[float, float | None]:
    """Activity and memory of a whole GPU as those of a rank's part of it, of which it is never more than all."""
    part = rank.device_milli / WHOLE_MILLI
    return min(1.0, busy / part), None if memory is None else min(1.0, memory / part)


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
