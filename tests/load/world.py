"""A laboratory as large as the portal is built for, stored in seconds and always the same but for its clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from scheduler.loop import live_on, look_at
from scheduler.services import timeline, usage
from tests.load import governance, people, simulations, work
from tests.load.people import House

SEED = 5
BORN_BEFORE = timedelta(days=45)


@dataclass(slots=True)
class World:
    """What was made, and how many seconds each part took."""

    house: House
    now: datetime
    runs: int
    simulation: int
    large_simulation: int
    took_s: dict[str, float] = field(default_factory=dict)


def build(seed: int = SEED) -> World:
    """Make it in an empty database. Outside transactions: a pass looks at it in the end."""
    took: dict[str, float] = {}
    began = time.monotonic()

    def done(part: str) -> None:
        nonlocal began
        took[part], began = time.monotonic() - began, time.monotonic()

    chance = Random(seed)
    now = datetime.now(UTC).replace(microsecond=0)
    house = people.found(now - BORN_BEFORE)
    done("people")
    runs = work.fill(house, now, chance)
    done("work")
    north = house.clusters[0]
    usage.rebuild(north, now - work.SPAN, now, now=now)
    done("hours")
    timeline.fill(north, now)
    done("tiles")
    governance.govern(house, now, chance)
    done("governance")
    small, large = simulations.keep(house, chance)
    done("simulations")
    live_on(north, now)
    look_at(north.pk, now=now, is_due=True)
    done("pass")
    return World(house, now, runs, small, large, took)
