"""Jobs that hold GPUs and wait: for people, or for nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scheduler.advisor.findings import Severity, Spot, rule
from scheduler.advisor.package import Package
from scheduler.advisor.shell import Command, Script
from scheduler.advisor.syntax import Loop, Module
from scheduler.advisor.values import value_of

INTERACTIVE_PROGRAMS = frozenset(
    {"jupyter", "jupyter-lab", "jupyter-notebook", "jupyterhub", "code-server", "sshd", "tmux", "screen", "ipython"}
)
INTERACTIVE_MODULES = frozenset(
    {
        "jupyter",
        "notebook",
        "jupyterlab",
        "IPython",
        "pdb",
        "ipykernel",
    }
)
FOREVER = frozenset(
    {
        "inf",
        "infinity",
    }
)
UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)$")
ALWAYS = (("true",), (":",), ("[", "1", "]"), ("[", "true", "]"), ("[[", "1", "]]"), ("((1))",))
MAX_LOOPS = 50
LONG_SLEEP_S = 300
LONG_SHELL_SLEEP_S = 1000
IDLE = frozenset(
    {
        "sleep",
        "echo",
        "date",
        "true",
        ":",
        "nvidia-smi",
        "printf",
        "test",
        "[",
        "done",
        "do",
    }
)


def sleeps_s(words: tuple[str, ...]) -> float | None:
    """How long a `sleep` sleeps; infinite for `inf`; None where it is not known."""
    total = 0.0
    for word in words[1:]:
        if word in FOREVER:
            return float("inf")
        match = DURATION.match(word)
        if match is None:
            return None
        total += float(match[1]) * UNITS_S[match[2]]
    return total


@rule(
    "INTERACTIVE",
    Severity.ERROR,
    pattern="`jupyter`, `code-server`, `sshd`, `tmux`, `screen`, `tail -f /dev/null` or `sleep inf` in the launch "
    "script; `input()`, `breakpoint()`, `set_trace()` or `embed()` in Python; none of it counts on an interactive pool",
    fix="Work interactively on the cheap pool that is meant for it, and submit what runs by itself.",
    effect="Interactive jobs: 15 of 706 issues (2.12%).",
)
def interactive(package: Package) -> Iterator[Spot]:
    """What waits for somebody at a keyboard."""
    if package.is_interactive_pool or not package.gpus:
        return
    for path, line, command, _ in package.commands:
        if _is_interactive(command):
            yield Spot(path, line, f"{command.program} waits for people while GPUs are held.")
    for call in package.calls("input", "breakpoint", "set_trace", "embed", "interact"):
        is_plain = call.receiver is None and call.last in ("input", "breakpoint") and call.name == call.last
        is_debugger = call.last == "set_trace" or call.name in (
            "IPython.embed",
            "code.interact",
            "IPython.terminal.embed",
        )
        if (is_plain and call.last not in _own_functions(call.module)) or is_debugger:
            yield Spot(call.module.path, call.line, f"{call.last}() waits for people while GPUs are held.")


def _own_functions(module: Module) -> frozenset[str]:
    return frozenset(scope.name for scope, _ in module.functions)


def _is_interactive(command: Command) -> bool:
    words = command.words
    if command.program in INTERACTIVE_PROGRAMS:
        return "nbconvert" not in words
    if command.program == "tail":
        return "/dev/null" in words and any(each.startswith("-") and "f" in each.lower() for each in words)
    if command.program == "sleep":
        return any(each in FOREVER for each in words)
    if command.program == "service":
        return "ssh" in words or "sshd" in words
    return command.is_python and (command.python_module in INTERACTIVE_MODULES or "-i" in words[1:2])


@rule(
    "UNRELEASED",
    Severity.ERROR,
    pattern="`time.sleep` of 300 s and more after the last loop; `sleep` of 1,000 s and more, or `while "
    "true` without work, in the launch script",
    fix="End when the work is done; the GPUs go to the next one.",
    effect="Jobs that are not released: 9 of 706 issues (1.27%). Example: ten minutes of sleep on 8 V100.",
)
def unreleased(package: Package) -> Iterator[Spot]:
    """GPUs that are held after the work."""
    if not package.gpus:
        return
    for path, line, command, script in package.commands:
        if command.program == "sleep":
            yield from _sleep(path, line, command, script)
    for script in package.scripts:
        yield from _idle_loops(script)
    last = _last_work(package)
    for call in package.calls("sleep"):
        is_within = any(not _is_idle(call.module, loop) for loop in call.around.loops)
        is_before = last.get((call.module.path, id(call.around.scope)), 0) > call.line
        if call.name not in ("time.sleep", "sleep") or is_within or is_before:
            continue
        given = call.node.args[0] if call.node.args else None
        value = value_of(package, call.module, given)
        is_endless = any(isinstance(loop, ast.While) and _is_always(loop.test) for loop in call.around.loops)
        if is_endless:
            yield Spot(call.module.path, call.line, "It sleeps again and again after the work while GPUs are held.")
        elif isinstance(value, int | float) and value >= LONG_SLEEP_S:
            yield Spot(call.module.path, call.line, f"It sleeps {value:,.0f} s after the work while GPUs are held.")


def _sleep(path: str, line: int, command: Command, script: Script | None) -> Iterator[Spot]:
    known = [script.known(word) if script else word for word in command.words]
    seconds = sleeps_s(tuple(word or "?" for word in known))
    if seconds is None:
        yield Spot(path, line, "How long it sleeps is known at run time only.", is_unknown=True)
    elif LONG_SHELL_SLEEP_S <= seconds < float("inf"):
        yield Spot(path, line, f"It sleeps {seconds:,.0f} s while GPUs are held.")


def _idle_loops(script: Script) -> Iterator[Spot]:
    """`while true` whose body only waits."""
    begun: list[tuple[int, bool]] = []
    for command in script.commands:
        is_endless = (command.keyword == "while" and command.words in ALWAYS) or (
            command.keyword == "until" and command.words == ("false",)
        )
        is_loop = command.keyword in ("while", "until") or command.program in ("for", "select")
        if is_loop:
            begun = [*begun[-MAX_LOOPS:], (command.line if is_endless else 0, True)]
        elif command.program == "done" and begun:
            line, is_idle = begun.pop()
            if line and is_idle:
                yield Spot(script.path, line, "This loop never ends and does no work while GPUs are held.")
        elif begun and command.words and command.program not in IDLE:
            begun = [(line, False) for line, _ in begun]


def _last_work(package: Package) -> dict[tuple[str, int], int]:
    """By file and function: the last line where a loop that works begins, or something is called that may hold one."""
    working = {scope.name for module in package.modules for scope, _ in module.functions} | {"fit", "train"}
    last: dict[tuple[str, int], int] = {}
    for module in package.modules:
        begun = [(its.scope, loop.lineno) for loop, its in module.loops if not _is_idle(module, loop)]
        begun += [(call.around.scope, call.line) for call in module.calls if call.last in working]
        for scope, line in begun:
            key = (module.path, id(scope))
            last[key] = max(last.get(key, 0), line)
    return last


def _is_always(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def _is_idle(module: Module, loop: Loop) -> bool:
    """Its body only sleeps, prints or passes."""
    return all(
        isinstance(each, ast.Pass | ast.Continue)
        or (
            isinstance(each, ast.Expr)
            and (
                isinstance(each.value, ast.Constant)
                or (
                    isinstance(each.value, ast.Call)
                    and module.named(each.value.func).rpartition(".")[2] in ("sleep", "print")
                )
            )
        )
        for each in loop.body
    )
