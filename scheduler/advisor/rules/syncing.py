"""Where the host waits for the GPU in the middle of the training loop."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scheduler.advisor import training
from scheduler.advisor.findings import Severity, Spot, rule
from scheduler.advisor.package import Package
from scheduler.advisor.syntax import Call, Module

FETCHES = ("item", "cpu", "numpy", "tolist")
TENSORS = re.compile(r"(?:^|_)(?:loss(?:es)?|logits?|outputs?|preds?|grad_norm|grads?|embeddings?)\d*$", re.IGNORECASE)
NUMBERS = frozenset({"item", "float", "int", "len", "round", "mean_value", "sum_value", "tolist", "format", "str"})


def _plain_numbers(module: Module) -> frozenset[str]:
    """Names that hold a number or a text, since they were made from one."""
    found: set[str] = set()
    for node, _ in module.assignments:
        value, targets = node.value, node.targets if isinstance(node, ast.Assign) else [node.target]
        is_plain = isinstance(value, ast.Constant | ast.JoinedStr) or (
            isinstance(value, ast.Call) and module.named(value.func).rpartition(".")[2] in NUMBERS
        )
        if is_plain:
            found.update(each.id for each in targets if isinstance(each, ast.Name))
    return frozenset(found)


def _tensor(node: ast.expr, stepped: frozenset[str], numbers: frozenset[str]) -> str:
    """The name of a tensor that an argument is, or that an f-string shows; empty for none."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    for part in parts:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        name = inner.id if isinstance(inner, ast.Name) and inner.id not in numbers else ""
        if name in stepped or TENSORS.search(name):
            return name
    return ""


@rule(
    "SYNC",
    Severity.WARN,
    pattern="in a loop with `.backward(` or `.step(`: `.item()`, `.cpu()`, `.numpy()`, `.tolist()`, `print(tensor)`, "
    "`float(loss)`, `torch.cuda.synchronize()`, and no `if ... % k` around it",
    fix="Log every k steps; add up on the device, and fetch the sum once in an epoch.",
    effect="No category of its own; it belongs to the transfer between host and GPU (27.90% of issues).",
)
def sync(package: Package) -> Iterator[Spot]:
    """What makes the host wait for the GPU in every step."""
    found = training.of(package)
    stepped = frozenset(
        call.receiver.id
        for call in training.steps(package)
        if isinstance(call.receiver, ast.Name) and call.last == "backward"
    )
    numbers = {module.path: _plain_numbers(module) for module in package.modules}
    for call in package.calls(*FETCHES, "synchronize", "print", "float", "int"):
        if not found.is_hot(call.around) or training.is_rare(call.around):
            continue
        what = _why(call, stepped, numbers[call.module.path])
        if what:
            yield Spot(call.module.path, call.line, f"{what} makes the host wait for the GPU in every step.")


def _why(call: Call, stepped: frozenset[str], numbers: frozenset[str]) -> str:
    if call.last in FETCHES:
        return f".{call.last}()" if call.receiver is not None and not call.node.args else ""
    if call.last == "synchronize":
        return "synchronize()" if "cuda" in call.name else ""
    if call.receiver is not None:
        return ""
    for given in call.node.args:
        name = _tensor(given, stepped, numbers)
        if name:
            return f"{call.last}({name})"
    return ""
