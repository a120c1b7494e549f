"""Rows to the engine's values: the only translator. `load` for the present, `snapshot_at` for a past pass."""

from .build import Loaded
from .past import snapshot_at
from .present import load

__all__ = ["Loaded", "load", "snapshot_at"]
