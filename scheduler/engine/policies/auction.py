"""Themis' auction: who gets which of the devices on offer, so that nobody gains by lying (Mahajan et al., NSDI 2020).

Partial allocation (Cole, Gkatzelis and Goel, EC 2013). Each bidder names bundles with what it would be worth to have
them: the inverse of the rho that it would come to. The proportionally fair choice makes the product of all worths the
largest. Each keeps only a part of its bundle, the rest is a hidden payment: the product of the others' worths, by what
that would be without it. Where not everybody can have something that is worth more than nothing, as many as possible
do; then the product counts.

The choice is exact where there are at most `MOST_CHOICES` combinations. Above, it is searched for: bids are taken by
what they add for each device, and then, `MOST_TRIES` times at most, one is tried in the place of another. What no
choice could exceed is said with it (`Choice.bound`); how far off it is, nobody could find out in time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log, prod
from typing import Any, NamedTuple, Protocol

MOST_CHOICES = 5_000
MOST_TRIES = 200

Bundle = Hashable
"""Devices that are taken together, as the offer understands them."""
Value = tuple[int, Fraction]
"""How many worths are above nothing, and the product of these: the first decides, then the second."""


class Offer(Protocol):
    """Devices on offer."""

    def without(self, bundle: Any) -> Offer | None:
        """What is left when a bundle is taken; None if it is not there."""

    def size(self, bundle: Any) -> int:
        """How much of them a bundle is."""

    @property
    def total(self) -> int:
        """How much there is in all."""


class Machines(NamedTuple):
    """Free devices by machine; bundles are tuples of such numbers."""

    free: tuple[int, ...]

    def without(self, bundle: tuple[int, ...]) -> Machines | None:
        """What is left on each."""
        left = tuple(have - taken for have, taken in zip(self.free, bundle, strict=True))
        return Machines(left) if min(left, default=0) >= 0 else None

    def size(self, bundle: tuple[int, ...]) -> int:
        """On all of them."""
        return sum(bundle)

    @property
    def total(self) -> int:
        """On all of them."""
        return sum(self.free)


@dataclass(frozen=True, slots=True)
class Bid:
    """What it is worth to somebody to get nothing, and to get one of these bundles; all at least 0."""

    name: str
    nothing: Fraction
    worth: Mapping[Bundle, Fraction]

    def of(self, bundle: Bundle | None) -> Fraction:
        """What it is worth to get that."""
        return self.nothing if bundle is None else self.worth[bundle]


@dataclass(frozen=True, slots=True)
class Choice:
    """Who gets which bundle, in an order in which each is still there; those who get nothing are left out."""

    bundles: Mapping[str, Bundle]
    value: Value
    bound: Value
    is_exact: bool


class Won(NamedTuple):
    """Somebody's bundle, and the part of it that they keep."""

    name: str
    bundle: Bundle
    part: Fraction


def partial_allocation(bids: Sequence[Bid], offer: Offer) -> list[Won]:
    """What everybody gets who gets anything, in an order in which each bundle is still there."""
    fair = choose(bids, offer)
    found = []
    for name, bundle in fair.bundles.items():
        others = [each for each in bids if each.name != name]
        found.append(Won(name, bundle, _part(others, fair, choose(others, offer))))
    return found


def floored(bundle: Sequence[int], part: Fraction) -> tuple[int, ...]:
    """The whole devices of a part of a bundle, machine by machine."""
    return tuple(int(number * part) for number in bundle)


def _part(others: Sequence[Bid], with_it: Choice, without_it: Choice) -> Fraction:
    """What the others have, by what they would have; a choice that was searched for may find more with it."""
    count, product = _value(others, with_it.bundles)
    most, largest = without_it.value
    return min(Fraction(1), product / largest) if count >= most else Fraction(0)


def choose(bids: Sequence[Bid], offer: Offer) -> Choice:
    """The proportionally fair choice. Of those as good, the one that favours the first bids and their first bundles."""
    bids = [_of_use(bid, offer) for bid in bids]
    bound = _bound(bids, offer)
    is_exact = prod(1 + len(bid.worth) for bid in bids) <= MOST_CHOICES
    bundles = _Exact(bids).choose(offer) if is_exact else _search(bids, offer)
    return Choice(bundles, _value(bids, bundles), bound, is_exact)


def _of_use(bid: Bid, offer: Offer) -> Bid:
    """Without what is worth no more than nothing, or is not there; the best first."""
    worth = {
        bundle: value
        for bundle, value in bid.worth.items()
        if value > bid.nothing and offer.without(bundle) is not None
    }
    return Bid(bid.name, bid.nothing, dict(sorted(worth.items(), key=lambda each: -each[1])))


def _value(bids: Iterable[Bid], bundles: Mapping[str, Bundle]) -> Value:
    worths = [worth for bid in bids if (worth := bid.of(bundles.get(bid.name))) > 0]
    return len(worths), prod(worths, start=Fraction(1))


