"""gunicorn's threads for clients that are slow, or that mean harm: a thread is for work, not for waiting.

A request is handed to a thread when all of its head is here, and all of its body if that is short; until then its
connection waits with the others and costs nothing but its place. What a thread still has to wait for (a long body, a
client that reads slowly) must come at a least speed, and never may such clients have all threads of a process. A body
that breaks off is an error, so nothing of it is taken for the whole.

A proxy in front that takes whole requests first (deploy/nginx.conf) does all of this better; this is for what comes
past it.
"""

from __future__ import annotations

import errno
import re
import select
import socket
import threading
import time
from collections import deque
from typing import Any

from gunicorn.workers import gthread

HEAD_S = 15.0
"""Within so long the head has to come, and with it a body of at most PEEKED_MAX bytes."""
PEEKED_MAX = 32_768
BODY_S, BODY_BYTES_A_S = 15.0, 2_000
"""A long body may take so long, and a second more for each so many bytes that came."""
SEND_S, SEND_BYTES_A_S = 15.0, 5_000
"""A client that reads slowly, likewise."""
LINGER_S = 1.0
"""How long what a client still sends is thrown away, so that it sees the answer that has been given already."""
HEAD_END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r\n", re.IGNORECASE)
EXPECTS = re.compile(rb"\r\nexpect:", re.IGNORECASE)


def too_slow() -> OSError:
    """What gunicorn takes for a client that went away."""
    return ConnectionResetError(errno.ECONNRESET, "the client is too slow, or went away within its request")


