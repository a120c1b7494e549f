"""What comes in from outside as a file: archives of working directories, attachments, CSVs, scenarios, bodies."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from budgets.errors import InputError
from budgets.models import Attachment, ShareImport
from budgets.queries import today
from budgets.services import comments, requests
from portal.shares_csv import MAX_BYTES
from scheduler.models import Simulation
from tests.conftest import REPOSITORY
from tests.portal.conftest import Laboratory

PROGRAM = REPOSITORY / "scheduler" / "executors" / "programs" / "allotment_archive.py"
MOST = 100_000


def archive(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A packed archive with these members."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    """One member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def unpack(folder: Path, content: bytes, most: int = MOST) -> subprocess.CompletedProcess[bytes]:
    """Unpack it into `folder`/inside, as an agent does."""
    inside = folder / "inside"
    inside.mkdir(exist_ok=True)
    argv = (sys.executable, str(PROGRAM), "unpack", str(inside), str(most))
    return subprocess.run(argv, input=content, check=False, capture_output=True, timeout=60)


OUT = b"out"
FILE = (member("file"), b"good")
ESCAPES = {
    "a name that climbs": [(member("../outside"), OUT)],
    "a name that climbs later": [(member("a/../../outside"), OUT)],
    "an absolute name": [(member("{folder}/outside"), OUT)],
    "through a link": [(member("link", tarfile.SYMTYPE, ".."), b""), (member("link/outside"), OUT)],
    "through an absolute link": [(member("link", tarfile.SYMTYPE, "{folder}"), b""), (member("link/outside"), OUT)],
    "through two links": [
        (member("a", tarfile.DIRTYPE, mode=0o755), b""),
        (member("a/b", tarfile.SYMTYPE, ".."), b""),
        (member("a/c", tarfile.SYMTYPE, "b/.."), b""),
        (member("a/c/outside"), OUT),
    ],
    "onto what a link names": [(member("link", tarfile.SYMTYPE, "../outside"), b""), (member("link"), OUT)],
    "a hard link to what is outside": [(member("link", tarfile.LNKTYPE, "../secret"), b"")],
    "a hard link by an absolute name": [(member("link", tarfile.LNKTYPE, "{folder}/secret"), b"")],
    "a device": [(member("null", tarfile.CHRTYPE), b"")],
}


@pytest.mark.parametrize("how", ESCAPES)
def test_nothing_of_an_archive_gets_out_of_its_directory(tmp_path: Path, how: str) -> None:
    (tmp_path / "secret").write_text("secret")
    members = []
    for info, content in ESCAPES[how]:
        copy = member(info.name.format(folder=tmp_path), info.type, info.linkname.format(folder=tmp_path), info.mode)
        members.append((copy, content))
    done = unpack(tmp_path, archive(*members))
    assert not (tmp_path / "outside").exists()
    assert (tmp_path / "secret").read_text() == "secret"
    linked = tmp_path / "inside" / "link"
    assert linked.is_symlink() or not linked.exists() or linked.read_bytes() == OUT
    if how != "onto what a link names":  # there the link is replaced, and the file is inside
        assert (done.returncode, b"Traceback" in done.stderr, done.stderr.count(b"\n")) == (1, False, 1), done.stderr


def test_what_is_right_is_unpacked_with_its_links_and_nobodys_rights(tmp_path: Path) -> None:
    done = unpack(
        tmp_path,
        archive(
            FILE,
            (member("sub", tarfile.DIRTYPE, mode=0o755), b""),
            (member("sub/run", mode=0o6755), b"#!/bin/sh\n"),
            (member("sub/also", tarfile.SYMTYPE, "../file"), b""),
            (member("same", tarfile.LNKTYPE, "file"), b""),
        ),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    inside = tmp_path / "inside"
    assert sorted(str(path.relative_to(inside)) for path in inside.rglob("*")) == [
        "file", "same", "sub", "sub/also", "sub/run",
    ]  # fmt: skip
    assert (inside / "sub" / "also").read_text() == "good"
    assert (inside / "sub" / "run").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive at all",
        gzip.compress(b"no archive" * 100),
        archive(FILE)[:40],
        archive(FILE)[:-6],
        os.urandom(999),
    ],
    ids=["empty", "text", "compressed text", "beginning", "cut short", "random"],
)
def test_what_is_no_archive_says_so_in_one_line(tmp_path: Path, content: bytes) -> None:
    done = unpack(tmp_path, content)
    assert (done.returncode, b"Traceback" in done.stderr) in ((0, False), (1, False)), done.stderr
    assert done.stderr.count(b"\n") == done.returncode


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = archive((member("zeros"), b"\0" * 20_000_000))
    assert len(bomb) < MOST
    done = unpack(tmp_path, bomb)
    assert (done.returncode, done.stderr) == (3, b"it is larger than it may be once it is unpacked\n")
    assert sum(path.stat().st_size for path in (tmp_path / "inside").rglob("*")) == 0
    many = archive(*((member(f"zeros{number}"), b"\0" * 1_000_000) for number in range(5)))
    assert unpack(tmp_path, many).returncode == 3


