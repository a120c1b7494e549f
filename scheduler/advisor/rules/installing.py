"""Libraries that are installed while GPUs wait."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.advisor.findings import Severity, Spot, rule
from scheduler.advisor.package import Package
from scheduler.advisor.shell import Command

MANAGERS = frozenset({"pip", "pip3", "conda", "mamba", "micromamba", "apt", "apt-get", "yum", "dnf", "uv", "poetry"})
INSTALLS = frozenset({"install", "create", "update", "upgrade", "sync", "add"})


def installs(command: Command) -> bool:
    """It installs, fetches or builds something."""
    words = command.words
    if command.program in MANAGERS or command.program.startswith("pip3."):
        return bool(INSTALLS & set(words[1:4]))
    if command.is_python:
        return (command.python_module == "pip" and "install" in words) or (
            "setup.py" in words and bool({"install", "develop", "build", "build_ext"} & set(words))
        )
    if command.program == "git":
        return "clone" in words
    return command.program in ("make", "ninja") or (command.program == "cmake" and "--build" in words)


@rule(
    "INSTALL",
    Severity.WARN,
    pattern="pip, conda or apt install, `git clone` or make before the line that starts the work",
    fix="Put the libraries into an image, or an environment that all runs share.",
    effect="Long installation of libraries (10 minutes and more): 12 of 706 issues (1.70%). Example: "
    "copying a folder of libraries, 16 minutes.",
)
def install(package: Package) -> Iterator[Spot]:
    """Installations that GPUs wait for."""
    if not package.gpus:
        return
    for script in package.scripts:
        for command in script.before_launch():
            if installs(command):
                yield Spot(
                    script.path, command.line, f"{command.program} runs before the work begins, while GPUs are held."
                )
    for path, line, command, script_or_none in package.commands:
        if script_or_none is None and installs(command):
            yield Spot(path, line, f"The program itself runs {command.program}, while GPUs are held.")
