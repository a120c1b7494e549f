"""The virtual environment: made, kept in step, and repaired."""

import subprocess
from pathlib import Path

import pytest

from portal.supervisor import installation
from portal.supervisor.refusal import Refusal


@pytest.fixture
def requirements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The list of requirements of an environment in a folder of the test's; it asks for nothing yet."""
    listed = tmp_path / "requirements.txt"
    listed.write_text("# nothing\n")
    venv = tmp_path / ".venv"
    monkeypatch.setattr(installation, "ROOT", tmp_path)
    monkeypatch.setattr(installation, "VENV", venv)
    monkeypatch.setattr(installation, "PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(installation, "STAMP", venv / "allotment-installed")
    monkeypatch.setattr(installation, "REQUIREMENTS", (listed,))
    return listed


def works(python: Path) -> bool:
    """Whether that Python runs and can install."""
    return subprocess.run((python, "-m", "pip", "--version"), check=False, capture_output=True).returncode == 0


def test_it_is_made_once_and_repaired_when_broken(
    requirements: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installation.ensure()
    assert works(installation.PYTHON)
    assert installation.is_installed()
    made = "Setting up .venv (once; about half a minute) ...\n"
    assert capsys.readouterr().out == made

    installation.ensure()
    assert capsys.readouterr().out == ""

    # What an interrupted installation leaves: no stamp. What is there is kept and completed.
    installation.STAMP.unlink()
    kept = installation.VENV / "kept"
    kept.touch()
    installation.ensure()
    assert installation.is_installed()
    assert kept.exists()

    # New requirements.
    requirements.write_text("# nothing more\n")
    assert not installation.is_installed()
    installation.ensure()
    assert installation.is_installed()
    assert kept.exists()

    # A Python that does not run: all is made anew.
    installation.STAMP.unlink()
    installation.PYTHON.unlink()
    installation.PYTHON.write_text("#!/bin/false\n")
    installation.PYTHON.chmod(0o755)
    installation.ensure()
    assert works(installation.PYTHON)
    assert not kept.exists()


def test_what_cannot_be_installed_is_one_line_and_leaves_no_stamp(requirements: Path) -> None:
    requirements.write_text("./not-there\n")
    with pytest.raises(Refusal, match=r"packages could not be installed: ERROR: .*not-there") as refused:
        installation.ensure()
    assert "\n" not in str(refused.value)
    assert not installation.is_installed()
