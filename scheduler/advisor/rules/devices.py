"""More GPUs than the program uses, or can see."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.advisor.findings import Severity, Spot, rule
from scheduler.advisor.libraries import DEEP_LEARNING, NO_GPU, OTHER_GPU, SPREADING_OPTIONS, WRAPPERS
from scheduler.advisor.package import Package
from scheduler.advisor.shell import Command, Script
from scheduler.advisor.values import UNKNOWN, Value, argument, value_of

VISIBLE = "CUDA_VISIBLE_DEVICES"
OVERSUBSCRIPTION = "GPU oversubscription: 6 of 706 issues (0.85%)."


def _unseen_imports(package: Package, known: frozenset[str]) -> list[tuple[str, int, str]]:
    """(file, line, name) of imports that are neither of the package, nor of Python, nor well known."""
    plain = known | NO_GPU | package.local_names
    return [
        (module.path, line, name)
        for module in package.modules
        for name, line in module.imports.items()
        if name not in plain and name not in sys.stdlib_module_names and name != "."
    ]


def _spreads(package: Package) -> bool:
    """Something of it uses several GPUs."""
    if package.words & SPREADING_OPTIONS or any(package.calls("LLM")):
        return True
    for module in package.modules:
        used = {name.rpartition(".")[2] for alias, name in module.aliases.items() if alias in module.words}
        if (module.words | used) & WRAPPERS:
            return True
        for call in module.calls:
            is_own = call.last in package.classes
            if call.last.endswith("Trainer") and not is_own:
                return True
            if call.name.startswith(("deepspeed.initialize", "torch.multiprocessing.spawn")):
                return True
            if call.last.endswith("Strategy") and "distribute" in call.name:
                return True
            if call.last == "all_reduce" and any(
                isinstance(each, ast.Attribute) and each.attr == "grad"
                for given in call.node.args
                for each in ast.walk(given)
            ):
                return True
    bases = {base for module in package.modules for base in _bases(module.tree)}
    return any(name.endswith("Trainer") and name not in package.classes for name in bases)


def _bases(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                yield base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""


@rule(
    "OVERSUB.wrapper",
    Severity.ERROR,
    pattern="more than one GPU, and none of `DDP`, `DataParallel`, `FSDP`, `fully_shard`, `Accelerator`, `Trainer`, "
    "`deepspeed.initialize`, `tf.distribute.*Strategy`, `pmap` in the whole package",
    fix="Ask for one GPU, or wrap the model in DistributedDataParallel and start it with torchrun.",
    effect=OVERSUBSCRIPTION,
)
def wrapper(package: Package) -> Iterator[Spot]:
    """Several GPUs for a program that knows one."""
    if package.gpus < 2 or not package.modules or not _deep_learning(package) or _spreads(package):
        return
    path, line = _deep_learning(package)[0]
    unseen = _unseen_imports(package, DEEP_LEARNING | OTHER_GPU)
    jobs = [
        command
        for script in package.scripts
        for command in script.commands
        if command.is_launch and command.ended_by == "&"
    ]
    why = ""
    if len(jobs) > 1:
        why = "the launch script starts several programs side by side"
    elif unseen:
        why = f"{unseen[0][2]} was not given, and may do so"
    elif any(each.path.endswith(".py") for each in package.unread):
        why = "not all files could be read"
    if why:
        yield Spot(path, line, f"Nothing here uses more than one of {package.gpus} GPUs; {why}.", is_unknown=True)
    else:
        yield Spot(path, line, f"Nothing in the package uses more than one of {package.gpus} GPUs.")


def _deep_learning(package: Package) -> list[tuple[str, int]]:
    return [
        (module.path, line)
        for module in package.modules
        for name, line in module.imports.items()
        if name in DEEP_LEARNING
    ]


@dataclass(frozen=True, slots=True)
class _Count:
    """How many processes a command starts.

    Attributes:
        text: as written.
        is_total: on all nodes together, else on each.
    """

    text: str
    is_total: bool


def _count(command: Command) -> _Count | None:
    if command.program == "accelerate":
        text = command.option("--num_processes", "--num-processes")
        return _Count(text, is_total=True) if text is not None else None
    if command.program == "deepspeed":
        text = command.option("--num_gpus")
        return _Count(text, is_total=False) if text is not None else None
    if command.program in ("mpirun", "mpiexec", "horovodrun"):
        text = command.option("-np", "-n", "--np")
        return _Count(text, is_total=True) if text is not None else None
    text = command.option("--nproc_per_node", "--nproc-per-node")
    return _Count(text, is_total=False) if text is not None else None


@rule(
    "OVERSUB.nproc",
    Severity.ERROR,
    pattern="`--nproc_per_node`, `-np`, or a literal world size that is not the number of GPUs",
    fix="One process for each GPU: --nproc_per_node=gpu, or the number asked for.",
    effect=f"{OVERSUBSCRIPTION} Example: --nproc_per_node=4 on 8 GPUs left four idle (83.24% and 0%).",
)
def processes(package: Package) -> Iterator[Spot]:
    """Fewer, or more, processes than GPUs."""
    if package.gpus < 1:
        return
    for script in package.scripts:
        yield from _started(package, script)
    for call in package.calls("init_process_group"):
        yield from _world(package, call.module.path, call.line, argument(package, call, "world_size"))
    for call in package.calls("spawn"):
        if call.name.startswith("torch.multiprocessing"):
            value = argument(package, call, "nprocs", 2)
            if isinstance(value, int) and package.gpus_per_node is not None and value != package.gpus_per_node:
                yield Spot(call.module.path, call.line, f"It starts {value} processes on {package.gpus_per_node} GPUs.")
    for path, line, name, value in _environment(package):
        if name == "WORLD_SIZE":
            yield from _world(
                package,
                path,
                line,
                int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 9 else UNKNOWN,
            )


def _started(package: Package, script: Script) -> Iterator[Spot]:
    """What a launch script says of processes."""
    launches = [command for command in script.commands if command.is_launch and _count(command)]
    is_one_of_several = sum(command.ended_by == "&" for command in launches) > 1
    for command in launches:
        count = _count(command)
        if count is not None and not is_one_of_several:
            yield from _process_count(package, script, command, count)
    for command in script.commands:
        if "WORLD_SIZE" in command.settings:
            known = script.known(command.settings["WORLD_SIZE"])
            yield from _world(package, script.path, command.line, _number(UNKNOWN if known is None else known))


def _number(value: Value) -> Value:
    """The number that a text is."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 9 else UNKNOWN


