"""The load laboratory in the test database."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from portal.web_server import spare_the_loaded
from tests.load.world import World, build


@pytest.fixture
def world(transactional_db: None) -> Iterator[World]:
    """Built as it would be live, since passes and some pages keep their own transactions."""
    thresholds = gc.get_threshold()
    made = build()
    spare_the_loaded()  # as the processes do that answer
    yield made
    gc.unfreeze()
    gc.set_threshold(*thresholds)
