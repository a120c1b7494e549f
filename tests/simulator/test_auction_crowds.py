"""Themis' auction with many at once: who gets what, who may be passed over for whom, and that leases end in time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.simulator import World, parse
from scheduler.simulator.auctioning import BIDDING_PART, LEASE_S, Awards, Contender, share_out
from scheduler.simulator.records import JobRecord, RunRecord
from scheduler.simulator.room import Room
from scheduler.simulator.scenario import PASS_EVERY_S, Job
from scheduler.simulator.watch import Watch
from tests.simulator.test_auctioning import lived, spans

HOUR_S = 3_600
NODE_GPUS = 8
MOST = 90
"""Of these 18 bid: more than the auction decides exactly."""
SEEDS = st.integers(0, 2**32)

# --- one crowd by hand ------------------------------------------------------------------------------------------------


def test_fifteen_for_two_places() -> None:
    """Three of 15 bid. At 0 all have the same rho, so these are a, b and c by name; c needs 20 min, all others an hour.

    With a place at once c comes to 20 min instead of 40, a and b to 60 instead of 80: c and, of equals, a win. Each
    keeps b from a place that would be worth 1 / 60 to it instead of 1 / 80, and so keeps 3 / 4 of 20 min.

    At 15 min a and c would still come to 1 by their time alone, all others to 75 / 60: b, d and e bid, and b and d win.
    Each keeps e from 1 / 75 instead of 1 / 95: 15 / 19 of 20 min, to the end of that minute.

    At 31 min c, of whose work 5 min are left, comes to 36 / 20, who never ran to 91 / 60, a to 76 / 60, b and d to
    75 / 60: c, e and f bid. c comes to 36 min instead of 56, the others to 91 instead of 111: c and e win.
    """
    rows = [{"id": name, "duration": "20m" if name == "c" else "1h"} for name in "abcdefghijklmno"]
    found = spans(lived(*rows, nodes={"h1": 8, "h2": 8}))
    assert [found[name][0] for name in "acbd"] == [(0, 15), (0, 15), (15, 31), (15, 31)]
    assert found["c"] == [(0, 15), (31, 36)]
    assert found["e"][0][0] == 31
    assert min(found[name][0][0] for name in "fghijklmno") == 36


# --- one round of any crowd -------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """Contenders, the largest rho first, with what is free, and what could be."""

    contenders: list[Contender]
    free: Room
    could: Room

    def share_out(self) -> Awards:
        """What it comes to."""
        return share_out(self.contenders, self.free, self.could)

    @property
    def bidding(self) -> list[Contender]:
        """Those who may bid: a fifth, and one at least."""
        number = next(number for number in range(1, MOST + 1) if number >= BIDDING_PART * len(self.contenders))
        return self.contenders[:number]


def crowd_of(seed: int, gpus: Sequence[int] = (1, 2, 4, 8, 16), runs: int = 30) -> Round:
    """Any crowd on a few nodes: some hold devices until their lease is up, which it is, some for longer."""
    chance = random.Random(seed)
    names = [f"h{number}" for number in range(chance.randint(1, 6))]
    file = {"cluster": {"nodes": dict.fromkeys(names, NODE_GPUS)}, "tree": {"A": 1}, "workloads": []}
    snapshot = World(parse(json.dumps(file))).snapshot
    watch = Watch(snapshot, {})
    watch.look()
    free, held = Room.all_of(snapshot, watch), []
    for number in range(chance.randint(0, runs)):
        job = Job(f"r{number:02d}", "A", 1_000 * chance.choice(gpus), 1, 1)
        if (holdings := free.place(job.size_milli, None)) is not None:
            free.take(holdings)
            held.append(RunRecord(f"{job.id}/1", JobRecord(job), 0, holdings, False, job.size_milli))
    expired = [run for run in held if chance.random() < 0.8]
    could = free.copy()
    for run in expired:
        could.give(run.holdings)
    contenders = [contender(chance, run.job, run) for run in expired]
    for number in range(chance.randint(1, MOST - runs)):
        job = Job(f"w{number:02d}", "A", 1_000 * chance.choice(gpus), 1, 1)
        contenders.append(contender(chance, JobRecord(job), None))
    return Round(sorted(contenders, key=lambda each: (-each.rho, each.name)), free, could)


def contender(chance: random.Random, record: JobRecord, run: RunRecord | None) -> Contender:
    """One that takes from a minute to a day alone, and has been there for up to a day."""
    alone_s = chance.randint(60, 86_400)
    soon_s = Fraction(chance.randint(0, 86_400) + chance.randint(1, alone_s))
    return Contender(record, run, soon_s, soon_s + LEASE_S, Fraction(alone_s * chance.randint(1, 9)))


def taken(holdings: Iterable[dict[str, int]]) -> dict[str, int]:
    """What several hold together, by node."""
    found: dict[str, int] = {}
    for each in holdings:
        for name, amount_milli in each.items():
            found[name] = found.get(name, 0) + amount_milli
    return found


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_nothing_is_given_twice_and_gangs_are_whole(seed: int) -> None:
    crowd = crowd_of(seed)
    awards = crowd.share_out()
    for name, amount_milli in taken(dict(each) for each in awards.given.values()).items():
        assert amount_milli <= crowd.could.free(name)
    for each in crowd.contenders:
        if each.name in awards.given:
            assert sum(awards.given[each.name].values()) == each.record.job.size_milli
            assert each.run is None or awards.given[each.name] == each.run.holdings, "who runs stays where it is"


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_only_those_furthest_behind_may_bid_and_whoever_wins_has_it(seed: int) -> None:
    crowd = crowd_of(seed)
    awards = crowd.share_out()
    bidding = {each.name for each in crowd.bidding}
    assert awards.leases_s.keys() <= bidding
    assert awards.leases_s.keys() <= awards.given.keys()
    assert all(0 <= lease_s <= LEASE_S for lease_s in awards.leases_s.values())


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_nothing_stays_free_that_somebody_could_use(seed: int) -> None:
    crowd = crowd_of(seed)
    awards = crowd.share_out()
    waiting = [each for each in crowd.contenders if each.run is None and each.name not in awards.given]
    assert not [each.name for each in waiting if awards.free.fits(each.record.job.size_milli, None)]


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_nobody_outside_the_auction_is_passed_over_for_one_that_is_less_far_behind(seed: int) -> None:
    """But for who asks for less, or stays where it is."""
    crowd = crowd_of(seed)
    awards = crowd.share_out()
    come = [each for each in crowd.contenders[len(crowd.bidding) :] if each.run is None]
    passed_over: list[Contender] = []
    for each in come:
        if each.name not in awards.given:
            passed_over.append(each)
            continue
        size_milli = each.record.job.size_milli
        assert not [behind.name for behind in passed_over if behind.record.job.size_milli <= size_milli]


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_of_equal_gangs_those_win_to_whom_it_is_worth_most(seed: int) -> None:
    """As each bids for one whole node, the product is largest with the largest gains, and whoever loses adds least.

    What a winner pays is what the first of the losers would have gained, where that could have had the same nodes.
    """
    crowd = crowd_of(seed, gpus=(NODE_GPUS,), runs=6)
    waiting = [each for each in crowd.contenders if each.run is None]
    alone = Round(waiting, crowd.could, crowd.could)
    awards = alone.share_out()
    places = crowd.could.total_milli // (1_000 * NODE_GPUS)
    gains = {each.name: each.with_nothing_s / each.with_all_s for each in alone.bidding}
    won = sorted(awards.leases_s, key=gains.__getitem__)
    lost = [gain for name, gain in gains.items() if name not in awards.leases_s]
    assert len(won) == min(places, len(gains))
    if won and lost:
        assert gains[won[0]] >= max(lost)
        assert {awards.leases_s[name] for name in won} == {int(LEASE_S / max(lost))}
    else:
        assert all(lease_s == LEASE_S for lease_s in awards.leases_s.values()), "nobody is kept from anything"


# --- leases in time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [5, 12])
def test_in_a_crowd_leases_end_with_ticks_and_the_place_is_never_empty(number: int) -> None:
    """One place, and an hour each: so all have ended when all of it is done."""
    outcome = lived(*({"id": f"w{index:02d}", "duration": "1h"} for index in range(number)))
    runs = sorted((run.start_s, run.end_s or 0) for run in outcome.runs)
    assert [start_s for start_s, _ in runs] == [0, *(end_s for _, end_s in runs[:-1])]
    assert not [end_s for _, end_s in runs if end_s % PASS_EVERY_S]
    assert runs[-1][1] == number * HOUR_S
    assert {record.state for record in outcome.jobs} == {"finished"}


def shares_of_time(number: int) -> Iterable[list[int]]:
    """What each of so many equals has had of the one place, in seconds, after every lease but the last."""
    outcome = lived(*({"id": f"w{index:02d}", "duration": "1h"} for index in range(number)))
    done_s = {record.job.id: 0 for record in outcome.jobs}
    for run in sorted(outcome.runs, key=lambda run: run.start_s)[:-1]:
        done_s[run.job.job.id] += (run.end_s or 0) - run.start_s
        yield sorted(done_s.values())


def test_where_one_bids_nobody_gets_ahead_of_another_by_more_than_a_lease() -> None:
    """Of five it is the one furthest behind: so no lease goes on beyond its time."""
    assert all(done_s[-1] - done_s[0] <= LEASE_S + PASS_EVERY_S for done_s in shares_of_time(5))


def test_where_several_bid_for_one_place_those_win_who_have_least_left() -> None:
    """The product of all worths is largest so, as devices are worth most to whoever soon has all it needs.

    Of twelve three bid, and of these it is never the last two that win, who have all of their hour left, until two of
    the others have ended: then two bid.
    """
    first = next(done_s for done_s in shares_of_time(12) if done_s[1] > 0)
    assert first[-2:] == [HOUR_S, HOUR_S]
