"""The policy knobs of a cluster. A change adds a version; every pass names the one it used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext

from budgets.authority import may
from budgets.errors import InputError, NotAllowed
from budgets.models import Cluster, Person
from scheduler.engine import Policy
from scheduler.models import PolicyVersion
from scheduler.services import events

KNOBS = {field.name: field for field in fields(Policy)}


def as_policy(version: PolicyVersion) -> Policy:
    """The engine's knobs of a stored version."""
    return _policy(version.knobs)


def _policy(knobs: Mapping[str, Any]) -> Policy:
    values: dict[str, Any] = dict(knobs)
    if "swap_margin" in values:
        values["swap_margin"] = Fraction(values["swap_margin"])
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


def change(*, cluster: Cluster, knobs: Mapping[str, Any], by: Person | None = None, reason: str = "") -> PolicyVersion:
    """Put other knobs in force from the next pass on; those not named keep their values.

    Args:
        cluster: whose policy.
        knobs: fields of `scheduler.engine.Policy`; durations in whole seconds, `swap_margin` as text ("1/2").
        by: who; None for the system.
        reason: why, in a sentence.

    Raises:
        InputError: names the knob, and what is wrong with its value.
        NotAllowed: it is not theirs to decide.
    """
    if by is not None and not may(by, "policy.change", cluster):
        raise NotAllowed("policy.change")
    clean = {name: _checked(name, value) for name, value in knobs.items()}
    with events.changing(cluster.pk):
        ensure(cluster)
        before = latest(cluster)
        merged = before.knobs | clean
        try:
            _policy(merged)
        except ValueError as error:
            name, _, message = str(error).partition(": ")
            raise InputError(name, message) from None
        if merged == before.knobs:
            return before
        version = PolicyVersion.objects.create(
            cluster=cluster, number=before.number + 1, knobs=merged, made_by=by, reason=reason, made_at=timezone.now()
        )
        events.record(
            cluster_id=cluster.pk, kind=events.Kind.POLICY_CHANGED, by=by, data={"policy": version.pk, "knobs": merged}
        )
        events.wake(cluster.pk)
    return version


def _checked(name: str, value: Any) -> Any:
    """The value as it is stored."""
    if name not in KNOBS:
        raise InputError(
            name, gettext("there is no such knob; there are {choices}").format(choices=", ".join(sorted(KNOBS)))
        )
    if name == "swap_margin":
        try:
            return str(Fraction(str(value)))
        except (ValueError, ZeroDivisionError):
            raise InputError(
                name, gettext("{value!r} is not a number such as 0, 0.5 or 1/2").format(value=value)
            ) from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(name, gettext("{value!r} is not a whole number").format(value=value))
    return value
