"""The network as a fluid: what gangs send through leaves and spines, and how long their iterations take.

A gang computes and sends by turns, as its communication profile says. What it sends flows through all the links of its
ring at one rate; where links are full, rates are max-min fair. So sending takes longer, and with it the iteration.
Nothing goes in ticks: rates hold until somebody begins or ends to send, and the next such instant follows from them.

Instants are milliseconds as floating point, amounts kbit, rates Mbit/s (which are kbit/ms).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from scheduler.engine import cassini

DRIFT_PART = 0.05
"""Whoever keeps its place, and is further than this part of its period from it, waits for it again ..."""
REST = 50
"""... but no more often than once in so many iterations, so that one that can't keep it does not wait in each ..."""
AT_ONCE = 5
"""... except that it may do so as many times after it was shifted, as others are still on their way to theirs."""
ALMOST = 1e-9


@dataclass(frozen=True, slots=True)
class Fabric:
    """Servers below leaves, and spines above them.

    Every leaf reaches the spines by one link, both ways alike: where there are several spines, they are taken to share
    its load evenly. Servers of one leaf reach each other without it.

    Attributes:
        leaves: how many.
        servers: below each.
        nic_mbps: what a server can send.
        oversubscription: how many times more the servers of a leaf can send than its link to the spines.

    Raises:
        ValueError: a number that is not above 0.
    """

    leaves: int
    servers: int
    nic_mbps: int
    oversubscription: float

    def __post_init__(self) -> None:
        """Refuse what is no network."""
        for name in ("leaves", "servers", "nic_mbps", "oversubscription"):
            if not getattr(self, name) > 0 or getattr(self, name) == inf:
                raise ValueError(f"{name}: must be above 0, but is {getattr(self, name)}")
        if self.uplink_mbps < 1:
            raise ValueError(f"oversubscription: {self.oversubscription:g} leaves less than 1 Mbit/s to a leaf")

    @property
    def uplink_mbps(self) -> int:
        """What a leaf can send to the spines, and get from them."""
        return int(self.servers * self.nic_mbps / self.oversubscription)

    def capacities(self) -> dict[str, int]:
        """All links by name."""
        return {_link(leaf): self.uplink_mbps for leaf in range(self.leaves)}

    def leaf_of(self, server: int) -> int:
        """Servers are numbered leaf by leaf, from 0."""
        return server // self.servers

    def links_of(self, servers: Collection[int]) -> tuple[str, ...]:
        """What a ring over these servers uses, once each way: none where all are below one leaf."""
        leaves = sorted({self.leaf_of(server) for server in servers})
        return tuple(_link(leaf) for leaf in leaves) if len(leaves) > 1 else ()


def _link(leaf: int) -> str:
    return f"L{leaf + 1}"


def max_min(
    demands: Mapping[str, float], links_of: Mapping[str, Sequence[str]], capacities: Mapping[str, float]
) -> dict[str, float]:
    """The max-min fair rates: nobody could have more without somebody having less who has no more than they.

    Args:
        demands: the most that each would send.
        links_of: through which links.
        capacities: what each link carries.
    """
    rates: dict[str, float] = {}
    left = dict(capacities)
    open_ = dict(demands)
    while open_:
        users = Counter(link for name in open_ for link in links_of[name])
        least, narrowest = min(((left[link] / number, link) for link, number in users.items()), default=(inf, ""))
        content = [name for name, demand in open_.items() if demand <= least]
        for name in content or [name for name in open_ if narrowest in links_of[name]]:
            rates[name] = min(open_.pop(name), least)
            for link in links_of[name]:
                left[link] -= rates[name]
    return rates


@dataclass(slots=True)
class _Sender:
    """A gang on the network. `left` is what is left of its present piece: milliseconds, or kbit where it sends."""

    name: str
    pieces: Sequence[tuple[int, int]]
    period_ms: int
    links: tuple[str, ...]
    iterations: int
    began_ms: float
    piece: int = -1
    left: float = 0.0
    mbps: int = 0
    place_ms: float | None = None  # an instant at which an iteration would begin if it were where it should be
    waits: bool = False  # for its place, once
    keeps: bool = False  # its place, once it is there
    rested: int = 0  # iterations for which it has not waited because it had drifted, each such wait taking REST
    took_ms: list[float] = field(default_factory=list)


class Ended(NamedTuple):
    """One that has done all its iterations, and how long each took with what it waited for its place."""

    name: str
    took_ms: Sequence[float]


class _State(NamedTuple):
    """What holds while the same gangs send at the same demands."""

    rates: Mapping[str, float]
    excess_mbps: Mapping[str, float]  # by link, where it is asked for more than it carries


