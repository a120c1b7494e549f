"""Becoming a rank's command: fork, limits, its user, its directory, exec. Standard library only."""

import ctypes
import os
import resource
import signal

from scheduler.executors import cgroups

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
libc = ctypes.CDLL(None, use_errno=True)


def start_command(spec: dict, output: int) -> tuple[int, str]:
    """Fork and execute; the process id, and what went wrong (empty: it runs)."""
    reading, writing = os.pipe()  # closed by a successful exec
    minder = os.getpid()
    pid = os.fork()
    if pid == 0:
        step = "starting"
        try:
            os.setsid()
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            step = "setting its limits"
            limit(spec)
            step = "becoming its user"
            if spec["uid"] is not None:
                os.setgroups([])
                os.setgid(spec["uid"])
                os.setuid(spec["uid"])
            libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the change of user, which clears it
            if os.getppid() != minder:
                os._exit(1)
            step = "entering its working directory"
            os.umask(0o077)
            os.chdir(spec["directory"])
            step = f"executing {spec['command'][0]}"
            for number in range(1, signal.NSIG):
                if number not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(number) is not None:
                    signal.signal(number, signal.SIG_DFL)
            os.dup2(writing, 3, inheritable=False)
            os.closerange(4, os.sysconf("SC_OPEN_MAX"))
            writing = 3
            execute(spec["command"], spec["environment"])
        except BaseException as error:  # whatever it was, the parent must hear of it, and nothing here goes on
            os.write(writing, f"{step}: {getattr(error, 'strerror', None) or error}".encode()[:280])
        finally:
            os._exit(127)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        problem = file.read().decode(errors="replace")
    if problem:
        os.waitpid(pid, 0)
    return pid, problem


def execute(command: list[str], environment: dict[str, str]) -> None:
    """Become the command, looked for in its own PATH; returns never.

    `os.execvpe` would import more of the standard library first, which may lie where only our user can read.

    Raises:
        OSError: what the last place said; that there is none only where no other did.
    """
    name = command[0]
    places = [""] if "/" in name else [place or "." for place in environment["PATH"].split(":")]
    problem: OSError = FileNotFoundError(2, "No such file or directory")
    for place in places:
        try:
            os.execve(os.path.join(place, name), command, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            problem = error
    raise problem


def limit(spec: dict) -> None:
    """Bounds of the command: memory, core files, and who goes first when the machine runs out of memory.

    Raises:
        OSError: a bound could not be set.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if spec.get("cgroup"):
        cgroups.enter(spec["cgroup"])
    elif spec["memory_bytes"]:
        # CUDA reserves far more addresses than it ever uses: with GPUs only what is written to counts.
        kind = resource.RLIMIT_DATA if spec.get("has_gpus") else resource.RLIMIT_AS
        resource.setrlimit(kind, (spec["memory_bytes"],) * 2)
    if spec["processes"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (spec["processes"],) * 2)
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("500")
