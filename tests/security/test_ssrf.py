"""The portal posts to addresses that people name, and to no other: by no spelling, no redirect, no change of mind."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from budgets.models import Webhook
from budgets.services import webhooks
from budgets.services.webhooks import NotDelivered

NOW = datetime(2026, 7, 2, 12, tzinfo=UTC)
INSIDE = (
    # this machine and its networks
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1"),
    *("169.254.169.254", "100.64.0.1", "100.100.100.200", "198.18.0.1", "192.0.0.1", "192.0.0.192", "192.88.99.1"),
    *("168.63.129.16", "192.0.2.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    # the same in IPv6
    *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "3fff::1", "100::1"),
    # IPv4 in IPv6's clothes
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:169.254.169.254", "::127.0.0.1"),
    *("64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::10.0.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::1"),
    *("2001:0:a9fe:a9fe::1", "2001:10::1", "2001:20::1", "5f00::1", "4000::1", "e000::1"),
)
OUTSIDE = ("8.8.8.8", "93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:80e::200e", "::ffff:8.8.8.8")


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_not_public_is_not_posted_to(settings: Any, address: str) -> None:
    settings.WEBHOOK_NETWORKS = []
    assert not webhooks.is_reachable(ip_address(address))


@pytest.mark.parametrize("address", OUTSIDE)
def test_what_is_public_is(settings: Any, address: str) -> None:
    settings.WEBHOOK_NETWORKS = []
    assert webhooks.is_reachable(ip_address(address))


SPELLINGS = (
    *("127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "0", "0x0", "00000000"),
    *(
        "127.0.0.1.",
        "[::ffff:7f00:1]",
        "[::ffff:127.0.0.1]",
        "[0:0:0:0:0:0:0:1]",
        "[::1%25lo]",
        "localhost",
        "LOCALHOST",
    ),
    *("localhost.", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "[fe80::1%25eth0]"),
    *("①②⑦.⓪.⓪.①", "127。0。0。1", "１２７.0.0.1", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ"),
)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", SPELLINGS)
def test_no_spelling_of_this_machine_gets_through(settings: Any, scheme: str, host: str) -> None:
    settings.WEBHOOK_NETWORKS = []
    with pytest.raises(NotDelivered) as refused:
        webhooks.look_up(webhooks.check_url(f"{scheme}://{host}/latest/meta-data"))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    "url",
    [
        "https://good.example.org@127.0.0.1/", "https://127.0.0.1:80@good.example.org/", "https://a:b@good.example.org/",
        "https://good.example.org#@127.0.0.1/", "https://good.example.org\\@127.0.0.1/", "https:///127.0.0.1/",
        "https:127.0.0.1/", "//127.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1/", "dict://127.0.0.1/", "ftp://a/",
        "jar:https://good.example.org!/", "https://good.example.org:0/", "https://good.example.org:65536/",
        "https://good.example.org:port/", "https://good.example.org /", "https://good.example.org/\r\nHost: x",
        "https://good.example.org/\tx", "https://[::1", "https://[::1]x/", "https://\u202egood/", "https://a\0b/", "https://",
        " https://good.example.org/", "HTTPS ://good.example.org/",
    ],
)  # fmt: skip
def test_what_is_no_plain_address_is_refused_before_anybody_is_asked(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    asked: list[Any] = []

    def nobody(*args: Any, **_more: Any) -> None:
        asked.append(args)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    with pytest.raises(NotDelivered) as refused:
        webhooks.look_up(webhooks.check_url(url))
    assert str(refused.value).isprintable()
    assert [each for each in asked if "good.example.org" in str(each)] == [] or "\\" in url


class Server(http.server.BaseHTTPRequestHandler):
    """Answers with a redirect to the machine's inside, or as it is told, and remembers who came."""

    seen: list[tuple[str, str]] = []
    answer = (302, "http://169.254.169.254/latest/meta-data")

    def do_POST(self) -> None:
        """Take a post."""
        Server.seen.append(("POST", self.headers["Host"]))
        self.send_response(self.answer[0])
        self.send_header("Location", self.answer[1])
        self.end_headers()

    def do_GET(self) -> None:
        """Nobody should come here."""
        Server.seen.append(("GET", self.path))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""


@pytest.fixture
def port() -> Iterator[int]:
    """A web server on this machine."""
    Server.seen = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(settings: Any, port: int, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.1/32")]
    for where in (f"http://127.0.0.1:{port}/inside", "http://169.254.169.254/", "file:///etc/passwd"):
        monkeypatch.setattr(Server, "answer", (status, where))
        with pytest.raises(NotDelivered, match=f"answered {status}"):
            send(f"http://127.0.0.1:{port}/hook")
    assert Server.seen == [("POST", f"127.0.0.1:{port}")] * 3


def send(url: str) -> None:
    """Post something there."""
    webhooks.post(Webhook(url=url, secret="s" * 40), "d:1", {"a": 1}, NOW)


def test_a_name_that_changes_its_mind_is_held_to_its_first_word(
    settings: Any, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: public when it is looked at, this machine when it is connected to."""
    settings.WEBHOOK_NETWORKS = []
    asked: list[str] = []
    connected: list[str] = []
    really = socket.getaddrinfo

    def rebinding(host: Any, *args: Any, **more: Any) -> Any:
        if host != "rebind.example.org":
            return really(host, *args, **more)
        asked.append(host)
        where = "93.184.216.34" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (where, 0))]

    def connect(address: Any, *_args: Any, **_more: Any) -> Any:
        connected.append(address[0])
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(NotDelivered, match="refused"):
        send(f"https://rebind.example.org:{port}/hook")
    assert (asked, connected) == (["rebind.example.org"], ["93.184.216.34"])
    with pytest.raises(NotDelivered, match="not a public address"):
        send(f"https://rebind.example.org:{port}/hook")
    assert connected == ["93.184.216.34"]
    assert Server.seen == []


def test_one_address_inside_among_several_is_enough_to_refuse(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEBHOOK_NETWORKS = []

    def several(host: Any, *_args: Any, **_more: Any) -> Any:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0)),
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::ffff:10.0.0.1", 0, 0, 0)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", several)
    with pytest.raises(NotDelivered, match="not a public address"):
        webhooks.look_up(webhooks.check_url("https://several.example.org/"))
