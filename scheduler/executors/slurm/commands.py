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
MARK = re.compile(rf"{PREFIX}:([a-z0-9]{{8,40}}):([A-Za-z0-9][A-Za-z0-9_.-]{{0,63}}):([0-9]{{1,18}})")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MASTER_PORT_FIRST, MASTER_PORTS = 20_000, 20_000
FENCED = 91
"""Exit status of a script whose run has begun before (a controller that was killed had forgotten that), or could not be
begun at all: no fault of the workload's."""
DRAIN_MARK = "allotment:"
"""How a drain begins that we asked for; others are an admin's, and never ended by us."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What the comment of a job of ours says."""

    token: str
    workload: str
    run: int

    def __str__(self) -> str:
        return f"{PREFIX}:{self.token}:{self.workload}:{self.run}"


def mark_of(comment: str) -> Mark | None:
    """The mark, if the comment is one."""
    match = MARK.fullmatch(comment)
    return None if match is None else Mark(match[1], match[2], int(match[3]))


@dataclass(frozen=True, slots=True)
class Shape:
    """What a job asks for: so many nodes, with so many devices on each; devices are GPUs or cores."""

    nodes: int
    devices: int
    unit: str = "gpu"

    def __str__(self) -> str:
        return f"{self.nodes}x{self.devices} {self.unit}"


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


def submit(job: Submission, script: str) -> list[str]:
    """Submit a job, held: Slurm never starts it by itself, and never again after a node's failure.

    Args:
        job: what it asks for.
        script: path of the file with `script_of(job)`.
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
            ("gres", f"gpu:{shape.devices}" if shape.unit == "gpu" and shape.devices else ""),
            ("chdir", job.folder),
        )
        if value
    ]
    return [
        *("sbatch", "--parsable", "--hold", "--no-requeue", "--export=NONE", "--open-mode=append"),
        *(f"--job-name={job.mark.workload}", f"--comment={job.mark}", f"--nodes={shape.nodes}-{shape.nodes}"),
        *("--ntasks-per-node=1", f"--cpus-per-task={cores}", f"--time={minutes}"),
        *(f"--output={job.mark.workload}.out", *optional, script),
    ]


def script_of(job: Submission) -> str:
    """The job's script: each rank runs the command in the workload's directory, with the variables that agents set.

    Only the first rank's node sees a file of it; the command stands in it quoted, and no shell reads it again.
    """
    own = {name: value for name, value in sorted(job.environment.items()) if VARIABLE.fullmatch(name)}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in own.items())
    return SCRIPT.format(
        workload=shlex.quote(job.mark.workload),
        devices=job.shape.devices,
        exports=exports,
        command=" ".join(shlex.quote(part) for part in job.command),
        first=MASTER_PORT_FIRST,
        ports=MASTER_PORTS,
        rank=RANK,
        fenced=FENCED,
        patience=PATIENCE,
        own=OWN_FOLDER,
    )


SCRIPT = """\
#!/bin/sh
mkdir -p {workload}/{own} && cd {workload} || exit 90
{exports}tries=0
until mark=$(squeue --noheader --jobs="$SLURM_JOB_ID" -o %k) && [ -n "$mark" ]; do
    tries=$((tries + 1)); [ $tries -lt {patience} ] || exit {fenced}
    sleep 2
done
export ALLOTMENT_RUN="${{mark##*:}}" ALLOTMENT_WORKLOAD={workload} ALLOTMENT_DEVICES={devices}
mkdir "{own}/run-$ALLOTMENT_RUN" || exit {fenced}
export MASTER_ADDR="$SLURMD_NODENAME" MASTER_PORT=$(({first} + SLURM_JOB_ID % {ports}))
export WORLD_SIZE="$SLURM_JOB_NUM_NODES" LOCAL_WORLD_SIZE=1 LOCAL_RANK=0
while :; do
    srun --kill-on-bad-exit=1 --export=ALL --output="{own}/$ALLOTMENT_RUN.%t.out" /bin/sh -c '{rank}' rank {command}
    status=$?
    [ $status -ne {fenced} ] || status=1
    if [ $status -eq 0 ] || [ -e "{own}/began-$ALLOTMENT_RUN" ]; then exit $status; fi
    tries=$((tries + 1)); [ $tries -lt {patience} ] || exit {fenced}
    sleep 2
done
"""
OWN_FOLDER = ".allotment"
"""In each workload's directory: marks that its runs have begun, and what their ranks print."""
RANK = f'export RANK=$SLURM_PROCID NODE_RANK=$SLURM_NODEID; : > "{OWN_FOLDER}/began-$ALLOTMENT_RUN"; exec "$@"'
PATIENCE = 90
"""So often a script asks a controller that is away, two seconds apart; what has not begun can be begun later."""


def output_of(run: int, rank: int) -> str:
    """The file, in OWN_FOLDER, with what a rank of a run prints."""
    return f"{run}.{rank}.out"


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
