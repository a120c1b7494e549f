"""`./test`: what is missing for the tests, then pytest."""

import os
import shutil
import subprocess
from pathlib import Path

from portal.supervisor.installation import PYTHON, ROOT
from portal.supervisor.place import is_root

CHROMIUM_PATHS = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
CHROMIUM_PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
PATHS_WITH_BROWSER = ("tests", "browser")


def test(*, with_long: bool, arguments: list[str]) -> int:
    """Become pytest with these arguments; returns only if that fails.

    Args:
        with_long: run the tests marked `long` as well.
        arguments: paths below the repository and pytest's own options.
    """
    paths = [argument for argument in arguments if not argument.startswith("-") and Path(ROOT / argument).exists()]
    if not paths or any(Path(path).name in PATHS_WITH_BROWSER or "browser" in path for path in paths):
        ensure_chromium()
    marks = ["-m", ""] if with_long and "-m" not in arguments else []
    os.chdir(ROOT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    os.execve(PYTHON, [str(PYTHON), "-m", "pytest", *marks, *arguments], environment)


def find_chromium() -> str | None:
    """The system's Chromium, the one that ALLOTMENT_CHROMIUM names before all."""
    candidates = (os.environ.get("ALLOTMENT_CHROMIUM", ""), *CHROMIUM_PATHS)
    return next((path for path in candidates if Path(path).is_file()), None)


def ensure_chromium() -> None:
    """Install Chromium for the browser tests where we may; say loudly where we may not."""
    if find_chromium():
        return
    if is_root() and shutil.which("apt-get"):
        print("Installing Chromium for the browser tests (once) ...", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", *CHROMIUM_PACKAGES)):
            done = subprocess.run(
                ("apt-get", *step), check=False, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            if done.returncode:
                break
    if not find_chromium():
        packages = " ".join(CHROMIUM_PACKAGES)
        print(
            f"\n*** NO CHROMIUM: the browser tests cannot run. On Debian: apt-get install {packages} ***\n", flush=True
        )
