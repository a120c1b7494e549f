"""One Python file as the rules see it: its calls with what stands around them, names as they were imported, constants.

The file is parsed (`ast`), never run. The walk keeps a stack of its own, so that no nesting can exhaust Python's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Loop = ast.For | ast.AsyncFor | ast.While
Scope = ast.FunctionDef | ast.AsyncFunctionDef
MAX_NAME_PARTS = 20
MAX_TESTS = 20


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around an expression.

    Attributes:
        scope: the function that it is in; None is the module itself.
        class_name: the class whose method that is; empty for none.
        loops: those of the same function, outermost first.
        tests: what the `if`s ask between it and the innermost loop, or the function.
    """

    scope: Scope | None = None
    class_name: str = ""
    loops: tuple[Loop, ...] = ()
    tests: tuple[ast.expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call.

    Attributes:
        module: the file that it is in.
        name: dotted, as imported: `torch.utils.data.DataLoader`; a method of an expression is `?.cuda`.
        last: its last part.
    """

    module: Module
    node: ast.Call
    name: str
    last: str
    around: Around

    @property
    def line(self) -> int:
        """Where it stands: the line of its last name, where a chain of methods is written over several."""
        function = self.node.func
        return (function.end_lineno or function.lineno) if isinstance(function, ast.Attribute) else self.node.lineno

    @property
    def receiver(self) -> ast.expr | None:
        """What a method is called on."""
        return self.node.func.value if isinstance(self.node.func, ast.Attribute) else None

    def keyword(self, name: str, position: int | None = None) -> ast.expr | None:
        """An argument by its name, or else its place (from 0)."""
        for each in self.node.keywords:
            if each.arg == name:
                return each.value
        if position is not None and position < len(self.node.args):
            found = self.node.args[position]
            return None if isinstance(found, ast.Starred) else found
        return None

    @property
    def spread(self) -> list[ast.expr]:
        """What is given as `**options`."""
        return [each.value for each in self.node.keywords if each.arg is None]


@dataclass(eq=False)
class Module:
    """A Python file.

    Attributes:
        path: as it was given.
        imports: first parts of all that it imports, wherever (`torch`, or `.local` for relative ones), with their line.
        aliases: local name to dotted name.
        constants: names of the module or of a function that are assigned once, to what.
        assigned: names assigned anywhere, by whatever binds a name.
        reassigned: names assigned more than once, and those of arguments.
        targets: what an expression (by its id) is assigned to.
        words: every identifier, attribute and name of an argument in it.
    """

    path: str
    tree: ast.Module
    imports: dict[str, int] = field(default_factory=dict)
    dotted_imports: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    assigned: set[str] = field(default_factory=set)
    reassigned: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    loops: list[tuple[Loop, Around]] = field(default_factory=list)
    functions: list[tuple[Scope, Around]] = field(default_factory=list)
    classes: set[str] = field(default_factory=set)
    assignments: list[tuple[ast.Assign | ast.AugAssign | ast.AnnAssign, Around]] = field(default_factory=list)
    targets: dict[int, list[ast.expr]] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)

    def named(self, node: ast.expr) -> str:
        """The dotted name of an expression, as imported; `?` stands for what is no name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) and len(parts) < MAX_NAME_PARTS:
            parts.append(node.attr)
            node = node.value
        head = self.aliases.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
        return ".".join([head, *reversed(parts)])


def read(path: str, tree: ast.Module) -> Module:
    """Walk a parsed file once."""
    module = Module(path, tree)
    waiting: list[tuple[ast.AST, Around]] = [(tree, Around())]
    found: list[tuple[ast.Call, Around]] = []
    while waiting:
        node, around = waiting.pop()
        _note(module, node, around, found)
        waiting += reversed(list(_below(node, around)))
    for node, around in found:
        name = module.named(node.func)
        module.calls.append(Call(module, node, name, name.rpartition(".")[2], around))
    module.constants = {name: value for name, value in module.constants.items() if name not in module.reassigned}
    return module


