"""CASSINI: a score of how well workloads share links, and the shifts at which they do (Rajasekaran et al., NSDI 2024).

A score among legal candidates at the engine's third seam: it never overrules a share, a contract or a promise.
"""

from .affinity import Cycle, shifts_of
from .circle import Fit, Neighbour, Place, SharedLink, best_fit, degrees, perimeter_ms, place_beside, score
from .profiles import Phase, Profile, ProfileError, read_profile, typed_profile, written_profile
from .ranking import Choice, Group, Network, Shared, choose

__all__ = [
    "Choice",
    "Cycle",
    "Fit",
    "Group",
    "Neighbour",
    "Network",
    "Phase",
    "Place",
    "Profile",
    "ProfileError",
    "Shared",
    "SharedLink",
    "best_fit",
    "choose",
    "degrees",
    "perimeter_ms",
    "place_beside",
    "read_profile",
    "score",
    "shifts_of",
    "typed_profile",
    "written_profile",
]
