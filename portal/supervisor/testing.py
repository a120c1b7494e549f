"""`./test`: what is missing for the tests, then pytest."""

import os
import shutil
import subprocess
from pathlib import Path

from portal.supervisor.installation import PYTHON, ROOT
from portal.supervisor.place import is_root

CHROMIUM_PATHS = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
CHROMIUM_PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
PROCESSES_MAX = 4
WAITING = 1
"""Quick tests wait nearly half of their time, for processes that they start: one more keeps the cores busy."""
IN_ORDER = "--no-loadscope-reorder"
"""Of the long ones a file of one test may be the longest: by themselves files with few tests would come last."""
FAILED, INTERRUPTED, NONE_CHOSEN = 1, 2, 5
"""Of pytest's statuses: some failed; it was interrupted; no test was chosen."""
PATHS_WITH_BROWSER = ("tests", "browser")
SLURM_PROGRAMS = ("slurmctld", "slurmdbd", "slurmd", "sbatch", "sacctmgr", "munged", "mariadbd")
SLURM_PACKAGES = (
    *("slurmctld", "slurmd", "slurmdbd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin"),
    *("munge", "mariadb-server"),
)


NGINX_PACKAGES = ("nginx-light",)


def test(*, with_long: bool, arguments: list[str]) -> int:
    """Run pytest with these arguments, whole suites in stages; pytest's status, the first that is neither 0 nor 5.

    Args:
        with_long: run the tests marked `long` as well.
        arguments: paths below the repository and pytest's own options.
    """
    paths = [argument for argument in arguments if not argument.startswith("-") and Path(ROOT / argument).exists()]
    if not paths or any(Path(path).name in PATHS_WITH_BROWSER or "browser" in path for path in paths):
        ensure_chromium()
    if with_long and (not paths or any(Path(path).name == "tests" or "slurm" in path for path in paths)):
        ensure_slurm()
    if with_long and (not paths or any(Path(path).name in ("tests", "platform") or "nginx" in path for path in paths)):
        ensure_nginx()
    os.chdir(ROOT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    statuses = []
    for options in stages(with_long=with_long, is_whole=not paths, arguments=arguments):
        try:
            done = subprocess.run([PYTHON, "-m", "pytest", *options], check=False, env=environment)
        except KeyboardInterrupt:  # which pytest had too, and has said what it had found
            return INTERRUPTED
        statuses.append(done.returncode)
        if done.returncode not in (0, FAILED, NONE_CHOSEN):
            break
    return next((status for status in statuses if status not in (0, NONE_CHOSEN)), min(statuses))


def stages(*, with_long: bool, is_whole: bool, arguments: list[str]) -> list[list[str]]:
    """pytest's arguments for each run of it, one after the other.

    What takes minutes is shared out too, but for what is marked `alone`: its clocks want the machine for themselves.
    """
    if not is_whole or "-n" in arguments:
        return [[*(["-m", ""] if with_long and "-m" not in arguments else []), *arguments]]
    quick = [*shared_out(more=WAITING), *arguments]
    if not with_long:
        return [quick]
    alone = ["-m", "long and alone"]
    shared = [*shared_out(), IN_ORDER, "-m", "long and not alone"]
    if "-m" not in arguments:
        return [quick, [*shared, *arguments], [*alone, *arguments]]
    place = arguments.index("-m")
    others = arguments[:place] + arguments[place + 2 :]
    if arguments[place + 1 : place + 2] == ["long"]:
        return [[*shared, *others], [*alone, *others]]
    return [arguments]


def shared_out(*, more: int = 0) -> list[str]:
    """pytest's options to share the tests out to processes, each with databases of its own: a file goes to one.

    Args:
        more: so many more than there are cores, if there are several.
    """
    cores = os.cpu_count() or 1
    return ["-n", str(min(cores + more, PROCESSES_MAX)), "--dist", "loadfile"] if cores > 1 else []


def find_chromium() -> str | None:
    """The system's Chromium, the one that ALLOTMENT_CHROMIUM names before all."""
    candidates = (os.environ.get("ALLOTMENT_CHROMIUM", ""), *CHROMIUM_PATHS)
    return next((path for path in candidates if Path(path).is_file()), None)


def ensure_chromium() -> None:
    """Install Chromium for the browser tests where we may; say loudly where we may not."""
    if find_chromium():
        return
    _install("Chromium for the browser tests", CHROMIUM_PACKAGES)
    if not find_chromium():
        packages = " ".join(CHROMIUM_PACKAGES)
        print(
            f"\n*** NO CHROMIUM: the browser tests cannot run. On Debian: apt-get install {packages} ***\n", flush=True
        )


def ensure_slurm() -> None:
    """Install Slurm's own packages for the tests that start one, where we may; say loudly where we may not."""
    if all(shutil.which(program) for program in SLURM_PROGRAMS):
        return
    _install("Slurm for the tests with a real one", SLURM_PACKAGES)
    if not all(shutil.which(program) for program in SLURM_PROGRAMS):
        packages = " ".join(SLURM_PACKAGES)
        print(
            f"\n*** NO SLURM: tests with a real one cannot run. As root, on Debian: apt-get install {packages} ***\n",
            flush=True,
        )


def ensure_nginx() -> None:
    """Install nginx for the test of its configuration, where we may; say loudly where we may not."""
    if shutil.which("nginx"):
        return
    _install("nginx for the test of the proxy", NGINX_PACKAGES)
    if not shutil.which("nginx"):
        packages = " ".join(NGINX_PACKAGES)
        print(
            f"\n*** NO NGINX: its configuration is not tried. On Debian: apt-get install {packages} ***\n", flush=True
        )


def _install(what: str, packages: tuple[str, ...]) -> None:
    """Install Debian's packages, if we are root on a Debian; what did not come is missed by whoever asked."""
    if not is_root() or not shutil.which("apt-get"):
        return
    print(f"Installing {what} (once) ...", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    policy = Path("/usr/sbin/policy-rc.d")  # what is installed is not started: tests start their own
    is_ours = not policy.exists()
    if is_ours:
        policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
        policy.chmod(0o755)
    try:
        for step in (("update", "-qq"), ("install", "-y", "-qq", "--no-install-recommends", *packages)):
            done = subprocess.run(
                ("apt-get", *step), check=False, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            if done.returncode:
                break
    finally:
        if is_ours:
            policy.unlink(missing_ok=True)
