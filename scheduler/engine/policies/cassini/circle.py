"""CASSINI's unified circle (Rajasekaran et al., NSDI 2024): how well workloads share one link, and shifted by how much.

Time is rolled around a circle on which every workload of a link repeats a whole number of times. Where their demands
together exceed the link, somebody's iteration becomes longer. The score of a link is 1 less that excess as a part of
what the link could carry: 1 where nobody is in another's way, and below 0 where the link is asked for more than twice.

Nothing here is put into bins. Demands are steps, so that the excess, as one workload is shifted along the others, is a
line with kinks where an edge of its own meets one of theirs; `_Line` walks along the kinks. The circle itself may be
very long (periods of 997 and 1,009 ms meet again after 17 minutes), but what two workloads have in common hangs on
their shift modulo the greatest common divisor of their periods alone, and follows from counting. So the score of two is
exact, and so is their best shift, to the millisecond. Of more, one is always laid against the rest like that; a rest
whose own circle has more than `MOST_PIECES` pieces is sampled evenly in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise, product
from math import gcd, inf, lcm
from typing import NamedTuple

from .profiles import Phase, Profile

MOST_PIECES = 500
"""So many pieces of the rest's circle are looked at; of a longer one as many, spread evenly over it."""
SEARCH_PIECES = 48
"""Likewise while shifts of three or more are looked for: where circles are longer, shifts hardly matter."""
STEPS = 72
"""Five degrees each, the paper's choice; only where what is exact would be more."""
MOST_KINKS = 500
"""So many shifts of one beside others are tried."""
SAME = 1e-12
"""Scores that differ by less are equal."""


class Fit(NamedTuple):
    """How workloads share a link at best.

    Attributes:
        score: 1 is without any excess.
        shifts_ms: by how much each is shifted, from 0 to below its period; the first by 0.
    """

    score: float
    shifts_ms: tuple[int, ...]


class Neighbour(NamedTuple):
    """A workload that is on a link already, and by how much it is shifted."""

    profile: Profile
    shift_ms: int


class Place(NamedTuple):
    """Where one is best beside others that stay.

    Attributes:
        score: the mean over the links that it shares; 1 where it shares none.
        shift_ms: by how much it is shifted, the least of equals.
        scores: by link.
    """

    score: float
    shift_ms: int
    scores: Mapping[str, float]


class SharedLink(NamedTuple):
    """A link, and who is on it already."""

    capacity_mbps: int
    neighbours: Sequence[Neighbour]


def perimeter_ms(profiles: Sequence[Profile]) -> int:
    """After so long all of them begin together again."""
    return lcm(*(profile.period_ms for profile in profiles))


def degrees(shift_ms: int, profiles: Sequence[Profile]) -> float:
    """A shift as an angle on the circle of these."""
    return 360 * shift_ms / perimeter_ms(profiles)


def score(profiles: Sequence[Profile], shifts_ms: Sequence[int], capacity_mbps: int) -> float:
    """How well these share a link at given shifts.

    Raises:
        ValueError: a link that carries nothing, or another number of shifts than of profiles.
    """
    _check(capacity_mbps)
    if len(shifts_ms) != len(profiles):
        raise ValueError(f"{len(profiles)} profiles have {len(shifts_ms)} shifts")
    if not profiles:
        return 1.0
    jobs = [_Job(profile, shift_ms) for profile, shift_ms in zip(profiles, shifts_ms, strict=True)]
    last = jobs.pop(_laid_last(profiles, range(len(profiles))))
    line = _Line(jobs, last.profile, capacity_mbps)
    return line.score_of(line.excess_at(last.shift_ms))


def best_fit(profiles: Sequence[Profile], capacity_mbps: int) -> Fit:
    """The shifts at which these share a link best: exact for two.

    The first is not shifted. For three it is exact too, where their circle has at most `SEARCH_PIECES` pieces. Else,
    and of more, it is the best that a few starts lead to, from which each in turn is shifted for as long as that helps.

    Raises:
        ValueError: a link that carries nothing.
    """
    _check(capacity_mbps)
    return _best_fit(tuple(profiles), capacity_mbps)


@lru_cache(maxsize=4_096)
def _best_fit(profiles: tuple[Profile, ...], capacity_mbps: int) -> Fit:
    if len(profiles) < 2:
        return Fit(score(profiles, [0] * len(profiles), capacity_mbps), (0,) * len(profiles))
    if len(profiles) == 2:
        line = _Line([_Job(profiles[0], 0)], profiles[1], capacity_mbps)
        excess, shift_ms = line.least()
        return Fit(line.score_of(excess), (0, shift_ms))
    return _Search(profiles, capacity_mbps).best()


