"""Chance as the generator sees it: an argument, so that a seed says everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Chance(Protocol):
    """The part of `random.Random` that is used; the caller seeds it."""

    def random(self) -> float:
        """Uniform in [0, 1)."""

    def uniform(self, a: float, b: float) -> float:
        """Uniform in [a, b]."""

    def randint(self, a: int, b: int) -> int:
        """A whole number in [a, b]."""

    def lognormvariate(self, mu: float, sigma: float) -> float:
        """Log-normal with that mean and deviation of the logarithm."""

    def expovariate(self, lambd: float) -> float:
        """Exponential with that rate."""

    def choice(self, seq: Sequence[T]) -> T:
        """One of a sequence."""

    def choices(self, population: Sequence[T], weights: Sequence[float]) -> list[T]:
        """One of a sequence, by weight, as a list."""

    def sample(self, population: Sequence[T], k: int) -> list[T]:
        """Some different ones of a sequence."""
