"""Who may read figures and details of health: a program with the token, or one in a network that operators named."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from portal.logs_requests import client_of

FORWARDED = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP")


def is_reader(request: HttpRequest) -> bool:
    """Whether it shows the token, or comes from one of the networks."""
    return has_token(request) or is_near(request)


def has_token(request: HttpRequest) -> bool:
    """Whether it shows the token of the settings."""
    kind, _, shown = request.headers.get("Authorization", "").partition(" ")
    token = settings.METRICS_TOKEN
    return bool(token) and kind.lower() == "bearer" and constant_time_compare(shown.strip(), token)


def is_near(request: HttpRequest) -> bool:
    """Whether its address lies in one of the networks.

    What came through a proxy has the address that the proxy saw; without a proxy that we were told of, a forwarded
    request is nobody's, or everybody behind one on this machine would come from this machine.
    """
    was_forwarded = any(request.META.get(name) for name in FORWARDED)
    if was_forwarded and not settings.IS_BEHIND_PROXY:
        return False
    try:
        address = ipaddress.ip_address(client_of(request))
    except ValueError:
        return False
    return any(address.version == network.version and address in network for network in settings.METRICS_NETWORKS)
