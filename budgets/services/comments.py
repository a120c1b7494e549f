"""What people say to a request or a reallocation, and the files they put beside a request."""

from __future__ import annotations

import hashlib

from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from budgets import authority, desks
from budgets.errors import InputError
from budgets.models import Attachment, Comment, Kind, Person, Reallocation, Request
from budgets.services import checks, ledger, messages, request_rows

TEXT_LENGTH = 4_000
NAME_LENGTH = 120
MOST_BYTES = 5 * 1024 * 1024
MOST_ATTACHMENTS = 20

Audience = Comment.Audience

_STARTS = {
    ".pdf": ("application/pdf", (b"%PDF-",)),
    ".png": ("image/png", (b"\x89PNG\r\n\x1a\n",)),
    ".jpg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".jpeg": ("image/jpeg", (b"\xff\xd8\xff",)),
    ".csv": ("text/csv", None),
    ".txt": ("text/plain", None),
    ".md": ("text/markdown", None),
}
"""What may be attached: the type that its ending stands for, and how such a file begins; None is text in UTF-8."""


def say(*, on: Request | Reallocation, by: Person, text: str, audience: str = Audience.ALL) -> Comment:
    """Add a comment, which is never changed. For reviewers only, its author's asker does not see it.

    Raises:
        InputError: no text, too long, or no such audience. NotAllowed: they don't see it, or are no reviewer of it.
    """
    if audience not in Audience.values:
        raise InputError("audience", gettext("must be one of {choices}").format(choices=", ".join(Audience.values)))
    with transaction.atomic():
        on = (
            type(on)
            .objects.select_related("node" if isinstance(on, Request) else "cluster", "parent", "desk")
            .get(pk=on.pk)
        )  # as it is now, whatever the caller read
        checks.allowed(by, "request.see" if isinstance(on, Request) else "reallocation.see", on)
        if audience == Audience.REVIEWERS:
            checks.allowed(by, "comment.see_reviewers", on)
        new = Comment(author=by, audience=audience, text=checks.text("text", text, length=TEXT_LENGTH))
        if isinstance(on, Request):
            new.request = on
        else:
            new.reallocation = on
        new.save()
        _tell(on, new)
        return new


def visible(on: Request | Reallocation, person: Person) -> list[Comment]:
    """The comments that the person may read, the oldest first."""
    rows = on.comments.select_related("author")
    if not authority.may(person, "comment.see_reviewers", on):
        rows = rows.filter(audience=Audience.ALL)
    return list(rows)


def attach(*, request: Request, by: Person, name: str, content: bytes) -> Attachment:
    """Put a file beside an open request. Its author may, and those who decide it.

    Raises:
        InputError: another kind of file than those allowed, one whose beginning is not of its kind, an empty or too
            large one, the same one again, or too many. NotAllowed: it is not theirs. ConflictError: decided already.
    """
    clean = _file_name(name)
    content_type = _type_of(clean, content)
    with transaction.atomic():
        row = request_rows.locked(request, None, among=("draft", "submitted", "returned"))
        if row.author_id != by.pk:
            checks.allowed(by, "comment.see_reviewers", row)
        if row.attachments.count() >= MOST_ATTACHMENTS:
            raise InputError(
                "file",
                gettext("{row} has {most_attachments} files already").format(
                    row=row, most_attachments=MOST_ATTACHMENTS
                ),
            )
        try:
            with transaction.atomic():
                new = Attachment.objects.create(
                    request=row,
                    author=by,
                    name=clean,
                    content_type=content_type,
                    content=content,
                    size_bytes=len(content),
                    sha256=hashlib.sha256(content).hexdigest(),
                )
        except IntegrityError:
            raise InputError("file", gettext("this very file is attached already")) from None
        if row.state != "draft":
            after: ledger.State = {"attachment": new.pk, "name": new.name, "sha256": new.sha256}
            request_rows.entry(row, "request.attached", by, None, after, f"attached {new.name}")
        return new


def _file_name(name: str) -> str:
    """The last part of a name, as it is stored and offered for download."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    clean = checks.line("file", last, length=NAME_LENGTH)
    if clean.startswith("."):
        raise InputError("file", gettext("must have a plain name on one line"))
    return clean


def _type_of(name: str, content: bytes) -> str:
    ending = "." + name.rsplit(".", 1)[-1].lower() if "." in name else ""
    if ending not in _STARTS:
        raise InputError("file", gettext("must be one of {choices}").format(choices=", ".join(_STARTS)))
    if not content:
        raise InputError("file", gettext("is empty"))
    if len(content) > MOST_BYTES:
        raise InputError(
            "file", gettext("must be at most {most_bytes} MiB").format(most_bytes=MOST_BYTES // 1024 // 1024)
        )
    content_type, starts = _STARTS[ending]
    if starts is not None and not content.startswith(starts):
        raise InputError("file", gettext("does not begin like a {ending} file").format(ending=ending))
    if starts is None and not _is_text(content):
        raise InputError("file", gettext("is not text in UTF-8, as a {ending} file must be").format(ending=ending))
    return content_type


def _is_text(content: bytes) -> bool:
    try:
        return "\x00" not in content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False


def _tell(on: Request | Reallocation, comment: Comment) -> None:
    """Tell whoever asked and whoever decides, but for those who may not read it and whoever said it."""
    to = {person.pk: person for person in desks.sitting_at(on.desk, desks.matter_of(on))}
    if comment.audience == Audience.ALL:
        to[on.author_id] = on.author
    to.pop(comment.author_id, None)
    kind = "requests" if isinstance(on, Request) else "reallocations"
    messages.tell(
        to=to.values(),
        kind=Kind.COMMENT,
        subject=f"{comment.author} said something to {on}",
        text=comment.text,
        path=f"/{kind}/{on.pk}/",
        key=f"comment:{comment.pk}",
    )
