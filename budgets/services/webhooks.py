"""Posting to an address that somebody named: as JSON, signed, and to no address inside the house.

A portal that posts to addresses which people type could be made to reach what only it can reach (SSRF). So the name is
resolved here, every address that it stands for must be public (or in a network that the operator allows), the
connection goes to that very address, and redirects are not followed.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.utils.translation import gettext

from budgets.models import Webhook

CONNECT_S = 5
ANSWER_S = 5
"""How long a receiver may take in all once it is connected; a slow one must not hold up the others."""
ANSWER_BYTES = 1_024
"""How much of an answer is kept."""
URL_LENGTH = 300
SECRET_BYTES = 32
SIGNATURE_HEADER = "X-Allotment-Signature"
ID_HEADER = "X-Allotment-Id"
EVENT_HEADER = "X-Allotment-Event"
REPLAY_WINDOW_S = 300
"""Receivers are told to refuse a signature whose instant is further away than that."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

NOT_PUBLIC = tuple(
    ipaddress.ip_network(each)
    for each in (
        *("2002::/16", "2001::/23", "3fff::/20"),  # 6to4 and Teredo, which stand for IPv4 addresses; documentation
        *("192.0.0.0/24", "192.88.99.0/24"),  # of protocols: NAT64, a cloud's metadata, relays
        "168.63.129.16/32",  # looks public, and is a cloud's own wire server
    )
)
"""What Python takes for global addresses, and is none that a receiver has."""
UNICAST = ipaddress.ip_network("2000::/3")
"""All that IPv6 has given out; what lies outside is a disguise (NAT64, mapped, site-local) or nobody's."""


class NotDelivered(Exception):
    """The receiver did not take it; the text says why, in a line."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads: its parts, and the address that was looked at."""

    parts: SplitResult
    address: str

    @property
    def port(self) -> int:
        """As the URL says, or its scheme."""
        return self.parts.port or (443 if self.parts.scheme == "https" else 80)

    @property
    def request_path(self) -> str:
        """Path and query."""
        return (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a post: the status and how the answer begins, or why there is none; and how long it took."""

    status: int | None
    beginning: str
    error: str
    ms: int

    @property
    def is_taken(self) -> bool:
        """Whether the receiver has taken it."""
        return not self.error and self.status is not None and 200 <= self.status < 300


def post(webhook: Webhook, delivery_id: str, said: Mapping[str, Any], now: datetime) -> None:
    """Post one thing at once, and keep nothing of it.

    Raises:
        NotDelivered: no answer in time, an answer other than 2xx, or an address that is not posted to.
    """
    body = json.dumps(said, ensure_ascii=False).encode()
    answer = send(webhook.url, [webhook.secret], {ID_HEADER: delivery_id}, body, now)
    if not answer.is_taken:
        raise NotDelivered(answer.error)


def send(url: str, secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime) -> Answer:
    """Post a body and say what came of it. The receiver proves it with a secret: SIGNATURE_HEADER is
    `t=SECONDS,v1=HEX`, the HMAC-SHA256 of "SECONDS.BODY", with a `v1` for each of the secrets.
    """
    began_s = time.perf_counter()
    status, beginning, error = None, "", ""
    try:
        target = look_up(check_url(url))
        status, read = _exchange(
            target,
            body,
            {
                "Content-Type": "application/json; charset=utf-8",
                "User-Agent": "Allotment",
                SIGNATURE_HEADER: signature(secrets, body, int(now.timestamp())),
                **headers,
            },
        )
        beginning = _readable(read, secrets)
        error = "" if 200 <= status < 300 else f"{target.parts.hostname} answered {status}"
    except NotDelivered as problem:
        error = str(problem)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        error = f"{urlsplit(url).hostname}: {problem or type(problem).__name__}"
    return Answer(status, beginning, " ".join(error.split()), round(1_000 * (time.perf_counter() - began_s)))


def _readable(read: bytes, secrets: Sequence[str]) -> str:
    """How an answer begins, as text of printable characters; an echo of the secret is taken out."""
    text = read.decode(errors="replace")
    for secret in secrets:
        text = text.replace(secret, "[secret]") if secret else text
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text)


def signature(secrets: Sequence[str], body: bytes, at_s: int) -> str:
    """What proves that a body is ours, and when it was sent."""
    signed = b"%d." % at_s + body
    macs = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in secrets]
    return ",".join([f"t={at_s}", *(f"v1={mac}" for mac in macs)])


def check_url(url: str) -> SplitResult:
    """The parts of an address that may be one to post to.

    Raises:
        NotDelivered: no http(s) address with a host, or one with a user, a password or a fragment.
    """
    problem = NotDelivered(gettext("must be an address such as https://chat.example.org/hooks/7"))
    if len(url) > URL_LENGTH or not url.isprintable() or " " in url:
        raise problem
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError:
        raise problem from None
    if parts.scheme not in ("https", "http") or not parts.hostname or not has_port:
        raise problem
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise NotDelivered(gettext("must not hold a user, a password or a #fragment"))
    return parts


def look_up(parts: SplitResult) -> Target:
    """Resolve the host. Every address it stands for must be one that this portal posts to.

    Raises:
        NotDelivered: the name has no address, or one of them is not public (nor allowed by the operator), or it would
            go unencrypted to another machine.
    """
    host = parts.hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotDelivered(gettext("{host} has no address").format(host=host)) from None
    addresses = [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    for address in addresses:
        if not is_reachable(address):
            raise NotDelivered(
                gettext("{host} is {address}, which is not a public address; an operator can allow its network").format(
                    host=host, address=address
                )
            )
        if parts.scheme == "http" and not address.is_loopback:
            raise NotDelivered(gettext("must begin with https://"))
    return Target(parts, str(addresses[0]))


def is_reachable(address: Address) -> bool:
    """Whether this portal posts to an address: a public one, or one in a network that the operator allows."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_reachable(address.ipv4_mapped)
    if any(address.version == network.version and address in network for network in settings.WEBHOOK_NETWORKS):
        return True
    if any(address.version == network.version and address in network for network in NOT_PUBLIC):
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in UNICAST:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _exchange(target: Target, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Post to the address that was looked at; the status, and how the answer begins."""
    host = target.parts.hostname or ""
    raw = socket.create_connection((target.address, target.port), timeout=CONNECT_S)
    # A timeout of the socket is for one read: a receiver that sends a byte now and then would go on for ever.
    late = threading.Event()
    watchdog = threading.Timer(ANSWER_S, _hang_up, [raw, late])
    watchdog.daemon = True
    watchdog.start()
    try:
        secure = target.parts.scheme == "https"
        connection = http.client.HTTPConnection(host, target.port)
        connection.sock = ssl.create_default_context().wrap_socket(raw, server_hostname=host) if secure else raw
        try:
            connection.request("POST", target.request_path, body=body, headers=dict(headers))
            answer = connection.getresponse()
            if late.is_set():  # what was cut off reads like the end of an answer
                raise TimeoutError(f"no whole answer within {ANSWER_S} s")
            return answer.status, _beginning(answer)
        finally:
            connection.close()
    finally:
        watchdog.cancel()
        raw.close()


def _beginning(answer: http.client.HTTPResponse) -> bytes:
    """What can be had of it: the status alone says whether it was taken."""
    try:
        return answer.read(ANSWER_BYTES)
    except (OSError, http.client.HTTPException):
        return b""


def _hang_up(raw: socket.socket, late: threading.Event) -> None:
    late.set()
    try:
        raw.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended by itself
