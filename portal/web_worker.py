"""gunicorn's threads for clients that are slow, or that mean harm: a thread is for work, not for waiting.

A request is handed to a thread when all of it is here, its body too, and until then its connection waits with the
others and costs nothing but its place. So does one whose client has not taken its answer yet, and one that is being
closed while its client still sends. All of it must come and go at a least speed. A body that breaks off is thrown away,
so nothing of it is taken for the whole. `portal/web_client.py` is one connection, here are all of a process.

A proxy in front that takes whole requests first (deploy/nginx.conf) does all of this better; this is for what comes
past it.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn.workers import gthread

from portal.web_client import REFUSAL, ClientSocket, Gone, Refused, Room

LINGER_S = 1.0
"""How long what a client still sends is thrown away, so that it sees the answer that has been given already."""


class Worker(gthread.ThreadWorker):
    """gunicorn's threads, with connections as above."""

    pending_conns: deque[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.room = Room(threads=max(1, self.cfg.threads // 2))
        self.leaving: set[Any] = set()
        """Connections whose clients have not taken their answers yet, or that are being closed."""

    def handle(self, conn: Any) -> Any:
        """Work on a connection's next request once it is here; until then it is put back."""
        sock = self.ours(conn)
        if sock is None:
            return super().handle(conn)
        try:
            wanted = sock.take_in()
        except Gone:
            return False
        except Refused as error:
            with suppress(OSError):
                sock.sendall(REFUSAL.format(status=error).encode())
            return False
        with suppress(OSError):
            # The kernel says that it is readable when so much is here, and when the client has gone.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted or 1)
        if wanted:
            return gthread._DEFER
        conn.data_ready = True
        return super().handle(conn)

    def ours(self, conn: Any) -> ClientSocket | None:
        """The connection as above; None for one of another kind: from a proxy on this machine, or encrypted."""
        if isinstance(conn.sock, ClientSocket):
            return conn.sock
        if conn.sock.family == socket.AF_UNIX or conn.cfg.is_ssl:
            return None
        conn.sock = ClientSocket(fileno=conn.sock.detach())
        conn.sock.room = self.room
        return conn.sock

    def _keepalive_after(self, conn: Any, keepalive: Any) -> bool:
        """Whether another request can follow: nothing of this one is left, and none of it was read as the next."""
        if not isinstance(conn.sock, ClientSocket):
            return bool(super()._keepalive_after(conn, keepalive))
        if not keepalive or conn.sock.request is None or not conn.sock.request.is_whole:
            return False
        return conn.parser.finish_body() and not conn.parser.unreader.buf.getvalue() and conn.sock.is_read_up()

    # --- in the process's one loop ------------------------------------------------------------------------------------

    def finish_request(self, conn: Any, fs: Any) -> None:
        """What follows when a thread is done with a connection."""
        sock = conn.sock
        if not isinstance(sock, ClientSocket):
            super().finish_request(conn, fs)
            return
        try:
            result = fs.result() if not fs.cancelled() else False
        except Exception:
            result = False
        if sock.fileno() < 0:
            self.nr_conns -= 1
        elif result is gthread._DEFER:
            self.wait_for(conn)
        elif sock.unsent:
            self.watch(conn, selectors.EVENT_WRITE, sock.sent_until_s(), partial(self.on_writable, conn, result, fs))
        else:
            self.answered(conn, result, fs)

    def wait_for(self, conn: Any) -> None:
        """Let a connection wait, without a thread, until more is here; who has waited longest is looked at first."""
        if not self.alive and conn.sock.request is None:
            self.drop(conn)
            return
        conn.timeout = conn.sock.until_s()
        self.pending_conns.append(conn)
        if len(self.pending_conns) > 1 and self.pending_conns[-2].timeout > conn.timeout:
            self.pending_conns = deque(sorted(self.pending_conns, key=lambda each: each.timeout))
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def answered(self, conn: Any, goes_on: Any, fs: Any) -> None:
        """The client has taken the answer: its next request may come, or the connection is closed."""
        sock = conn.sock
        if goes_on:
            sock.forget_request()
            super().finish_request(conn, fs)
        elif sock.may_still_send():
            with suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
            self.watch(conn, selectors.EVENT_READ, time.monotonic() + LINGER_S, partial(self.on_still_sending, conn))
        else:
            self.drop(conn)

    def watch(self, conn: Any, events: int, until_s: float, call: Callable[[Any], None]) -> None:
        """Have the loop call when the connection is ready, and close it where that takes too long."""
        conn.timeout = until_s
        self.leaving.add(conn)
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self.poller.register(conn.sock, events, call)

    def on_writable(self, conn: Any, goes_on: Any, fs: Any, sock: ClientSocket) -> None:
        """The client takes more of its answer."""
        try:
            sock.send_on()
        except OSError:
            self.unwatch(conn)
            self.drop(conn)
            return
        conn.timeout = sock.sent_until_s()
        if not sock.unsent:
            self.unwatch(conn)
            self.answered(conn, goes_on, fs)

    def on_still_sending(self, conn: Any, sock: ClientSocket) -> None:
        """The client goes on sending what nobody reads, or has seen its answer."""
        if sock.throw_away():
            self.unwatch(conn)
            self.drop(conn)

    def unwatch(self, conn: Any) -> None:
        """The loop looks no more for it."""
        self.leaving.discard(conn)
        with suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)

    def drop(self, conn: Any) -> None:
        """Close it."""
        self.nr_conns -= 1
        conn.close()

    def murder_pending(self) -> None:
        """Close what has waited too long: gunicorn's, and ours."""
        super().murder_pending()
        now_s = time.monotonic()
        for conn in [each for each in self.leaving if each.timeout <= now_s]:
            self.unwatch(conn)
            self.drop(conn)
