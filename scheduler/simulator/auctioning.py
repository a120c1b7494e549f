"""Themis whole: devices are leased, by auction, to those furthest behind a fair share (Mahajan et al., NSDI 2020).

Whenever devices are free or their lease is up, and somebody waits, there is a round. All who wait, or whose lease is
up, say their rho (policies/themis.py; here contention is the cluster's, and how long each takes is known). The fifth of
them whose rho is largest may bid; what they bid is the inverse of the rho that they would come to: with their devices
now, or with nothing for as long as a lease. Gangs bid for all or nothing, and keep all of it: the hidden payment
shortens their lease, which is at least one tick. What is left over goes to the others, those first who can stay where
they are, then by rho, then to those who got nothing for their bid. Whoever is outbid when its lease is up saves and
queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from scheduler.engine import Crowds, auction, themis

from .baselines import Baseline, View
from .lines import START
from .records import JobRecord, RunRecord
from .room import Room
from .watch import News

LEASE_S = 1_200
"""Published from memory."""
BIDDING_PART = Fraction(1, 5)
"""1 - f of the paper, whose f of 0.8 is said to be a good trade-off between fairness and efficiency."""
CLUSTER = ""


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody who might get devices in a round: it waits, or its run's lease is up.

    Attributes:
        record: the workload.
        run: its run, None where it waits.
        with_all_s, with_nothing_s: T_sh with its devices now, and if it gets none for a lease.
        alone_s: T_id.
    """

    record: JobRecord
    run: RunRecord | None
    with_all_s: Fraction
    with_nothing_s: Fraction
    alone_s: Fraction

    @property
    def name(self) -> str:
        """Whose."""
        return self.record.job.id

    @property
    def rho(self) -> Fraction:
        """If it has its devices from now on."""
        return self.with_all_s / self.alone_s

    def bid(self) -> auction.Bid:
        """What it says: its gang or nothing."""
        return auction.Bid(
            self.name, self.alone_s / self.with_nothing_s, {self.name: self.alone_s / max(self.with_all_s, Fraction(1))}
        )


class OnOffer:
    """Free devices, and those whose lease is up; a bundle is the name of whoever takes it, where it best fits.

    Whoever waits is placed on what is free if it can be. Whoever runs can only stay where it is.
    """

    def __init__(self, contenders: Mapping[str, Contender], free: Room, could: Room) -> None:
        """`could` is what is free, or would be if all left whose lease is up."""
        self._contenders = contenders
        self.free = free
        self.could = could

    def holdings(self, bundle: Any) -> Any:
        """Where that would be; None if it is not there."""
        contender = self._contenders[bundle]
        if contender.run is not None:
            own = contender.run.holdings
            return own if self.could.has(own) else None
        job = contender.record.job
        return self.free.place(job.size_milli, job.node) or self.could.place(job.size_milli, job.node)

    def without(self, bundle: Any) -> OnOffer | None:
        """What is left."""
        holdings = self.holdings(bundle)
        if holdings is None:
            return None
        left = OnOffer(self._contenders, self.free.copy(), self.could.copy())
        left.could.take(holdings)
        left.free.take_free_part(holdings)
        return left

    def size(self, bundle: Any) -> int:
        """Thousandths of a device."""
        return self._contenders[bundle].record.job.size_milli

    @property
    def total(self) -> int:
        """Thousandths of a device."""
        return self.could.total_milli


class Awards(NamedTuple):
    """What a round comes to.

    Attributes:
        given: what each holds who gets anything, by name, in the order in which it was given.
        leases_s: how long those keep it who won it by their bid; the others keep it for LEASE_S.
        free: what of the free devices nobody has got.
    """

    given: Mapping[str, Mapping[str, int]]
    leases_s: Mapping[str, int]
    free: Room


