"""Tiresias on a plain number of GPUs: two-dimensional least attained service, discretised (Gu et al., NSDI 2019).

A job has attained the GPU-seconds that it has executed. Whoever has attained less than the first limit is in the first
queue, and so on; a running job that reaches its queue's limit moves to the tail of the next. At every event the queues
are served one after the other: whoever fits at its turn runs, whoever ran and does not fit is preempted, at no cost.
Then those that wait move behind those that run, in each queue. In one second completions come before arrivals, and
these before moves.

With a `promote_knob`, a job that has run, is not in the first queue, and has waited since its last run for that many
times as long as it had executed since it was promoted last, moves to the tail of the first queue, and both counts begin
anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil

from .counted import CountedJob, Stay, by_submission

LIMITS_GPU_S = (3_250, 7_200)
"""Where the first two of the three queues end, in GPU-seconds: the defaults of the authors' simulator."""


def tiresias(
    jobs: Sequence[CountedJob],
    capacity_milli: int,
    limits_gpu_s: Sequence[int] = LIMITS_GPU_S,
    promote_knob: Fraction = Fraction(0),
) -> list[Stay]:
    """A running job moves down in the very second in which it reaches its queue's limit; with a knob of 0 none up."""
    return _Queues(jobs, capacity_milli, limits_gpu_s, is_exact=True, promote_knob=promote_knob).run()


def tiresias_published(jobs: Sequence[CountedJob], capacity_milli: int) -> list[Stay]:
    """As the authors' simulator has it, whose figures are published.

    It looks for the next that moves down after (limit - executed seconds) / GPUs, rounded down: it takes seconds from
    GPU-seconds. So a gang is often found late, by the next arrival or completion.
    """
    return _Queues(jobs, capacity_milli, LIMITS_GPU_S, is_exact=False).run()


def srsf(jobs: Sequence[CountedJob], capacity_milli: int) -> list[Stay]:
    """Shortest remaining service first: at every event, whoever needs the fewest GPU-seconds more, of those that fit.

    It knows all durations: what Tiresias is compared with.
    """
    places = by_submission(jobs)
    left_s = [job.duration_s for job in jobs]
    stays = [Stay(-1, 0, 0)] * len(jobs)
    alive: list[int] = []
    running: list[int] = []
    arrived = now_s = 0
    while arrived < len(places) or alive:
        event_s = min(
            [jobs[place].submit_s for place in places[arrived : arrived + 1]]
            + [now_s + left_s[each] for each in running]
        )
        for place in running:
            left_s[place] -= event_s - now_s
            if not left_s[place]:
                stays[place] = stays[place]._replace(end_s=event_s)
        now_s = event_s
        while arrived < len(places) and jobs[places[arrived]].submit_s <= now_s:
            alive.append(places[arrived])
            arrived += 1
        alive = [place for place in alive if left_s[place] or place not in running]
        before, running, free_milli = running, [], capacity_milli
        for place in sorted(alive, key=lambda place: left_s[place] * jobs[place].size_milli):
            stay = stays[place]
            if jobs[place].size_milli <= free_milli:
                free_milli -= jobs[place].size_milli
                running.append(place)
                stays[place] = stay._replace(start_s=now_s) if stay.start_s < 0 else stay
            elif place in before:
                stays[place] = stay._replace(preemptions=stay.preemptions + 1)
    return stays


