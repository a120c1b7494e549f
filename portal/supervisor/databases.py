"""The databases of an installation: where they are, and the private servers behind the addresses that are ours."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from portal.supervisor.place import Place, make_sockets_dir, remove_sockets_dir, servers_account
from portal.supervisor.processes import Running, Service, start, stop, wait_ready
from portal.supervisor.refusal import Refusal
from portal.supervisor.servers import THROWAWAY_SETTINGS, Postgres, Valkey, find_programs, postgres_url, valkey_url


@dataclass(frozen=True)
class Addresses:
    """Where the databases are or will be; `sockets_dir` is None where both are somebody else's."""

    database_url: str
    redis_url: str
    sockets_dir: Path | None
    private: frozenset[str]

    @property
    def environment(self) -> dict[str, str]:
        """The two addresses as settings read them."""
        return {"DATABASE_URL": self.database_url, "REDIS_URL": self.redis_url}


def named(name: str) -> str:
    """What the environment names: in the variable, or in the file that NAME_FILE names; empty where in neither.

    Raises:
        Refusal: the file cannot be read.
    """
    path = os.environ.get(f"{name}_FILE", "")
    if not path:
        return os.environ.get(name, "")
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Refusal(f"{name}_FILE: cannot read {path}: {error.strerror}") from None


def allot(place: Place) -> Addresses:
    """The addresses that the environment names, and new private ones for those it does not. Starts nothing."""
    database_url, redis_url = named("DATABASE_URL"), named("REDIS_URL")
    if database_url and redis_url:
        return Addresses(database_url, redis_url, None, frozenset())
    private = {name for name, url in (("postgresql", database_url), ("valkey", redis_url)) if not url}
    sockets_dir = make_sockets_dir(servers_account())
    return Addresses(
        database_url or postgres_url(sockets_dir, place.secret("database_password")),
        redis_url or valkey_url(sockets_dir, place.secret("broker_password")),
        sockets_dir,
        frozenset(private),
    )


def private_services(place: Place, addresses: Addresses, *, throwaway: bool = False) -> list[Service]:
    """The private servers to run for these addresses, their folders made ready.

    Args:
        place: the data folder, held by the caller.
        addresses: what `allot` gave.
        throwaway: the data need not survive a crash of the machine.
    """
    if addresses.sockets_dir is None:
        return []
    account = servers_account()
    servers_dir = place.servers_dir(account)
    programs = find_programs(account, servers_dir / "programs")
    services = []
    if "postgresql" in addresses.private:
        postgres = Postgres(
            programs=programs, servers_dir=servers_dir, sockets_dir=addresses.sockets_dir, account=account
        )
        password = place.secret("database_password")
        postgres.initialise(password)
        settings = THROWAWAY_SETTINGS if throwaway else {}
        services.append(postgres.service(place, password=password, settings=settings))
    if "valkey" in addresses.private:
        valkey = Valkey(programs=programs, servers_dir=servers_dir, sockets_dir=addresses.sockets_dir, account=account)
        services.append(valkey.service(place, password=place.secret("broker_password")))
    return services


@contextmanager
def started(services: list[Service]) -> Iterator[None]:
    """The services run inside the block."""
    running: list[Running] = []
    try:
        for service in services:
            running.append(start(service))
        for each in running:
            wait_ready(each)
        yield
    finally:
        stop(running)


def release(addresses: Addresses) -> None:
    """Remove the private sockets' folder."""
    if addresses.sockets_dir:
        remove_sockets_dir(str(addresses.sockets_dir))
