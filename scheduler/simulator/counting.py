"""Plain schedulers on a plain number of GPUs: no nodes, no budgets, no cost of preemption. Others publish figures so.

A job runs when enough GPUs are free, wherever they are. In one second completions come before arrivals, then the
scheduler looks at what waits. Every order ends in the order of submission, then that of the file.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any, Protocol

from scheduler.engine import Predictor

from .attained import srsf, tiresias, tiresias_published
from .counted import CannotReplay, CountedJob, Stay, by_submission

Key = Callable[[int], tuple[Any, ...]]
"""From a job's place in the trace to its place in some order."""


def replay(
    jobs: Sequence[CountedJob], capacity_milli: int, scheduler: str, promote_knob: Fraction = Fraction(0)
) -> list[Stay]:
    """What becomes of every job, in the order of `jobs`.

    Args:
        jobs: in any order; those of one second are submitted in the order given.
        capacity_milli: thousandths of a GPU that there are.
        scheduler: one of `COUNTING_SCHEDULERS`.
        promote_knob: for "tiresias", which knows promotion alone (attained.py); 0 is none.

    Raises:
        CannotReplay: a job could never start, or the scheduler goes by estimates and a job has none.
    """
    for job in jobs:
        if job.size_milli > capacity_milli:
            asked, there_are = job.size_milli / 1_000, capacity_milli / 1_000
            raise CannotReplay(job, f"asks for {asked:g} GPUs, there are {there_are:g}")
    if scheduler == "tiresias":
        return tiresias(jobs, capacity_milli, promote_knob=promote_knob)
    return COUNTING_SCHEDULERS[scheduler](jobs, capacity_milli)


# --- the schedulers ---------------------------------------------------------------------------------------------------


def fifo(jobs: Sequence[CountedJob], capacity_milli: int) -> list[Stay]:
    """First come, first served: nobody passes the head of the line."""
    stays = [Stay(0, 0, 0)] * len(jobs)
    running: list[tuple[int, int]] = []  # (end, size)
    free_milli = capacity_milli
    now_s = 0
    for place in by_submission(jobs):
        job = jobs[place]
        now_s = max(now_s, job.submit_s)
        while running and (running[0][0] <= now_s or free_milli < job.size_milli):
            end_s, size_milli = heappop(running)
            now_s = max(now_s, end_s)
            free_milli += size_milli
        free_milli -= job.size_milli
        heappush(running, (now_s + job.duration_s, job.size_milli))
        stays[place] = Stay(now_s, now_s + job.duration_s, 0)
    return stays


def fifo_skip(jobs: Sequence[CountedJob], capacity_milli: int) -> list[Stay]:
    """First come, first served, but whoever does not fit is passed by those who do."""
    turns = _turns(jobs)
    return _without_preemption(jobs, capacity_milli, _BySize(lambda place: (turns[place],)))


def sjf(jobs: Sequence[CountedJob], capacity_milli: int) -> list[Stay]:
    """The shortest of those that fit first, by true duration; equally short ones by id. What runs goes on."""
    return _without_preemption(jobs, capacity_milli, _BySize(lambda place: (jobs[place].duration_s, jobs[place].id)))


def sjf_predicted(jobs: Sequence[CountedJob], capacity_milli: int) -> list[Stay]:
    """The shortest of those that fit first, by what those like it took that had ended when it came (`Predictor`)."""
    predictor = Predictor()

    def key(place: int) -> tuple[Any, ...]:
        return predictor.predict(jobs[place].group, jobs[place].team), jobs[place].id

    def learn(place: int) -> None:
        predictor.learn(jobs[place].group, jobs[place].team, jobs[place].duration_s)

    return _without_preemption(jobs, capacity_milli, _BySize(key), learn)


