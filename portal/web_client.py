"""A client's connection for which no thread waits: a request is taken in before anybody works on it, and what the
client does not take of its answer at once is kept until it does.

Each step here takes what the kernel has and goes on; who calls when there is more is `portal/web_worker.py`.
"""

from __future__ import annotations

import errno
import re
import select
import socket
import tempfile
import threading
import time
from contextlib import suppress
from typing import Any

HEAD_S = 15.0
"""Within so long the head of a request has to come."""
HEAD_MAX = 32_768
"""Bytes of a head; a browser's has some hundreds."""
BODY_S, BODY_BYTES_A_S = 15.0, 2_000
"""A body may take so long, and a second more for each so many bytes that came."""
BODY_MAX = 24 * 1024 * 1024
"""More than any form or file of ours. What a longer body belongs to is worked on without it, which refuses it
(portal/addresses.py)."""
BODY_IN_MEMORY, BODIES_MAX = 64 * 1024, 256 * 1024 * 1024
"""A larger body lies in a temporary file; of all the bodies of more than HEAD_MAX a process keeps so many bytes."""
PIECE = 64 * 1024
SEND_S, SEND_BYTES_A_S = 15.0, 5_000
"""A client may take so long to take its answer, and a second more for each so many bytes that it took."""
UNSENT_MAX = 2 * 1024 * 1024
"""Of so much of an answer its thread is rid at once; with more it waits."""
HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r\n", re.IGNORECASE)
IN_CHUNKS = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
EXPECTS = re.compile(rb"\A[^\r]* HTTP/1\.1\r\n(.*\r\n)?expect:[ \t]*100-continue[ \t]*\r\n", re.IGNORECASE | re.DOTALL)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
REFUSAL = "HTTP/1.1 {status}\r\nConnection: close\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n"
HEAD_TOO_LONG, NO_ROOM = "431 Request Header Fields Too Large", "503 Service Unavailable\r\nRetry-After: 10"


class Refused(Exception):
    """Nobody works on this request; the argument is the status that says why."""


class Gone(Exception):
    """The client sends no more of what it has begun, or nothing."""


def too_slow() -> OSError:
    """What gunicorn takes for a client that went away."""
    return ConnectionResetError(errno.ECONNRESET, "the client is too slow, or went away within its request")


