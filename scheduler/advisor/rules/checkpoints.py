"""What is written while the GPU waits: checkpoints and uploads."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scheduler.advisor import training
from scheduler.advisor.findings import Severity, Spot, rule
from scheduler.advisor.package import Package, commands_of
from scheduler.advisor.rules.remote import is_remote
from scheduler.advisor.syntax import Call
from scheduler.advisor.values import Text, text_of, written

MODEL_SAVES = frozenset(
    {
        "save_pretrained",
        "save_checkpoint",
        "save_weights",
        "save_model",
    }
)
STATE = frozenset(
    {
        "state_dict",
        "model",
        "net",
        "checkpoint",
        "ckpt",
        "optimizer",
        "state",
        "weights",
    }
)
SAVES = ("torch.save", "safetensors.torch.save_file", "accelerate.save", "xm.save")
IN_BACKGROUND = frozenset(
    {"Thread", "Process", "ThreadPoolExecutor", "ProcessPoolExecutor", "async_save", "AsyncCheckpointer"}
)
UPLOADS = frozenset(
    {
        "upload_file",
        "upload_fileobj",
        "put_object",
        "log_artifact",
        "log_artifacts",
        "upload_blob",
        "upload_folder",
        "upload_from_filename",
        "fput_object",
        "push_to_hub",
    }
)
COPIES = frozenset(
    {
        "copy",
        "copy2",
        "copyfile",
        "copytree",
        "move",
    }
)
CHECKPOINTING = "Model checkpointing: 116 of 706 issues (16.43%)."


def _saves(package: Package) -> Iterator[Call]:
    """Calls that save a model."""
    for call in package.calls("save", "save_file", *sorted(MODEL_SAVES)):
        is_method = call.last in MODEL_SAVES and call.receiver is not None
        if is_method or call.name in SAVES or (call.last == "save" and _saves_model(call)):
            yield call


def _saves_model(call: Call) -> bool:
    """`tf.saved_model.save`, `checkpoint.save(...)`, `model.save(...)`, and others that are called so."""
    holder = call.name.rpartition(".")[0].rpartition(".")[2].lower()
    return any(each in holder for each in ("model", "checkpoint", "ckpt", "saver", "manager", "trainer"))


def _is_of_model(package: Package, call: Call) -> bool:
    """What is saved is the training's state, and not, say, a piece of data."""
    if call.last != "save" or call.name != "torch.save":
        return True
    if training.of(package).is_inside(call.around):
        return True
    names = {
        each.id if isinstance(each, ast.Name) else each.attr
        for given in call.node.args[:1]
        for each in ast.walk(given)
        if isinstance(each, ast.Name | ast.Attribute)
    }
    return any(state in name.lower() for name in names for state in STATE)


@rule(
    "CKPT.freq",
    Severity.ERROR,
    pattern="`torch.save`, `save_pretrained`, `save_checkpoint` or TensorFlow's `save` in a loop "
    "inside a loop, or in every step, "
    "with no test of a step's number or of the time around it",
    fix="Save once in an epoch, or every so many minutes: `if step % k == 0:`.",
    effect=f"{CHECKPOINTING} Example: 96 s of saving in epochs of 168 s, at a utilization of 39.57%.",
)
def frequency(package: Package) -> Iterator[Spot]:
    """Checkpoints at every step."""
    found = training.of(package)
    for call in _saves(package):
        if training.is_rare(call.around) or not _is_of_model(package, call):
            continue
        if found.is_hot(call.around) or (found.loops_around(call.around) >= 2 and not _is_once(found, call)):
            yield Spot(call.module.path, call.line, "The model is saved in every turn of the inner loop.")


def _is_once(found: training.Training, call: Call) -> bool:
    """It stands in no loop of its own function, and that function is called once for each epoch of the training."""
    return not call.around.loops and found.is_any and not found.is_hot(call.around)


def _target(package: Package, call: Call) -> tuple[Text, ast.expr | None]:
    """Where a call saves to."""
    position = (
        1
        if call.name in ("torch.save", "safetensors.torch.save_file", "accelerate.save") or "saved_model" in call.name
        else 0
    )
    node = next(
        (
            found
            for name in ("f", "save_directory", "filepath", "path", "save_dir", "filename")
            if (found := call.keyword(name))
        ),
        None,
    ) or call.keyword("", position)
    return text_of(package, call.module, node), node


@rule(
    "CKPT.sync",
    Severity.WARN,
    pattern="a checkpoint goes to remote storage (`s3://`, `gs://`, `abfs://`, `hdfs://`, `/mnt`, "
    "`/blob`, `/nfs`, `/lustre`), "
    "and nothing saves in the background (thread, executor, `async_save`)",
    fix="Save to the node's own disk and copy from there in a thread, or `torch.distributed.checkpoint.async_save`.",
    effect=f"{CHECKPOINTING} Saving in the background: 1.20x on BERT-large (4.92x to 7.48x with large "
    "batches), 1.02x on Swin.",
)
def synchronous(package: Package) -> Iterator[Spot]:
    """Checkpoints for which the GPU waits until they have arrived."""
    if package.words & IN_BACKGROUND:
        return
    unknown: set[tuple[str, str]] = set()
    for call in _saves(package):
        text, node = _target(package, call)
        if is_remote(text.start):
            yield Spot(call.module.path, call.line, f"The model is saved to {text.start[:60]}, and the GPU waits.")
        elif not text.start and not text.is_whole and node is not None:
            key = (call.module.path, written(node))
            if key not in unknown:
                unknown.add(key)
                what = f"Where the model is saved is {written(node)}: known at run time only."
                yield Spot(call.module.path, call.line, what, is_unknown=True)


@rule(
    "UPLOAD",
    Severity.WARN,
    pattern="in the training loop: `upload_file`, a copy or `to_csv` to remote storage, `requests.put`, `log_artifact`",
    fix="Upload after the training, or hand it to a thread: executor.submit(upload_file, ...).",
    effect="Upload of intermediate results: 14 of 706 issues (1.98%).",
)
def upload(package: Package) -> Iterator[Spot]:
    """Uploads for which the GPU waits."""
    found = training.of(package)
    names = (
        *sorted(UPLOADS),
        *sorted(COPIES),
        "to_csv",
        "to_parquet",
        "put",
        "post",
        "system",
        "run",
        "check_call",
        "call",
    )
    for call in package.calls(*names):
        if found.is_inside(call.around) and _is_upload(package, call):
            yield Spot(call.module.path, call.line, f"The training waits here until {call.last} has finished.")


def _is_upload(package: Package, call: Call) -> bool:
    if call.last in UPLOADS:
        return True
    if call.last in ("put", "post"):
        return call.name.startswith(("requests.", "httpx.")) or "session" in call.name.lower()
    if call.last in COPIES and not call.name.startswith("shutil."):
        return False
    if call.last in ("system", "run", "check_call", "call"):
        return any(_copies_away(command.words) for command in commands_of(call))
    position = 1 if call.last in COPIES else 0
    return is_remote(text_of(package, call.module, call.keyword("dst" if position else "path_or_buf", position)).start)


def _copies_away(words: tuple[str, ...]) -> bool:
    """`aws s3 cp x s3://...`, `gsutil cp`, `cp x /mnt/...`: the last word is remote."""
    return len(words) > 2 and is_remote(words[-1])
