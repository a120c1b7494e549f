"""What spreading costs, in sentences: on the form before it is asked for, while it waits, and after a start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, ngettext

from budgets.models import Cluster, Person
from portal import formats
from scheduler.engine import locality
from scheduler.queries import spreading
from scheduler.queries.forecast import Foretold
from scheduler.queries.spreading import Look, Spreading
from scheduler.services import predictions

LEVELS = (
    (locality.ONE_RACK, gettext_lazy("The fewest nodes, in one rack")),
    (locality.ANY_RACK, gettext_lazy("The fewest nodes, in any rack")),
    (locality.TWICE, gettext_lazy("Up to twice the nodes")),
    (locality.ANYWHERE, gettext_lazy("Any number of nodes")),
)
"""What an owner may allow."""
PRICE_DECIMALS = 2


@dataclass(frozen=True, slots=True)
class Said:
    """What a page says, a sentence each."""

    sentences: Sequence[str]


def said_of(told: Spreading | None, now: datetime, foretold: Foretold | None = None) -> Said | None:
    """In words; None where there is nothing to say."""
    if told is None:
        return None
    found = [] if told.look is None else [look_said(told.look, told.fewest, now)]
    found += price_said(told)
    if foretold is not None and foretold.middle_at is not None and not told.is_held:
        found += _advice(told, (foretold.middle_at - now).total_seconds())
    return Said(found) if found else None


def foreseen_said(
    cluster: Cluster, owner: Person, name: str, size_milli: int, level: int, limit_s: int | None
) -> Said | None:
    """What a level may cost that an owner is about to allow; None where it costs nothing."""
    if level < locality.TWICE:
        return None
    now = timezone.now()
    known = [each for each in (predictions.thought_s(cluster, owner, name, now), limit_s) if each is not None]
    found = spreading.foreseen(cluster, size_milli, level, min(known, default=None))
    if found is None:
        said = gettext("On {cluster} nothing is relaxed by waiting: it gets the fewest nodes.")
        return Said([said.format(cluster=cluster.name)])
    return said_of(found, now)


def look_said(look: Look, fewest: int, now: datetime) -> str:
    """How far it looks now, until when, and how far then."""
    nodes = ngettext("{number} node", "{number} nodes", fewest).format(number=formats.count(fewest))
    until = "" if look.relaxes_at is None else formats.near_instant(look.relaxes_at, now)
    later = "" if look.later_nodes is None else formats.count(look.later_nodes)
    if look.level == locality.ONE_RACK:
        if not until:
            return gettext("It asks for {nodes} of one rack, and for no others.").format(nodes=nodes)
        if look.later_level == locality.ANY_RACK:
            said = gettext("It asks for {nodes} of one rack until {until}, then of any rack.")
        else:
            said = gettext("It asks for {nodes} of one rack until {until}, then for up to {later}.")
        return said.format(nodes=nodes, until=until, later=later)
    if look.level == locality.ANY_RACK:
        said = gettext("It asks for {nodes} until {until}, then for up to {later}.")
        return said.format(nodes=nodes, until=until, later=later)
    now_nodes = formats.count(look.nodes)
    if not until:
        return gettext("It may be spread over up to {nodes} nodes.").format(nodes=now_nodes)
    said = gettext("It may be spread over up to {nodes} nodes until {until}, then over up to {later}.")
    return said.format(nodes=now_nodes, until=until, later=later)


def price_said(told: Spreading) -> list[str]:
    """What it costs, and how long waiting would still be better; nothing where it costs nothing."""
    if not told.is_dear:
        return []
    number = formats.half_up_ratio(round(1_000 * told.price), 1_000, PRICE_DECIMALS)
    servers, fewest = formats.count(told.servers), formats.count(told.fewest)
    if told.is_held:
        said = gettext("It is spread over {servers} servers, where {fewest} would do: {price} times the GPU-hours.")
    elif told.price <= 1:
        said = gettext("On {servers} servers in place of {fewest} the same work takes as many GPU-hours.")
    else:
        said = gettext("On {servers} servers in place of {fewest} the same work takes {price} times the GPU-hours.")
    found = [said.format(servers=servers, fewest=fewest, price=number)]
    if told.worth_s and not told.is_held:
        waits = formats.duration(told.worth_s)
        said = gettext("Waiting up to {duration} for the fewest would still finish earlier.")
        found.append(said.format(duration=waits))
    return found


def _advice(told: Spreading, expected_s: float) -> list[str]:
    """Whether it is worth its price, as long as it is likely to wait."""
    pays = told.pays_from(expected_s)
    if pays is None or not told.is_dear:
        return []
    waits = formats.duration(max(0, int(expected_s)))
    if pays:
        said = gettext("It is likely to wait for {duration} more: being spread finishes earlier.")
    else:
        said = gettext("It is likely to wait for {duration} more: that is better than being spread.")
    return [said.format(duration=waits)]