def sjf_requested(jobs: Sequence[CountedJob], capacity_milli: int) -> list[Stay]:
    """The shortest by the time that its owner asked for, and nobody passes it: for logs that hold estimates.

    Raises:
        CannotReplay: a job has no estimate.
    """
    for job in jobs:
        if job.estimate_s is None:
            raise CannotReplay(job, "has no requested time to go by")
    turns = _turns(jobs)
    return _without_preemption(jobs, capacity_milli, _Line(lambda place: (jobs[place].estimate_s, turns[place])))


def srtf(jobs: Sequence[CountedJob], capacity_milli: int) -> list[Stay]:
    """At every event all that could run, by the time they have left (a stable sort): whoever fits at its turn runs.

    Whoever ran and does not fit any more is preempted, at no cost.
    """
    return _Preempting(jobs, capacity_milli).run()


COUNTING_SCHEDULERS: dict[str, Callable[[Sequence[CountedJob], int], list[Stay]]] = {
    "fifo": fifo,
    "fifo-skip": fifo_skip,
    "sjf": sjf,
    "sjf-predicted": sjf_predicted,
    "sjf-requested": sjf_requested,
    "srtf": srtf,
    "srsf": srsf,
    "tiresias": tiresias,
    "tiresias-published": tiresias_published,
}


def _turns(jobs: Sequence[CountedJob]) -> list[int]:
    """Each job's turn in the order of submission, by place."""
    turns = [0] * len(jobs)
    for turn, place in enumerate(by_submission(jobs)):
        turns[place] = turn
    return turns


# --- without preemption -----------------------------------------------------------------------------------------------


class _Waiting(Protocol):
    """Jobs that wait in some order."""

    def add(self, place: int, size_milli: int) -> None:
        """One more waits."""

    def take(self, free_milli: int) -> int | None:
        """The next that may start on so much, which then waits no longer; None if none may."""


