"""Requests: sent again where that is safe, never to another place, never unchecked; each failure is one line."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from allot import client
from allot.client import Portal
from allot.failures import CONFLICT, FAILED, NOT_ALLOWED, NOT_FOUND, UNREACHABLE, USAGE, Failure
from allot.settings import Settings

TOKEN = "allot_" + "t" * 43


class Stub(ThreadingHTTPServer):
    """A server that answers as a test says, one answer after the other, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self, answers: list[Any]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]

    @property
    def settings(self) -> Settings:
        return Settings(url=f"http://127.0.0.1:{self.server_port}", token=TOKEN, timeout_s=1)


class Handler(BaseHTTPRequestHandler):
    """Answers with (status, body, headers); None breaks the connection off."""

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.server.asked.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))  # type: ignore[attr-defined]
        said = self.server.answers.pop(0)  # type: ignore[attr-defined]
        if said is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status, body, headers = (*said, {})[:3]
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 - http.server asks for these names

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def stub(home: Path) -> Iterator[Any]:
    """`stub((200, {}), None, ...)` listens until the test is over."""
    started: list[Stub] = []

    def start(*answers: Any) -> Stub:
        server = Stub(list(answers))
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def refused(server: Stub, *path: str, **more: Any) -> Failure:
    """What a request that fails says."""
    with pytest.raises(Failure) as failure:
        Portal(server.settings, **more).get(*path)
    return failure.value


def test_who_asks_is_said_in_a_header_and_what_in_quoted_parts(stub: Any) -> None:
    server = stub((200, {"a": 1}))
    assert Portal(server.settings).get("clusters", "no/rth ö", page=2, find=None, all=True) == {"a": 1}
    [(method, path, headers, body)] = server.asked
    assert (method, path, body) == ("GET", "/api/v1/clusters/no%2Frth%20%C3%B6/?page=2&all=true", b"")
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert "Idempotency-Key" not in headers


@pytest.mark.parametrize("trouble", [None, (503, ""), (502, "<html>"), (429, "", {"Retry-After": "0"})])
def test_reading_is_tried_again(stub: Any, trouble: Any) -> None:
    server = stub(trouble, trouble, (200, [1]))
    assert Portal(server.settings).get("clusters") == [1]
    assert len(server.asked) == 3


def test_writing_is_tried_again_under_one_key(stub: Any) -> None:
    server = stub(None, (503, ""), (201, [{"code": "A1-0001"}]))
    assert Portal(server.settings).post("workloads", body={"size_milli": 8_000}) == [{"code": "A1-0001"}]
    assert {headers["Idempotency-Key"] for _, _, headers, _ in server.asked} == {server.asked[0][2]["Idempotency-Key"]}
    assert {body for _, _, _, body in server.asked} == {b'{"size_milli": 8000}'}
    assert len(server.asked) == 3


def test_what_the_portal_is_still_at_is_asked_for_again(stub: Any) -> None:
    busy = (409, {"detail": "still being answered"}, {"Retry-After": "0"})
    server = stub(busy, (201, {}))
    assert Portal(server.settings).post("workloads") == {}
    assert len(server.asked) == 2


def test_writing_without_a_key_is_not(stub: Any) -> None:
    server = stub(None, (204, ""))
    with pytest.raises(Failure, match="the connection broke off"):
        Portal(server.settings).send("DELETE", "tokens", "1")
    assert len(server.asked) == 1


def test_it_gives_up_in_the_end(stub: Any) -> None:
    server = stub(*[(503, "")] * 4)
    failure = refused(server, "clusters")
    assert (failure.exit_code, len(server.asked)) == (UNREACHABLE, 4)
    assert (failure.message, failure.may_pass) == (f"{server.settings.url} is in trouble (HTTP 503)", True)


def test_a_redirection_is_not_followed(stub: Any) -> None:
    there = stub((200, {"you": "have my token"}))
    server = stub((302, "", {"Location": f"{there.settings.url}/api/v1/me/"}))
    failure = refused(server, "me")
    assert not failure.may_pass
    assert failure.message.startswith(f"{server.settings.url} sends on to {there.settings.url}")
    assert there.asked == []


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, USAGE), (401, NOT_ALLOWED), (403, NOT_ALLOWED), (404, NOT_FOUND), (409, CONFLICT), (412, CONFLICT),
     (422, USAGE), (428, CONFLICT), (405, FAILED), (500, UNREACHABLE)],
)  # fmt: skip
def test_each_problem_has_its_exit_code_and_says_its_detail(stub: Any, status: int, code: int) -> None:
    problem = {"type": "about:blank", "title": "No", "status": status, "detail": "why not"}
    failure = refused(stub((status, problem, {"Content-Type": "application/problem+json"})), "x")
    assert (failure.exit_code, "why not" in failure.message) == (code, True)


def test_a_problem_names_every_field(stub: Any) -> None:
    errors = [{"field": "size_milli", "message": "too many"}, {"field": "leaf", "message": "closed"}]
    failure = refused(stub((400, {"detail": "size_milli: too many", "errors": errors})), "x")
    assert failure.in_words({"size_milli": "--gpus"}) == "--gpus: too many; leaf: closed"