class ClientSocket(socket.socket):
    """A client's connection that bounds how long its thread waits for it."""

    slots: threading.Semaphore | None = None
    """One for each thread that may wait for a slow client; those of its process."""
    body_since_s: float | None = None
    """When its thread began to read a body; None while it reads a head."""
    received = 0
    is_closing = False
    """Nothing is waited for any more."""

    def missing(self) -> int:
        """How many bytes are wanted before a thread can work on it; 0: enough are here, or none will come."""
        try:
            seen = self.recv_now(PEEKED_MAX, socket.MSG_PEEK)
        except BlockingIOError:
            return 1
        except OSError:
            return 0
        head, end, body = seen.partition(HEAD_END)
        wanted = len(seen) + 1 if seen and len(seen) < PEEKED_MAX else 0
        if end:
            length = LENGTH.search(head + b"\r\n")
            body_here = min(int(length[1]), PEEKED_MAX - len(head + end)) if length else 0
            wanted = len(head + end) + body_here if len(body) < body_here and not EXPECTS.search(head) else 0
        return 0 if wanted and self.has_said_all() else wanted

    def has_said_all(self) -> bool:
        """Whether the client sends nothing more."""
        poll = select.poll()
        poll.register(self, select.POLLRDHUP)
        return bool(poll.poll(0))

    def recv_now(self, size: int, flags: int = 0) -> bytes:
        """What is here; BlockingIOError where nothing is."""
        return super().recv(size, flags | socket.MSG_DONTWAIT)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Some bytes, within the time that is left; none where the client has said all it wants to.

        Raises:
            ConnectionResetError: the client is too slow, too many are, or it breaks off within a body.
        """
        try:
            data = self.recv_now(size, flags)
        except BlockingIOError:
            if self.is_closing:
                return b""
            data = self._wait_for(size, flags)
        self.received += len(data)
        if not data and self.body_since_s is not None:
            raise too_slow()
        return data

    def _wait_for(self, size: int, flags: int) -> bytes:
        own_limit_s = self.gettimeout()
        if self.body_since_s is None:
            left_s = HEAD_S
        else:
            left_s = self.body_since_s + BODY_S + self.received / BODY_BYTES_A_S - time.monotonic()
        if own_limit_s is not None:
            left_s = min(left_s, own_limit_s)
        if left_s <= 0 or (self.slots is not None and not self.slots.acquire(blocking=False)):
            raise too_slow()
        try:
            if not select.select([self], [], [], left_s)[0]:
                raise too_slow()
            return super().recv(size, flags)
        finally:
            if self.slots is not None:
                self.slots.release()

    def linger(self) -> None:
        """Before it is closed: throw away what the client still sends, or it might not see its answer. Not for long."""
        try:
            if not self.recv_now(1, socket.MSG_PEEK):
                return
            self.shutdown(socket.SHUT_WR)
            until_s = time.monotonic() + LINGER_S
            while (left_s := until_s - time.monotonic()) > 0 and select.select([self], [], [], left_s)[0]:
                if not self.recv_now(PEEKED_MAX):
                    return
        except OSError:
            return
        finally:
            self.body_since_s, self.is_closing = None, True

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all of it, within its time.

        Raises:
            ConnectionResetError: the client reads too slowly.
        """
        before_s = self.gettimeout()
        self.settimeout(SEND_S + len(data) / SEND_BYTES_A_S)
        try:
            super().sendall(data, flags)
        except TimeoutError:
            raise too_slow() from None
        finally:
            self.settimeout(before_s)

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send of a file, within its time."""
        before_s = self.gettimeout()
        self.settimeout(SEND_S)
        try:
            return super().sendfile(file, offset, count)
        except TimeoutError:
            raise too_slow() from None
        finally:
            self.settimeout(before_s)


class Worker(gthread.ThreadWorker):
    """gunicorn's threads, with connections as above."""

    pending_conns: deque[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.slots = threading.Semaphore(max(1, self.cfg.threads // 2))

    def handle(self, conn: Any) -> Any:
        """Work on a connection's next request once enough of it is here; until then it is put back."""
        is_ours = conn.sock.family != socket.AF_UNIX and not conn.cfg.is_ssl
        if is_ours and not isinstance(conn.sock, ClientSocket):
            conn.sock = ClientSocket(fileno=conn.sock.detach())
            conn.sock.slots = self.slots
        sock = conn.sock
        if isinstance(sock, ClientSocket):
            has_read_ahead = conn.initialized and conn.parser.unreader.buf.getvalue()
            wanted = 0 if has_read_ahead else sock.missing()
            if wanted and self.alive:
                return self.put_back(conn, wanted)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            conn.head_since_s, conn.data_ready, sock.body_since_s = None, True, None
        goes_on = super().handle(conn)
        if not goes_on and isinstance(sock, ClientSocket):
            sock.linger()
        return goes_on

    def put_back(self, conn: Any, wanted: int) -> Any:
        """Let the connection wait, without a thread, until so many bytes are here; not for ever."""
        now_s = time.monotonic()
        since_s = getattr(conn, "head_since_s", None)
        conn.head_since_s = now_s if since_s is None else since_s
        if now_s - conn.head_since_s > HEAD_S:
            conn.sock.is_closing = True
            return False
        # The kernel says that it is readable when so much is here, and when the client has gone.
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
        return gthread._DEFER

    def finish_request(self, conn: Any, fs: Any) -> None:
        """What gunicorn does; but whoever is waited for has until the head's end of time, as the first of all."""
        super().finish_request(conn, fs)
        since_s = getattr(conn, "head_since_s", None)
        if since_s is not None and self.pending_conns and self.pending_conns[-1] is conn:
            conn.timeout = since_s + HEAD_S
            self.pending_conns = deque(sorted(self.pending_conns, key=lambda each: each.timeout))

    def handle_request(self, req: Any, conn: Any) -> Any:
        """One request; what is read of the connection meanwhile is its body."""
        if isinstance(conn.sock, ClientSocket):
            conn.sock.body_since_s, conn.sock.received = time.monotonic(), 0
        try:
            return super().handle_request(req, conn)
        finally:
            if isinstance(conn.sock, ClientSocket):
                conn.sock.body_since_s = None