def _bound(bids: Sequence[Bid], offer: Offer) -> Value:
    """As many as there are devices for, if these were all in one place; each with the best of its bundles."""
    best = [max([bid.nothing, *bid.worth.values()]) for bid in bids]
    sure = [value for bid, value in zip(bids, best, strict=True) if bid.nothing > 0]
    others = [(value, bid) for bid, value in zip(bids, best, strict=True) if bid.nothing == 0 and value > 0]
    left, number = offer.total, 0
    for size in sorted(min(offer.size(bundle) for bundle in bid.worth) for _, bid in others):
        left -= size
        number += left >= 0
    most = sorted((value for value, _ in others), reverse=True)[:number]
    return len(sure) + number, prod([*sure, *most], start=Fraction(1))


class _Exact:
    """Bid after bid, every bundle that is there; what could not be better than the best so far is left out."""

    def __init__(self, bids: Sequence[Bid]) -> None:
        self._bids = bids
        self._best: Value | None = None
        self._bundles: dict[str, Bundle] = {}
        self._rest: list[Value] = [(0, Fraction(1))]  # the most that the bids from each on could add
        for bid in reversed(bids):
            self._rest.append(_times(self._rest[-1], max([bid.nothing, *bid.worth.values()])))
        self._rest.reverse()

    def choose(self, offer: Offer) -> dict[str, Bundle]:
        self._look_at(0, offer, (0, Fraction(1)), {})
        return self._bundles

    def _look_at(self, index: int, offer: Offer, value: Value, bundles: dict[str, Bundle]) -> None:
        number, product = self._rest[index]
        if self._best is not None and (value[0] + number, value[1] * product) <= self._best:
            return
        if index == len(self._bids):
            self._best, self._bundles = value, dict(bundles)
            return
        bid = self._bids[index]
        for bundle, worth in bid.worth.items():
            left = offer.without(bundle)
            if left is not None:
                bundles[bid.name] = bundle
                self._look_at(index + 1, left, _times(value, worth), bundles)
                del bundles[bid.name]
        self._look_at(index + 1, offer, _times(value, bid.nothing), bundles)


def _times(value: Value, worth: Fraction) -> Value:
    return (value[0] + 1, value[1] * worth) if worth > 0 else value


def _search(bids: Sequence[Bid], offer: Offer) -> dict[str, Bundle]:
    """By what each adds for each device; then one in the place of another, as long as that helps."""
    wishes = sorted(
        ((_urge(bid, bundle, offer), index, bundle) for index, bid in enumerate(bids) for bundle in bid.worth),
        key=lambda each: each[:2],
    )
    bundles: dict[str, Bundle] = {}
    left = offer
    for _, index, bundle in wishes:
        if bids[index].name not in bundles and (less := left.without(bundle)) is not None:
            bundles[bids[index].name] = bundle
            left = less
    tries = MOST_TRIES
    while tries > 0:
        better, tried = _swapped(bids, wishes, bundles, offer, tries)
        tries -= tried
        if better is None:
            break
        bundles = better
    return bundles


Urge = tuple[bool, float]
Wish = tuple[Urge, int, Bundle]


def _urge(bid: Bid, bundle: Bundle, offer: Offer) -> Urge:
    """Lower goes first: those for whom nothing is worth nothing, the smallest of these; then by what is added."""
    size = offer.size(bundle)
    if bid.nothing == 0:
        return False, size
    return True, -log(bid.worth[bundle] / bid.nothing) / size


def _swapped(
    bids: Sequence[Bid], wishes: Sequence[Wish], bundles: Mapping[str, Bundle], offer: Offer, most: int
) -> tuple[dict[str, Bundle] | None, int]:
    """A better choice, in which one has a bundle that another had part of; None if none was found; and the tries."""
    value = _value(bids, bundles)
    tried = 0
    for _, index, bundle in wishes:
        name = bids[index].name
        if bundles.get(name) == bundle:
            continue
        for other in reversed(list(bundles)):  # who was taken last has added least
            if tried == most:
                return None, tried
            tried += 1
            kept = {each: had for each, had in bundles.items() if each not in (name, other)}
            changed = _filled(bids, wishes, {name: bundle, **kept}, offer)
            if changed is not None and _value(bids, changed) > value:
                return changed, tried
    return None, tried


def _filled(
    bids: Sequence[Bid], wishes: Sequence[Wish], bundles: dict[str, Bundle], offer: Offer
) -> dict[str, Bundle] | None:
    """The same, with whatever still fits; None if it does not fit itself."""
    left = offer
    for bundle in bundles.values():
        less = left.without(bundle)
        if less is None:
            return None
        left = less
    for _, index, bundle in wishes:
        if bids[index].name not in bundles and (less := left.without(bundle)) is not None:
            bundles[bids[index].name] = bundle
            left = less
    return bundles
