"""The policy knobs of a cluster. A change adds a version; every pass names the one it used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext

from budgets.authority import may
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import Cluster, LedgerEntry, Person
from budgets.sentences import said
from budgets.services import ledger
from scheduler.engine import WORDS, Policy
from scheduler.knobs import KNOBS, Unit
from scheduler.models import PolicyVersion
from scheduler.services import events, predictions

DURATION_MAX_S = 10 * 365 * 86_400
"""Ten years: more is a slip of the keyboard."""
COUNT_MAX = 1_000
RATE_MAX_GBPS = 1_000_000
MOST = {Unit.SECONDS: DURATION_MAX_S, Unit.DEVICE_SECONDS: DURATION_MAX_S, Unit.GBPS: RATE_MAX_GBPS}
"""The most that a whole number may be, by its unit; of all others `COUNT_MAX`."""
MARGIN_MAX_CHARS = 20
SMALL_NUMBER = re.compile(r"-?[0-9]{1,18}([./][0-9]{1,18})?")
"""Without an exponent: nobody could wait for all the digits of 1e999999999."""
WORD_MAX_CHARS = 40
LIST_MAX = 1_000


def as_policy(version: PolicyVersion) -> Policy:
    """The engine's knobs of a stored version."""
    return _policy(version.knobs)


def _policy(knobs: Mapping[str, Any]) -> Policy:
    values: dict[str, Any] = dict(knobs)
    for name, value in values.items():
        if name in KNOBS and isinstance(KNOBS[name].default, Fraction | tuple):
            values[name] = Fraction(value) if isinstance(value, str) else tuple(value)
    return Policy(**values)


def latest(cluster: Cluster) -> PolicyVersion:
    """The version in force.

    Raises:
        PolicyVersion.DoesNotExist: the cluster was not made by `services.clusters`.
    """
    return PolicyVersion.objects.filter(cluster=cluster).order_by("-number")[:1].get()


def ensure(cluster: Cluster) -> None:
    """Put the defaults in force for a cluster that has no policy yet."""
    if not PolicyVersion.objects.filter(cluster=cluster).exists():
        PolicyVersion.objects.get_or_create(cluster=cluster, number=1, defaults={"made_at": timezone.now()})


def change(
    *,
    cluster: Cluster,
    knobs: Mapping[str, Any],
    by: Person | None = None,
    reason: str = "",
    version: int | None = None,
) -> PolicyVersion:
    """Put other knobs in force from the next pass on; those not named keep their values.

    Args:
        cluster: whose policy.
        knobs: fields of `scheduler.engine.Policy`; durations in whole seconds, `swap_margin` as text ("1/2").
        by: who; None for the system.
        reason: why, in a sentence.
        version: the number of the version that the change was made from; None is whichever is in force.

    Raises:
        InputError: names the knob, and what is wrong with its value.
        NotAllowed: it is not theirs to decide. ConflictError: another version is in force.
    """
    if by is not None and not may(by, "policy.change", cluster):
        raise NotAllowed("policy.change")
    with events.changing(cluster.pk):
        ensure(cluster)
        before = latest(cluster)
        merged = _merged(cluster, before, knobs, version)
        if _policy(merged) == as_policy(before):
            return before
        made = PolicyVersion(
            cluster=cluster, number=before.number + 1, knobs=merged, made_by=by, reason=reason, made_at=timezone.now()
        )
        if by is not None:
            entry = _record(before, made, by, reason)
            made.entry_id = None if entry is None else entry.pk
        made.save()
        events.record(
            cluster_id=cluster.pk, kind=events.Kind.POLICY_CHANGED, by=by, data={"policy": made.pk, "knobs": merged}
        )
        events.wake(cluster.pk)
    return made


def would_be(*, cluster: Cluster, knobs: Mapping[str, Any], version: int | None = None) -> dict[str, Any]:
    """Every knob's value as `change` would put it in force, as `effective` has it; nothing is changed.

    Raises:
        InputError, ConflictError: as `change` does.
    """
    merged = _merged(cluster, latest(cluster), knobs, version)
    return effective(PolicyVersion(cluster=cluster, knobs=merged))