def share_out(contenders: Sequence[Contender], free: Room, could: Room) -> Awards:
    """A round: who gets what.

    Those who won by their bid come first, all of whom find room; then those outside the auction who can stay where they
    are, the others outside it, and those who got nothing for their bid. In each of these three the largest rho is
    first, and whoever finds no room is passed over.

    Args:
        contenders: the largest rho first; the first fifth bids.
        free: what is free.
        could: what is free, or would be if all left whose lease is up.
    """
    by_name = {each.name: each for each in contenders}
    bidding = contenders[: -(-len(contenders) * BIDDING_PART.numerator // BIDDING_PART.denominator)]
    others = contenders[len(bidding) :]
    offer = OnOffer(by_name, free, could)
    leases_s = {
        won.name: int(LEASE_S * won.part) for won in auction.partial_allocation([each.bid() for each in bidding], offer)
    }
    stay = [each.name for each in others if each.run is not None]
    come = [each.name for each in others if each.run is None]
    losers = [each.name for each in bidding if each.name not in leases_s]
    given: dict[str, Mapping[str, int]] = {}
    for name in [*leases_s, *stay, *come, *losers]:
        if (holdings := offer.holdings(name)) is not None and (left := offer.without(name)) is not None:
            given[name] = holdings
            offer = left
    return Awards(given, leases_s, offer.free)


class Themis(Baseline):
    """The auction, on real nodes."""

    def __init__(self, view: View) -> None:
        """Nothing is leased yet."""
        super().__init__(view)
        self._tick_s = view.scenario.policy.pass_every_s
        self._lease_until_s: dict[str, int] = {}  # by workload that runs
        self._won_s: dict[str, int] = {}  # the leases of those that wait until others have left
        self._seen_version = 0  # of the line
        self._crowds = Crowds(LEASE_S, self.snapshot.now_s, {})
        self._there: dict[str, tuple[JobRecord, int, int]] = {}  # with the instant and the workload-seconds then

    def follow(self, news: News) -> None:
        """Keep count of who is there, and of the leases of those that have left."""
        for run in news.ended:
            self._lease_until_s.pop(run.job.job.id, None)
        gone = [(record.end_s, name) for name, (record, *_) in self._there.items() if record.end_s is not None]
        for end_s, name in sorted(gone):
            self._crowds.come(CLUSTER, -1, end_s)
            del self._there[name]
        if self._seen_version == self.line.version and not news.begun:
            return
        self._seen_version, now_s = self.line.version, self.snapshot.now_s
        for record in [*self.line.waiting(), *(run.job for run in news.begun)]:
            if record.job.id not in self._there and record.end_s is None:
                self._there[record.job.id] = record, now_s, self._crowds.total_s(CLUSTER, now_s)
                self._crowds.come(CLUSTER, +1, now_s)

    def is_settled_by_time(self) -> bool:
        """Until a lease is up."""
        now_s = self.snapshot.now_s
        return all(self._lease_until_s.get(run.job.job.id, now_s) > now_s for run in self._that_run())

    def moves_at_s(self, from_s: int, event_s: int) -> int:
        """When the next lease is up, if anybody waits."""
        if not len(self.line):
            return event_s
        ends_s = [self._lease_until_s.get(run.job.job.id, from_s) for run in self._that_run()]
        return min(event_s, max(from_s, min(ends_s, default=event_s)))

    def place(self, room: Room) -> None:
        """Those that have won before start; then a round."""
        room = room.copy()
        self._start_those_that_won(room)
        expired = self._whose_lease_is_up() if len(self.line) else []
        if expired or any(room.fits(kind.size_milli, kind.node) for kind in self.line.families):
            room = self._hold_round(room, self.line.waiting(), expired)
        self.tell_all_for_room(room, START, None)

    def _start_those_that_won(self, room: Room) -> None:
        """Whom they had to wait for has left. Where their nodes are not fit any more, they have won nothing."""
        records = {record.job.id: record for record in self.line.waiting() if record.job.id in self._won_s}
        for name in sorted(records):
            if self.hold(room, records[name]) is not None:
                self._lease(name, self._won_s[name])
        self._won_s = {name: lease_s for name, lease_s in self._won_s.items() if name in self.snapshot.claims}

    def _hold_round(self, room: Room, waiting: Sequence[JobRecord], expired: Sequence[RunRecord]) -> Room:
        """Who gets what, and what is free then."""
        by_name, now_s = self.snapshot.nodes.by_name, self.snapshot.now_s
        could = room.copy()
        for run in expired:
            could.give({name: size for name, size in run.holdings.items() if by_name[name].may_start(now_s)})
        contenders = {each.name: each for each in self._by_rho(waiting, expired)}
        awards = share_out(list(contenders.values()), room, could)
        self._carry_out(awards, contenders, room)
        return awards.free

    def _carry_out(self, awards: Awards, contenders: Mapping[str, Contender], room: Room) -> None:
        """Let those stay that may, start who can, and stop others for the rest."""
        outbid = {
            run.id: run
            for each in contenders.values()
            if (run := each.run) is not None and each.name not in awards.given
        }
        stopped: set[str] = set()
        free = room.copy()
        for name, holdings in awards.given.items():
            contender, lease_s = contenders[name], awards.leases_s.get(name, LEASE_S)
            if contender.run is not None:
                self._lease(name, lease_s)
            elif free.has(holdings):
                free.take(holdings)
                self.start(contender.record, holdings)
                self._lease(name, lease_s)
            else:
                free.take_free_part(holdings)
                there = [run for run in outbid.values() if not holdings.keys().isdisjoint(run.holdings)]
                victims = [run for run in there if run.id not in stopped]
                stopped |= {run.id for run in victims}
                why = "is further behind the time that a fair share would have taken, and the lease was up"
                self.claim(contender.record, holdings, victims, why, [run.id for run in there])
                self._won_s[name] = lease_s

    def _lease(self, name: str, lease_s: int) -> None:
        """To the end of a tick, and for one at least."""
        until_s = self.snapshot.now_s + max(lease_s, self._tick_s)
        self._lease_until_s[name] = -(-until_s // self._tick_s) * self._tick_s

    def _that_run(self) -> Iterable[RunRecord]:
        return (run for run in self.view.runs.values() if not run.is_leaving)

    def _whose_lease_is_up(self) -> list[RunRecord]:
        now_s = self.snapshot.now_s
        return [run for run in self._that_run() if self._lease_until_s.get(run.job.job.id, now_s) <= now_s]

    def _by_rho(self, waiting: Sequence[JobRecord], expired: Sequence[RunRecord]) -> list[Contender]:
        """The largest first; equal ones by id."""
        found = [self._contender(record, None) for record in waiting]
        found += [self._contender(run.job, run) for run in expired]
        return sorted(found, key=lambda each: (-each.rho, each.name))

    def _contender(self, record: JobRecord, run: RunRecord | None) -> Contender:
        job, now_s = record.job, self.snapshot.now_s
        running_s = None if run is None else run.running_s
        done_s = record.progress_s + (0 if running_s is None else now_s - running_s)
        left_s = job.duration_s - done_s + (job.startup_s if running_s is None else 0)
        elapsed_s = now_s - record.submitted_s
        again_s = 0 if run is None else job.restart_cost_s + job.startup_s
        _, since_s, total_s = self._there[job.id]
        if now_s > since_s:
            contending = Fraction(self._crowds.total_s(CLUSTER, now_s) - total_s, now_s - since_s)
        else:
            contending = Fraction(len(self._there))
        return Contender(
            record,
            run,
            themis.shared_s(elapsed_s, left_s),
            themis.shared_s(elapsed_s + LEASE_S + again_s, left_s),
            themis.alone_s(max(1, job.startup_s + job.duration_s), contending),
        )