class _Line:
    """One queue: those that run, in their order, before those that wait, in theirs."""

    def __init__(self) -> None:
        self.running: dict[int, None] = {}
        self._waiting: dict[int, list[tuple[int, int]]] = {}  # by size: heaps of (place, turn)
        self._place: dict[int, int] = {}  # of those that wait; what else stands in the heaps has gone elsewhere
        self._first = self._last = 0  # places at both ends of those that wait

    def append(self, turn: int, size_milli: int) -> None:
        """One waits behind all others."""
        self._last += 1
        self._place[turn] = self._last
        heappush(self._waiting.setdefault(size_milli, []), (self._last, turn))

    def put_back(self, preempted: Sequence[tuple[int, int]]) -> None:
        """Those that ran, given as (turn, size), wait before all others: they stood before them."""
        self._first -= len(preempted)
        for offset, (turn, size_milli) in enumerate(preempted):
            self._place[turn] = self._first + offset
            heappush(self._waiting.setdefault(size_milli, []), (self._first + offset, turn))

    def take(self, free_milli: int) -> int | None:
        """The first that fits on so much, which waits no longer; None if none does."""
        fitting = []
        for size_milli, heap in self._waiting.items():
            while heap and self._place.get(heap[0][1]) != heap[0][0]:
                heappop(heap)
            if heap and size_milli <= free_milli:
                fitting.append((heap[0], heap))
        if not fitting:
            return None
        turn = heappop(min(fitting)[1])[1]
        del self._place[turn]
        return turn

    def leave(self, turn: int) -> None:
        """One that waits here goes elsewhere."""
        del self._place[turn]


