"""The script of a job: it starts the ranks, and where the workload is a session, saves it when it is told to stop.

It is plain `sh` and calls Slurm's own commands alone, so nodes need nothing of ours. It runs on the first rank's node,
in the workload's directory, as whoever the job is. What it tells goes two ways: its exit status, and files in
OWN_FOLDER.

A session is told by SIGUSR1 to the script alone (`scancel --batch`): its ranks notice nothing yet. The comment of its
job says how soon it must be gone. The save command runs beside each rank, as a step that shares what the job holds;
then the ranks get SIGTERM, and what is left of them is ended before Slurm would be told to.

The comment also says where on the network a run was shifted to. Its training loop keeps that place with
allotment-align, which is Python, as such loops are, and comes with the script.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from scheduler.executors.agent_config import SYSTEM_PATH
from scheduler.executors.slurm.commands import Submission

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MASTER_PORT_FIRST, MASTER_PORTS = 20_000, 20_000
FENCED = 91
"""Exit status of a script whose run has begun before (a controller that was killed had forgotten that), or could not be
begun at all: no fault of the workload's."""
SAVED = 92
"""Exit status of a script that was told to stop, and whose session is saved."""
TOLD = 143
"""Exit status of one that was told to stop, and could not save, or had not begun."""
OWN_FOLDER = ".allotment"
"""In each workload's directory: marks that its runs have begun and were saved, and what their ranks print."""
PATIENCE = 90
"""So often a script asks a controller that is away, two seconds apart; what has not begun can be begun later."""
MARGIN_MAX_S = 10
"""What is at most kept of the grace for the ranks' own leaving, after the save command."""
TASK = "export RANK=$SLURM_PROCID NODE_RANK=$SLURM_NODEID ALLOTMENT_NODE=$SLURMD_NODENAME; "
RANK = f'{TASK}: > "{OWN_FOLDER}/began-$ALLOTMENT_RUN"; exec "$@"'
SAVER = f'{TASK}exec "$@"'


def output_of(run: int, rank: int) -> str:
    """The file, in OWN_FOLDER, with what a rank of a run prints."""
    return f"{run}.{rank}.out"


def saved_mark_of(run: int) -> str:
    """The file, in OWN_FOLDER, that says that the session of a run is saved."""
    return f"saved-{run}"


def script_of(job: Submission, programs: str = "") -> str:
    """The job's script: each rank runs the command in the workload's directory, in a clean environment with the
    variables that agents set. `programs` is where Slurm's commands are, if in no usual place.

    Only the first rank's node sees a file of it; the command stands in it quoted, and no shell reads it again.
    """
    own = {name: value for name, value in sorted(job.environment.items()) if VARIABLE.fullmatch(name)}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in own.items())
    saving = ""
    if job.save_command:
        saving = SAVING.format(
            save=shlex.join(job.save_command),
            saver=SAVER,
            grace=job.grace_s,
            margin=MARGIN_MAX_S,
            saved=SAVED,
            told=TOLD,
            own=OWN_FOLDER,
        )
    return SCRIPT.format(
        path=shlex.quote(":".join(dict.fromkeys([*SYSTEM_PATH.split(":"), *([programs] if programs else [])]))),
        workload=shlex.quote(job.mark.workload),
        checkpoint=shlex.quote(job.checkpoint),
        restored="1" if job.restores else "",
        grace=job.grace_s,
        devices=job.shape.devices,
        exports=exports,
        saving=saving,
        command=shlex.join(job.command),
        first=MASTER_PORT_FIRST,
        ports=MASTER_PORTS,
        rank=RANK,
        fenced=FENCED,
        patience=PATIENCE,
        own=OWN_FOLDER,
        report=REPORT,
        aligning=ALIGNING.format(own=OWN_FOLDER, align=ALIGN.read_text(encoding="utf-8")) if job.aligns else "",
    )


ALIGN = Path(__file__).parent.parent / "programs" / "allotment_align.py"
ALIGNING = """\
program={own}/bin/allotment-align
cat > $program.$$ <<'END'
{align}END
chmod 755 $program.$$ && mv $program.$$ $program
"""


