"""Saved working directories on their way from node to node, through the portal, where nodes share no file system.

Packing and unpacking is done by a process that is the workload's own user, so that an archive reaches nothing that its
owner could not reach. All of it happens beside the agent's loop, in a thread for each directory.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scheduler.executors.base import DesiredRank
from scheduler.executors.contact import Cut
from scheduler.executors.portal_side import PortalSide
from scheduler.executors.ranks import Rank

PIECE_BYTES = 1024 * 1024
FETCH_PATIENCE_S = 180
"""How long a directory may take to arrive; then its run cannot start."""
SEND_PATIENCE_S = 600
PACK_PATIENCE_S = 300
TRY_AGAIN_S = 0.5


class NotCarried(Exception):
    """It could not be; the text says why, in a line."""


class Carrier:
    """Sends and fetches, each once."""

    def __init__(self, portal: PortalSide, state: Path, max_mib: int, nudge: Callable[[], None]) -> None:
        """`nudge` has the agent look again."""
        self._portal, self._max_bytes, self._nudge = portal, max_mib * 1024 * 1024, nudge
        self._folder = state / "carry"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._program = state / "programs" / "allotment-archive"
        self._going: dict[tuple[str, int, int], threading.Thread] = {}
        self._outcomes: dict[tuple[str, int, int], str] = {}

    def send(self, rank: Rank) -> bool:
        """Send what the rank has saved; whether that is over, well or not."""
        key = ("send", *rank.key)
        return self._is_over(key, lambda: self._send_or_say(rank))

    def fetch(self, want: DesiredRank, directory: Path, uid: int | None) -> str | None:
        """Fetch what an earlier run saved; None while it is on its way, empty when it is here, else what is wrong."""
        key = ("fetch", *want.key)
        return self._outcomes[key] if self._is_over(key, lambda: self._fetch(want, directory, uid)) else None

    def forget(self, rank: tuple[int, int]) -> None:
        """The run is over."""
        for what in ("send", "fetch"):
            self._outcomes.pop((what, *rank), None)

    def _is_over(self, key: tuple[str, int, int], work: Callable[[], None]) -> bool:
        if key in self._outcomes:
            return True
        if key not in self._going:
            self._going[key] = threading.Thread(target=self._do, args=(key, work), daemon=True)
            self._going[key].start()
        return False

    def _do(self, key: tuple[str, int, int], work: Callable[[], None]) -> None:
        try:
            work()
            outcome = ""
        except (NotCarried, Cut, OSError, subprocess.SubprocessError) as error:
            outcome = str(error)[:250] or type(error).__name__
        self._outcomes[key] = outcome
        self._going.pop(key, None)
        self._nudge()

    # --- in a thread --------------------------------------------------------------------------------------------------

    def _send_or_say(self, rank: Rank) -> None:
        try:
            self._send(rank)
        except (NotCarried, OSError, subprocess.SubprocessError) as error:
            self._try(
                time.monotonic() + SEND_PATIENCE_S, "directory/fail", run=rank.run, rank=rank.index, message=str(error)
            )
            raise

    def _send(self, rank: Rank) -> None:
        path = self._folder / f"{rank.run}.{rank.index}.out"
        try:
            with path.open("wb") as file:
                self._run(rank.uid, ["pack", rank.directory, str(self._max_bytes)], stdout=file)
            digest = _digest(path)
            deadline = time.monotonic() + SEND_PATIENCE_S
            with path.open("rb") as file:
                offset, size = 0, path.stat().st_size
                while offset < size:
                    file.seek(offset)
                    data = base64.b64encode(file.read(PIECE_BYTES)).decode()
                    answer = self._try(
                        deadline,
                        "directory/put",
                        run=rank.run,
                        rank=rank.index,
                        offset=offset,
                        size=size,
                        data=data,
                        digest=digest,
                    )
                    if answer.get("next") == offset:
                        raise NotCarried("the portal takes no more of it")
                    offset = int(answer["next"])
        finally:
            path.unlink(missing_ok=True)

    def _fetch(self, want: DesiredRank, directory: Path, uid: int | None) -> None:
        path = self._folder / f"{want.run}.{want.rank}.in"
        deadline = time.monotonic() + FETCH_PATIENCE_S
        try:
            with path.open("wb") as file:
                while True:
                    answer = self._try(deadline, "directory/get", run=want.run, rank=want.rank, offset=file.tell())
                    file.write(base64.b64decode(answer["data"]))
                    if file.tell() >= answer["size"]:
                        break
            if _digest(path) != answer["digest"]:
                raise NotCarried("its saved directory was damaged on its way")
            with path.open("rb") as file:
                self._run(uid, ["unpack", str(directory), str(self._max_bytes)], stdin=file)
        finally:
            path.unlink(missing_ok=True)

    def _try(self, deadline: float, name: str, **content: Any) -> dict[str, Any]:
        """Ask until there is an answer: the portal may be away for a while, and what is fetched not be there yet."""
        while True:
            try:
                return self._portal.post(name, **content)
            except Cut as error:
                if error.status in (400, 404, 413) or time.monotonic() >= deadline:
                    raise NotCarried(f"its saved directory did not travel: {error.said or error}") from None
                time.sleep(TRY_AGAIN_S)

    def _run(self, uid: int | None, arguments: list[str], **streams: Any) -> None:
        whom: dict[str, Any] = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        done = subprocess.run(
            [str(self._program), *arguments],
            check=False,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            cwd="/",
            umask=0o077,
            timeout=PACK_PATIENCE_S,
            **streams,
            **whom,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().split("\n")[-1]
            raise NotCarried(f"{arguments[0]}: {said}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
