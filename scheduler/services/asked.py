"""What a workload asks for, and the checks of what people and programs type."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from django.utils.translation import gettext

from budgets.errors import InputError
from budgets.models import BudgetNode, Cluster, Person
from budgets.services.checks import REORDERING
from scheduler.advisor import MAX_FILES
from scheduler.engine import Policy, cassini, locality
from scheduler.models import WHOLE_DEVICE_MILLI, Node, Workload

NAME_LENGTH = 120
CLASS_LENGTH = 60
MOST_CLASSES = 32
"""Classes of GPUs that one workload may name."""
KEY_LENGTH = 80
CHECKPOINT_LENGTH = 300
PATH_LENGTH = 255
COMMAND_LENGTH = 32_000
ENVIRONMENT_LENGTH = 32_000
PRIORITY_BOUND = 1_000
RETRIES_MAX = 3
"""Whoever fails more often has to look at it (Jeon et al., ATC'19: most retries were in vain)."""
LARGEST_S = 10 * 365 * 86_400
"""Ten years: a longer duration is a slip of the keyboard."""
LARGEST_AMOUNT = 2_000_000_000
SECRET_MIN_CHARS, SECRET_MAX_CHARS = 8, 4_096
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED_PREFIXES = ("ALLOTMENT_", "CUDA_VISIBLE_", "LD_")
"""Set for the workload, or a danger to what starts it. An array's index is ours to set."""
ARRAY_INDEX = "ALLOTMENT_ARRAY_INDEX"
OF_A_PART = ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
"""Set for whoever has a part of a GPU; who has whole ones may share them among its own processes as it likes."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A submission as `services.workloads.submit` describes it."""

    cluster: Cluster
    leaf: BudgetNode
    owner: Person | None
    size_milli: int
    min_runtime_s: int
    command: Sequence[str]
    name: str = ""
    priority: int = 0
    time_limit_s: int | None = None
    node: Node | None = None
    cpu_milli_per_rank: int = 0
    memory_mib_per_rank: int = 0
    gpu_classes: Sequence[str] = ()
    needs_fast: bool | None = None
    resumable: bool = False
    checkpoint: str = ""
    checkpoint_every_s: int = 0
    save_command: Sequence[str] = ()
    restore_command: Sequence[str] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    after: Workload | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    program: Mapping[str, str | bytes] = field(default_factory=dict)
    communication: Mapping[str, Any] | None = None
    retries: int = 0
    locality: int = locality.ANY_RACK
    canary: bool = False
    after_passed: bool = False
    demo: bool = False
    idempotency_key: str = ""


def columns(request: Asked) -> dict[str, Any]:
    """The workload's columns."""
    return {
        "cluster": request.cluster,
        "leaf": request.leaf,
        "owner": request.owner,
        "name": request.name,
        "size_milli": request.size_milli,
        "min_runtime_s": request.min_runtime_s,
        "time_limit_s": request.time_limit_s,
        "priority": request.priority,
        "node": request.node,
        "cpu_milli_per_rank": request.cpu_milli_per_rank,
        "memory_mib_per_rank": request.memory_mib_per_rank,
        "gpu_classes": sorted(set(request.gpu_classes)),
        "resumable": request.resumable or bool(request.save_command),
        "checkpoint": request.checkpoint,
        "checkpoint_every_s": request.checkpoint_every_s,
        "save_command": list(request.save_command),
        "restore_command": list(request.restore_command),
        "secrets": dict(request.secrets),
        "after": request.after,
        "after_passed": request.after_passed,
        "command": list(request.command),
        "environment": dict(request.environment),
        "communication": request.communication and cassini.written_profile(cassini.read_profile(request.communication)),
        "retries": request.retries,
        "locality": request.locality,
        "demo": request.demo,
        "idempotency_key": request.idempotency_key,
    }


def check(request: Asked) -> None:
    """Nothing, if it can be submitted as it is written; whether it may be is asked elsewhere.

    Raises:
        InputError: names the field.
    """
    _check_size(request.size_milli)
    whole("min_runtime_s", request.min_runtime_s, 0, LARGEST_S)
    whole("priority", request.priority, -PRIORITY_BOUND, PRIORITY_BOUND)
    whole("cpu_milli_per_rank", request.cpu_milli_per_rank, 0, LARGEST_AMOUNT)
    whole("memory_mib_per_rank", request.memory_mib_per_rank, 0, LARGEST_AMOUNT)
    whole("retries", request.retries, 0, RETRIES_MAX)
    _check_classes(request)
    whole("locality", request.locality, min(locality.LEVELS_OF_LOCALITY), max(locality.LEVELS_OF_LOCALITY))
    if request.time_limit_s is not None:
        whole("time_limit_s", request.time_limit_s, 1, LARGEST_S)
        if request.time_limit_s < request.min_runtime_s:
            raise InputError(
                "time_limit_s",
                gettext("{time_limit_s} s is less than the contract, {min_runtime_s} s").format(
                    time_limit_s=request.time_limit_s, min_runtime_s=request.min_runtime_s
                ),
            )
    _text("name", request.name, NAME_LENGTH)
    _text("idempotency_key", request.idempotency_key, KEY_LENGTH)
    _check_command("command", request.command)
    _check_session(request)
    _check_environment("environment", request.environment)
    if request.size_milli < WHOLE_DEVICE_MILLI:
        for name in OF_A_PART:
            if name in request.environment or name in request.secrets:
                kind = "environment" if name in request.environment else "secrets"
                raise InputError(f"{kind}.{name}", gettext("is set by the scheduler, or not allowed"))
    _check_checkpoint(request.checkpoint)
    _check_program(request.program)
    _check_communication(request.communication)
    for name, flag in (("resumable", request.resumable), ("demo", request.demo), ("canary", request.canary)):
        if not isinstance(flag, bool):
            raise InputError(name, gettext("must be true or false, not {flag!r}").format(flag=flag))
    if request.canary and request.size_milli <= WHOLE_DEVICE_MILLI:
        raise InputError("canary", gettext("it asks for one device itself: only a gang has a canary"))
    if request.node is not None and (request.node.cluster_id != request.cluster.pk or request.node.retired_at):
        raise InputError(
            "node",
            gettext("{node} is no node of {cluster}").format(node=request.node.name, cluster=request.cluster.name),
        )
    if request.after is not None and request.after.cluster_id != request.cluster.pk:
        raise InputError("after", gettext("{after} is on another cluster").format(after=request.after.code))


def whole(name: str, value: Any, least: int, most: int) -> None:
    """Nothing, if `value` is a whole number within these bounds.

    Raises:
        InputError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(name, gettext("must be a whole number, not {value!r}").format(value=value))
    if not least <= value <= most:
        raise InputError(
            name, gettext("must be {least:,} to {most:,}, not {value:,}").format(least=least, most=most, value=value)
        )


def _check_size(size_milli: Any) -> None:
    whole("size_milli", size_milli, 1, LARGEST_AMOUNT)
    if size_milli > WHOLE_DEVICE_MILLI and size_milli % WHOLE_DEVICE_MILLI:
        message = gettext("{amount} is neither a number of whole devices nor a part of one")
        raise InputError("size_milli", message.format(amount=_in_devices(size_milli)))


def check_part(field_name: str, size_milli: int, cluster: Cluster, policy: Policy) -> None:
    """Nothing, if it is whole devices, or a part of one that this cluster gives out.

    Raises:
        InputError: it gives out none, or none so small.
    """
    if size_milli >= WHOLE_DEVICE_MILLI:
        return
    least_milli = policy.fraction_min_milli
    if not least_milli:
        message = gettext("{cluster} gives out whole devices only, and {amount} is a part of one")
        raise InputError(field_name, message.format(cluster=cluster.name, amount=_in_devices(size_milli)))
    if size_milli < least_milli:
        message = gettext("the smallest part of a device on {cluster} is {least}, and {amount} is less")
        raise InputError(
            field_name,
            message.format(cluster=cluster.name, least=_in_devices(least_milli), amount=_in_devices(size_milli)),
        )


def _in_devices(milli: int) -> str:
    """An amount as its number alone: "2.5"."""
    return f"{milli / WHOLE_DEVICE_MILLI:,.3f}".rstrip("0").rstrip(".")


def _text(name: str, value: Any, length: int) -> None:
    if not isinstance(value, str):
        raise InputError(name, gettext("must be text"))
    if len(value) > length:
        raise InputError(
            name, gettext("must be at most {length} characters, not {value}").format(length=length, value=len(value))
        )
    for character in value:
        if unicodedata.category(character) in ("Cc", "Cs") or character in REORDERING:
            raise InputError(
                name, gettext("must not hold the character U+{character:04X}").format(character=ord(character))
            )


def _check_session(request: Asked) -> None:
    """Saving and restoring go together; what is secret is long enough to be found in what is printed."""
    for field_name, command in (("save_command", request.save_command), ("restore_command", request.restore_command)):
        if command:
            _check_command(field_name, command)
    if bool(request.save_command) != bool(request.restore_command):
        missing = "restore_command" if request.save_command else "save_command"
        raise InputError(missing, gettext("a session that can be restored has both a save and a restore command"))
    whole("checkpoint_every_s", request.checkpoint_every_s, 0, LARGEST_S)
    _check_environment("secrets", request.secrets)
    for name, value in request.secrets.items():
        if name in request.environment:
            raise InputError(f"secrets.{name}", gettext("is among the plain variables too"))
        shown = [*request.command, *request.save_command, *request.restore_command, *request.environment.values()]
        if value and any(value in text for text in (*shown, request.name)):
            raise InputError(
                f"secrets.{name}", gettext("its value stands in the command, in a plain variable or the name")
            )
        if not SECRET_MIN_CHARS <= len(value) <= SECRET_MAX_CHARS:
            raise InputError(
                f"secrets.{name}",
                gettext("must be {least} to {most} characters: a shorter one cannot be told from other text").format(
                    least=SECRET_MIN_CHARS, most=SECRET_MAX_CHARS
                ),
            )


def _check_classes(request: Asked) -> None:
    """Whether there are such classes is for the rules of the door to say."""
    names = request.gpu_classes
    if isinstance(names, str) or len(names) > MOST_CLASSES or not all(isinstance(each, str) and each for each in names):
        raise InputError("gpu_classes", gettext("must be up to {most} names of classes").format(most=MOST_CLASSES))
    for each in names:
        _text("gpu_classes", each, CLASS_LENGTH)
    if request.needs_fast not in (True, False, None):
        message = gettext("must be true or false, not {flag!r}").format(flag=request.needs_fast)
        raise InputError("needs_fast", message)


def _check_command(field_name: str, command: Any) -> None:
    if isinstance(command, str) or not isinstance(command, Sequence):
        raise InputError(field_name, gettext("must be a list of arguments, not a line for a shell"))
    if not command or not command[0]:
        raise InputError(field_name, gettext("must name a program"))
    for number, argument in enumerate(command):
        _argument(f"{field_name}[{number}]", argument)
    if sum(len(argument) for argument in command) > COMMAND_LENGTH:
        raise InputError(
            field_name,
            gettext("must be at most {command_length:,} characters in all").format(command_length=COMMAND_LENGTH),
        )


def _argument(name: str, value: Any) -> None:
    """Text that a process can be given: lines and tabs are fine, a zero or half a surrogate pair is not."""
    if not isinstance(value, str):
        raise InputError(name, gettext("must be text"))
    if any(character == "\0" or unicodedata.category(character) == "Cs" for character in value):
        raise InputError(name, gettext("holds a character that no process can be given"))


def _check_environment(field_name: str, environment: Any) -> None:
    if not isinstance(environment, Mapping):
        raise InputError(field_name, gettext("must be names with texts"))
    for name, value in environment.items():
        if not isinstance(name, str) or not VARIABLE.fullmatch(name):
            raise InputError(field_name, gettext("{name!r} is not the name of a variable").format(name=name))
        if name.startswith(RESERVED_PREFIXES) and name != ARRAY_INDEX:
            raise InputError(f"{field_name}.{name}", gettext("is set by the scheduler, or not allowed"))
        _argument(f"{field_name}.{name}", value)
    if sum(len(name) + len(value) for name, value in environment.items()) > ENVIRONMENT_LENGTH:
        raise InputError(
            field_name,
            gettext("must be at most {environment_length:,} characters in all").format(
                environment_length=ENVIRONMENT_LENGTH
            ),
        )


def _check_checkpoint(checkpoint: Any) -> None:
    _text("checkpoint", checkpoint, CHECKPOINT_LENGTH)
    path = PurePosixPath(checkpoint)
    if path.is_absolute() or ".." in path.parts:
        raise InputError("checkpoint", gettext("must be a path inside the workload's working directory"))


def _check_communication(given: Mapping[str, Any] | None) -> None:
    """A profile of what it sends, or None; the message names the place in it."""
    if given is None:
        return
    try:
        cassini.read_profile(given)
    except cassini.ProfileError as error:
        raise InputError("communication", str(error)) from None


def _check_program(program: Any) -> None:
    """Names of files that a line can show; what stands in them is the advisor's to read, whatever it is."""
    if not isinstance(program, Mapping) or not all(isinstance(each, str | bytes) for each in program.values()):
        raise InputError("program", gettext("must be the text of each file, by its path"))
    if len(program) > MAX_FILES:
        raise InputError("program", gettext("has {count:,} files; {most} is the most").format(
            count=len(program), most=MAX_FILES
        ))  # fmt: skip
    for path in program:
        if not isinstance(path, str) or not 0 < len(path) <= PATH_LENGTH or not path.isprintable():
            message = gettext("the path of a file is one line of at most {most} characters")
            raise InputError("program", message.format(most=PATH_LENGTH))
