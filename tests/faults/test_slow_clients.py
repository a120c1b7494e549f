"""Clients that are slow, that break off, or that mean harm, against the web server as it is run, without a proxy."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from django.test import Client

from budgets.models import Attachment, LedgerEntry, Person, Request, ShareImport
from portal import web_client
from portal import web_server as server_settings
from scheduler.models import Simulation, Workload
from tests.faults.conftest import Web
from tests.portal.conftest import Laboratory

# It measures how long a page takes: beside other tests that says little.
pytestmark = [pytest.mark.long, pytest.mark.alone]

THREADS = server_settings.workers * server_settings.threads
MANY = 5 * THREADS
QUICK_S = 3.0
"""On a crowded machine, too; without any defence the answer never comes."""


@contextmanager
def trickling(web: Web, count: int, head: bytes, piece: bytes) -> Iterator[list[socket.socket]]:
    """So many clients that send a head, or a part of one, and then a little at a time."""
    clients = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(count)]
    over = threading.Event()

    def trickle() -> None:
        while not over.wait(0.3):
            for client in clients:
                with suppress(OSError):
                    client.sendall(piece)

    for client in clients:
        client.sendall(head)
    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        yield clients
    finally:
        over.set()
        thread.join()
        for client in clients:
            client.close()


def took_s(web: Web, path: str = "/login/") -> float:
    """How long a plain page takes now."""
    began_s = time.monotonic()
    answer = web.get(path)
    assert answer is not None
    assert answer.status == 200
    return time.monotonic() - began_s


def is_closed(client: socket.socket) -> bool:
    """Whether the server has let it go."""
    client.setblocking(False)
    try:
        return client.recv(65_536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_many_clients_that_never_finish_their_heads_hold_up_nobody(web: Web) -> None:
    with trickling(web, MANY, b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", b"a"):
        time.sleep(0.5)
        assert max(took_s(web) for _ in range(5)) < QUICK_S


def test_many_clients_that_never_finish_short_forms_hold_up_nobody(web: Web) -> None:
    head = b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n\r\n"
    with trickling(web, MANY, head, b"a"):
        time.sleep(0.5)
        assert max(took_s(web) for _ in range(5)) < QUICK_S


def test_many_clients_that_never_finish_long_bodies_hold_up_nobody(web: Web) -> None:
    cookie = b"Cookie: csrftoken=" + b"a" * 32
    head = (
        b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 500000\r\n\r\n" % cookie
    )
    with trickling(web, MANY, head + b"a" * (web_client.HEAD_MAX + 1), b"a") as clients:
        time.sleep(0.5)
        assert max(took_s(web) for _ in range(5)) < QUICK_S
        assert not any(map(is_closed, clients))  # they have their time


def test_many_clients_that_go_on_sending_what_nobody_reads_hold_up_nobody(web: Web) -> None:
    in_chunks = b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n"
    too_long = b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99000000\r\n\r\n"
    with trickling(web, MANY, in_chunks, b"a"), trickling(web, MANY, too_long, b"a" * 1_000):
        time.sleep(0.5)
        assert max(took_s(web) for _ in range(5)) < QUICK_S


def test_clients_that_read_nothing_hold_up_nobody(web: Web) -> None:
    clients = []
    for _ in range(MANY):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        client.connect(("127.0.0.1", web.port))
        client.sendall(b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20)
        clients.append(client)
    assert max(took_s(web) for _ in range(5)) < 2 * QUICK_S
    for client in clients:
        client.close()


def test_a_head_that_does_not_come_is_not_waited_for(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    with trickling(web, 2, b"GET /login/ HTTP/1.1\r\nX-A: ", b"a") as clients:
        time.sleep(2 * web_client.HEAD_S + 2)  # the second may have waited for the first
        assert [is_closed(client) for client in clients] == [True, True]


def test_what_comes_in_pieces_but_in_time_is_answered(web: Web) -> None:
    for body in (b"", b"username=ada&password=x" + b"&a=b" * 20_000):
        with socket.create_connection(("127.0.0.1", web.port)) as client:
            method = b"POST" if body else b"GET"
            head = b"%s /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" % method
            length = b"Content-Length: %d\r\n" % len(body) if body else b""
            whole = head + length + b"\r\n" + body
            for at in range(0, len(whole), 1 + len(whole) // 7):
                client.sendall(whole[at : at + 1 + len(whole) // 7])
                time.sleep(0.05)
            answer = b""
            while data := client.recv(65_536):
                answer += data
        assert answer.split()[1] == (b"403" if body else b"200")


def test_a_body_beyond_all_bounds_is_refused_before_it_comes(web: Web) -> None:
    with socket.create_connection(("127.0.0.1", web.port)) as client:
        client.sendall(b"POST /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99000000\r\n\r\n" + b"a" * 70_000)
        answer = b""
        while data := client.recv(65_536):
            answer += data
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b"</html>\n")


def test_a_head_beyond_all_bounds_is_refused(web: Web) -> None:
    with socket.create_connection(("127.0.0.1", web.port)) as client:
        client.sendall(b"GET /login/ HTTP/1.1\r\nX-A: " + b"a" * web_client.HEAD_MAX)
        assert client.recv(65_536).startswith(b"HTTP/1.1 431 ")


def test_requests_that_come_together_are_answered_one_after_the_other(web: Web) -> None:
    asked = (
        b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        b"POST /api/v1/agent/sync HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}"
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", web.port)) as client:
        client.sendall(asked)
        answer = b""
        while data := client.recv(65_536):
            answer += data
    assert re.findall(rb"HTTP/1\.1 (\d{3}) ", answer) == [b"200", b"400", b"200"]


def test_a_long_answer_comes_whole_to_one_who_reads_slowly(
    lab: Laboratory, as_person: Callable[[Person], Client], web: Web
) -> None:
    session = as_person(lab.ada).cookies["sessionid"].value.encode()
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", web.port))
        client.sendall(
            b"GET /api/v1/schema/ HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: sessionid=%s\r\nConnection: close\r\n\r\n"
            % session
        )
        answer = b""
        while data := client.recv(65_536):
            answer += data
            time.sleep(0.001)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    assert length is not None
    assert len(body) == int(length[1]) > 300_000


def test_one_who_expects_to_be_asked_for_the_body_is_asked(web: Web) -> None:
    with socket.create_connection(("127.0.0.1", web.port)) as client:
        client.settimeout(10)
        client.sendall(
            b"POST /api/v1/agent/sync HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
            b"Connection: close\r\n\r\n"
        )
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        client.sendall(b"{}")
        assert client.recv(100).startswith(b"HTTP/1.1 400")


# --- what breaks off --------------------------------------------------------------------------------------------------


def counts() -> list[int]:
    """How much of everything is stored that somebody can send."""
    return [model.objects.count() for model in (Attachment, ShareImport, Simulation, Workload, Request, LedgerEntry)]


def send(web: Web, client: Client, path: str, body: bytes, kind: str, left_out: int = 40) -> bytes:
    """Send a form without its last bytes, and go away; or all of it, and what is answered."""
    cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{web.port}\r\nCookie: {cookies}\r\nContent-Type: {kind}\r\n"
        f"Origin: http://127.0.0.1:{web.port}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", web.port)) as connection:
        connection.sendall(head.encode() + body[: len(body) - left_out])
        return b"" if left_out else connection.recv(65_536)


def multipart(token: str, field: str, name: str, content: bytes, **values: str) -> tuple[bytes, str]:
    """A form with a file, the token last but one: what comes before the end is all there."""
    parts = [
        f'--edge\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in {"csrfmiddlewaretoken": token, **values}.items()
    ]
    file = f'--edge\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'.encode() + content
    return b"".join([*parts, file, b"\r\n--edge--\r\n"]), "multipart/form-data; boundary=edge"


def test_what_breaks_off_is_not_stored(lab: Laboratory, as_person: Callable[[Person], Client], web: Web) -> None:
    client = as_person(lab.mia)
    token = "a" * 32
    client.cookies["csrftoken"] = token
    before = counts()
    code = lab.waits.code
    csv = b"parent,child,cluster,share %,from\nA,A1,north,60,2030-01-01\nA,A2,north,20,2030-01-01\n"
    for size in (1, 3_000):  # short ones wait without a thread; long ones are read by one
        filler = b"# " + b"x" * 20 * size + b"\n"
        for path, body, kind in (
            ("/imports/", *multipart(token, "file", "shares.csv", csv + b"\n" * 20 * size)),
            ("/simulator/new/", *multipart(token, "scenario", "lab.json", b'{"nodes": [' + filler, action="a" * 32)),
            ("/requests/1/attach/", *multipart(token, "file", "why.txt", filler * 3, action="a" * 32)),
            (
                f"/workloads/{code}/cancel/",
                b"csrfmiddlewaretoken=" + token.encode() + b"&reason=" + b"y" * 100,
                "application/x-www-form-urlencoded",
            ),
        ):
            send(web, client, path, body, kind)
    time.sleep(1)
    assert took_s(web) < QUICK_S
    assert counts() == before
    assert Workload.objects.get(code=code).state == "queued"
    # Sent to their ends, the same are taken.
    assert b" 302 " in send(web, client, "/imports/", *multipart(token, "file", "shares.csv", csv), left_out=0)
    form = f"csrfmiddlewaretoken={token}&reason=enough".encode()
    kind = "application/x-www-form-urlencoded"
    assert b" 302 " in send(web, client, f"/workloads/{code}/cancel/", form, kind, left_out=0)
    assert Workload.objects.get(code=code).state == "cancelled"
    assert ShareImport.objects.count() == 1
