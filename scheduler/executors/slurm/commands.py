"""What is asked of Slurm about jobs and nodes: argument lists, never a shell line.

A job of ours is told by its comment, "allotment:TOKEN:WORKLOAD:RUN": whose it is, and the run that it carries out (0 as
long as it waits for its turn). So a job that was submitted just before we were killed is found again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PREFIX = "allotment"
MARK = re.compile(
    rf"{PREFIX}:([a-z0-9]{{8,40}}):([A-Za-z0-9][A-Za-z0-9_.-]{{0,63}}):([0-9]{{1,18}})"
    r"(?::shift=([0-9]{1,9}/[0-9]{1,9}/1?))?(?::stop=([0-9]{1,9}))?"
)
DRAIN_MARK = "allotment:"
"""How a drain begins that we asked for; others are an admin's, and never ended by us."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What the comment of a job of ours says.

    `stop_s`, once it was told to stop: how soon it must be gone. `shift`, where its run has a place on the network:
    shift and period in ms and "1" if it is to be kept, between slashes.
    """

    token: str
    workload: str
    run: int
    stop_s: int | None = None
    shift: str = ""

    def __str__(self) -> str:
        shift = f":shift={self.shift}" if self.shift else ""
        stop = "" if self.stop_s is None else f":stop={self.stop_s}"
        return f"{PREFIX}:{self.token}:{self.workload}:{self.run}{shift}{stop}"


def mark_of(comment: str) -> Mark | None:
    """The mark, if the comment is one."""
    match = MARK.fullmatch(comment)
    if match is None:
        return None
    return Mark(match[1], match[2], int(match[3]), None if match[5] is None else int(match[5]), match[4] or "")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a job asks for: so many nodes, with so many devices on each; devices are GPUs or cores.

    Of nodes of unequal size, which a gang holds whole: `devices` on the smallest, `total` on all of them together.
    """

    nodes: int
    devices: int
    unit: str = "gpu"
    total: int = 0

    def __str__(self) -> str:
        return f"{self.nodes}x{self.devices} {self.unit}" + (f", {self.total} in all" if self.total else "")


@dataclass(frozen=True, slots=True)
class Submission:
    """One job, held.

    Attributes:
        mark: for its comment.
        shape: what it asks for.
        command: the workload's argument list.
        environment: its own variables.
        limit_s: time limit of the job; None is unlimited.
        account, partition, qos, user: empty is Slurm's default, or who we are.
        memory_mib, cpus: of each rank; 0 is Slurm's default.
        folder: where workloads have their working directories, on the nodes; empty is the user's home.
        save_command: of a session: what saves it when it is told to stop; empty where it has none.
        grace_s: what it gets for that where nothing else is said.
        checkpoint: where it writes its checkpoint, in its directory; may be empty.
        restores: whether the command is the one that restores what was saved.
        aligns: whether its runs may be given a place on the network, which allotment-align then keeps.
    """

    mark: Mark
    shape: Shape
    command: Sequence[str]
    environment: Mapping[str, str]
    limit_s: int | None = None
    account: str = ""
    partition: str = ""
    qos: str = ""
    user: str = ""
    memory_mib: int = 0
    cpus: int = 0
    folder: str = ""
    save_command: Sequence[str] = ()
    grace_s: int = 60
    checkpoint: str = ""
    restores: bool = False
    aligns: bool = False


def submit(job: Submission, script: str) -> list[str]:
    """Submit a job, held: Slurm never starts it by itself, and never again after a node's failure.

    "ALL" is our own small environment, of which the script keeps nothing; with "NONE" each start would first wait for
    a login of its user on the node, and be held where that takes too long.

    Args:
        job: what it asks for.
        script: path of the file with `script.script_of(job)`.
    """
    shape = job.shape
    cores = max(job.cpus, shape.devices if shape.unit == "core" else 1)
    minutes = "UNLIMITED" if job.limit_s is None else str(-(-job.limit_s // 60))
    optional = [
        f"--{name}={value}"
        for name, value in (
            ("account", job.account),
            ("partition", job.partition),
            ("qos", job.qos),
            ("uid", job.user),
            ("mem", f"{job.memory_mib}M" if job.memory_mib else ""),
            ("gres", f"gpu:{shape.devices}" if shape.unit == "gpu" and shape.devices and not shape.total else ""),
            ("gpus", str(shape.total) if shape.unit == "gpu" and shape.total else ""),
            ("chdir", job.folder),
        )
        if value
    ]
    return [
        *("sbatch", "--parsable", "--hold", "--no-requeue", "--export=ALL", "--open-mode=append"),
        *(f"--job-name={job.mark.workload}", f"--comment={job.mark}", f"--nodes={shape.nodes}-{shape.nodes}"),
        *("--ntasks-per-node=1", f"--cpus-per-task={cores}", f"--time={minutes}"),
        *(["--exclusive"] if shape.total else []),  # whole nodes: the larger ones' cores, too
        *(f"--output={job.mark.workload}.out", *optional, script),
    ]


def parse_submitted(text: str) -> int:
    """The id that `sbatch --parsable` printed.

    Raises:
        ValueError: it printed something else.
    """
    match = re.fullmatch(r"([0-9]{1,10})(?:;[A-Za-z0-9_.-]+)?", text.strip().split("\n")[-1])
    if match is None:
        raise ValueError(f"sbatch printed {text[:60]!r}")
    return int(match[1])


def choose(job_id: int, mark: Mark, nodes: Sequence[str]) -> list[str]:
    """Give a held job its run and its nodes."""
    return [
        *("scontrol", "update", f"JobId={job_id}", f"ReqNodeList={','.join(nodes)}"),
        *(f"Comment={mark}", "Requeue=0", "StartTime=now"),
    ]


def release(job_id: int) -> list[str]:
    """Let Slurm start a held job: now, as it is the only one that it may start."""
    return ["scontrol", "release", str(job_id)]


def hold(job_id: int) -> list[str]:
    """Hold a waiting job so that only an admin can release it."""
    return ["scontrol", "hold", str(job_id)]


def signal(job_id: int) -> list[str]:
    """SIGTERM to all ranks; the script itself waits for them."""
    return ["scancel", "--signal=TERM", str(job_id)]


def save(job_id: int, mark: Mark) -> list[list[str]]:
    """Tell a session's script to save it and then have it leave, within what the mark says: script.py."""
    return [
        ["scontrol", "update", f"JobId={job_id}", f"Comment={mark}"],
        ["scancel", "--batch", "--signal=USR1", str(job_id)],
    ]


def cancel(job_id: int) -> list[str]:
    """End a job, wherever it is."""
    return ["scancel", str(job_id)]


def may_requeue(job_id: int) -> list[str]:
    """Let a job that has not ended wait again later. Without this, Slurm neither does it by itself nor by order."""
    return ["scontrol", "update", f"JobId={job_id}", "Requeue=1"]


def requeue(job_id: int) -> list[str]:
    """End what a job runs, if it still does, and have it wait again, held."""
    return ["scontrol", "requeuehold", str(job_id)]


def drain(node: str, reason: str) -> list[str]:
    """Nothing new starts on a node; what runs there goes on."""
    text = re.sub(r"\s+", " ", f"{DRAIN_MARK} {reason}").strip()[:120]
    return ["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={text}"]


def resume(node: str) -> list[str]:
    """End a drain of ours."""
    return ["scontrol", "update", f"NodeName={node}", "State=RESUME"]


def shown(argv: Sequence[str]) -> str:
    """A command as a person would type it."""
    return shlex.join(argv)