def _note(module: Module, node: ast.AST, around: Around, found: list[tuple[ast.Call, Around]]) -> None:
    if isinstance(node, ast.Call):
        found.append((node, around))
        module.words.update(each.arg for each in node.keywords if each.arg)
    elif isinstance(node, ast.Name):
        module.words.add(node.id)
        if not isinstance(node.ctx, ast.Load):
            (module.reassigned if node.id in module.assigned else module.assigned).add(node.id)
    elif isinstance(node, ast.Attribute):
        module.words.add(node.attr)
    elif isinstance(node, Loop):
        module.loops.append((node, around))
    elif isinstance(node, Scope):
        module.functions.append((node, around))
        module.reassigned.update(each.arg for each in (*node.args.args, *node.args.kwonlyargs))
    elif isinstance(node, ast.ClassDef):
        module.classes.add(node.name)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.withitem):
        _note_binding(module, node, around)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        _note_import(module, node)


def _note_binding(
    module: Module, node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.withitem, around: Around
) -> None:
    if isinstance(node, ast.withitem):
        if isinstance(node.optional_vars, ast.Name):
            module.constants[node.optional_vars.id] = node.context_expr
        return
    module.assignments.append((node, around))
    targets: list[ast.expr] = list(node.targets) if isinstance(node, ast.Assign) else [node.target]
    if node.value is None:
        return
    module.targets[id(node.value)] = targets
    if not isinstance(node, ast.AugAssign):
        module.constants.update({each.id: node.value for each in targets if isinstance(each, ast.Name)})


def _note_import(module: Module, node: ast.Import | ast.ImportFrom) -> None:
    if isinstance(node, ast.Import):
        for each in node.names:
            first = each.name.partition(".")[0]
            module.imports.setdefault(first, node.lineno)
            module.dotted_imports.setdefault(each.name, node.lineno)
            module.aliases[each.asname or first] = each.name if each.asname else first
        return
    source = "." * node.level + (node.module or "")
    module.imports.setdefault("." if node.level else source.partition(".")[0], node.lineno)
    for each in node.names:
        dotted = f"{source}.{each.name}" if node.module else f"{source}{each.name}"
        module.dotted_imports.setdefault(dotted, node.lineno)
        if each.name != "*":
            module.aliases[each.asname or each.name] = dotted


def _below(node: ast.AST, around: Around) -> Iterator[tuple[ast.AST, Around]]:
    """What a node consists of, each with what stands around it."""
    if isinstance(node, ast.For | ast.AsyncFor):
        inside = Around(around.scope, around.class_name, (*around.loops, node))
        yield from ((each, around) for each in (node.iter, node.target))
        yield from _block(node.body, inside)
        yield from _block(node.orelse, around)
    elif isinstance(node, ast.While):
        inside = Around(around.scope, around.class_name, (*around.loops, node))
        yield node.test, inside
        yield from _block(node.body, inside)
        yield from _block(node.orelse, around)
    elif isinstance(node, ast.If | ast.IfExp):
        inside = Around(around.scope, around.class_name, around.loops, (*around.tests, node.test)[-MAX_TESTS:])
        yield node.test, around
        yield from _block(node.body if isinstance(node.body, list) else [node.body], inside)
        yield from _block(node.orelse if isinstance(node.orelse, list) else [node.orelse], around)
    elif isinstance(node, ast.ClassDef):
        inside = Around(around.scope, node.name)
        yield from ((each, inside if each in node.body else around) for each in ast.iter_child_nodes(node))
    elif isinstance(node, Scope):
        inside = Around(node, around.class_name)
        yield from ((each, around) for each in (*node.decorator_list, node.args))
        yield from _block(node.body, inside)
    else:
        for each in ast.iter_child_nodes(node):
            yield each, around


def _block(body: list[ast.stmt] | list[ast.expr], around: Around) -> Iterator[tuple[ast.AST, Around]]:
    """Statements one after the other: what follows `if ...: continue` is under that test as well."""
    for each in body:
        yield each, around
        if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Continue | ast.Return) and around.loops:
            around = Around(around.scope, around.class_name, around.loops, (*around.tests, each.test)[-MAX_TESTS:])