def place_beside(profile: Profile, links: Mapping[str, SharedLink]) -> Place:
    """The shift at which one shares its links best with others that run already and are not shifted any more.

    The excess of every link is a line with kinks, and so is their mean: it is least at a kink. Where these are more
    than `MOST_KINKS`, as many, spread evenly, are tried.

    Raises:
        ValueError: a link that carries nothing.
    """
    lines: dict[str, _Line] = {}
    tried = {0}
    for link, (capacity_mbps, neighbours) in sorted(links.items()):
        _check(capacity_mbps)
        if neighbours:
            jobs = [_Job(each.profile, each.shift_ms) for each in neighbours]
            lines[link] = line = _Line(jobs, profile, capacity_mbps)
            kinks = [bend for bend, steeper in line.bends().items() if steeper > 0]
            tried.update(kink + turn for kink in kinks for turn in range(0, profile.period_ms, line.turn_ms))
    if not lines:
        return Place(1.0, 0, {})
    shifts_ms = sorted(tried)
    if len(shifts_ms) > MOST_KINKS:
        shifts_ms = [shifts_ms[len(shifts_ms) * index // MOST_KINKS] for index in range(MOST_KINKS)]

    def mean(shift_ms: int) -> float:
        return sum(line.score_of(line.excess_at(shift_ms)) for line in lines.values()) / len(lines)

    best_ms = max(shifts_ms, key=lambda shift_ms: (round(mean(shift_ms) / SAME), -shift_ms))
    scores = {link: line.score_of(line.excess_at(best_ms)) for link, line in lines.items()}
    return Place(sum(scores.values()) / len(scores), best_ms, scores)


def _check(capacity_mbps: int) -> None:
    if capacity_mbps < 1:
        raise ValueError(f"a link must carry something, but this one carries {capacity_mbps} Mbit/s")


class _Job(NamedTuple):
    profile: Profile
    shift_ms: int


def _laid_last(profiles: Sequence[Profile], among: Sequence[int]) -> int:
    """Which of some is laid against the rest: the one without which the circle is shortest; the last of equals."""

    def rest_ms(index: int) -> int:
        return lcm(*(profile.period_ms for each, profile in enumerate(profiles) if each != index))

    return min(among, key=lambda index: (rest_ms(index), -index))


class _Line:
    """The excess of a link as one workload is shifted along the rest."""

    def __init__(
        self, rest: Sequence[_Job], moved: Profile, capacity_mbps: int, most_pieces: int = MOST_PIECES
    ) -> None:
        """The rest stays where it is; of its circle no more pieces are looked at than `most_pieces`."""
        self._capacity_mbps = capacity_mbps
        around_ms = lcm(*(job.profile.period_ms for job in rest))
        self.turn_ms = turn_ms = gcd(around_ms, moved.period_ms)
        """After so much shift everything is as before."""
        self._repeats = moved.period_ms // turn_ms
        pieces, self._looked_at_ms = _pieces(rest, around_ms, turn_ms, most_pieces)
        self._base = 0
        self._arcs: list[tuple[int, int, int, int]] = []
        own = [(phase.mbps, phase.from_ms, *divmod(phase.until_ms - phase.from_ms, turn_ms)) for phase in moved.phases]
        for from_ms, until_ms, mbps in pieces:
            room_mbps = capacity_mbps - mbps
            turns, rest_ms = divmod(until_ms - from_ms, turn_ms)
            already = 0
            if room_mbps < 0:
                already = -room_mbps
                self._base += already * (until_ms - from_ms) * self._repeats
            for own_mbps, own_from_ms, own_turns, own_rest_ms in own:
                if own_mbps <= room_mbps:
                    continue
                # what a piece of the rest and a phase have in common: whole turns always, what is left by the shift
                weight = own_mbps - room_mbps - already
                if turns or own_turns:
                    always = turns * own_turns * turn_ms + turns * own_rest_ms + own_turns * rest_ms
                    self._base += weight * always
                if rest_ms and own_rest_ms:
                    meets_ms = (from_ms - own_from_ms - own_rest_ms) % turn_ms
                    self._arcs.append((weight, meets_ms, rest_ms, own_rest_ms))

    def excess_at(self, shift_ms: int) -> int:
        """Over the whole circle, or what of it is looked at, in kbit."""
        total = self._base
        turn_ms = self.turn_ms
        for weight, meets_ms, one_ms, other_ms in self._arcs:
            into_ms = (shift_ms - meets_ms) % turn_ms
            both_ms = one_ms + other_ms
            while into_ms < both_ms:  # at most twice around
                total += weight * min(into_ms, one_ms, other_ms, both_ms - into_ms)
                into_ms += turn_ms
        return total

    def score_of(self, excess: int) -> float:
        """1 less the excess as a part of what the link could carry."""
        return 1 - excess / (self._looked_at_ms * self._repeats * self._capacity_mbps)

    def bends(self) -> dict[int, int]:
        """By how much the line of the excess turns upwards, by shift; elsewhere it is straight."""
        bends: defaultdict[int, int] = defaultdict(int)
        turn_ms = self.turn_ms
        for weight, meets_ms, one_ms, other_ms in self._arcs:
            bends[meets_ms] += weight
            bends[(meets_ms + one_ms) % turn_ms] -= weight
            bends[(meets_ms + other_ms) % turn_ms] -= weight
            bends[(meets_ms + one_ms + other_ms) % turn_ms] += weight
        return bends

    def least(self) -> tuple[int, int]:
        """The least excess, and the least shift, from 0, that has it."""
        bends, turn_ms = self.bends(), self.turn_ms
        excess = self.excess_at(0)
        found = excess, 0
        kinks = sorted(bends)
        if not kinks:
            return found
        # the line comes back to where it began: that says how steep it is at first
        steepness = rise = 0
        for kink, after in pairwise([*kinks, turn_ms]):
            steepness += bends[kink]
            rise += steepness * (after - kink)
        steepness = -rise // turn_ms
        at_ms = 0
        for kink in kinks:
            excess += steepness * (kink - at_ms)
            at_ms = kink
            steepness += bends[kink]
            if excess < found[0]:
                found = excess, at_ms
        return found


def _pieces(rest: Sequence[_Job], around_ms: int, turn_ms: int, most: int) -> tuple[Sequence[Phase], int]:
    """What the rest sends together, piece by piece, and how long all of these pieces are."""
    if not rest:
        return [Phase(0, 1, 0)], 1
    if len(rest) == 1:
        profile, shift_ms = rest[0]
        return [Phase(each.from_ms + shift_ms, each.until_ms + shift_ms, each.mbps) for each in profile.pieces()], (
            profile.period_ms
        )
    edges = sum(2 * len(job.profile.phases) * around_ms // job.profile.period_ms for job in rest)
    if edges <= most:
        return list(_summed(rest, 0, around_ms)), around_ms
    # each stretch is whole turns, so that each instant of a turn is looked at equally often
    stretch_ms = turn_ms * -(-max(job.profile.period_ms for job in rest) // turn_ms)
    number = max(1, most * around_ms // (edges * stretch_ms))
    turns = around_ms // turn_ms
    found: list[Phase] = []
    for index in range(number):
        from_ms = turns * index // number * turn_ms
        found += _summed(rest, from_ms, from_ms + stretch_ms)
    return found, number * stretch_ms


def _summed(rest: Sequence[_Job], from_ms: int, until_ms: int) -> Iterator[Phase]:
    """What the rest sends together in [from, until), piece by piece."""
    steps: defaultdict[int, int] = defaultdict(int)
    for (period_ms, phases), shift_ms in (((job.profile.period_ms, job.profile.phases), job.shift_ms) for job in rest):
        first = (from_ms - shift_ms) // period_ms
        for begins_ms in range(first * period_ms + shift_ms, until_ms, period_ms):
            for phase in phases:
                starts_ms = max(from_ms, begins_ms + phase.from_ms)
                ends_ms = min(until_ms, begins_ms + phase.until_ms)
                if starts_ms < ends_ms:
                    steps[starts_ms] += phase.mbps
                    steps[ends_ms] -= phase.mbps
    mbps = 0
    at_ms = from_ms
    for edge_ms in sorted(steps):
        if edge_ms > at_ms:
            yield Phase(at_ms, edge_ms, mbps)
        mbps += steps[edge_ms]
        at_ms = edge_ms
    if at_ms < until_ms:
        yield Phase(at_ms, until_ms, mbps)


class _Search:
    """The best shifts of three workloads or more.

    The excess, by all shifts, is made of flat pieces. It is least where pieces meet at which somebody begins to send as
    another ends; what hangs together by such meetings hangs on the first workload. So of three, one meets the first.
    """

    def __init__(self, profiles: Sequence[Profile], capacity_mbps: int) -> None:
        """The first stays."""
        self._profiles = profiles
        self._capacity_mbps = capacity_mbps
        too_much = sum(profile.mean_mbps for profile in profiles) - capacity_mbps
        self._enough = 1 - max(0.0, too_much) / capacity_mbps - SAME
        """No shifts can make the score better than this."""

    def best(self) -> Fit:
        """From a few starts downhill, and of three wherever the least can be; of long circles from one start."""
        best = Fit(-inf, ())
        is_long = self._is_long()
        for start in islice(self._starts(), 1 if is_long else None):
            best = max(best, self._settle(start), key=lambda fit: fit.score)
            if best.score >= self._enough:
                break
        else:
            if len(self._profiles) == 3 and not is_long:
                best = self._meeting(best)
        return Fit(score(self._profiles, best.shifts_ms, self._capacity_mbps), best.shifts_ms)

    def _is_long(self) -> bool:
        """Whether the circle is too long to be looked at as a whole, again and again."""
        around_ms = perimeter_ms(self._profiles)
        edges = sum(2 * len(each.phases) * around_ms // each.period_ms for each in self._profiles)
        return edges > SEARCH_PIECES

    def _starts(self) -> Iterator[list[int]]:
        """One after the other put where it is best beside those before it: as given, and by what they send."""
        given = range(1, len(self._profiles))
        by_volume = sorted(given, key=lambda index: (-self._profiles[index].mean_mbps, index))
        for order in dict.fromkeys((tuple(given), tuple(by_volume), tuple(reversed(by_volume)))):
            shifts_ms = [0] * len(self._profiles)
            placed = [0]
            for index in order:
                rest = [_Job(self._profiles[each], shifts_ms[each]) for each in placed]
                _, shifts_ms[index] = self._line(rest, index).least()
                placed.append(index)
            yield shifts_ms

    def _settle(self, shifts_ms: list[int]) -> Fit:
        """Shift each in turn to where it is best, until none becomes better."""
        best = -inf
        index = still = 0
        while best < self._enough and still < len(shifts_ms) - 1:
            index = index % (len(shifts_ms) - 1) + 1
            found, shift_ms = self._lay(shifts_ms, index)
            still += 1
            if found > best + SAME:
                best, shifts_ms[index] = found, shift_ms
                still = 1
        return Fit(best, tuple(shifts_ms))

    def _meeting(self, best: Fit) -> Fit:
        """Of three: each of the two others where it can meet the first, and the third laid against both."""
        for met, laid in ((1, 2), (2, 1)):
            shifts_ms = [0, 0, 0]
            for shift_ms in self._meetings(met, laid):
                shifts_ms[met] = shift_ms
                found, shifts_ms[laid] = self._lay(shifts_ms, laid)
                if found > best.score + SAME:
                    best = Fit(found, tuple(shifts_ms))
        return best

    def _meetings(self, met: int, laid: int) -> Sequence[int]:
        """Shifts at which one begins to send as the first ends, or ends as it begins; steps where those are many."""
        first, other = self._profiles[0], self._profiles[met]
        both_ms = gcd(first.period_ms, other.period_ms)
        turn_ms = gcd(other.period_ms, lcm(first.period_ms, self._profiles[laid].period_ms))
        (ups, downs), (own_ups, own_downs) = _edges(first), _edges(other)
        pairs = [*product(ups, own_downs), *product(downs, own_ups)]
        found = {(edge_ms - own_ms) % both_ms for edge_ms, own_ms in pairs}
        if len(found) * (turn_ms // both_ms) > STEPS:
            return sorted({turn_ms * step // STEPS for step in range(STEPS)})
        return sorted(first_ms + again for first_ms in found for again in range(0, turn_ms, both_ms))

    def _lay(self, shifts_ms: Sequence[int], index: int) -> tuple[float, int]:
        """The best score by shifting one alone, and its shift."""
        rest = [_Job(profile, shifts_ms[each]) for each, profile in enumerate(self._profiles) if each != index]
        line = self._line(rest, index)
        excess, shift_ms = line.least()
        return line.score_of(excess), shift_ms

    def _line(self, rest: Sequence[_Job], index: int) -> _Line:
        return _Line(rest, self._profiles[index], self._capacity_mbps, SEARCH_PIECES)


def _edges(profile: Profile) -> tuple[list[int], list[int]]:
    """When it begins to send more, and when less."""
    pieces = list(profile.pieces())
    ups: list[int] = []
    downs: list[int] = []
    for before, piece in zip([pieces[-1], *pieces], pieces, strict=False):
        if before.mbps != piece.mbps:
            (ups if piece.mbps > before.mbps else downs).append(piece.from_ms)
    return ups, downs
