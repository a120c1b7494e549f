"""Published systems that became policies here: what was published of each beside what comes out."""

from __future__ import annotations

from collections.abc import Mapping

from .advisor import ADVISOR
from .between_teams import DRF, YARN
from .cassini import CASSINI
from .fair_tree import FAIR_TREE
from .hived import HIVED
from .packing import PACKING
from .philly import PHILLY
from .predicted import PAI
from .reserve import RESERVE_AND_PACK
from .themis import THEMIS
from .tiresias import TIRESIAS
from .told import Numbers, System, SystemRow

__all__ = ["SYSTEMS", "Numbers", "System", "SystemRow"]

SYSTEMS: Mapping[str, System] = {
    "tiresias": TIRESIAS,
    "themis": THEMIS,
    "pai": PAI,
    "reserve": RESERVE_AND_PACK,
    "packing": PACKING,
    "hived": HIVED,
    "philly": PHILLY,
    "fair-tree": FAIR_TREE,
    "yarn": YARN,
    "drf": DRF,
    "cassini": CASSINI,
    "advisor": ADVISOR,
}
"""By the name that `manage.py reproduce --only` takes."""
