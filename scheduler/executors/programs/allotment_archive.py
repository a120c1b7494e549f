#!/usr/bin/env python3
"""Pack a working directory into an archive, or unpack one; run as its owner, so that it reaches nothing more."""

import argparse
import contextlib
import gzip
import os
import shutil
import stat
import sys
import tarfile
import zlib
from collections.abc import Iterator
from typing import Any

TOO_LARGE = 3
UNPACKED_FACTOR = 16
"""An archive unpacks to at most so many times its own bound: a file of nothing but zeros packs to a thousandth."""


class Capped:
    """A stream that takes so many bytes and no more."""

    def __init__(self, stream: Any, most: int) -> None:
        self.stream, self.left, self.most = stream, most, most

    def write(self, data: bytes) -> int:
        """Pass it on.

        Raises:
            OverflowError: it would be too much.
        """
        self.left -= len(data)
        if self.left < 0:
            raise OverflowError(f"{self.most} bytes")
        return int(self.stream.write(data))

    def flush(self) -> None:
        """Pass on what was kept back."""
        self.stream.flush()


def pack(directory: str, most: int) -> int:
    """Write the archive to standard output; files that vanish meanwhile or cannot be read are left out."""
    capped: Any = Capped(sys.stdout.buffer, most)
    left = most * UNPACKED_FACTOR
    with (
        gzip.GzipFile(fileobj=capped, mode="wb", compresslevel=1) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for path, folders, files in os.walk(directory):
            for name in sorted([*files, *folders]):
                full = os.path.join(path, name)
                with contextlib.suppress(OSError):
                    status = os.lstat(full)
                    left -= status.st_size if stat.S_ISREG(status.st_mode) else 0
                    if left < 0:
                        raise OverflowError(f"{most * UNPACKED_FACTOR} bytes unpacked")
                    archive.add(full, os.path.relpath(full, directory), recursive=False)
    sys.stdout.buffer.flush()
    return 0


def checked(archive: tarfile.TarFile, directory: str, most: int) -> Iterator[tarfile.TarInfo]:
    """Its members, one after the other as they are unpacked.

    Raises:
        OverflowError: it would unpack to more than `most` bytes.
        tarfile.TarError: a member would lie outside the directory, by its name or through a link, or is a device.
    """
    root = os.path.realpath(directory)
    for member in archive:
        most -= member.size
        if most < 0:
            raise OverflowError("it may be once it is unpacked")
        name = member.name
        above = os.path.realpath(os.path.join(root, os.path.dirname(name)))
        if name.startswith("/") or ".." in name.split("/") or os.path.commonpath([root, above]) != root:
            raise tarfile.TarError(f"{name!r} would lie outside the directory")
        if member.islnk():
            target = os.path.realpath(os.path.join(root, member.linkname))
            if os.path.commonpath([root, target]) != root:
                raise tarfile.TarError(f"{name!r} is a link to what lies outside the directory")
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk() or member.isfifo()):
            raise tarfile.TarError(f"{name!r} is a device")
        member.mode &= 0o777  # nobody becomes anybody else by what was saved
        yield member


def unpack(directory: str, most: int) -> int:
    """Make the directory what the archive on standard input says; what was there before goes. An archive is somebody
    else's word: nothing of it gets out of the directory, whichever Python this is.
    """
    for name in os.listdir(directory):
        full = os.path.join(directory, name)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)
        else:
            os.unlink(full)
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz") as archive:
        how: Any = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}  # older ones have none
        archive.extractall(directory, checked(archive, directory, most), **how)
    return 0


def _do(what: str, directory: str, most: int) -> int:
    return pack(directory, most) if what == "pack" else unpack(directory, most * UNPACKED_FACTOR)


def main() -> int:
    """`pack DIRECTORY BYTES` or `unpack DIRECTORY BYTES`: the bound of the archive."""
    parser = argparse.ArgumentParser(prog="allotment-archive", description=__doc__)
    parser.add_argument("what", choices=("pack", "unpack"))
    parser.add_argument("directory")
    parser.add_argument("most", type=int, nargs="?", default=2**40)
    options = parser.parse_args()
    try:
        return _do(options.what, options.directory, options.most)
    except OverflowError as error:
        print(f"it is larger than {error}", file=sys.stderr)
        return TOO_LARGE
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as error:
        print(str(error), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
