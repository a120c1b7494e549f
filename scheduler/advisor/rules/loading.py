"""Host and GPU: how batches are loaded, and how they get to the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import islice

from scheduler.advisor import training
from scheduler.advisor.findings import PAPER, Severity, Spot, rule
from scheduler.advisor.package import Package
from scheduler.advisor.syntax import Call
from scheduler.advisor.values import MISSING, UNKNOWN, argument, text_of, value_of, written

TRANSFER = "Inefficient transfer between host and GPU: 197 of 706 issues (27.90%), the most frequent."
PINNED = f"{TRANSFER} Pinned memory alone: 1.15x on BERT-large, 1.03x on Swin."
DEVICE_NAMES = re.compile(r"(?:^|_)(?:dev|device|gpu|cuda|rank|gpu_id)\d*$", re.IGNORECASE)
MAX_PARTS = 100
NO_BATCH = re.compile(
    r"(?:model|net|network|encoder|decoder|module|criterion|backbone|head|loss_fn|self)\w*$", re.IGNORECASE
)


def loaders(package: Package) -> Iterator[Call]:
    """Calls of PyTorch's DataLoader, not of a class of the package's own."""
    for call in package.calls("DataLoader"):
        if "DataLoader" not in package.classes or call.name.startswith("torch."):
            yield call


def is_to_gpu(package: Package, call: Call) -> bool:
    """`.cuda()`, or `.to(...)` of what is or is called like a GPU."""
    if call.last == "cuda":
        return call.receiver is not None and call.name != "torch.cuda"
    if call.last != "to" or call.receiver is None:
        return False
    given = call.keyword("device", 0)
    known = value_of(package, call.module, given)
    if isinstance(known, str):
        return known.startswith("cuda")
    if isinstance(known, int):
        return not isinstance(known, bool)
    if isinstance(given, ast.Call):
        return _is_cuda(given)
    if isinstance(given, ast.JoinedStr):
        return text_of(package, call.module, given).start.startswith("cuda")
    name = written(given).rpartition(".")[2]
    where = package.constant(call.module, given) if given is not None else None
    if where is not None and isinstance(where[1], ast.Call | ast.IfExp):
        return _is_cuda(where[1])
    return bool(DEVICE_NAMES.search(name))


def _is_cuda(node: ast.expr) -> bool:
    """`torch.device(...)` of anything but the plain CPU."""
    parts = islice(ast.walk(node), MAX_PARTS)
    texts = [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return not texts or any(text.startswith("cuda") for text in texts)


@rule(
    "HOST_GPU.workers",
    Severity.WARN,
    pattern="`DataLoader(...)` without `num_workers`, or with 0 (the default)",
    fix="num_workers=4 to 8 for each GPU, persistent_workers=True: batches are loaded while the GPU computes.",
    effect=TRANSFER,
)
def workers(package: Package) -> Iterator[Spot]:
    """Loaders that load in the training process itself."""
    for call in loaders(package):
        value = argument(package, call, "num_workers", 5)
        if value is UNKNOWN:
            what = (
                f"num_workers is {written(call.keyword('num_workers', 5)) or 'in its options'}: known at run time only."
            )
            yield Spot(call.module.path, call.line, what, is_unknown=True)
        elif value is MISSING or value == 0:
            said = "has no num_workers" if value is MISSING else "has num_workers=0"
            yield Spot(call.module.path, call.line, f"This loader {said}: the GPU waits while each batch is loaded.")


@rule(
    "HOST_GPU.pin",
    Severity.WARN,
    pattern="`pin_memory` missing or False (the default), where batches go to a GPU by `.to(...)` or `.cuda()`",
    fix="pin_memory=True, and .to(device, non_blocking=True).",
    effect=PINNED,
)
def pin(package: Package) -> Iterator[Spot]:
    """Loaders whose batches are copied from pageable memory."""
    if not any(is_to_gpu(package, call) for call in package.calls("to", "cuda")):
        return
    for call in loaders(package):
        value = argument(package, call, "pin_memory", 7)
        if value is UNKNOWN:
            what = (
                f"pin_memory is {written(call.keyword('pin_memory', 7)) or 'in its options'}: known at run time only."
            )
            yield Spot(call.module.path, call.line, what, is_unknown=True)
        elif value is MISSING or not value:
            said = "has no pin_memory" if value is MISSING else "has pin_memory=False"
            yield Spot(call.module.path, call.line, f"This loader {said}, and its batches go to a GPU.")


@rule(
    "HOST_GPU.block",
    Severity.INFO,
    pattern="in a loop with `.backward(` or `.step(`: `.to(device)` or `.cuda()` of a batch without "
    "`non_blocking=True`",
    fix="non_blocking=True, with pinned memory: the copy overlaps with computing.",
    effect=PINNED,
    source=PAPER,
)
def block(package: Package) -> Iterator[Spot]:
    """Copies that the training loop waits for."""
    found = training.of(package)
    for call in package.calls("to", "cuda"):
        if not found.is_hot(call.around) or not is_to_gpu(package, call):
            continue
        if NO_BATCH.match(written(call.receiver).rpartition(".")[2]):
            continue
        value = argument(package, call, "non_blocking")
        if value is MISSING or value is False:
            yield Spot(call.module.path, call.line, "The training loop waits here until the batch is copied.")
