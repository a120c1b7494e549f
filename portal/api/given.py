"""What the governance half of the API is given: days, codes, people and versions, each refused by the field's name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from django.utils.translation import gettext, gettext_lazy
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from budgets.glossary import lazily as meant
from budgets.models import WHOLE_BASIS_POINTS, BudgetNode, Cluster, Person
from budgets.queries import FIRST_YEAR, LAST_YEAR
from portal.api.base import tag_of
from portal.api.problems import Strict


class Day(serializers.DateField):
    """A day of the organisation, written 2026-07-02."""

    default_error_messages = {"bounds": gettext_lazy("must be a day of the years {first} to {last}")}

    def to_internal_value(self, value: Any) -> date:
        """The day."""
        day = super().to_internal_value(value)
        if not FIRST_YEAR <= day.year <= LAST_YEAR:
            self.fail("bounds", first=FIRST_YEAR, last=LAST_YEAR)
        return day


class Instant(serializers.DateTimeField):
    """An instant in ISO 8601; without a zone it is the organisation's clock."""

    default_error_messages = {"bounds": gettext_lazy("must be an instant of the years {first} to {last}")}

    def to_internal_value(self, value: Any) -> datetime:
        """The instant."""
        at = super().to_internal_value(value)
        if not FIRST_YEAR < at.astimezone(UTC).year < LAST_YEAR:
            self.fail("bounds", first=FIRST_YEAR + 1, last=LAST_YEAR - 1)
        return at


class BasisPoints(serializers.IntegerField):
    """Hundredths of a percent of the parent."""

    def __init__(self, **more: Any) -> None:
        """From 0 to the whole unless said."""
        super().__init__(**{"min_value": 0, "max_value": WHOLE_BASIS_POINTS, **more})


class Shares(serializers.DictField):
    """Basis points of the parent by child's code."""

    def __init__(self, **more: Any) -> None:
        """At least one child."""
        super().__init__(child=BasisPoints(), **{"allow_empty": False, "help_text": meant("shares"), **more})


class Code(serializers.CharField):
    """The code of a budget node."""

    def __init__(self, **more: Any) -> None:
        """At most 16 characters."""
        super().__init__(max_length=16, **more)


class ClusterName(serializers.CharField):
    """The name of a cluster."""

    def __init__(self, **more: Any) -> None:
        """At most 40 characters."""
        super().__init__(max_length=40, **more)


class UserName(serializers.CharField):
    """The user name of somebody."""

    def __init__(self, **more: Any) -> None:
        """At most 150 characters."""
        super().__init__(max_length=150, **more)


class Why(serializers.CharField):
    """A reason, which goes to the ledger."""

    def __init__(self, **more: Any) -> None:
        """At most 2,000 characters."""
        super().__init__(**{"max_length": 2_000, **more})


class Simulation(serializers.IntegerField):
    """The what-if that was looked at."""

    def __init__(self) -> None:
        """Need not be said."""
        super().__init__(
            required=False,
            min_value=1,
            help_text="number of the what-if that was looked at: its figures are kept with it",
        )


class Versioned(Strict):
    """What was read: an older version is refused (409), and nothing is changed. `If-Match` says the same (412)."""

    version = serializers.IntegerField(min_value=1, required=False)


class Reasoned(Versioned):
    """Why; it goes to the ledger."""

    reason = Why()


class Answer(Reasoned):
    """An answer. `acting_for` is who is away, by user name, where a delegate decides for them."""

    acting_for = UserName(required=False, allow_blank=True)


def node_given(code: str, field: str = "node") -> BudgetNode:
    """The node of that code.

    Raises:
        ValidationError: there is none.
    """
    row = BudgetNode.objects.filter(code=code).first()
    if row is None:
        raise ValidationError({field: [gettext("There is no budget node {code!r}.").format(code=code)]})
    return row


def cluster_given(name: str, field: str = "cluster") -> Cluster:
    """The cluster of that name.

    Raises:
        ValidationError: there is none.
    """
    row = Cluster.objects.filter(name=name).first()
    if row is None:
        raise ValidationError({field: [gettext("There is no cluster {name!r}.").format(name=name)]})
    return row


def person_given(username: str, field: str, *, may_be_gone: bool = False) -> Person:
    """Who is called so.

    Raises:
        ValidationError: nobody who can sign in (or nobody at all, where those who are gone count as well).
    """
    row = Person.objects.filter(username=username).first()
    if row is None or not (row.is_active or may_be_gone):
        message = gettext("Nobody who can sign in is called {text!r}.").format(text=username)
        raise ValidationError({field: [message]})
    return row


def acting_for(said: Mapping[str, Any]) -> Person | None:
    """For whom it is decided; None is in one's own right."""
    username = said.get("acting_for", "")
    return person_given(username, "acting_for", may_be_gone=True) if username else None


def shares_given(parent: BudgetNode, shares: Mapping[str, int]) -> dict[BudgetNode, int]:
    """Basis points by child.

    Raises:
        ValidationError: names the first that is no child of the parent.
    """
    children = {child.code: child for child in BudgetNode.objects.filter(parent=parent)}
    unknown = sorted(set(shares) - set(children))
    if unknown:
        message = gettext("It is no child of {code}.").format(code=parent.code)
        raise ValidationError({f"shares.{unknown[0]}": [message]})
    return {children[code]: points for code, points in shares.items()}


def versioned(body: dict[str, Any] | list[dict[str, Any]], version: int, **more: Any) -> Response:
    """What is there, with the ETag that a change of it names in If-Match.

    It is no reason to answer 304: who may decide it, for one, changes without a new version.
    """
    return Response(body, headers={"ETag": tag_of(version), **more.pop("headers", {})}, **more)


def name_of(person: Person | None) -> str | None:
    """The user name."""
    return None if person is None else person.username


def day(value: date | None) -> str | None:
    """A day as the API writes it."""
    return None if value is None else value.isoformat()