def _world(package: Package, path: str, line: int, value: Value) -> Iterator[Spot]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0 and value != package.gpus:
        yield Spot(path, line, f"The world size is {value}, and {package.gpus} GPUs are asked for.")


def _process_count(package: Package, script: Script, command: Command, count: _Count) -> Iterator[Spot]:
    known = script.known(count.text)
    wanted = package.gpus if count.is_total else package.gpus_per_node
    if known in ("gpu", "auto"):
        return
    if known is None or not known.isdecimal() or len(known) > 6 or wanted is None:
        shown = count.text[:40] if known is None or not known.isdecimal() else "on each of an unknown number of nodes"
        what = f"How many processes it starts is {shown}: known at run time only."
        yield Spot(script.path, command.line, what, is_unknown=True)
    elif int(known) != wanted:
        where = "in all" if count.is_total else "on each node"
        left = f"{wanted - int(known)} stay idle" if int(known) < wanted else "processes share GPUs"
        yield Spot(script.path, command.line, f"{known} processes for {wanted} GPUs {where}: {left}.")


def _environment(package: Package) -> Iterator[tuple[str, int, str, Value]]:
    """(file, line, name, value) of what Python puts into its environment."""
    for module in package.modules:
        for node, _ in module.assignments:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                if isinstance(target, ast.Subscript) and module.named(target.value) == "os.environ":
                    name = value_of(package, module, target.slice)
                    if isinstance(name, str):
                        yield module.path, node.lineno, name, value_of(package, module, node.value)
    for call in package.calls("setdefault", "putenv"):
        if call.name in ("os.environ.setdefault", "os.putenv") and len(call.node.args) == 2:
            name = value_of(package, call.module, call.node.args[0])
            if isinstance(name, str):
                yield call.module.path, call.line, name, value_of(package, call.module, call.node.args[1])


