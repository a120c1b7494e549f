"""Use that counts the less the longer ago it was, as Slurm's Fair Tree has it, in place of a sliding lookback.

What was held an instant ago counts whole, what was held one half-life ago counts half. As Slurm does, a second keeps
1 - 0.693 / half-life of what was there, which is a little more than half after a half-life.
"""

from __future__ import annotations

from math import exp, log

HALF = 0.693
"""Slurm's logarithm of 2."""
WHOLE_MILLI_S = 1_000
"""Totals are told in whole device-seconds: what floating point cannot tell apart compares as equal."""
FAR = 500.0
"""So many decay times after its epoch the sum is counted from a new one, long before it could overflow."""


def decay_per_s(half_life_s: int) -> float:
    """By what part use decays in a second, at the limit of short times."""
    return -log(1 - HALF / half_life_s)


class DecayedUse:
    """Device time that decays, in the place of a `Window`: amounts are `_milli`, totals `_milli_s`.

    With d for decay a second, what is held since s counts amount * (1 - exp(-d * (now - s))) / d. So all that was ever
    held is two numbers: what is held now, and the sum of amount * exp(d * (s - epoch)), in which what has ended stands
    with its beginning and, negative, its end.
    """

    __slots__ = ("_decay", "_epoch_s", "_now_s", "_rate", "_sum")

    def __init__(self, half_life_s: int, now_s: int) -> None:
        """Nothing was held before."""
        self._decay = decay_per_s(half_life_s)
        self._epoch_s = self._now_s = now_s
        self._rate = 0
        self._sum = 0.0

    def bring_to(self, now_s: int) -> int:
        """Move forward to an instant, and return the total there, in whole device-seconds."""
        self._now_s = now_s
        if self._decay * (now_s - self._epoch_s) > FAR:
            self._sum *= exp(-self._decay * (now_s - self._epoch_s))
            self._epoch_s = now_s
        left = self._sum * exp(-self._decay * (now_s - self._epoch_s))
        return round((self._rate - left) / self._decay / WHOLE_MILLI_S) * WHOLE_MILLI_S

    def slope(self) -> int:
        """Not a straight line: nothing is known of the next second."""
        return 0

    def linear_until_s(self) -> int:
        """What was said holds for this instant alone."""
        return self._now_s

    def hold(self, amount_milli: int) -> None:
        """From now on so much more (or, negative, less) is held."""
        self.hold_since(amount_milli, self._now_s)

    def hold_since(self, amount_milli: int, since_s: int) -> None:
        """So much is held, and has been since `since_s`."""
        self._rate += amount_milli
        self._sum += amount_milli * self._weight(since_s)

    def add_past(self, amount_milli: int, from_s: int, until_s: int) -> None:
        """So much was held in [from_s, until_s), which has ended by now."""
        self._sum += amount_milli * (self._weight(from_s) - self._weight(until_s))

    def add_lump(self, total_milli_s: float) -> None:
        """Count use that, decayed, comes to so much now."""
        self._sum -= total_milli_s * self._decay * self._weight(self._now_s)

    def _weight(self, at_s: int) -> float:
        return exp(self._decay * (at_s - self._epoch_s))


def decayed_milli_s(amount_milli: int, from_s: int, until_s: int, now_s: int, half_life_s: int) -> float:
    """What was held in [from_s, until_s) still counts at `now_s`, which is not before its end."""
    decay = decay_per_s(half_life_s)
    return amount_milli * (exp(-decay * (now_s - until_s)) - exp(-decay * (now_s - from_s))) / decay
