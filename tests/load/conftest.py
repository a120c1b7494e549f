"""The load laboratory in the test database, made once for all tests of a module."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from portal.web_server import spare_the_loaded
from tests.load.world import World, build


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """Built as it would be live, since passes keep their own transactions; emptied in the end."""
    with django_db_blocker.unblock():
        thresholds = gc.get_threshold()
        try:
            made = build()
            spare_the_loaded()  # as the processes do that answer
            yield made
        finally:
            gc.unfreeze()
            gc.set_threshold(*thresholds)
            call_command("flush", verbosity=0, interactive=False, inhibit_post_migrate=True)