class _Queues:
    """All queues. A job is known by its turn in the order of submission."""

    def __init__(
        self,
        jobs: Sequence[CountedJob],
        capacity_milli: int,
        limits_gpu_s: Sequence[int],
        *,
        is_exact: bool,
        promote_knob: Fraction = Fraction(0),
    ) -> None:
        self._places = by_submission(jobs)
        self._jobs = [jobs[place] for place in self._places]
        self._capacity_milli = capacity_milli
        self._limits_gpu_s = limits_gpu_s
        self._is_exact = is_exact
        self._lines = [_Line() for _ in range(len(limits_gpu_s) + 1)]
        self._queue = [0] * len(jobs)
        self._promote_knob = promote_knob
        self._executed_s = [0] * len(jobs)
        self._forgiven_s = [0] * len(jobs)  # of that, before it was promoted last
        self._promotions: list[tuple[int, int, int]] = []  # a heap of (instant, turn, preemptions until then)
        self._running: dict[int, int] = {}  # the turns of those that run, each with the instant it was last looked at
        self._first_s: dict[int, int] = {}
        self._end_s = [0] * len(jobs)
        self._preemptions = [0] * len(jobs)

    def run(self) -> list[Stay]:
        """From the first arrival to the last completion."""
        jobs, arrived = self._jobs, 0
        while arrived < len(jobs) or self._running:
            event_s = min(
                [job.submit_s for job in jobs[arrived : arrived + 1]]
                + [seen_s + jobs[turn].duration_s - self._executed_s[turn] for turn, seen_s in self._running.items()]
            )
            moves_s = [at_s for turn in self._running if (at_s := self._moves_at_s(turn)) is not None]
            now_s = min([event_s, *moves_s, *self._next_promotion_s()])
            self._execute(now_s)
            if now_s == event_s:
                self._complete(now_s)
                while arrived < len(jobs) and jobs[arrived].submit_s <= now_s:
                    self._lines[0].append(arrived, jobs[arrived].size_milli)
                    arrived += 1
            self._promote(now_s)
            self._refill(now_s, self._move_down())
        stays = [Stay(0, 0, 0)] * len(jobs)
        for turn, place in enumerate(self._places):
            stays[place] = Stay(self._first_s[turn], self._end_s[turn], self._preemptions[turn])
        return stays

    def _moves_at_s(self, turn: int) -> int | None:
        """When it is to be looked at whether a running job moves down; None in the last queue."""
        queue = self._queue[turn]
        if queue == len(self._limits_gpu_s):
            return None
        size_milli, executed_s = self._jobs[turn].size_milli, self._executed_s[turn] - self._forgiven_s[turn]
        if self._is_exact:
            left_s = -(-(self._limits_gpu_s[queue] * 1_000 - executed_s * size_milli) // size_milli)
        else:
            left_s = (self._limits_gpu_s[queue] - executed_s) * 1_000 // size_milli
        return self._running[turn] + left_s

    def _execute(self, now_s: int) -> None:
        for turn, seen_s in self._running.items():
            self._executed_s[turn] += now_s - seen_s
            self._running[turn] = now_s

    def _complete(self, now_s: int) -> None:
        for turn in [each for each in self._running if self._executed_s[each] >= self._jobs[each].duration_s]:
            del self._running[turn]
            del self._lines[self._queue[turn]].running[turn]
            self._end_s[turn] = now_s

    def _move_down(self) -> list[list[int]]:
        """By queue, those that come into it at its tail."""
        arriving: list[list[int]] = [[] for _ in self._lines]
        for turn in sorted(self._running):
            queue = self._queue[turn]
            attained_milli_s = (self._executed_s[turn] - self._forgiven_s[turn]) * self._jobs[turn].size_milli
            if queue < len(self._limits_gpu_s) and attained_milli_s >= self._limits_gpu_s[queue] * 1_000:
                del self._lines[queue].running[turn]
                self._queue[turn] += 1
                arriving[queue + 1].append(turn)
        return arriving

    def _refill(self, now_s: int, arriving: Sequence[Sequence[int]]) -> None:
        """Serve the queues: those that run in them, those that wait, and those that have just come in."""
        free_milli = self._capacity_milli
        for line, late in zip(self._lines, arriving, strict=True):
            free_milli, before = self._keep(line, list(line.running), free_milli, now_s)
            while free_milli and (turn := line.take(free_milli)) is not None:
                free_milli -= self._jobs[turn].size_milli
                line.running[turn] = None
                self._running[turn] = now_s
                self._first_s.setdefault(turn, now_s)
            line.put_back(before)
            free_milli, behind = self._keep(line, late, free_milli, now_s)
            for turn, size_milli in behind:
                line.append(turn, size_milli)

    def _next_promotion_s(self) -> list[int]:
        """When the next one that waits moves up, if any may."""
        while self._promotions and not self._still_waits(*self._promotions[0][1:]):
            heappop(self._promotions)
        return [at_s for at_s, *_ in self._promotions[:1]]

    def _still_waits(self, turn: int, preemptions: int) -> bool:
        """Whether a job has waited since it was preempted for that time."""
        has_ended = self._end_s[turn] > 0
        return not has_ended and turn not in self._running and self._preemptions[turn] == preemptions

    def _promote(self, now_s: int) -> None:
        """Those whose time has come stand at the tail of the first queue."""
        while self._next_promotion_s() and self._promotions[0][0] <= now_s:
            _, turn, _ = heappop(self._promotions)
            self._lines[self._queue[turn]].leave(turn)
            self._queue[turn] = 0
            self._forgiven_s[turn] = self._executed_s[turn]
            self._lines[0].append(turn, self._jobs[turn].size_milli)

    def _await_promotion(self, turn: int, now_s: int) -> None:
        """It waits from now on, and has executed."""
        if self._promote_knob and self._queue[turn]:
            waits_s = ceil(self._promote_knob * (self._executed_s[turn] - self._forgiven_s[turn]))
            heappush(self._promotions, (now_s + waits_s, turn, self._preemptions[turn]))

    def _keep(
        self, line: _Line, turns: Sequence[int], free_milli: int, now_s: int
    ) -> tuple[int, list[tuple[int, int]]]:
        """Let those go on that fit, in this order; what is free then, and who was preempted, with its size."""
        preempted = []
        for turn in turns:
            size_milli = self._jobs[turn].size_milli
            if size_milli <= free_milli:
                free_milli -= size_milli
                line.running[turn] = None
            else:
                line.running.pop(turn, None)
                del self._running[turn]
                self._preemptions[turn] += 1
                self._await_promotion(turn, now_s)
                preempted.append((turn, size_milli))
        return free_milli, preempted
