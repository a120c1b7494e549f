"""People's own passwords."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from budgets.models import Kind, Person
from budgets.services import messages


def change(*, person: Person, new: str) -> None:
    """Take this password from now on; the caller has seen the old one, and that the new one will do.

    Sessions end with it, since they are signed with it; the person is told, whoever it was.
    """
    with transaction.atomic():
        person.set_password(new)
        person.save(update_fields=["password"])
        messages.tell(
            to=[person],
            kind=Kind.ACCESS,
            subject="Your password was changed",
            text="If that was not you, tell an administrator at once.",
            path="/password/",
            key=f"password:{person.pk}:{timezone.now().isoformat()}",
        )
