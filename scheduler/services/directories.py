"""Working directories of workloads: archives of saved ones on their way to another node, and those nobody needs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import F, OuterRef, Subquery
from django.utils import timezone
from django.utils.translation import gettext

from budgets.errors import InputError
from scheduler.models import Node, Rank, SavedDirectory, Workload
from scheduler.services import sessions

PIECE_MAX_BYTES = 1024 * 1024


class NotThere(Exception):
    """The archive has not arrived yet: ask again."""


class NeverThere(Exception):
    """The archive will not arrive; the text says why."""


def folder() -> Path:
    """Where archives lie: on every web server the same file system, if there are several."""
    path = settings.DATA_DIR / "directories"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def path_of(row: SavedDirectory) -> Path:
    """Where its archive lies once it is whole."""
    return folder() / f"{row.run_id}.{row.rank_index}.tar.gz"


def put(
    *,
    node: Node,
    run_id: int,
    rank_index: int,
    offset: int,
    size: int,
    data: bytes,
    digest: str,
    now: datetime | None = None,
) -> int | None:
    """Take bytes [offset, offset + len(data)) of the archive of a directory that was saved on `node`.

    Returns:
        the offset that is wanted next, `size` once it is whole; None where nothing of this run was saved on the node,
        or another one of the workload was saved since.

    Raises:
        InputError: too large, or what came is not what its digest says: it has to be sent again.
    """
    most = settings.DIRECTORY_MAX_MIB * 1024 * 1024
    if not 0 <= offset < size <= most:
        raise InputError("size", gettext("is not 1 to {most:,} bytes").format(most=most))
    if not 0 < len(data) <= PIECE_MAX_BYTES:
        raise InputError("data", gettext("is not 1 to {most:,} bytes").format(most=PIECE_MAX_BYTES))
    row = SavedDirectory.objects.filter(node=node, run=run_id, rank_index=rank_index).first()
    if row is None or SavedDirectory.objects.filter(workload=row.workload_id, run__gt=run_id).exists():
        return None
    if row.stored_at is not None:
        return size
    part = path_of(row).with_suffix(".part")
    if offset != row.received_bytes and offset:
        return row.received_bytes
    with part.open("r+b" if offset and part.exists() else "wb") as file:
        file.seek(offset)
        file.write(data)
        file.truncate()
    SavedDirectory.objects.filter(pk=row.pk).update(received_bytes=offset + len(data))
    if offset + len(data) == size:
        _finish(row, part, digest, now or timezone.now())
    return offset + len(data)


def _finish(row: SavedDirectory, part: Path, digest: str, at: datetime) -> None:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        SavedDirectory.objects.filter(pk=row.pk).update(received_bytes=0)
        raise InputError("digest", gettext("is not that of what came"))
    part.replace(path_of(row))
    SavedDirectory.objects.filter(pk=row.pk, stored_at=None).update(stored_at=at.replace(microsecond=0), digest=digest)


def cannot_travel(*, node: Node, run_id: int, rank_index: int, problem: str) -> bool:
    """What was saved there cannot be sent; whether this was news."""
    row = SavedDirectory.objects.filter(node=node, run=run_id, rank_index=rank_index, stored_at=None, problem="")
    return bool(row.update(problem=problem[:200] or "unknown"))


def get(*, node: Node, run_id: int, rank_index: int, offset: int) -> tuple[bytes, int, str] | None:
    """A piece of the archive that the rank of that run needs on `node`: bytes, the whole size, its digest.

    None where the rank is not to be started there, or needs none.

    Raises:
        NotThere: it has not arrived yet.
        NeverThere: it never will.
    """
    rank = (
        Rank.objects.filter(node=node, run=run_id, index=rank_index, state=Rank.State.WANTED)
        .select_related("run__workload")
        .first()
    )
    if rank is None:
        return None
    wanted = sessions.restoring(rank, sessions.to_restore([rank])).get("directory_from", 0)
    row = SavedDirectory.objects.filter(run=wanted, rank_index=rank_index).first()
    if row is None:
        return None
    if row.problem:
        raise NeverThere(row.problem)
    if row.stored_at is None:
        raise NotThere
    try:
        with path_of(row).open("rb") as file:
            file.seek(max(offset, 0))
            return file.read(PIECE_MAX_BYTES), path_of(row).stat().st_size, row.digest
    except FileNotFoundError:
        return None


def removable(*, names: Sequence[str], cluster_id: int, now: datetime | None = None) -> list[str]:
    """Of these workloads' directories those that nobody needs: they have ended, and the retention is over.

    Never one of a workload that may run again, or that another one waits for; a name that is no workload's stays too.
    """
    if settings.DIRECTORY_DAYS <= 0:
        return []
    before = (now or timezone.now()) - timedelta(days=settings.DIRECTORY_DAYS)
    over = Workload.objects.filter(cluster=cluster_id, code__in=list(names), ended_at__lt=before)
    over = over.exclude(followers__state__in=Workload.OPEN_STATES)
    return sorted(over.values_list("code", flat=True))


def forget() -> int:
    """Remove archives that no next run can need: their workload has ended, or has been saved again since."""
    newest = SavedDirectory.objects.filter(
        workload=OuterRef("workload"), rank_index=OuterRef("rank_index"), stored_at__isnull=False
    ).order_by("-run")
    rows = SavedDirectory.objects.select_related("workload").annotate(newest=Subquery(newest.values("run")[:1]))
    old: list[SavedDirectory] = [*rows.filter(run__lt=F("newest"))]
    old += list(SavedDirectory.objects.filter(workload__ended_at__isnull=False))
    for row in old:
        for path in (path_of(row), path_of(row).with_suffix(".part")):
            path.unlink(missing_ok=True)
    SavedDirectory.objects.filter(pk__in=[row.pk for row in old]).delete()
    return len(old)
