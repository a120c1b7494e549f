"""Work of the CPU that GPUs wait for: preprocessing, and input pipelines of TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scheduler.advisor import training
from scheduler.advisor.findings import Severity, Spot, rule
from scheduler.advisor.package import Package
from scheduler.advisor.rules.loading import loaders
from scheduler.advisor.syntax import Call
from scheduler.advisor.values import MISSING, UNKNOWN, argument, written

LIBRARIES = (
    "PIL.",
    "cv2.",
    "librosa.",
    "albumentations.",
    "skimage.",
    "imgaug.",
    "torchaudio.load",
    "soundfile.",
    "decord.",
)
AUGMENTS = re.compile(r"(?:^|_)(?:transforms?|augment\w*|augmentation\w*|aug)$", re.IGNORECASE)
FRAMES = re.compile(r"(?:^|_)(?:df|data_?frame|frame|table|series)\w*$", re.IGNORECASE)
PREPROCESSING = "Data preprocessing: 28 of 706 issues (3.97%)."


def _prepares(call: Call) -> bool:
    if call.name.startswith(LIBRARIES):
        return True
    return bool(AUGMENTS.search(call.last)) and call.around.scope is not None


@rule(
    "PREPROC",
    Severity.INFO,
    pattern="PIL, cv2, librosa or augmentation in `__getitem__` or a training loop where the loader "
    "has no workers; `df.apply` "
    "before the training of a job with GPUs",
    fix="Prepare the data in a job of its own without GPUs; else give the loader workers, or use DALI.",
    effect=PREPROCESSING,
)
def preprocessing(package: Package) -> Iterator[Spot]:
    """What a job without GPUs could have done before."""
    if not package.gpus:
        return
    found = training.of(package)
    counts = [argument(package, call, "num_workers", 5) for call in loaders(package)]
    is_alone = any(each is MISSING or each == 0 for each in counts)
    is_unknown = not is_alone and (not counts or any(each is UNKNOWN for each in counts))
    for module in package.modules:
        for call in module.calls:
            scope = call.around.scope
            in_item = scope is not None and scope.name == "__getitem__"
            if in_item and (is_alone or is_unknown) and _prepares(call):
                how = "and nothing here says with how many workers" if is_unknown else "in the training process itself"
                yield Spot(module.path, call.line, f"{call.last} prepares each item, {how}.", is_unknown=is_unknown)
            elif not in_item and found.is_hot(call.around) and call.name.startswith(LIBRARIES):
                yield Spot(module.path, call.line, f"{call.last} runs in the training loop, between steps.")
    yield from _frames(package, found)


def _frames(package: Package, found: training.Training) -> Iterator[Spot]:
    if not found.is_any and not any(package.calls("fit", "train")):
        return
    for call in package.calls("apply", "progress_apply", "applymap"):
        holder = call.receiver
        is_pandas = "pandas" in call.module.imports and holder is not None
        name = written(holder).rpartition(".")[2]
        if is_pandas and (name == "" or FRAMES.search(name) or not name.isidentifier() or _is_column(call)):
            yield Spot(call.module.path, call.line, "The CPU goes over a table row by row while GPUs are held.")


def _is_column(call: Call) -> bool:
    """`table["text"].apply(...)`, or a name that pandas has read."""
    return call.name.startswith("?.")


@rule(
    "TF",
    Severity.INFO,
    pattern="a pipeline of `tf.data` without `.prefetch`, with `.map` without `num_parallel_calls`, or "
    "without `.cache`",
    fix="dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE).cache().prefetch(tf.data.AUTOTUNE).",
    effect="Not counted: the study's transfers between host and GPU are those of PyTorch.",
)
def tensorflow(package: Package) -> Iterator[Spot]:
    """Input pipelines that load one item after the other."""
    for module in package.modules:
        sources = [call for call in module.calls if call.name.startswith(("tensorflow.data.", "tf.data."))]
        sources = [call for call in sources if not call.last.startswith(("AUTOTUNE", "Options"))]
        if not sources:
            continue
        lasts = {call.last for call in module.calls}
        for name in ("prefetch", "cache"):
            if name not in lasts:
                yield Spot(module.path, sources[0].line, f"This pipeline has no .{name}().")
        for call in module.calls:
            is_map = call.last == "map" and call.receiver is not None and call.node.args and "jax" not in call.name
            if is_map and argument(package, call, "num_parallel_calls", 1) is MISSING:
                what = "This .map() has no num_parallel_calls: one item after the other."
                yield Spot(module.path, call.line, what)
