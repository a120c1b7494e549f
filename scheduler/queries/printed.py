"""What a rank printed, from some byte on: for those who follow it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F, Max

from scheduler.models import LogChunk, Rank, Run, Workload

READ_MAX_BYTES = 256 * 1024
"""Of one answer, give or take a piece."""
CHUNKS_MAX = 200


@dataclass(frozen=True, slots=True)
class Printed:
    """Text of one rank. It consists of whole pieces: `offset` may lie before the byte that was asked for.

    Attributes:
        run, rank, ranks: whose; None and 0 where there is no such run, or no such rank.
        offset, next_offset: the bytes [offset, next_offset).
        is_over: the rank has ended, and this is the end of what is kept.
    """

    run: int | None
    rank: int
    ranks: int
    offset: int
    next_offset: int
    text: str
    is_over: bool


def printed(
    workload: Workload, *, run: int | None = None, rank: int = 0, offset: int = 0, tail: int | None = None
) -> Printed:
    """What a rank of a run printed.

    Args:
        workload: whose.
        run: its number; None is the last one.
        rank: from 0.
        offset: of the first byte that is wanted.
        tail: in place of an offset, how many of the last bytes.
    """
    runs = Run.objects.filter(workload=workload).order_by("-number")
    of = runs.first() if run is None else runs.filter(number=run).first()
    if of is None:
        return Printed(None, rank, 0, offset, offset, "", workload.state in Workload.ENDED_STATES)
    ranks = Rank.objects.filter(run=of).count()
    row = Rank.objects.filter(run=of, index=rank).first()
    if row is None:
        return Printed(of.number, rank, ranks, offset, offset, "", True)
    chunks = LogChunk.objects.filter(rank=row).annotate(end=F("offset") + F("length"))
    end = chunks.aggregate(last=Max("end"))["last"] or 0
    start = max(0, end - tail) if tail is not None else offset
    found: list[LogChunk] = []
    size = 0
    for chunk in chunks.filter(end__gt=start).order_by("offset")[:CHUNKS_MAX]:
        if found and size + chunk.length > READ_MAX_BYTES:
            break
        found.append(chunk)
        size += chunk.length
    first = found[0].offset if found else min(start, end)
    last = found[-1].offset + found[-1].length if found else min(start, end)
    is_over = of.state == Run.State.ENDED and last >= end
    return Printed(of.number, rank, ranks, first, last, "".join(each.text for each in found), is_over)
