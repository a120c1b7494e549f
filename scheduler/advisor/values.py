"""What an expression is worth, where that can be told without running anything."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.advisor.package import Package
    from scheduler.advisor.syntax import Call, Module

MAX_STEPS = 30
MAX_NUMBER = 10**12
MAX_SHOWN_CHARS = 60
MAX_TEXT_CHARS = 300


class Unknown:
    """A value that only the run knows."""


class Missing:
    """It was not given: the library's default holds."""


UNKNOWN = Unknown()
MISSING = Missing()
Plain = str | int | float | bool | None
Value = Plain | Unknown | Missing


@dataclass(frozen=True, slots=True)
class Text:
    """The beginning of a text: all of it, or as far as it is known.

    Attributes:
        is_whole: nothing follows that is not known.
    """

    start: str
    is_whole: bool


def value_of(package: Package, module: Module, node: ast.expr | None, steps: int = MAX_STEPS) -> Value:
    """A literal, a constant's name, or plain arithmetic of these; UNKNOWN otherwise, and MISSING for None."""
    if node is None:
        return MISSING
    if steps <= 0:
        return UNKNOWN
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str | int | float | bool | None) else UNKNOWN
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        return _negative(node.op, value_of(package, module, node.operand, steps - 1))
    if isinstance(node, ast.BinOp):
        left = value_of(package, module, node.left, steps // 2)
        return _arithmetic(node.op, left, value_of(package, module, node.right, steps // 2))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "int"):
        inner = value_of(package, module, node.args[0], steps - 1) if len(node.args) == 1 else UNKNOWN
        return str(inner) if node.func.id == "str" and isinstance(inner, int) else inner
    where = package.constant(module, node)
    return value_of(package, where[0], where[1], steps - 1) if where else UNKNOWN


def _negative(operator: ast.unaryop, value: Value) -> Value:
    if isinstance(operator, ast.Not):
        return not value if isinstance(value, bool) else UNKNOWN
    return -value if isinstance(value, int | float) else UNKNOWN


def _arithmetic(operator: ast.operator, left: Value, right: Value) -> Value:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return UNKNOWN
    if abs(left) > MAX_NUMBER or abs(right) > MAX_NUMBER:
        return UNKNOWN
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    if isinstance(operator, ast.FloorDiv) and right:
        return left // right
    return UNKNOWN


def argument(package: Package, call: Call, name: str, position: int | None = None) -> Value:
    """The value of an argument; MISSING where it can't have been given, not even as `**options`."""
    given = call.keyword(name, position)
    if given is not None:
        return value_of(package, call.module, given)
    for each in call.spread:
        options = options_of(package, call.module, each)
        if options is None:
            return UNKNOWN
        if name in options:
            return value_of(package, options[name][0], options[name][1])
    return UNKNOWN if any(isinstance(each, ast.Starred) for each in call.node.args) else MISSING


def options_of(
    package: Package, module: Module, node: ast.expr, steps: int = MAX_STEPS
) -> dict[str, tuple[Module, ast.expr]] | None:
    """What a `**options` holds: a literal `{...}` or `dict(...)`, or a name that stands for one; None is unknown."""
    if isinstance(node, ast.Dict):
        found: dict[str, tuple[Module, ast.expr]] = {}
        for key, each in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                return None
            found[key.value] = (module, each)
        return found
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        named = {each.arg: (module, each.value) for each in node.keywords if each.arg}
        return named if len(named) == len(node.keywords) else None
    where = package.constant(module, node)
    return options_of(package, where[0], where[1], steps - 1) if where and steps > 0 else None


def text_of(package: Package, module: Module, node: ast.expr | None, steps: int = MAX_STEPS) -> Text:
    """How a path or an address begins: of literals, f-strings, `+`, `/`, `os.path.join`, `Path(...)`, constants."""
    # Each expression once: constants that are made of constants would else grow with every use.
    known = package.beginnings.get(id(node))
    if known is None:
        known = package.beginnings[id(node)] = _beginning(package, module, node, steps)
    return known


def _beginning(package: Package, module: Module, node: ast.expr | None, steps: int) -> Text:
    nothing = Text("", is_whole=False)
    if node is None or steps <= 0:
        return nothing
    if isinstance(node, ast.Constant):
        return Text(node.value[:MAX_TEXT_CHARS], is_whole=True) if isinstance(node.value, str) else nothing
    if isinstance(node, ast.JoinedStr):
        return _joined(package, module, list(node.values), "", steps)
    if isinstance(node, ast.FormattedValue):
        return text_of(package, module, node.value, steps - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div | ast.Mod):
        return _joined(package, module, [node.left, node.right], "/" if isinstance(node.op, ast.Div) else "", steps)
    if isinstance(node, ast.Call):
        last = module.named(node.func).rpartition(".")[2]
        if last in ("join", "Path", "PurePath", "PosixPath", "str", "UPath", "fspath"):
            return _joined(package, module, list(node.args), "/", steps)
        # What is written to an open file is written to its path.
        return text_of(package, module, node.args[0], steps - 1) if last == "open" and node.args else nothing
    where = package.constant(module, node)
    return text_of(package, where[0], where[1], steps - 1) if where else nothing


def _joined(package: Package, module: Module, parts: list[ast.expr], between: str, steps: int) -> Text:
    start = ""
    for part in parts[:MAX_STEPS]:
        text = text_of(package, module, part, steps // 2)
        start = (start + (between if start else "") + text.start)[:MAX_TEXT_CHARS]
        if not text.is_whole or len(start) == MAX_TEXT_CHARS:
            return Text(start, is_whole=False)
    return Text(start, is_whole=len(parts) <= MAX_STEPS)


def written(node: ast.expr | None) -> str:
    """An expression as people wrote it, shortened, for a sentence."""
    if node is None:
        return ""
    parts: list[str] = []
    here: ast.expr = node
    while isinstance(here, ast.Attribute) and len(parts) < MAX_STEPS:
        parts.append(here.attr)
        here = here.value
    if isinstance(here, ast.Name):
        return ".".join([here.id, *reversed(parts)])[:MAX_SHOWN_CHARS]
    return "an expression"
