"""The data folder of one installation: its lock, its secrets, and where its private servers live.

DATA/id               a random name for this installation, for folders that cannot lie inside DATA
DATA/lock             held by the running supervisor
DATA/running.json     what the running one tells others: its process id and its servers' addresses
DATA/secrets/NAME     drawn at first use, readable by the owner alone
DATA/log/NAME.log
DATA/servers/         the private servers' files, or, as root with a DATA the servers' account cannot enter,
                      /var/lib/allotment/ID/
"""

import fcntl
import json
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.supervisor.processes import Account
from portal.supervisor.refusal import Refusal

SOCKET_PATH_MAX_BYTES = 107
LONGEST_SOCKET_NAME = ".s.PGSQL.5432"
SERVERS_ACCOUNT = "nobody"
LOCK_PATIENCE_S = 15


@dataclass(frozen=True)
class Place:
    """A data folder that exists."""

    root: Path

    @classmethod
    def open(cls, path: Path) -> "Place":
        """The data folder at `path`, made if missing; Refusal where it cannot be made or written."""
        root = path.expanduser().absolute()
        try:
            # Others may pass through (the servers' and the workloads' accounts have folders inside), not look.
            root.mkdir(mode=0o711 if is_root() else 0o700, parents=True, exist_ok=True)
            for name in ("secrets", "log"):
                (root / name).mkdir(mode=0o700, exist_ok=True)
            identity = root / "id"
            if not identity.exists():
                write_privately(identity, secrets.token_hex(4))
        except OSError as error:
            raise Refusal(f"data folder {root}: {error.strerror}") from None
        return cls(root)

    @property
    def identity(self) -> str:
        """Eight hexadecimal digits, drawn once."""
        return (self.root / "id").read_text(encoding="utf-8").strip()

    @property
    def running_path(self) -> Path:
        """What the running supervisor tells others."""
        return self.root / "running.json"

    def log_path(self, name: str) -> Path:
        """Where a service of that name writes."""
        return self.root / "log" / f"{name}.log"

    def secret_path(self, name: str) -> Path:
        """The file of a secret, drawn now if it is asked for the first time."""
        path = self.root / "secrets" / name
        if not path.exists():
            write_privately(path, secrets.token_urlsafe(36))
        return path

    def secret(self, name: str) -> str:
        """A secret's text."""
        return self.secret_path(name).read_text(encoding="utf-8").strip()

    def lock(self) -> int:
        """Hold this folder until the returned descriptor is closed.

        One that is just being stopped is waited for; Refusal if another supervisor runs.
        """
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                holder = self.running().get("pid")
                if holder is None or is_alive(holder) or time.monotonic() > deadline:
                    os.close(descriptor)
                    by = f" by process {holder}" if holder else ""
                    raise Refusal(f"data folder {self.root} is in use{by}; choose another with --data") from None
                time.sleep(0.1)

    def running(self) -> dict[str, Any]:
        """What the last supervisor wrote about itself; empty if there is none."""
        try:
            return dict(json.loads(self.running_path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def is_locked(self) -> bool:
        """Whether a supervisor runs here now."""
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def servers_dir(self, account: Account | None) -> Path:
        """The folder that holds the private servers' folders; the servers' account can pass through it."""
        inside = self.root / "servers"
        if account is None or can_enter(self.root, account):
            chosen = inside
        else:
            chosen = Path("/var/lib/allotment") / self.identity
        chosen.mkdir(mode=0o711, parents=True, exist_ok=True)
        return chosen


def is_root() -> bool:
    """Whether we may change accounts."""
    return os.geteuid() == 0


def servers_account() -> Account | None:
    """Whom the private servers run as: ourselves (None), or as root an existing account without rights."""
    if not is_root():
        return None
    try:
        row = pwd.getpwnam(SERVERS_ACCOUNT)
    except KeyError:
        raise Refusal(f"there is no account {SERVERS_ACCOUNT!r} to run PostgreSQL as; run as another user") from None
    return Account(row.pw_name, row.pw_uid, row.pw_gid)


def can_enter(directory: Path, account: Account) -> bool:
    """Whether that account can pass through a folder and all above it."""
    return runs_as(("test", "-x", str(directory)), account)


def runs_as(argv: Sequence[str], account: Account | None) -> bool:
    """Whether a command ends well under that account."""
    try:
        done = subprocess.run(
            argv,
            check=False,
            cwd="/",
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return False
    return done.returncode == 0


def is_alive(pid: int) -> bool:
    """Whether a process of that id exists, other than one that only waits to be collected."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def write_privately(path: Path, text: str, account: Account | None = None) -> None:
    """Write a file that its owner alone can read, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    if account:
        os.chown(draft, account.uid, account.gid)
    draft.replace(path)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write an object as JSON that its owner alone can read, whole or not at all."""
    write_privately(path, json.dumps(content, indent=1))


def private_dir(path: Path, account: Account | None) -> Path:
    """A folder that one account alone can use."""
    path.mkdir(mode=0o700, exist_ok=True)
    if account:
        os.chown(path, account.uid, account.gid)
    path.chmod(0o700)
    return path


def make_sockets_dir(account: Account | None) -> Path:
    """A new private folder with a path short enough for unix sockets, which the servers' account owns."""
    wanted = os.environ.get("XDG_RUNTIME_DIR", "") if account is None else ""
    base = wanted if wanted and os.access(wanted, os.W_OK) and len(wanted) < 60 else "/tmp"
    path = Path(tempfile.mkdtemp(prefix="allotment-", dir=base))
    if len(str(path / LONGEST_SOCKET_NAME).encode()) > SOCKET_PATH_MAX_BYTES:
        path.rmdir()
        raise Refusal(f"the path {path} is too long for a unix socket")
    return private_dir(path, account)


def remove_sockets_dir(path: str) -> None:
    """Remove a folder that `make_sockets_dir` made; anything else, and what is gone, stays as it is."""
    if Path(path).name.startswith("allotment-"):
        shutil.rmtree(path, ignore_errors=True)