@rule(
    "API.visible",
    Severity.ERROR,
    pattern="`CUDA_VISIBLE_DEVICES` empty, -1, or with fewer GPUs than asked for; in Python and in the launch script",
    fix="Leave it as the scheduler sets it.",
    effect="Misuse of APIs: 16 of 706 issues (2.27%). Example: an empty CUDA_VISIBLE_DEVICES, and 481 "
    "minutes on the CPU.",
)
def visible(package: Package) -> Iterator[Spot]:
    """GPUs that the program hides from itself."""
    if package.gpus < 1:
        return
    for script in package.scripts:
        said = [
            (command, script.known(command.settings[VISIBLE]))
            for command in script.commands
            if VISIBLE in command.settings
        ]
        beside = {each for command, value in said if command.ended_by == "&" for each in _ids(value or "")}
        for command, value in said:
            covers = command.ended_by == "&" and len(beside) >= (package.gpus_per_node or package.gpus)
            if not covers:
                yield from _hidden(package, script.path, command.line, UNKNOWN if value is None else value)
    for path, line, name, found in _environment(package):
        if name == VISIBLE:
            yield from _hidden(package, path, line, found)


def _ids(value: str) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()]


def _hidden(package: Package, path: str, line: int, value: Value) -> Iterator[Spot]:
    if not isinstance(value, str):
        yield Spot(path, line, f"What {VISIBLE} holds is known at run time only.", is_unknown=True)
        return
    ids = _ids(value)
    # What follows a number that is none is not seen either.
    seen = ids[: next((index for index, each in enumerate(ids) if each.startswith("-")), len(ids))]
    if not seen:
        yield Spot(path, line, f"{VISIBLE} hides every GPU: the work runs on the CPU.")
    elif package.gpus_per_node is not None and len(set(seen)) < package.gpus_per_node:
        yield Spot(path, line, f"{VISIBLE} shows {len(set(seen))} of {package.gpus_per_node} GPUs.")


@rule(
    "NON_DL",
    Severity.ERROR,
    pattern="GPUs are asked for, and nothing imports torch, tensorflow, jax, keras, lightning, "
    "transformers, deepspeed, paddle or "
    "mindspore (nor cupy, RAPIDS or numba.cuda)",
    fix="Submit it without GPUs.",
    effect="Jobs without deep learning: 4 of 706 issues (0.57%).",
)
def no_deep_learning(package: Package) -> Iterator[Spot]:
    """Programs that have no use for a GPU."""
    if package.gpus < 1 or not package.modules:
        return
    names = {name for module in package.modules for name in module.imports}
    dotted = {name for module in package.modules for name in module.dotted_imports}
    if names & (DEEP_LEARNING | OTHER_GPU) or any(
        name == "numba.cuda" or name.startswith("numba.cuda.") for name in dotted
    ):
        return
    unseen = _unseen_imports(package, DEEP_LEARNING | OTHER_GPU)
    path = package.modules[0].path
    if unseen:
        what = f"{unseen[0][2]} was not given, and nothing else here uses a GPU."
        yield Spot(unseen[0][0], unseen[0][1], what, is_unknown=True)
    elif any(each.path.endswith(".py") for each in package.unread):
        yield Spot(path, 0, "Nothing here uses a GPU, but not all files could be read.", is_unknown=True)
    else:
        yield Spot(path, 1, "Nothing in the package imports a library that uses GPUs.")