def test_a_file_of_holes_is_not_packed_into_a_bomb(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(50_000_000)
    argv = (sys.executable, str(PROGRAM), "pack", str(tmp_path), str(1_000_000))
    done = subprocess.run(argv, check=False, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (3, b"it is larger than 16000000 bytes unpacked\n")


# --- by people --------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(calm: Laboratory) -> Any:
    """Ada's request."""
    return requests.draft(
        node=calm.node["A1"], cluster=calm.cluster, more_basis_points=500, starts_on=today(), by=calm.ada, why="w",
        otherwise="o",
    )  # fmt: skip


def zipped() -> bytes:
    """A workbook, as far as its beginning says."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("x", "y")
    return packed.getvalue()


REFUSED = [
    ("page.html", b"<script>alert(1)</script>"),
    ("picture.svg", b"<svg onload='alert(1)'/>"),
    ("plan.pdf", b"<html>"),
    ("plan.pdf", zipped()),
    ("plan.png", b"\xff\xd8\xff"),
    ("plan.txt", b"\xff\xfe\x00"),
    ("plan.txt", b"a\0b"),
    ("plan.txt", b""),
    ("plan.txt.exe", b"MZ"),
    ("plan", b"x"),
    (".txt", b"x"),
    ("plan\n.txt", b"x"),
    ("plan\u202etxt.pdf", b"%PDF-1"),
    ("a" * 200 + ".txt", b"x"),
    ("plan.txt", b"x" * (comments.MOST_BYTES + 1)),
]


def test_another_file_than_those_allowed_is_refused(asked: Any, calm: Laboratory) -> None:
    for name, content in REFUSED:
        with pytest.raises(InputError) as refused:
            comments.attach(request=asked, by=calm.ada, name=name, content=content)
        assert (refused.value.field, refused.value.message.isprintable()) == ("file", True), name
    assert not Attachment.objects.exists()


def test_a_path_in_a_name_is_dropped_and_a_download_is_never_shown_inside(
    asked: Any, calm: Laboratory, as_person: Callable[..., Client]
) -> None:
    for name in ("../../etc/passwd.txt", "C:\\Windows\\passwd.txt", 'a";filename="evil.html.txt'):
        comments.attach(request=asked, by=calm.ada, name=name, content=name.encode())
    rows = list(asked.attachments.order_by("pk"))
    assert [row.name for row in rows] == ["passwd.txt", "passwd.txt", 'a";filename="evil.html.txt']
    for row in rows:
        answer = as_person(calm.ada).get(f"/requests/{asked.pk}/files/{row.pk}/")
        assert answer.status_code == 200
        said = answer.headers["Content-Disposition"]
        assert said.startswith("attachment;")
        assert 'filename="evil.html.txt"' not in said.replace('\\"', "")
        assert (answer.headers["X-Content-Type-Options"], answer.headers["Content-Type"]) == ("nosniff", "text/plain")
        assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_a_csv_and_a_scenario_that_are_too_large_are_refused_and_nothing_is_stored(
    calm: Laboratory, as_person: Callable[..., Client]
) -> None:
    client = as_person(calm.mia)
    large = SimpleUploadedFile("a.csv", b"x" * (MAX_BYTES + 1))
    answer = client.post("/imports/", {"file": large})
    assert (answer.status_code, ShareImport.objects.count()) == (400, 0)
    deep = SimpleUploadedFile("s.json", b"[" * 100_000)
    answer = client.post("/simulator/new/", {"source": "file", "file": deep, "scenario": deep})
    assert (answer.status_code, Simulation.objects.count()) == (400, 0)


def test_a_body_beyond_every_bound_is_refused_before_it_is_read(
    calm: Laboratory, as_person: Callable[..., Client]
) -> None:
    """Whoever is signed in could else fill the disk with what is thrown away afterwards."""
    client = as_person(calm.mia)
    client.raise_request_exception = False
    read: list[int] = []

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            read.append(size)
            return b"x" * min(max(size, 1), 65_536)

    for address in ("/imports/", "/requests/1/files/", "/api/v1/workloads/", "/login/"):
        answer = client.generic(
            "POST",
            address,
            b"",
            content_type="multipart/form-data; boundary=x",
            **{"CONTENT_LENGTH": str(10**10), "wsgi.input": Endless()},
        )
        assert answer.status_code == 413, address
    assert read == []


BODIES = {
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "a number without end": b'{"gpus": ' + b"9" * 10_000 + b"}",
    "infinity": b'{"gpus": Infinity}',
    "half a character": b'{"name": "\\ud800"}',
    "no text": b"\xff\xfe\x00",
    "a huge id": b'{"leaf": "A1", "after": 99999999999999999999999999}',
    "twice": b'{"name": "a", "name": "b"}',
    "a list": b"[]",
    "a text": b'"x"',
    "nothing": b"",
}


def test_json_that_would_break_a_reader_gets_one_line(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.ada)
    client.raise_request_exception = False
    for name, body in BODIES.items():
        for address in ("/api/v1/workloads/", "/api/v1/simulations/", "/api/v1/agent/sync", "/api/v1/agent/register"):
            answer = client.post(address, body, content_type="application/json")
            said = answer.content.decode()
            told = (400 <= answer.status_code < 500, said.count("\n"), len(said) < 3_000)
            assert told == (True, 0, True), (name, address)


NUMBERS = ("0", "9223372036854775807", "9223372036854775808", "9" * 30, "9" * 400, "-1", "1e3", "٣")


def test_numbers_that_no_row_can_have_are_not_there(calm: Laboratory, as_person: Callable[..., Client]) -> None:
    client = as_person(calm.mia)
    client.raise_request_exception = False
    for number in NUMBERS:
        for address in ("requests", "reallocations", "reviews", "decisions", "people", "imports", "simulator"):
            assert client.get(f"/{address}/{number}/").status_code == 404, (address, number)
        assert client.get(f"/api/v1/simulations/{number}/").status_code == 404, number
        assert client.get(f"/audit/?before={number}").status_code < 500, number
        assert client.get(f"/workloads/?page={number}").status_code in (200, 400, 404), number