def _merged(cluster: Cluster, before: PolicyVersion, knobs: Mapping[str, Any], version: int | None) -> dict[str, Any]:
    """What is stored of the policy in force with some knobs changed: all that differ from their defaults.

    Raises:
        InputError: names the knob. ConflictError: another version is in force.
    """
    clean = {name: checked(name, value) for name, value in knobs.items()}
    if version is not None and version != before.number:
        raise ConflictError(gettext("version {number} is in force now").format(number=before.number))
    if clean.get("fraction_min_milli") and not gives_out_parts(cluster):
        raise InputError("fraction_min_milli", gettext("only GPUs that agents look after are given out in parts"))
    merged = before.knobs | clean
    if merged.get("leaf_order") == "gittins" and not merged.get("service_samples"):
        merged["service_samples"] = predictions.services(cluster, timezone.now())
    try:
        _policy(merged)
    except ValueError as error:
        name, _, message = str(error).partition(": ")
        raise InputError(name, said(message)) from None
    return {name: value for name, value in merged.items() if name not in KNOBS or value != DEFAULTS[name]}


def gives_out_parts(cluster: Cluster) -> bool:
    """Whether parts of its devices can be told apart: no core is shared here, and Slurm gives whole devices only."""
    by_agents = (Cluster.Executor.AGENT, Cluster.Executor.SIMULATED)
    return cluster.unit == Cluster.Unit.GPU and cluster.executor in by_agents


def _record(before: PolicyVersion, after: PolicyVersion, by: Person, reason: str) -> LedgerEntry | None:
    """In the ledger of the whole tree: the knobs that changed."""
    old, new = effective(before), effective(after)
    names = [name for name in new if old[name] != new[name]]
    return ledger.record_of_all(
        verb="cluster.policy",
        by=by,
        before={name: old[name] for name in names},
        after={name: new[name] for name in names},
        reason=reason,
        cluster=after.cluster,
    )


def effective(version: PolicyVersion) -> dict[str, Any]:
    """Every knob's value, as `change` takes it."""
    policy = as_policy(version)
    values = {name: getattr(policy, name) for name in KNOBS}
    return {name: plain(value) for name, value in values.items()}


def plain(value: Any) -> Any:
    """A knob's value as JSON has it."""
    if isinstance(value, Fraction):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


DEFAULTS: Mapping[str, Any] = {name: plain(knob.default) for name, knob in KNOBS.items()}
"""Every knob's value where nobody has changed it, as `effective` has it."""


def checked(name: str, value: Any) -> Any:
    """A knob's value as it is stored.

    Raises:
        InputError: there is no such knob, or it can't have that value, whatever the others are.
    """
    if name not in KNOBS:
        raise InputError(
            name, gettext("there is no such knob; there are {choices}").format(choices=", ".join(sorted(KNOBS)))
        )
    knob = KNOBS[name]
    if knob.type == WORDS:
        return _words(name, value)
    if knob.is_list:
        return _list(name, value)
    if knob.type is str:
        return _word(name, value)
    if knob.type is Fraction:
        return _fraction(name, value)
    return _whole(name, value, most_of(name))


def most_of(name: str) -> int:
    """The most that a knob may be that is a whole number, or a list of such."""
    return MOST.get(KNOBS[name].unit, COUNT_MAX)


def _words(name: str, value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or len(value) > LIST_MAX or not all(isinstance(each, str) for each in value):
        raise InputError(name, gettext("{value!r} is not a list of words").format(value=str(value)[:40]))
    return [_word(name, each.strip()) for each in value]


def _list(name: str, value: Any) -> list[int]:
    if not isinstance(value, list | tuple) or len(value) > LIST_MAX:
        raise InputError(name, gettext("{value!r} is not a list of whole numbers").format(value=str(value)[:40]))
    return [_whole(name, each, most_of(name)) for each in value]


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > WORD_MAX_CHARS:
        raise InputError(name, gettext("{value!r} is not a word").format(value=str(value)[:WORD_MAX_CHARS]))
    return value


def _fraction(name: str, value: Any) -> str:
    try:
        if not SMALL_NUMBER.fullmatch(str(value)):
            raise ValueError(value)
        margin = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise InputError(name, gettext("{value!r} is not a number such as 0, 0.5 or 1/2").format(value=value)) from None
    if not 0 <= margin <= COUNT_MAX or len(str(margin)) > MARGIN_MAX_CHARS:
        message = gettext("{value!r} is not 0 to {most:,} in a few digits")
        raise InputError(name, message.format(value=str(value)[:MARGIN_MAX_CHARS], most=COUNT_MAX))
    return str(margin)


def _whole(name: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(name, gettext("{value!r} is not a whole number").format(value=value))
    if not 0 <= value <= most:
        raise InputError(name, gettext("{value!r} is not 0 to {most:,}").format(value=str(value)[:20], most=most))
    return value
