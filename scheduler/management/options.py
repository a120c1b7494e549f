"""Options that several commands take: a cluster, durations such as 90s, 10m, 8h or 2d, instants."""

from __future__ import annotations

import re
from datetime import datetime

from django.core.management.base import CommandError
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from budgets.models import Cluster

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def cluster_named(name: str) -> Cluster:
    """The cluster of that name.

    Raises:
        CommandError: there is none.
    """
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        raise CommandError(f"cluster: there is no {name[:60]!r}", returncode=2)
    return cluster


def seconds_of(text: str, option: str) -> int:
    """Whole seconds of "90s", "10m", "8h" or "2d".

    Raises:
        CommandError: names the option.
    """
    match = re.fullmatch(r"(\d{1,7})([smhd])", text)
    if match is None:
        raise CommandError(f"{option}: {text[:60]!r} is not a duration such as 90s, 10m, 8h or 2d", returncode=2)
    return int(match[1]) * SECONDS[match[2]]


def instant_of(text: str, option: str) -> datetime:
    """An instant such as 2026-12-01T08:00, in the organisation's time zone where it names none; or "now".

    Raises:
        CommandError: names the option.
    """
    if text == "now":
        return timezone.now().replace(microsecond=0)
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None:
        raise CommandError(f"{option}: {text[:60]!r} is not an instant such as 2026-12-01T08:00, or now", returncode=2)
    return timezone.make_aware(found) if timezone.is_naive(found) else found