class Room:
    """How many more bytes of bodies this process keeps, and how many of its threads may wait for a client."""

    def __init__(self, threads: int) -> None:
        self.slots = threading.Semaphore(threads)
        self._left = BODIES_MAX
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Whether there was room for so many bytes, which are then taken."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        """So many bytes are kept no longer."""
        with self._lock:
            self._left += size


class Incoming:
    """A request that is being taken in: its head, and what is here of its body."""

    def __init__(self, head: bytes, room: Room) -> None:
        length = LENGTH.search(head)
        size = int(length[1]) if length else 0
        self.is_whole = size <= BODY_MAX and not IN_CHUNKS.search(head)
        """Whether its body is taken in; one that is refused for it, or that nobody here reads, is not."""
        self.missing = size if self.is_whole else 0
        self.expects_answer = self.missing > 0 and EXPECTS.match(head) is not None
        self.received, self.since_s = 0, time.monotonic()
        self._room, self._taken, self._is_long = room, 0, self.missing > HEAD_MAX
        self._kept = tempfile.SpooledTemporaryFile(max_size=BODY_IN_MEMORY)  # noqa: SIM115 (`close` closes it)
        self._kept.write(head)

    def add(self, data: bytes) -> None:
        """More of its body.

        Raises:
            Refused: too much is kept already, or the disk is full.
        """
        if self._is_long:
            if not self._room.take(len(data)):
                raise Refused(NO_ROOM)
            self._taken += len(data)
        try:
            self._kept.write(data)
        except OSError:
            raise Refused(NO_ROOM) from None
        self.received += len(data)
        self.missing -= len(data)

    def begin(self) -> None:
        """All of it is here: from now on it is read."""
        self._kept.seek(0)

    def read(self, size: int) -> bytes:
        """The next bytes; none at its end."""
        return self._kept.read(size)

    def until_s(self) -> float:
        """When all of it has to be here."""
        return self.since_s + BODY_S + self.received / BODY_BYTES_A_S

    def close(self) -> None:
        """Nobody needs it any more."""
        self._room.give_back(self._taken)
        self._taken = 0
        self._kept.close()


class ClientSocket(socket.socket):
    """A client's connection. `recv` gives what was taken in of the present request and never waits."""

    room: Room
    """Of its process."""
    request: Incoming | None = None
    head_since_s: float | None = None
    """Since when a head is waited for; None while none is."""
    _sending_since_s: float | None = None
    _sent = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.unsent = bytearray()
        """What the client has not taken yet of its answer."""

    # --- requests -----------------------------------------------------------------------------------------------------

    def take_in(self) -> int:
        """Take in what is here of the next request. How many bytes are waited for next; 0 where it can be worked on.

        Raises:
            Refused: it is too much.
            Gone: the client has closed its end.
        """
        if self.request is None:
            wanted = self._take_head()
            if wanted:
                return wanted
        assert self.request is not None
        while self.request.missing:
            try:
                data = super().recv(min(self.request.missing, PIECE), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return min(self.request.missing, PIECE)
            except OSError:
                raise Gone from None
            if not data:
                raise Gone
            self.request.add(data)
        self.request.begin()
        return 0

    def _take_head(self) -> int:
        """The same for its head, which is taken once it is whole: what comes behind it stays with the kernel."""
        if self.head_since_s is None:
            self.head_since_s = time.monotonic()
        try:
            seen = super().recv(HEAD_MAX, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 1
        except OSError:
            raise Gone from None
        end = seen.find(HEAD_END)
        if end < 0:
            if len(seen) >= HEAD_MAX:
                raise Refused(HEAD_TOO_LONG)
            if not seen or self._has_said_all():
                raise Gone
            return len(seen) + 1
        self.request = Incoming(super().recv(end + len(HEAD_END)), self.room)
        self.head_since_s, self._sending_since_s, self._sent = None, None, 0
        if self.request.expects_answer:
            with suppress(OSError):
                super().send(CONTINUE, socket.MSG_DONTWAIT)
        return 0

    def _has_said_all(self) -> bool:
        poll = select.poll()
        poll.register(self, select.POLLRDHUP)
        return bool(poll.poll(0))

    def until_s(self) -> float:
        """When what is waited for has to be here."""
        if self.request is not None:
            return self.request.until_s()
        return (time.monotonic() if self.head_since_s is None else self.head_since_s) + HEAD_S

    def recv(self, size: int, flags: int = 0) -> bytes:
        """The next bytes of the present request.

        Raises:
            ConnectionResetError: more is asked for than belongs to it.
        """
        data = b"" if self.request is None else self.request.read(size)
        if not data:
            raise too_slow()
        return data

    def is_read_up(self) -> bool:
        """Whether all of the present request was taken in and read, so that another can follow."""
        return self.request is not None and self.request.is_whole and not self.request.read(1)

    def may_still_send(self) -> bool:
        """Whether more than the present request came, or is to come."""
        if self.request is None or not self.request.is_whole or self.request.missing:
            return True
        try:
            return bool(super().recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            return False

    def throw_away(self) -> bool:
        """Read what is here, for nobody. Whether the client has closed its end."""
        try:
            for _ in range(16):
                if not super().recv(PIECE, socket.MSG_DONTWAIT):
                    return True
        except BlockingIOError:
            return False
        except OSError:
            return True
        return False

    def forget_request(self) -> None:
        """The next one may come."""
        if self.request is not None:
            self.request.close()
            self.request = None

    def close(self) -> None:
        """Close it, and keep nothing of its request."""
        self.forget_request()
        super().close()

    # --- answers ------------------------------------------------------------------------------------------------------

    def send(self, data: Any, flags: int = 0) -> int:
        """gunicorn's word that a body may come: who waits for it has had it when the head was here."""
        return len(data)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send it, or keep what the client does not take at once.

        Raises:
            ConnectionResetError: the client takes its answer too slowly, or too many do.
        """
        self.unsent += data
        self.send_on()
        if len(self.unsent) <= UNSENT_MAX:
            return
        if not self.room.slots.acquire(blocking=False):
            raise too_slow()
        try:
            self._wait_until_taken()
        finally:
            self.room.slots.release()

    def _wait_until_taken(self) -> None:
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        while len(self.unsent) > UNSENT_MAX:
            left_s = self.sent_until_s() - time.monotonic()
            if left_s <= 0 or not poll.poll(1_000 * left_s):
                raise too_slow()
            self.send_on()

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send of a file, as `sendall` does."""
        file.seek(offset)
        sent = 0
        while data := file.read(PIECE if count is None else min(PIECE, count - sent)):
            self.sendall(data)
            sent += len(data)
        return sent

    def send_on(self) -> None:
        """Send what the client takes now."""
        if self._sending_since_s is None:
            self._sending_since_s = time.monotonic()
        while self.unsent:
            try:
                with memoryview(self.unsent) as waiting:
                    sent = super().send(waiting[: 4 * PIECE], socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            del self.unsent[:sent]
            self._sent += sent

    def sent_until_s(self) -> float:
        """When the client has to have taken more."""
        since_s = time.monotonic() if self._sending_since_s is None else self._sending_since_s
        return since_s + SEND_S + self._sent / SEND_BYTES_A_S