REPORT = r"""#!/bin/sh
# Says how many tokens a training run has processed on all its devices in so many seconds until now. One rank says so.
usage() {
    echo "usage: allotment-report --tokens TOKENS --seconds SECONDS --parameters PARAMETERS" >&2
    [ -z "$1" ] || echo "allotment-report: error: argument --$1: is missing, or no such number" >&2
    exit 2
}
tokens= seconds= parameters=
while [ $# -gt 0 ]; do
    case "$1" in --*=*) name="${1%%=*}" value="${1#*=}"; shift; set -- "$name" "$value" "$@" ;; esac
    [ $# -gt 1 ] || usage
    case "$1" in
    --tokens) tokens="$2" ;;
    --seconds) seconds="$2" ;;
    --parameters) parameters="$2" ;;
    *) usage ;;
    esac
    shift 2
done
export tokens seconds parameters
said=$(LC_ALL=C awk '
function whole(text) { return text ~ number && text + 0 == int(text + 0) && text + 0 <= 1e15 }
function refuse(name) { print name; exit 1 }
BEGIN {
    number = "^([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?$"
    tokens = ENVIRON["tokens"]; seconds = ENVIRON["seconds"]; parameters = ENVIRON["parameters"]
    if (!whole(tokens)) refuse("tokens")
    if (seconds !~ number || seconds + 0 < 0.001 || seconds + 0 > 31622400) refuse("seconds")
    if (!whole(parameters) || parameters + 0 < 1) refuse("parameters")
    printf "{\"tokens\": %.0f, \"span_ms\": %.0f, \"parameters\": %.0f}", tokens, seconds * 1000, parameters
}') || usage "$said"
cd "$ALLOTMENT_DIRECTORY" && echo "$said" > .allotment-report.$$ && mv .allotment-report.$$ .allotment-report
"""
"""The program that agents have as executors/programs/allotment_report.py, for nodes that need nothing of ours."""
SCRIPT = """\
#!/bin/sh
unset TZ LC_ALL SLURM_TIME_FORMAT  # of whoever has submitted it
USER=$(id -un); HOME=$(getent passwd "$USER" | cut -d: -f6); export USER LOGNAME="$USER" HOME="${{HOME:-$PWD}}"
export LANG=C.UTF-8 PATH={path}
mkdir -p {workload}/{own}/bin && cd {workload} || exit 90
main=
{saving}{exports}program={own}/bin/allotment-checkpoint
cat > $program.$$ <<'END'
#!/bin/sh
# Says that a checkpoint has been written, and perhaps in how many seconds the next one will be.
case "$1$2" in
--next-in[0-9]*) said="\\"next_in_s\\": $2" ;;
'') said= ;;
*) echo "usage: allotment-checkpoint [--next-in SECONDS]" >&2; exit 2 ;;
esac
cd "$ALLOTMENT_DIRECTORY" && echo "{{$said}}" > .allotment-checkpoint.$$ && \\
    mv .allotment-checkpoint.$$ .allotment-checkpoint
END
chmod 755 $program.$$ && mv $program.$$ $program
program={own}/bin/allotment-report
cat > $program.$$ <<'END'
{report}END
chmod 755 $program.$$ && mv $program.$$ $program
{aligning}tries=0
until mark=$(squeue --noheader --jobs="$SLURM_JOB_ID" -o %k) && [ -n "$mark" ]; do
    tries=$((tries + 1)); [ $tries -lt {patience} ] || exit {fenced}
    sleep 2
done
mark="${{mark%%:stop=*}}"
case "$mark" in *:shift=*)
    place="${{mark##*:shift=}}"; mark="${{mark%%:shift=*}}"
    export ALLOTMENT_TIME_SHIFT_MS="${{place%%/*}}" ALLOTMENT_TIME_SHIFT_KEEPS="${{place##*/}}"
    place="${{place#*/}}"; export ALLOTMENT_PERIOD_MS="${{place%%/*}}" ;;
esac
export ALLOTMENT_RUN="${{mark##*:}}" ALLOTMENT_WORKLOAD={workload} ALLOTMENT_DEVICES={devices}
export ALLOTMENT_DIRECTORY="$PWD" ALLOTMENT_GRACE_S={grace} ALLOTMENT_RESTORED={restored}
checkpoint={checkpoint}; export ALLOTMENT_CHECKPOINT="${{checkpoint:+$PWD/$checkpoint}}" PATH="$PWD/{own}/bin:$PATH"
mkdir "{own}/run-$ALLOTMENT_RUN" || exit {fenced}
export MASTER_ADDR="$SLURMD_NODENAME" MASTER_PORT=$(({first} + SLURM_JOB_ID % {ports}))
export WORLD_SIZE="$SLURM_JOB_NUM_NODES" NNODES="$SLURM_JOB_NUM_NODES" LOCAL_WORLD_SIZE=1 LOCAL_RANK=0
out="--open-mode=append --output={own}/$ALLOTMENT_RUN.%t.out"
while :; do
    srun --kill-on-bad-exit=1 --export=ALL $out /bin/sh -c '{rank}' rank {command} &
    main=$!
    wait $main
    status=$?
    main=
    [ $status -ne {fenced} ] || status=1
    if [ $status -eq 0 ] || [ -e "{own}/began-$ALLOTMENT_RUN" ]; then exit $status; fi
    tries=$((tries + 1)); [ $tries -lt {patience} ] || exit {fenced}
    sleep 2
done
"""
SAVING = """\
leave() {{  # told to stop: it is saved, its ranks are told, and all is gone in time
    trap '' USR1
    [ -n "$main" ] || exit {told}
    left=$(squeue --noheader --jobs="$SLURM_JOB_ID" -o %k)
    left="${{left##*:stop=}}"
    case "$left" in '' | *[!0-9]*) left={grace} ;; esac
    ends=$(($(date +%s) + left)); margin=$((left / 4)); [ $margin -le {margin} ] || margin={margin}
    timeout $((left - margin)) srun --overlap --kill-on-bad-exit=1 --export=ALL $out /bin/sh -c '{saver}' save {save}
    saved=$?
    [ $saved -ne 0 ] || : > "{own}/saved-$ALLOTMENT_RUN"
    scancel --signal=TERM "$SLURM_JOB_ID" || kill $main
    while kill -0 $main 2> /dev/null && [ "$(date +%s)" -lt $ends ]; do sleep 0.2 || sleep 1; done
    kill $main 2> /dev/null  # srun then ends its ranks at once
    wait $main
    [ $saved -ne 0 ] || exit {saved}
    exit {told}
}}
trap leave USR1
"""
