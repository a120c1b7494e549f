"""Batches that are too small for the device, or for the network between nodes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scheduler.advisor.findings import Severity, Spot, rule
from scheduler.advisor.package import Package
from scheduler.advisor.rules.loading import loaders
from scheduler.advisor.syntax import Call
from scheduler.advisor.values import MISSING, UNKNOWN, Value, argument, value_of, written

SMALL = 16
ACCUMULATES = frozenset(
    {"no_sync", "gradient_accumulation_steps", "backward_passes_per_step", "bucket_cap_mb", "accumulate_grad_batches"}
)
EVALUATES = re.compile(r"(?:^|[^a-z])(?:val|valid|validation|eval|evaluation|test|dev)(?:$|[^a-z])", re.IGNORECASE)
BATCH_ISSUES = "Improper batch size: 181 of 706 issues (25.64%)."


def _sizes(package: Package) -> Iterator[tuple[Call, Value, ast.expr | None]]:
    """(call, batch size, as written) of all that batches."""
    for call in loaders(package):
        if call.keyword("batch_sampler") is None:
            yield call, argument(package, call, "batch_size", 1), call.keyword("batch_size", 1)
    for call in package.calls("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig"):
        name = "per_device_train_batch_size"
        if argument(package, call, name) is not MISSING:
            yield call, argument(package, call, name), call.keyword(name)
    for call in package.calls("fit"):
        if argument(package, call, "batch_size") is not MISSING and call.receiver is not None:
            yield call, argument(package, call, "batch_size"), call.keyword("batch_size")
    for call in package.calls("batch", "padded_batch"):
        if any(name.startswith("tensorflow") for name in call.module.dotted_imports) and call.node.args:
            yield call, value_of(package, call.module, call.node.args[0]), call.node.args[0]


@rule(
    "BATCH",
    Severity.WARN,
    pattern="a literal batch size below 16 (the default of `DataLoader` is 1), or one variable for the "
    "training and the evaluation loader",
    fix="The largest power of two that fits into the device's memory; a larger one for evaluation, "
    "which keeps no gradients.",
    effect=f"{BATCH_ISSUES} From 32 to 768: 4.92x on BERT-large; from 8 to 256: 3.41x on Swin (8 V100-32GB).",
)
def batch(package: Package) -> Iterator[Spot]:
    """Batches that can't keep a GPU busy."""
    for call, value, node in _sizes(package):
        if value is UNKNOWN:
            what = f"The batch size is {written(node) or 'in its options'}: known at run time only."
            yield Spot(call.module.path, call.line, what, is_unknown=True)
        elif value is MISSING:
            yield Spot(call.module.path, call.line, "This loader has no batch_size, so batches of 1.")
        elif isinstance(value, int) and not isinstance(value, bool) and value < SMALL:
            yield Spot(call.module.path, call.line, f"The batch size is {value}, below {SMALL}.")
    yield from _shared(package)


def _shared(package: Package) -> Iterator[Spot]:
    training: set[str] = set()
    evaluating: list[tuple[Call, str]] = []
    for call in loaders(package):
        size = call.keyword("batch_size", 1)
        if isinstance(size, ast.Name | ast.Attribute):
            if EVALUATES.search(_told(call)):
                evaluating.append((call, written(size)))
            else:
                training.add(written(size))
    for call, size_name in evaluating:
        if size_name in training:
            what = f"Evaluation uses the training's batch size, {size_name}; without gradients more fits."
            yield Spot(call.module.path, call.line, what)


def _told(call: Call) -> str:
    """What the names around a loader say of what it is for."""
    told = [written(call.keyword("dataset", 0))]
    told += [written(each) for each in call.module.targets.get(id(call.node), ())]
    return " ".join(told).replace("_", " ")


@rule(
    "EXCHANGE",
    Severity.INFO,
    pattern="more than one node, a small batch, and nothing that accumulates (`no_sync`, "
    "`gradient_accumulation_steps`, "
    "`backward_passes_per_step`, `bucket_cap_mb`)",
    fix="Accumulate gradients over several batches, or take larger ones: fewer exchanges between nodes.",
    effect="Exchange of gradients: 50 of 706 issues (7.08%).",
)
def exchange(package: Package) -> Iterator[Spot]:
    """Gradients that cross the network after every small batch."""
    if package.nodes is None or package.nodes < 2 or package.words & ACCUMULATES:
        return
    for call, value, _ in _sizes(package):
        is_small = value is MISSING or (isinstance(value, int) and not isinstance(value, bool) and value < SMALL)
        if is_small and not EVALUATES.search(_told(call)):
            size = 1 if value is MISSING else value
            what = f"Batches of {size} on {package.nodes} nodes, and gradients are exchanged after each."
            yield Spot(call.module.path, call.line, what)
