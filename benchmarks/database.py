"""A PostgreSQL of its own for a benchmark, set up as `./run` sets up the product's, which keeps what it is told."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
from django.core.management import call_command

from portal.supervisor.databases import allot, private_services, release, started
from portal.supervisor.place import Place

OWN = ("DATABASE_URL", "REDIS_URL")


@contextmanager
def own_database() -> Iterator[None]:
    """An empty database with all tables, through Django, inside the block; no broker, so wake-ups go nowhere.

    Once in the life of a process: Django's settings are read once.
    """
    for name in OWN:
        os.environ.pop(name, None)
    folder = Path(tempfile.mkdtemp(prefix="allotment-benchmark-", dir="/tmp"))
    folder.chmod(0o711)  # the server's account has its folders inside
    place = Place.open(folder)
    addresses = allot(place)
    services = [each for each in private_services(place, addresses) if each.name == "postgresql"]
    os.environ.update(
        DATABASE_URL=addresses.database_url,
        ALLOTMENT_DATA_DIR=str(folder),
        DJANGO_SETTINGS_MODULE="portal.settings",
    )
    try:
        with started(services):
            django.setup()
            logging.getLogger().setLevel(logging.WARNING)
            call_command("migrate", verbosity=0)
            yield
            django.db.connections.close_all()
    finally:
        release(addresses)
        shutil.rmtree(folder, ignore_errors=True)
