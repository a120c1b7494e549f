"""Calling agents' wake-up ports, so that they ask for their desired state at once and not at their next heartbeat."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

WAKE_WITHIN_S = 0.5
"""How long the portal spends on waking agents, all together; their next heartbeat comes anyway."""


def wake(urls: Iterable[str], *, within_s: float = WAKE_WITHIN_S) -> list[str]:
    """Tell agents to ask for their desired state now, all at once; those of `urls` that took it.

    Never raises for an agent that cannot be reached: its next heartbeat does the same.
    """
    deadline_s = time.monotonic() + within_s
    told = []
    with selectors.DefaultSelector() as waiting, contextlib.ExitStack() as open_ones:
        for url in urls:
            host, port = urlsplit(url).hostname or "", urlsplit(url).port or 80
            connection = open_ones.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            connection.setblocking(False)
            connection.connect_ex((host, port))
            waiting.register(connection, selectors.EVENT_WRITE, (url, connection))
        while waiting.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
            for key, _events in waiting.select(left_s):
                url, connection = key.data
                waiting.unregister(connection)
                where = urlsplit(url)
                request = f"POST {where.path} HTTP/1.0\r\nHost: {where.netloc}\r\nContent-Length: 0\r\n\r\n"
                with contextlib.suppress(OSError):  # it was refused, or broke off
                    connection.sendall(request.encode("ascii"))
                    told.append(url)
    return told