class _Line:
    """Strict: only the first of all is ever next."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._heap: list[tuple[tuple[Any, ...], int, int]] = []

    def add(self, place: int, size_milli: int) -> None:
        heappush(self._heap, (self._key(place), place, size_milli))

    def take(self, free_milli: int) -> int | None:
        if self._heap and self._heap[0][2] <= free_milli:
            return heappop(self._heap)[1]
        return None


class _BySize:
    """Skipping: the first of all that fit. Each size has a heap of its own, so that looking at the heads is enough.

    Whoever was passed can't fit later in the same pass, as the free only become fewer.
    """

    def __init__(self, key: Key) -> None:
        self._key = key
        self._heaps: dict[int, list[tuple[tuple[Any, ...], int]]] = {}

    def add(self, place: int, size_milli: int) -> None:
        heappush(self._heaps.setdefault(size_milli, []), (self._key(place), place))

    def take(self, free_milli: int) -> int | None:
        heads = [(heap[0], heap) for size_milli, heap in self._heaps.items() if heap and size_milli <= free_milli]
        return heappop(min(heads)[1])[1] if heads else None


def _without_preemption(
    jobs: Sequence[CountedJob],
    capacity_milli: int,
    waiting: _Waiting,
    on_end: Callable[[int], None] = lambda place: None,
) -> list[Stay]:
    """At every event, start whatever `waiting` hands out; `on_end` is told the places of those that end."""
    stays = [Stay(0, 0, 0)] * len(jobs)
    arrivals = by_submission(jobs)
    running: list[tuple[int, int]] = []  # (end, place)
    free_milli = capacity_milli
    arrived = 0
    while arrived < len(arrivals) or running:
        now_s = min(
            [jobs[place].submit_s for place in arrivals[arrived : arrived + 1]] + [end_s for end_s, _ in running[:1]]
        )
        while running and running[0][0] <= now_s:
            _, place = heappop(running)
            free_milli += jobs[place].size_milli
            on_end(place)
        while arrived < len(arrivals) and jobs[arrivals[arrived]].submit_s <= now_s:
            waiting.add(arrivals[arrived], jobs[arrivals[arrived]].size_milli)
            arrived += 1
        while free_milli and (taken := waiting.take(free_milli)) is not None:
            job = jobs[taken]
            free_milli -= job.size_milli
            heappush(running, (now_s + job.duration_s, taken))
            stays[taken] = Stay(now_s, now_s + job.duration_s, 0)
    return stays


# --- with preemption --------------------------------------------------------------------------------------------------


class _Preempting:
    """Shortest remaining time first.

    `_running` is in order of (end, turn), which at any instant is that of (time left, turn). What waits stands in heaps
    by size, in order of (time left, turn): time stands still for it.
    """

    def __init__(self, jobs: Sequence[CountedJob], capacity_milli: int) -> None:
        self._capacity_milli = capacity_milli
        self._arrivals = by_submission(jobs)
        self._jobs = [jobs[place] for place in self._arrivals]  # by turn, from here on
        self._running: list[tuple[int, int]] = []
        self._waiting: dict[int, list[tuple[int, int]]] = {}
        self._first_s: dict[int, int] = {}
        self._end_s = [0] * len(jobs)
        self._preemptions = [0] * len(jobs)

    def run(self) -> list[Stay]:
        """From the first arrival to the last completion."""
        jobs = self._jobs
        arrived = 0
        while arrived < len(jobs) or self._running:
            now_s = min(
                [job.submit_s for job in jobs[arrived : arrived + 1]] + [end_s for end_s, _ in self._running[:1]]
            )
            self._complete(now_s)
            while arrived < len(jobs) and jobs[arrived].submit_s <= now_s:
                heappush(self._waiting.setdefault(jobs[arrived].size_milli, []), (jobs[arrived].duration_s, arrived))
                arrived += 1
            self._refill(now_s)
        stays = [Stay(0, 0, 0)] * len(jobs)
        for turn, place in enumerate(self._arrivals):
            stays[place] = Stay(self._first_s[turn], self._end_s[turn], self._preemptions[turn])
        return stays

    def _complete(self, now_s: int) -> None:
        done = 0
        while done < len(self._running) and self._running[done][0] <= now_s:
            self._end_s[self._running[done][1]] = now_s
            done += 1
        del self._running[:done]

    def _refill(self, now_s: int) -> None:
        """Merge what runs with what waits, by time left; keep or start what fits, preempt the rest of what runs."""
        heads = sorted((heap[0], size_milli) for size_milli, heap in self._waiting.items() if heap)
        free_milli = self._capacity_milli
        chosen: list[tuple[int, int]] = []
        for end_s, turn in self._running:
            if heads and heads[0][0] < (end_s - now_s, turn):
                free_milli = self._start_before((end_s - now_s, turn), now_s, heads, free_milli, chosen)
            size_milli = self._jobs[turn].size_milli
            if size_milli <= free_milli:
                free_milli -= size_milli
                chosen.append((end_s, turn))
            else:
                self._preemptions[turn] += 1
                heappush(self._waiting[size_milli], (end_s - now_s, turn))
        self._start_before(None, now_s, heads, free_milli, chosen)
        self._running = chosen

    def _start_before(
        self,
        limit: tuple[int, int] | None,
        now_s: int,
        heads: list[tuple[tuple[int, int], int]],
        free_milli: int,
        chosen: list[tuple[int, int]],
    ) -> int:
        """Start what fits and comes before `limit` (time left, turn); what is free then.

        `heads` are the firsts of the heaps, in order, without those of sizes that do not fit any more.
        """
        while heads and (limit is None or heads[0][0] < limit):
            (left_s, turn), size_milli = heads.pop(0)
            if size_milli > free_milli:
                continue
            heap = self._waiting[size_milli]
            heappop(heap)
            if heap:
                insort(heads, (heap[0], size_milli))
            free_milli -= size_milli
            self._first_s.setdefault(turn, now_s)
            chosen.append((now_s + left_s, turn))
        return free_milli
