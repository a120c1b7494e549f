#!/usr/bin/env python3
"""Pack a working directory into an archive, or unpack one; run as its owner, so that it reaches nothing more."""

import argparse
import contextlib
import gzip
import os
import shutil
import sys
import tarfile
from typing import Any

TOO_LARGE = 3


class Capped:
    """A stream that takes so many bytes and no more."""

    def __init__(self, stream: Any, most: int) -> None:
        self.stream, self.left = stream, most

    def write(self, data: bytes) -> int:
        """Pass it on.

        Raises:
            OverflowError: it would be too much.
        """
        self.left -= len(data)
        if self.left < 0:
            raise OverflowError
        return int(self.stream.write(data))

    def flush(self) -> None:
        """Pass on what was kept back."""
        self.stream.flush()


def pack(directory: str, most: int) -> int:
    """Write the archive to standard output; files that vanish meanwhile or cannot be read are left out."""
    capped: Any = Capped(sys.stdout.buffer, most)
    with (
        gzip.GzipFile(fileobj=capped, mode="wb", compresslevel=1) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for path, folders, files in os.walk(directory):
            for name in sorted([*files, *folders]):
                full = os.path.join(path, name)
                with contextlib.suppress(OSError):
                    archive.add(full, os.path.relpath(full, directory), recursive=False)
    sys.stdout.buffer.flush()
    return 0


def unpack(directory: str) -> int:
    """Make the directory what the archive on standard input says; what was there before goes."""
    for name in os.listdir(directory):
        full = os.path.join(directory, name)
        if os.path.isdir(full) and not os.path.islink(full):
            shutil.rmtree(full)
        else:
            os.unlink(full)
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz") as archive:
        how: Any = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}  # older ones have none
        archive.extractall(directory, **how)
    return 0


def main() -> int:
    """`pack DIRECTORY BYTES` or `unpack DIRECTORY`."""
    parser = argparse.ArgumentParser(prog="allotment-archive", description=__doc__)
    parser.add_argument("what", choices=("pack", "unpack"))
    parser.add_argument("directory")
    parser.add_argument("most", type=int, nargs="?", default=2**40)
    options = parser.parse_args()
    try:
        return pack(options.directory, options.most) if options.what == "pack" else unpack(options.directory)
    except OverflowError:
        print(f"it is larger than {options.most} bytes", file=sys.stderr)
        return TOO_LARGE
    except (OSError, tarfile.TarError) as error:
        print(str(error), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