class Fluid:
    """Gangs that send through links.

    Attributes:
        now_ms: the present.
        overload_ms: by link, for how long it was asked for more than it carries.
        excess_kbit: and what that was in all: what a switch would mark or drop.
    """

    def __init__(self, capacities: Mapping[str, int], stretch: Callable[[], float] | None = None) -> None:
        """An idle network.

        Args:
            capacities: what each link carries.
            stretch: asked at the begin of each piece of computing: by what factor it takes longer than its profile
                says. None: never.

        Raises:
            ValueError: a link that carries nothing.
        """
        for link, capacity_mbps in capacities.items():
            if capacity_mbps < 1:
                raise ValueError(f"{link}: must carry something, but carries {capacity_mbps} Mbit/s")
        self.now_ms = 0.0
        self.overload_ms = dict.fromkeys(capacities, 0.0)
        self.excess_kbit = dict.fromkeys(capacities, 0.0)
        self._capacities = capacities
        self._stretch = stretch
        self._senders: dict[str, _Sender] = {}
        self._states: dict[tuple[tuple[str, int], ...], _State] = {}

    def start(self, name: str, profile: cassini.Profile, links: Sequence[str], iterations: int) -> None:
        """One begins its first iteration now.

        Raises:
            ValueError: it is there already, there is no such link, or it would do nothing.
        """
        if name in self._senders:
            raise ValueError(f"{name}: is on the network already")
        if iterations < 1:
            raise ValueError(f"{name}: must do an iteration or more, but does {iterations}")
        for link in links:
            if link not in self._capacities:
                raise ValueError(f"{name}: there is no link {link}")
        pieces = [(piece.until_ms - piece.from_ms, piece.mbps) for piece in profile.pieces()]
        self._senders[name] = sender = _Sender(name, pieces, profile.period_ms, tuple(links), iterations, self.now_ms)
        self._begin(sender)
        self._states.clear()  # names come and go

    def shift(self, name: str, shift_ms: int, *, keeps: bool) -> None:
        """From its next iteration on one begins them `shift_ms` after whole periods since 0.

        It waits for that once. With `keeps` it goes on to begin none before its place, and catches up where it is
        late; once it is off by more than `DRIFT_PART` it waits for its next place.

        Raises:
            KeyError: it is not there.
        """
        sender = self._senders[name]
        sender.place_ms, sender.keeps, sender.waits = float(shift_ms), keeps, True
        sender.rested = AT_ONCE * REST
        is_new = sender.piece == 0 and sender.began_ms == self.now_ms
        if is_new and (delay_ms := self._wait_ms(sender)):
            sender.piece, sender.left, sender.mbps = -1, delay_ms, 0

    def release(self, name: str) -> None:
        """One keeps no place any longer.

        Raises:
            KeyError: it is not there.
        """
        self._senders[name].place_ms = None

    def run(self, until_ms: float = inf) -> Ended | None:
        """Go on until somebody ends, who is then gone; None where nobody does before an instant."""
        while True:
            senders = list(self._senders.values())
            key = tuple((sender.name, sender.mbps) for sender in senders if sender.mbps)
            state = self._states.get(key) or self._look(key)
            speeds = [state.rates[sender.name] if sender.mbps else 1.0 for sender in senders]
            step_ms = min((sender.left / speed for sender, speed in zip(senders, speeds, strict=True)), default=inf)
            is_end = self.now_ms + step_ms >= until_ms
            if is_end:
                step_ms = max(0.0, until_ms - self.now_ms)
            self.now_ms += step_ms
            for link, excess_mbps in state.excess_mbps.items():
                self.overload_ms[link] += step_ms
                self.excess_kbit[link] += excess_mbps * step_ms
            for sender, speed in zip(senders, speeds, strict=True):
                sender.left -= speed * step_ms
            for sender, speed in zip(senders, speeds, strict=True):
                if sender.left <= ALMOST * speed and not self._goes_on(sender):
                    del self._senders[sender.name]
                    return Ended(sender.name, sender.took_ms)
            if is_end:
                return None

    def _begin(self, sender: _Sender) -> None:
        """An iteration: at once, or first a wait for the place that it should have."""
        if delay_ms := self._wait_ms(sender):
            sender.piece, sender.left, sender.mbps = -1, delay_ms, 0
        else:
            self._enter(sender, 0)

    def _wait_ms(self, sender: _Sender) -> float:
        """For how long one that is to begin an iteration now waits first."""
        sender.rested = min(sender.rested + 1, AT_ONCE * REST)
        if sender.place_ms is None:
            return 0.0
        late_ms = (self.now_ms - sender.place_ms) % sender.period_ms
        early_ms = sender.period_ms - late_ms
        may_drift_ms = DRIFT_PART * sender.period_ms
        was_shifted, sender.waits = sender.waits, False
        if min(early_ms, late_ms) <= ALMOST:
            return 0.0
        if was_shifted or (sender.keeps and early_ms <= may_drift_ms):
            return early_ms
        if sender.keeps and late_ms > may_drift_ms and sender.rested >= REST:
            sender.rested -= REST
            return early_ms
        return 0.0

    def _enter(self, sender: _Sender, piece: int) -> None:
        """A piece of its iteration."""
        length_ms, sender.mbps = sender.pieces[piece]
        sender.piece = piece
        if sender.mbps:
            sender.left = float(length_ms * sender.mbps)
        else:
            sender.left = length_ms * (1.0 if self._stretch is None else self._stretch())

    def _goes_on(self, sender: _Sender) -> bool:
        """To its next piece, or its next iteration; False after its last."""
        if sender.piece + 1 < len(sender.pieces):
            self._enter(sender, sender.piece + 1)
            return True
        sender.took_ms.append(self.now_ms - sender.began_ms)
        sender.began_ms = self.now_ms
        if len(sender.took_ms) == sender.iterations:
            return False
        self._begin(sender)
        return True

    def _look(self, key: tuple[tuple[str, int], ...]) -> _State:
        """Rates and excess where these send; kept, since they come back with every iteration."""
        demands: dict[str, float] = dict(key)
        links_of = {name: self._senders[name].links for name in demands}
        asked: Counter[str] = Counter()
        for name, mbps in key:
            for link in links_of[name]:
                asked[link] += mbps
        excess = {link: mbps - self._capacities[link] for link, mbps in asked.items() if mbps > self._capacities[link]}
        state = self._states[key] = _State(max_min(demands, links_of, self._capacities), excess)
        return state
