"""Checks of what people type, shared by the services of this package."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from datetime import date
from typing import Any, TypeVar

from django.db import transaction
from django.utils.translation import gettext

from budgets import authority, hooks, queries
from budgets.errors import ConflictError, InputError, NotAllowed
from budgets.models import BudgetNode, Cluster, Person, Reallocation, Request

Matter = TypeVar("Matter", Request, Reallocation)
NAME_LENGTH = 120
REASON_LENGTH = 2_000
REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
"""Characters that let the rest of a line be read in another order, or end it: a name with one of these looks like
another. Scripts that are written from right to left need none of them.
"""
CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]{0,15}")


def text(field: str, value: str, *, length: int) -> str:
    """`value` as it is stored: any script, composed (NFC), without spaces around it.

    Raises:
        InputError: it is empty or too long, or holds a control character or half a surrogate pair.
    """
    clean = unicodedata.normalize("NFC", value).strip()
    if not clean:
        raise InputError(field, gettext("must not be empty"))
    if len(clean) > length:
        raise InputError(
            field, gettext("must be at most {length} characters, not {clean}").format(length=length, clean=len(clean))
        )
    for character in clean:
        if unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t":
            raise InputError(
                field, gettext("must not hold the character U+{character:04X}").format(character=ord(character))
            )
    return clean


def line(field: str, value: str, *, length: int) -> str:
    """The same, of what names something: one line, which is read as it is written.

    Raises:
        InputError: as `text`; or it has several lines or tabs, or characters that reorder it.
    """
    clean = text(field, value, length=length)
    if "\n" in clean or "\t" in clean:
        raise InputError(field, gettext("must be one line without tabs"))
    for character in sorted(REORDERING & set(clean)):
        raise InputError(
            field, gettext("must not hold the character U+{character:04X}").format(character=ord(character))
        )
    return clean


def name(value: str) -> str:
    """A node's name: one line in any script."""
    return line("name", value, length=NAME_LENGTH)


def code(value: str) -> str:
    """A node's code.

    Raises:
        InputError: it isn't 1 to 16 letters, digits, _ and ., or begins with _ or .
    """
    if not CODE.fullmatch(value):
        raise InputError("code", gettext("must be 1 to 16 of A-Z, a-z, 0-9, _ and ., beginning with a letter or digit"))
    return value


def reason(value: str, by: Person | None) -> str:
    """Why. A person has to say; the system's own entries may be silent."""
    return text("reason", value, length=REASON_LENGTH) if by or value else ""


def days(**named: date | None) -> None:
    """Nothing, if these days, by their fields, are such as days can be counted from.

    Raises:
        InputError: names the first that is not.
    """
    for field, day in named.items():
        if day is not None and not queries.FIRST_YEAR <= day.year <= queries.LAST_YEAR:
            message = gettext("must be a day of the years {first} to {last}")
            raise InputError(field, message.format(first=queries.FIRST_YEAR, last=queries.LAST_YEAR))


def allowed(by: Person | None, action: str, thing: Any) -> None:
    """Nothing, if `by` may; the system itself (None) always may.

    Raises:
        NotAllowed: it is not theirs to decide.
    """
    if by is not None and not authority.may(by, action, thing):
        raise NotAllowed(action)


def not_own(by: Person, raised: Collection[BudgetNode]) -> None:
    """Nothing, if `by` has a part in none of the nodes that would be raised: nobody gives to themselves.

    Raises:
        NotAllowed: names the first in which they have.
    """
    parts = authority.parts_of(by) if raised else frozenset()
    for child in raised:
        if child.pk in parts:
            message = gettext("you have a part in {child}: to raise it is for another manager, or the level above")
            raise NotAllowed("share.change", message.format(child=child.code))


def locked(node: BudgetNode, version: int | None = None) -> BudgetNode:
    """The node's row as it is now, locked until the end of the transaction.

    Raises:
        ConflictError: `version` is given, and somebody has changed the node since.
    """
    row = BudgetNode.objects.select_for_update(no_key=True).get(pk=node.pk)
    if version is not None and version != row.version:
        raise ConflictError(
            gettext("{row} was changed by somebody else meanwhile; look at it again").format(row=row.code)
        )
    return row


def announce(clusters: list[int] | None = None) -> None:
    """Once the transaction is committed, tell who registered that the tree changed on these (all) clusters."""

    def tell() -> None:
        concerned = list(Cluster.objects.values_list("pk", flat=True)) if clusters is None else clusters
        for call in hooks.tree_changed:
            call(concerned)

    transaction.on_commit(tell)


def only_author(row: Request | Reallocation, by: Person) -> None:
    """Nothing, if the person wrote it.

    Raises:
        NotAllowed: somebody else did.
    """
    if row.author_id != by.pk:
        what = "request.change" if isinstance(row, Request) else "reallocation.change"
        raise NotAllowed(what, gettext("only its author may do that"))


def save_changed(row: Matter) -> Matter:
    """Store a locked row that has changed, under its next version."""
    row.version += 1
    row.save()
    return row
