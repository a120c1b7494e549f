"""`allot check`: what it sends, what it says, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from allot.failures import DONE, FAILED, USAGE

from tests.cli.conftest import Run

pytestmark = pytest.mark.django_db
LOADER = "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=64)\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_warnings_are_said_and_end_well(ada: Run, here: Path) -> None:
    (here / "train.py").write_text(LOADER)
    done = ada("check", "train.py", "--gpus", "1")
    assert (done.code, done.err) == (DONE, "")
    assert done.out.splitlines() == [
        "warning  HOST_GPU.workers  train.py:3",
        "  > loader = DataLoader(data, batch_size=64)",
        "  This loader has no num_workers: the GPU waits while each batch is loaded.",
        "  Do: num_workers=4 to 8 for each GPU, persistent_workers=True: batches are loaded while the GPU",
        "  computes.",
        "  Known: Inefficient transfer between host and GPU: 197 of 706 issues (27.90%), the most frequent.",
        "",
        "1 warning",
    ]


def test_an_error_ends_with_1_also_for_programs(ada: Run, here: Path) -> None:
    (here / "train.py").write_text(LOADER)
    (here / "go").write_text("#!/bin/sh\npython train.py\nsleep 1h\n")
    done = ada("check", "train.py", "-g", "8", "-N", "1", "--launch", "go", "--json")
    assert (done.code, done.err) == (FAILED, "")
    assert [(each["rule"], each["file"], each["line"]) for each in done.json["findings"]] == [
        ("OVERSUB.wrapper", "train.py", 1),
        ("UNRELEASED", "go", 3),
        ("HOST_GPU.workers", "train.py", 3),
    ]
    assert ada("check", "train.py", "-g", "8").out.splitlines()[-1] == "1 error, 1 warning"


def test_a_folder_is_read_as_one_package(ada: Run, here: Path) -> None:
    (here / "lab").mkdir()
    (here / "lab" / "parallel.py").write_text("from torch.nn.parallel import DistributedDataParallel as D\nw = D\n")
    (here / "train.py").write_text("import torch\nfrom lab.parallel import w\nmodel = w(model)\n")
    for hidden in (".venv", "__pycache__"):
        (here / hidden).mkdir()
        (here / hidden / "bad.py").write_text("input()\n")
    done = ada("check", ".", "--gpus", "8")
    assert (done.code, done.out, done.err) == (DONE, "Nothing that is known to leave GPUs idle.\n", "")


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("large.py", b"x" * 10_000_000, "large.py: 10.0 MB; a program has at most 0.5 MB a file"),
        ("picture.py", b"\x89PNG\xff", "picture.py: is no text"),
        ("zero.py", b"x\0y", "zero.py: is no text"),
    ],
)
def test_what_is_no_program_is_one_line(ada: Run, here: Path, name: str, content: bytes, line: str) -> None:
    (here / name).write_bytes(content)
    done = ada("check", name, "--gpus", "1")
    assert (done.code, done.out, done.err) == (USAGE, "", f"allot: {line}\n")


def test_what_is_not_there_and_what_holds_nothing(ada: Run, here: Path) -> None:
    (here / "empty").mkdir()
    assert ada("check", "none.py", "-g", "1").err == "allot: none.py: No such file or directory\n"
    assert ada("check", "empty", "-g", "1").err == "allot: empty: holds no program (.py, .sh, .bash, .sbatch, .slurm)\n"
    assert ada("check", "empty").code == USAGE


def test_a_syntax_error_is_a_finding(ada: Run, here: Path) -> None:
    (here / "train.py").write_text("import torch\ndef f(:\n")
    done = ada("check", "train.py", "--gpus", "1")
    assert done.code == DONE
    assert done.out.splitlines()[0] == "unknown  READ  train.py:2"


def test_what_the_portal_refuses_names_the_option(ada: Run, here: Path) -> None:
    (here / "train.py").write_text("")
    done = ada("check", "train.py", "--gpus", "9999999999")
    assert (done.code, done.err[:14]) == (USAGE, "allot: --gpus:")
