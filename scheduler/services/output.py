"""What ranks print, as far as it is kept."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import F, Max
from django.utils.translation import gettext

from budgets.errors import InputError
from scheduler.models import LogChunk, Node, Rank

CHUNK_MAX_BYTES = 256 * 1024
KEPT_MAX_BYTES = 16 * 1024 * 1024
"""Kept of one rank, whatever its agent would send."""


def keep(
    *, node: Node, run_id: int, rank_index: int, offset: int, data: bytes, shown: bytes | None = None
) -> int | None:
    """Keep bytes [offset, offset + len(data)) of a rank's output, if they are the next ones; once, however often sent.

    `shown` is what is kept in their place, where secrets stand in them.

    Returns:
        the offset that is wanted next: `offset` again once no more is kept; None if the node has no such rank.

    Raises:
        InputError: an offset or a piece that cannot be.
    """
    if not 0 <= offset <= KEPT_MAX_BYTES:
        raise InputError(
            "offset",
            gettext("{offset} is not 0 to {kept_max_bytes}").format(offset=offset, kept_max_bytes=KEPT_MAX_BYTES),
        )
    if not 0 < len(data) <= CHUNK_MAX_BYTES:
        raise InputError("data", gettext("is not 1 to {chunk_max_bytes} bytes").format(chunk_max_bytes=CHUNK_MAX_BYTES))
    if not 0 <= rank_index < 2**31 or not 0 <= run_id < 2**63:
        return None
    rank = Rank.objects.filter(node=node, run=run_id, index=rank_index).first()
    if rank is None:
        return None
    wanted = _end(rank)
    if offset != wanted or wanted + len(data) > KEPT_MAX_BYTES:
        return wanted
    text = (data if shown is None else shown).decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    try:
        with transaction.atomic():
            LogChunk.objects.create(rank=rank, offset=offset, length=len(data), text=text)
    except IntegrityError:  # the same piece has come by another request meanwhile
        return _end(rank)
    return offset + len(data)


def _end(rank: Rank) -> int:
    """Where what is kept ends."""
    return LogChunk.objects.filter(rank=rank).aggregate(end=Max(F("offset") + F("length")))["end"] or 0
