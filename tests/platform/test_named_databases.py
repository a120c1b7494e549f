"""`./run` with DATABASE_URL and REDIS_URL: those are used, and no server is started."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from tests.platform.conftest import Installation, wait_until

DATABASE = "of_somebody_else"


@pytest.fixture
def named(installation: Installation, private_servers: None) -> Installation:
    """An installation told of a database and a broker that run already: here, an own part of the test run's."""
    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {DATABASE}")
    installation.environment.update(
        DATABASE_URL=urlsplit(url)._replace(path=f"/{DATABASE}").geturl(),
        REDIS_URL=os.environ["REDIS_URL"].replace("db=0", "db=1"),
    )
    return installation


def test_they_are_used_and_no_server_is_started(named: Installation) -> None:
    named.start()
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in named.processes()]
    assert [line for line in lines if b"postgres" in line or b"valkey" in line] == []
    with psycopg.connect(named.environment["DATABASE_URL"]) as connection:
        assert connection.execute("SELECT count(*) > 10 FROM django_migrations").fetchone() == (True,)
    with redis.Redis.from_url(named.environment["REDIS_URL"]) as broker:
        assert wait_until(lambda: broker.keys("_kombu*"), within_s=30)
    assert named.stop() == 0
