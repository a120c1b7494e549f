"""Values that nobody changes once they are made.

Mypy holds everybody to it. At run time it is not looked at: then each of their fields would take a call to be set, and
making them a tenth of the time of a simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["value"]
Class = TypeVar("Class")

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    from dataclasses import dataclass

    def value(*, frozen: bool, slots: bool) -> Callable[[type[Class]], type[Class]]:
        """A dataclass that is compared and hashed by its fields; to be `frozen`, and with `slots`."""
        assert frozen
        return dataclass(slots=slots, unsafe_hash=True)
