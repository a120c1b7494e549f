"""A program that somebody chooses in a form: its files, or zips of them. Read into memory, bounded, never unpacked."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from django import forms
from django.utils.translation import gettext

from scheduler.advisor import MAX_FILE_BYTES, MAX_FILES, MAX_PACKAGE_BYTES

ENDINGS = (".py", ".sh", ".bash", ".sbatch", ".slurm")
"""What of an archive is read."""
LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env"})
ARCHIVE_MAX_BYTES = 5_000_000
MEMBERS_MAX = 10_000
PATH_LENGTH = 255
BROKEN = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, ValueError,
    EOFError,
)  # fmt: skip


class ProgramInput(forms.FileInput):
    """Any number of files."""

    allow_multiple_selected = True


class ProgramField(forms.FileField):
    """The bytes of each file by its path; empty where nothing was chosen."""

    widget = ProgramInput

    def clean(self, data: Any, initial: Any = None) -> dict[str, bytes]:
        """What was chosen.

        Raises:
            ValidationError: a file is too large, an archive can't be read, or there are too many.
        """
        del initial
        found: dict[str, bytes] = {}
        for upload in data or ():
            for path, content in _files(upload.name, upload.size, upload.file):
                if path in found:
                    raise forms.ValidationError(
                        gettext("there are two files {path}: put them into a zip with their folders").format(
                            path=path[:PATH_LENGTH]
                        )
                    )
                found[path] = content
                if len(found) > MAX_FILES:
                    raise forms.ValidationError(
                        gettext("{name}: more than {most} files; choose those that belong to the work").format(
                            name=upload.name, most=MAX_FILES
                        )
                    )
        if sum(map(len, found.values())) > MAX_PACKAGE_BYTES:
            raise forms.ValidationError(
                gettext("these files have more than {most} MB in all; choose those that belong to the work").format(
                    most=f"{MAX_PACKAGE_BYTES / 1e6:.0f}"
                )
            )
        return found


def _files(name: str, size: int, file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    is_archive = name.lower().endswith(".zip")
    most = ARCHIVE_MAX_BYTES if is_archive else MAX_FILE_BYTES
    if size > most:
        raise forms.ValidationError(
            gettext("{name}: {size} MB; at most {most} MB are read").format(
                name=name, size=f"{size / 1e6:.1f}", most=f"{most / 1e6:g}"
            )
        )
    if not is_archive:
        yield name, file.read()
        return
    try:
        with zipfile.ZipFile(file) as archive:
            yield from _members(name, archive)
    except BROKEN:
        # RuntimeError: it is encrypted; NotImplementedError: packed in a way that Python does not know.
        raise forms.ValidationError(gettext("{name}: is no zip archive that can be read").format(name=name)) from None


def _members(name: str, archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """The programs in it. What it says of sizes is not believed: no more of each is unpacked than may be read."""
    members = archive.infolist()
    if len(members) > MEMBERS_MAX:
        raise forms.ValidationError(
            gettext("{name}: more than {most} files; choose those that belong to the work").format(
                name=name, most=MEMBERS_MAX
            )
        )
    room = MAX_PACKAGE_BYTES
    for each in members:
        if each.is_dir() or not _is_program(each.filename.split("/")):
            continue
        with archive.open(each) as file:
            content = file.read(MAX_FILE_BYTES + 1)
        room -= len(content)
        if len(content) > MAX_FILE_BYTES or room < 0:
            raise forms.ValidationError(
                gettext("{name}: {path} is too large; at most {most} MB a file are read, and {all} MB in all").format(
                    name=name, path=each.filename[:PATH_LENGTH],
                    most=f"{MAX_FILE_BYTES / 1e6:g}", all=f"{MAX_PACKAGE_BYTES / 1e6:g}",
                )
            )  # fmt: skip
        yield each.filename, content


def _is_program(parts: Iterable[str]) -> bool:
    *folders, last = parts
    is_own = not any(each.startswith(".") or each in LEFT_OUT for each in folders)
    return is_own and last.endswith(ENDINGS) and not last.startswith(".")
