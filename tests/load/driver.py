"""Many clients of a portal in one process of its own: each asks for something every so often, and how long it took.

    python -m tests.load.driver < plan.json > measured.json

A plan is {"host", "port", "seconds", "clients": [{"kind", "every_s", "headers", "fresh", "requests": [{"kind",
"method", "path", "headers", "body"}]}]}.

A client asks for its requests in turn, on one connection or (`fresh`) on a new one each time, as agents do. It begins
at an instant of its own within the first `every_s`, and keeps to its times: where an answer takes longer than that, it
asks again at once, and counts the wait from when it should have asked (so that a portal that stands still is not
measured by the few who got through). `{n}` in a body is a number that no other request has.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any

PATIENCE_S = 60
READ_AT_ONCE = 1 << 16


@dataclass
class Measured:
    """What clients of one kind met."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    late_s: float = 0.0


class Driver:
    """Plays a plan."""

    def __init__(self, plan: dict[str, Any], seed: int = 1) -> None:
        self.plan, self.chance, self.numbers = plan, random.Random(seed), count(1)
        self.measured: dict[str, Measured] = {}
        self.ends_s = 0.0

    async def play(self) -> dict[str, Any]:
        """All clients, until the time is over."""
        self.ends_s = time.monotonic() + self.plan["seconds"]
        await asyncio.gather(*(self.client(each) for each in self.plan["clients"]))
        return {
            kind: {"seconds": sorted(found.seconds), "statuses": found.statuses, "bytes": found.bytes}
            for kind, found in self.measured.items()
        }

    async def client(self, client: dict[str, Any]) -> None:
        """One of them."""
        due_s = time.monotonic() + self.chance.uniform(0, client["every_s"])
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        turn = self.chance.randrange(len(client["requests"]))
        while due_s < self.ends_s:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            request = client["requests"][turn % len(client["requests"])]
            turn += 1
            kind = request.get("kind") or client["kind"]
            found = self.measured.setdefault(kind, Measured())
            try:
                if connection is None or client.get("fresh"):
                    connection = await asyncio.open_connection(self.plan["host"], self.plan["port"])
                status, length, stays = await asyncio.wait_for(
                    ask(connection, self.plan, client, request, next(self.numbers)), PATIENCE_S
                )
                found.bytes += length
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError) as error:
                if (
                    connection is not None
                    and not client.get("fresh")
                    and isinstance(error, asyncio.IncompleteReadError)
                ):
                    connection = None  # kept too long: as browsers do, ask once more on a new one
                    turn -= 1
                    continue
                status, stays = type(error).__name__, False
            found.statuses[status] = found.statuses.get(status, 0) + 1
            found.seconds.append(time.monotonic() - due_s)
            if connection is not None and (not stays or client.get("fresh")):
                connection[1].close()
                connection = None
            due_s = max(due_s + client["every_s"], time.monotonic() - client["every_s"])
        if connection is not None:
            connection[1].close()


async def ask(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    plan: dict[str, Any],
    client: dict[str, Any],
    request: dict[str, Any],
    number: int,
) -> tuple[str, int, bool]:
    """One request: its status, the bytes of the answer, and whether the connection stays."""
    reader, writer = connection
    body = request.get("body", "").replace("{n}", str(number)).encode()
    headers = {"Host": f"{plan['host']}:{plan['port']}", **client.get("headers", {}), **request.get("headers", {})}
    if body or request["method"] != "GET":
        headers["Content-Length"] = str(len(body))
    if client.get("fresh"):
        headers["Connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"{request['method']} {request['path']} HTTP/1.1\r\n{lines}\r\n".encode() + body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = head.split()[1]
    length = 0
    if "transfer-encoding: chunked" in head:
        while size := int((await reader.readline()).split(b";")[0], 16):
            length += size
            await reader.readexactly(size + 2)
        await reader.readline()
    elif "content-length:" in head:
        length = int(head.split("content-length:")[1].split()[0])
        await reader.readexactly(length)
    return status, length, "connection: close" not in head


def main() -> None:
    """The command."""
    print(json.dumps(asyncio.run(Driver(json.load(sys.stdin)).play())))


if __name__ == "__main__":
    main()
