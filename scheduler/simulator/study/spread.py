"""What a figure came to over several scenarios or seeds."""

from __future__ import annotations

from collections.abc import Iterable

from ..report import percentile


def least_middle_most(values: Iterable[float | None]) -> list[float] | None:
    """The least, the median (nearest rank) and the most of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    middle = percentile(known, 50)
    return None if middle is None else [min(known), middle, max(known)]
