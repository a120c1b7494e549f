"""The virtual environment `.venv`, made and kept as requirements.txt says. Standard library only.

A stamp, written last, holds a hash of what was installed: an interrupted installation has none and is taken up again.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from portal.supervisor.refusal import Refusal

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "allotment-installed"
REQUIREMENTS = (ROOT / "requirements.txt", ROOT / "constraints.txt")


def wanted_stamp() -> str:
    """A hash of all that the environment's content follows from."""
    digest = hashlib.sha256()
    for path in REQUIREMENTS:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_installed() -> bool:
    """Whether `.venv` is complete and in step with the requirements."""
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text(encoding="utf-8") == wanted_stamp()


def ensure() -> None:
    """Make or repair `.venv` if need be; one process does it, others wait.

    Raises:
        Refusal: it cannot be made, with the reason in one line.
    """
    if is_installed():
        return
    try:
        descriptor = os.open(ROOT / ".venv.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise Refusal(f"{ROOT}: cannot make .venv here: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not is_installed():
            _install()
    finally:
        os.close(descriptor)


def _install() -> None:
    print("Setting up .venv (once; about half a minute) ...", flush=True)
    STAMP.unlink(missing_ok=True)
    works = PYTHON.exists() and _run((str(PYTHON), "-m", "pip", "--version")).returncode == 0
    if not works:
        _make()
    pip = (str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if not _install_quickly(pip):
        done = _run((*pip, "-r", str(REQUIREMENTS[0])))
        if done.returncode:
            raise Refusal(f"packages could not be installed: {_last_line(done)}")
    STAMP.write_text(wanted_stamp(), encoding="utf-8")


def _make() -> None:
    """Make the environment anew; on a Debian without its module for that, fetch it if we may."""
    shutil.rmtree(VENV, ignore_errors=True)
    outside = getattr(sys, "_base_executable", sys.executable)  # we may run inside what we are about to remove
    argv = (outside, "-m", "venv", str(VENV))
    done = _run(argv)
    if done.returncode and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", "python3-venv")):
            _run(("apt-get", *step), environment=quiet)
        shutil.rmtree(VENV, ignore_errors=True)
        done = _run(argv)
    if done.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        if "ensurepip" in done.stdout + done.stderr:
            raise Refusal(f"{outside} cannot make a virtual environment; on Debian: apt-get install python3-venv")
        raise Refusal(f"cannot make .venv: {_last_line(done)}")


def _install_quickly(pip: tuple[str, ...]) -> bool:
    """Install with uv, which takes a quarter of the time; False where pip has to do it.

    uv does not read pip's settings, so where those name an index of their own, pip does all.
    """
    pin = re.search(r"^uv==\S+", REQUIREMENTS[0].read_text(encoding="utf-8"), re.MULTILINE)
    settings = _run((str(PYTHON), "-m", "pip", "config", "list")).stdout
    if pin is None or re.search(r"[.:]index-url=", settings):
        return False
    if _run((*pip, pin[0])).returncode:
        return False
    uv = (str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", str(PYTHON))
    return _run((*uv, "-r", str(REQUIREMENTS[0]))).returncode == 0


def _run(argv: tuple[str, ...], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, check=False, capture_output=True, text=True, env=environment)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".split("\n") if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [f"status {done.returncode}"])[-1]
