"""A person's webhook: where messages are posted as JSON, signed, and to no address inside the house.

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
import secrets
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext

from budgets.errors import InputError
from budgets.models import Person, Webhook

CONNECT_S = 5
ANSWER_S = 5
"""How long a receiver may take in all once it is connected; a slow one must not hold up the others."""
URL_LENGTH = 300
SECRET_BYTES = 32
SIGNATURE_HEADER = "X-Allotment-Signature"
ID_HEADER = "X-Allotment-Id"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

DISGUISES = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("2002::/16"), ipaddress.ip_network("2001::/32"))
"""IPv6 addresses that stand for IPv4 ones, which a gateway would reach: NAT64, 6to4, Teredo."""


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


def put(*, person: Person, url: str) -> Webhook:
    """Have the person's messages posted there from now on, with a new secret; it replaces an earlier one.

    Raises:
        InputError: no such address, or one that this portal does not post to.
    """
    where = url.strip()
    try:
        look_up(check_url(where))
    except NotDelivered as error:
        raise InputError("url", str(error)) from None
    with transaction.atomic():
        Person.objects.select_for_update(no_key=True).get(pk=person.pk)
        Webhook.objects.filter(person=person).delete()
        return Webhook.objects.create(person=person, url=where, secret=secrets.token_urlsafe(SECRET_BYTES))


def remove(*, person: Person) -> bool:
    """Post nothing to the person's webhook any more; whether there was one."""
    return bool(Webhook.objects.filter(person=person).delete()[0])


def post(webhook: Webhook, delivery_id: str, said: Mapping[str, Any], now: datetime) -> None:
    """Post one delivery. The receiver proves it with the secret: SIGNATURE_HEADER is `t=SECONDS,v1=HEX`, the
    HMAC-SHA256 of "SECONDS.BODY"; ID_HEADER is the same for every try of the same delivery.

    Raises:
        NotDelivered: no answer in time, an answer other than 2xx, or an address that is not posted to.
    """
    target = look_up(check_url(webhook.url))
    body = json.dumps(said, ensure_ascii=False).encode()
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Allotment",
        ID_HEADER: delivery_id,
        SIGNATURE_HEADER: signature(webhook.secret, body, int(now.timestamp())),
    }
    try:
        status = _exchange(target, body, headers)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotDelivered(f"{target.parts.hostname}: {error or type(error).__name__}") from None
    if not 200 <= status < 300:
        raise NotDelivered(f"{target.parts.hostname} answered {status}")


def signature(secret: str, body: bytes, at_s: int) -> str:
    """What proves that a body is ours, and when it was sent."""
    mac = hmac.new(secret.encode(), b"%d." % at_s + body, hashlib.sha256)
    return f"t={at_s},v1={mac.hexdigest()}"


def check_url(url: str) -> SplitResult:
    """The parts of an address that may be one to post to.

    Raises:
        NotDelivered: no http(s) address with a host, or one with a user, a password or a fragment.
    """
    problem = NotDelivered(gettext("must be an address such as https://chat.example.org/hooks/7"))
    if len(url) > URL_LENGTH or any(ord(character) <= 32 or ord(character) == 127 for character in url):
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
    if any(address.version == network.version and address in network for network in DISGUISES):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _exchange(target: Target, body: bytes, headers: Mapping[str, str]) -> int:
    """Post to the address that was looked at, and read the status alone."""
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
            status = connection.getresponse().status
        finally:
            connection.close()
        if late.is_set():  # what was cut off reads like the end of an answer
            raise TimeoutError(f"no whole answer within {ANSWER_S} s")
        return status
    finally:
        watchdog.cancel()
        raw.close()


def _hang_up(raw: socket.socket, late: threading.Event) -> None:
    late.set()
    try:
        raw.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended by itself