@pytest.mark.parametrize(
    ("answer", "said", "code"),
    [
        ((200, "<html>", {"Content-Type": "text/html"}), "answers, but not as Allotment does", UNREACHABLE),
        ((200, "{", {}), "answers, but not as Allotment does", UNREACHABLE),
        ((404, "<html>", {"Content-Type": "text/html"}), "there is no API of Allotment at", UNREACHABLE),
        ((403, "<html>", {"Content-Type": "text/html"}), "is a proxy in between?", NOT_ALLOWED),
        ((407, "", {}), "the proxy asks for a name and password", UNREACHABLE),
    ],
)
def test_another_server_is_told_from_a_portal(stub: Any, answer: Any, said: str, code: int) -> None:
    failure = refused(stub(answer), "x")
    assert said in failure.message
    assert failure.exit_code == code


def test_lists_are_read_page_by_page_from_the_same_host(stub: Any) -> None:
    first = {"results": [1, 2], "next": "http://elsewhere.example.org/api/v1/things/?cursor=abc&limit=200&state=open"}
    server = stub((200, first), (200, {"results": [3], "next": None}))
    assert list(Portal(server.settings).pages("things", state="open")) == [1, 2, 3]
    assert [path for _, path, _, _ in server.asked] == [
        "/api/v1/things/?state=open&limit=200",
        "/api/v1/things/?state=open&limit=200&cursor=abc",
    ]


def test_no_more_is_read_than_is_wanted(stub: Any) -> None:
    server = stub((200, {"results": [1, 2, 3], "next": "/?cursor=x"}))
    assert list(Portal(server.settings).pages("things", most=2)) == [1, 2]
    assert server.asked[0][1] == "/api/v1/things/?limit=2"


def test_nobody_there_is_one_line(home: Path) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(Failure, match=f"{url} can't be reached: nothing listens there") as failure:
            Portal(Settings(url=url, token=TOKEN)).get("clusters")
    assert (failure.value.exit_code, failure.value.may_pass) == (UNREACHABLE, True)


def test_a_host_that_is_not_there_is_not_asked_for_twice(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def unknown(*args: object, **kwargs: object) -> None:
        asked.append(args)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(Failure, match=r"there is no host gpu\.invalid"):
        Portal(Settings(url="https://gpu.invalid", token=TOKEN)).get("clusters")
    assert len(asked) == 1


def test_silence_is_one_line(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Failure, match="it does not answer in time"):
            Portal(Settings(url=url, token=TOKEN, timeout_s=0.2), tries=1).get("clusters")


def test_this_machine_is_never_asked_through_a_proxy(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert Portal(stub((200, {})).settings).get("clusters") == {}


def test_others_are_asked_through_the_proxy_of_the_environment(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = stub((200, {"through": "proxy"}))
    monkeypatch.setenv("http_proxy", proxy.settings.url)
    there = Settings(url="http://gpu.example.org", token=TOKEN, plain_http=True)
    assert Portal(there).get("clusters") == {"through": "proxy"}
    assert proxy.asked[0][1] == "http://gpu.example.org/api/v1/clusters/"


# --- TLS --------------------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for a host that is its own authority, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={name}"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


@pytest.fixture
def encrypted(stub: Any, tmp_path: Path) -> Any:
    """`encrypted("IP:127.0.0.1")` is a stub behind a certificate for that name: its address and the certificate."""

    def start(name: str) -> tuple[str, Path]:
        try:
            cert, key = certificate(tmp_path, name)
        except FileNotFoundError:
            pytest.skip("NO openssl, so certificates can't be made: install the package openssl")
        server = stub((200, {"secure": True}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        return f"https://127.0.0.1:{server.server_port}", cert

    return start


def test_a_certificate_of_ones_own_authority_is_trusted_when_said(encrypted: Any) -> None:
    url, cert = encrypted("IP:127.0.0.1")
    with pytest.raises(Failure, match=r"its certificate is not trusted: self.signed certificate .*ALLOT_CA_FILE"):
        Portal(Settings(url=url, token=TOKEN)).get("me")
    assert Portal(Settings(url=url, token=TOKEN, ca_file=str(cert))).get("me") == {"secure": True}


def test_a_certificate_of_another_host_is_not_trusted(encrypted: Any) -> None:
    url, cert = encrypted("DNS:other.example.org")
    with pytest.raises(Failure, match=r"its certificate is not trusted: .*127\.0\.0\.1") as failure:
        Portal(Settings(url=url, token=TOKEN, ca_file=str(cert))).get("me")
    assert (failure.value.exit_code, failure.value.may_pass) == (UNREACHABLE, False)


def test_http_on_an_encrypted_port_and_the_other_way_are_one_line(encrypted: Any, stub: Any) -> None:
    url, _ = encrypted("IP:127.0.0.1")
    with pytest.raises(Failure, match=r"can't be reached|is in trouble"):
        Portal(Settings(url=url.replace("https", "http"), token=TOKEN), tries=1).get("me")
    plain = stub((200, {}))
    with pytest.raises(Failure, match="no encrypted connection"):
        Portal(Settings(url=plain.settings.url.replace("http", "https"), token=TOKEN), tries=1).get("me")


def test_a_file_of_authorities_that_is_none_is_one_line(home: Path) -> None:
    for path, said in ((home / "missing", "No such file"), (home / "empty", "no certificates")):
        (home / "empty").touch()
        with pytest.raises(Failure, match=said) as failure:
            Portal(Settings(url="https://gpu.example.org", token=TOKEN, ca_file=str(path)))
        assert failure.value.exit_code == USAGE


def test_waits_grow_and_are_bounded() -> None:
    assert client._asked_to_wait_s("7", 1.0) == 7
    assert client._asked_to_wait_s("99999", 1.0) == client.LONGEST_WAIT_S
    assert client._asked_to_wait_s("Wed, 21 Oct 2026 07:28:00 GMT", 1.0) == 1.0
