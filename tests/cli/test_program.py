"""What `allot submit` gives the advisor to read, what it says of it, and what it does not send."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from allot.failures import DONE, USAGE
from allot.program import of_command

from scheduler.models import Advice, Workload
from scheduler.services import advice
from tests.cli.conftest import SUBMIT, Run, World

LOADER = "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=64)\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Files by their path."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(*command: str) -> list[str]:
    """The files that a command consists of."""
    return sorted(of_command(command)[0])


# --- what belongs to a command ----------------------------------------------------------------------------------------


def test_its_scripts_and_what_they_import_from_here(here: Path) -> None:
    write(
        here,
        {
            "train.py": "import torch, lab.parts\nfrom lab.deep.model import Net\nfrom helpers import x\n",
            "lab/__init__.py": "",
            "lab/parts.py": "from . import more\nfrom .deep import model\n",
            "lab/more.py": "",
            "lab/deep/__init__.py": "",
            "lab/deep/model.py": "from ..more import y\nimport json\n",
            "helpers.py": "",
            "unrelated.py": "input()\n",
        },
    )
    wanted = ["helpers.py", "lab/__init__.py", "lab/deep/__init__.py", "lab/deep/model.py", "lab/more.py"]
    assert names("python", "train.py") == sorted([*wanted, "lab/parts.py", "train.py"])
    assert names("python", "-m", "lab.parts") == sorted([*wanted[1:], "lab/parts.py"])


def test_launch_scripts_and_what_they_start(here: Path) -> None:
    script = "#!/bin/sh\ncd x # train.py\ntorchrun \\\n  train.py 'a b'\npython -m lab\n"
    write(here, {"run.sh": script, "train.py": "", "lab/__main__.py": ""})
    assert names("sh", "run.sh") == ["lab/__main__.py", "run.sh", "train.py"]
    assert names("sh", "-c", "cd x; python train.py") == ["train.py"]
    assert names("sh", "-c", "python 'train.py") == []


def test_what_is_not_here_is_left_out(here: Path) -> None:
    assert names("python", "train.py") == []
    assert names("python", "-m", "..", "-c") == []
    assert names() == []


def test_nothing_of_it_is_run(here: Path) -> None:
    write(here, {"train.py": "import bad\nopen('ran', 'w')\n", "bad.py": "open('ran', 'w')\nimport train\n"})
    assert names("python", "train.py") == ["bad.py", "train.py"]
    assert not (here / "ran").exists()


def test_what_cant_be_read_is_a_line_each(here: Path) -> None:
    (here / "large.py").write_bytes(b"x" * 10_000_000)
    (here / "picture.py").write_bytes(b"\x89PNG\xff")
    write(here, {"broken.py": "def f(:\n"})
    found, problems = of_command(["python", "large.py", "picture.py", "broken.py"])
    assert sorted(found) == ["broken.py"]
    assert problems == ["large.py: 10.0 MB; a program has at most 0.5 MB a file", "picture.py: is no text"]


def test_it_is_bounded(here: Path) -> None:
    for number in range(4):
        (here / f"m{number}.py").write_text("#" * 400_000)
    found, problems = of_command(["python", *(f"m{number}.py" for number in range(4))])
    assert sorted(found) == ["m0.py", "m1.py"]
    assert problems == ["m2.py: the files have more than 1 MB in all"]


# --- submitting -------------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.django_db


def last() -> Workload:
    """The one that was submitted last."""
    return Workload.objects.select_related("advice").latest("pk")


def test_what_is_found_is_said_after_the_submission(ada: Run, here: Path) -> None:
    write(here, {"train.py": LOADER})
    done = ada(*SUBMIT, "--", "python", "train.py")
    assert (done.code, done.err) == (DONE, "")
    assert [line for line in done.out.splitlines()[2:] if ":" in line and line[0] != " "] == [
        "error  OVERSUB.wrapper  train.py:1",
        "warning  HOST_GPU.workers  train.py:3",
    ]
    assert done.out.splitlines()[-1] == "1 error, 1 warning"
    assert last().advice is not None


def test_no_check_sends_nothing(ada: Run, here: Path) -> None:
    write(here, {"train.py": LOADER})
    done = ada(*SUBMIT, "--no-check", "--", "python", "train.py")
    assert (done.code, done.err, len(done.out.splitlines())) == (DONE, "", 2)
    assert last().advice is None
    done = ada(*SUBMIT, "--no-check", "--program", "train.py", "--", "python", "train.py")
    assert (done.code, done.err) == (USAGE, "allot: --no-check and --program: say one of them\n")


def test_another_program_may_be_named(ada: Run, here: Path) -> None:
    write(here, {"lab/train.py": LOADER, "lab/other.py": ""})
    ada(*SUBMIT, "--program", "lab", "--", "my-launcher", "experiment-7")
    told = last().advice
    assert told is not None
    assert told.files == 2
    done = ada(*SUBMIT, "--program", "none.py", "--", "my-launcher")
    assert (done.code, done.err) == (USAGE, "allot: none.py: No such file or directory\n")


def test_what_cant_be_read_hinders_no_submission(ada: Run, here: Path) -> None:
    (here / "train.py").write_bytes(b"\x89PNG\xff")
    done = ada(*SUBMIT, "-q", "--", "python", "train.py")
    assert (done.code, done.err) == (DONE, "allot: train.py: is no text: the advisor does not read it\n")


def test_quiet_and_json_print_what_they_did(ada: Run, here: Path) -> None:
    write(here, {"train.py": LOADER})
    assert ada(*SUBMIT, "-q", "--", "python", "train.py").out.splitlines() == [last().code]
    assert ada(*SUBMIT, "--json", "--", "python", "train.py").json[0]["code"] == last().code


def test_a_refused_program_is_one_line_that_names_rule_place_and_person(ada: Run, world: World, here: Path) -> None:
    write(here, {"train.py": LOADER})
    rules = {"cluster": world.lab.cluster, "rules": ["HOST_GPU.workers"], "by": world.lab.ops, "reason": "they starve"}
    advice.block(**rules)
    try:
        before = Advice.objects.count()
        done = ada(*SUBMIT, "--", "python", "train.py")
        assert (done.code, done.out, Advice.objects.count()) == (USAGE, "", before)
        assert done.err.startswith("allot: --program: train.py, line 3: This loader has no num_workers")
        assert "HOST_GPU.workers is not taken on north, as Ops decided: “they starve”." in done.err
        assert len(done.err.splitlines()) == 1
    finally:
        advice.unblock(**rules)
