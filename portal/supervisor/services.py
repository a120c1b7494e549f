"""What `./run` does and starts, in order. To add a step or a service, add it here.

A service that is part of the portal gets the databases' addresses and the secrets (`portal_environment`); one that runs
other people's commands gets none of them (`bare_environment`).
"""

import http.client
import os
from dataclasses import dataclass, replace
from pathlib import Path

from portal.supervisor.databases import Addresses
from portal.supervisor.installation import PYTHON, ROOT
from portal.supervisor.place import Place, is_root, servers_account, write_privately
from portal.supervisor.processes import Service

DEFAULT_PORT = 8000
TASK_WORKERS = 2
TICK_WORKERS = 1
TICKS = "ticks"
"""The queue of that name in portal/settings.py, which knows Django, as this does not."""
SIMULATION_WORKERS = 2
SIMULATION_NICENESS = 10
"""Simulations give way to passes and pages wherever these want the processor."""
SECRETS = {
    "SECRET_KEY": "secret_key",
    "ALLOTMENT_SEALING_KEYS": "sealing_keys",
    "ALLOTMENT_AGENT_TOKEN": "agent_token",
}
"""The files of secrets that are drawn where the environment names none."""
AGENT_GRACE_S = 25
"""An agent stops its workloads in their own grace before it ends."""


@dataclass(frozen=True)
class Installation:
    """One data folder, with the addresses it runs at."""

    place: Place
    addresses: Addresses
    port: int

    @property
    def url(self) -> str:
        """The address of the portal on this machine."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def logins_path(self) -> Path:
        """Where the demo writes its people's names and passwords."""
        return self.place.root / "demo-logins.txt"

    @property
    def agents_dir(self) -> Path:
        """Where each file `*.json` configures one node's agent on this machine."""
        return self.place.root / "agents"


@dataclass(frozen=True)
class Step:
    """A command of manage.py that ends before any service starts; `doing` is what a person is told meanwhile."""

    doing: str
    name: str
    arguments: tuple[str, ...]


def bare_environment(place: Place) -> dict[str, str]:
    """What every process needs and nothing that opens a door; the instance's name marks what belongs together."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "ALLOTMENT_INSTANCE": place.identity}


def portal_environment(place: Place, addresses: Addresses, port: int) -> dict[str, str]:
    """The environment of the portal's own processes: ours, and the addresses and secrets of this installation."""
    drawn = {
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "ALLOTMENT_DATA_DIR": str(place.root),
        "ALLOTMENT_URL": f"http://127.0.0.1:{port}",
    }
    for name, file in SECRETS.items():
        if name not in os.environ:
            drawn[f"{name}_FILE"] = str(place.secret_path(file))
    drawn["ALLOTMENT_ANY_COMMANDS"] = str(is_root()).lower()  # as root, agents keep owners apart
    return {
        **drawn,
        **os.environ,
        **bare_environment(place),
        **addresses.environment,
        "REMAP_SIGTERM": "SIGQUIT",  # a worker told to end gives its task two seconds, then puts it back
    }


def setup_steps(*, with_demo: bool) -> list[Step]:
    """What must have happened before anything can start; each does nothing if it has been done."""
    steps = [Step("Bringing the database and the static files up to date", "prepare", ("prepare",))]
    if with_demo and (ROOT / "portal" / "management" / "commands" / "demo.py").exists():
        steps.append(Step("Generating the demo", "demo", ("demo",)))
    return steps


def services(here: Installation) -> list[Service]:
    """What runs until it is stopped, in the order of starting; stopping is the reverse."""
    slurms = [slurm(here)] if os.environ.get("ALLOTMENT_SLURM", "").lower() == "true" else []
    return [web(here), worker(here), ticks(here), simulations(here), *agents(here), *slurms, beat(here)]


def web(here: Installation) -> Service:
    """The web server, on this machine's loopback address only."""
    return _portal_service(
        here,
        "web",
        *("gunicorn", "--config", "python:portal.web_server", "--bind", f"127.0.0.1:{here.port}"),
        ready=True,
    )


def worker(here: Installation) -> Service:
    """The worker that does all there is to do but simulations, ticks among it."""
    return _worker_service(here, "worker", TASK_WORKERS)


def ticks(here: Installation) -> Service:
    """A worker for ticks alone, so that no pass waits while all processes of the other are at work that takes long."""
    return _worker_service(here, "ticks", TICK_WORKERS, queues=TICKS)


def simulations(here: Installation) -> Service:
    """The worker that runs what people simulate, on a queue of its own, so that no pass waits behind a simulation."""
    service = _worker_service(here, "simulations", SIMULATION_WORKERS, queues="simulations")
    return replace(service, argv=("nice", "-n", str(SIMULATION_NICENESS), *service.argv))


def slurm(here: Installation) -> Service:
    """Whoever looks at the Slurms of clusters, where Slurm's commands are on this machine."""
    return _portal_service(here, "slurm", "manage", "slurm_sync")


def beat(here: Installation) -> Service:
    """The clock. It keeps nothing on disk: a tick that was missed is not made up for."""
    return _portal_service(
        here,
        "beat",
        "celery",
        "-A",
        "portal.celery",
        "beat",
        "--loglevel",
        "INFO",
        "-S",
        "portal.steady.SteadyScheduler",
    )


def agents(here: Installation) -> list[Service]:
    """One agent per file in the agents' folder; they start other people's commands, so they get a bare environment.

    What they start ends with the keeper, however that ends.
    """
    nodes_dir = here.place.servers_dir(servers_account()) / "nodes"  # workloads, who are somebody else, can reach it
    shared = (
        *("--portal", here.url),
        *("--join-token-file", str(join_token_path(here.place))),
        *("--work", str(nodes_dir / "work")),
        *("--programs", str(ROOT / "portal" / "demo" / "programs")),
        "--tie",
    )

    def own_folder(path: Path) -> tuple[str, str]:
        return "--state", str(nodes_dir / path.stem)

    return [
        Service(
            name=f"agent-{path.stem}",
            argv=(str(PYTHON), "-m", "scheduler.executors.agent", "--config", str(path), *shared, *own_folder(path)),
            environment=bare_environment(here.place),
            log_path=here.place.log_path(f"agent-{path.stem}"),
            directory=str(ROOT),
            stop_grace_s=AGENT_GRACE_S,
            umask=0o022,  # its workloads, who are somebody else, have folders below its own
            wave="agents",
        )
        for path in sorted(here.agents_dir.glob("*.json"))
    ]


def join_token_path(place: Place) -> Path:
    """The file with the join token that the portal was told."""
    if said := os.environ.get("ALLOTMENT_AGENT_TOKEN_FILE"):
        return Path(said)
    path = place.secret_path("agent_token")
    if said := os.environ.get("ALLOTMENT_AGENT_TOKEN"):
        write_privately(path, said)
    return path


def _worker_service(here: Installation, name: str, processes: int, *, queues: str = "") -> Service:
    return _portal_service(
        here,
        name,
        *("celery", "-A", "portal.celery", "worker", "--loglevel", "INFO", "--concurrency", str(processes)),
        *(("--queues", queues) if queues else ()),
        *("--without-gossip", "--without-mingle", "--hostname", f"{here.place.identity}-{name}@%h"),
    )


def _portal_service(here: Installation, name: str, *module_and_arguments: str, ready: bool = False) -> Service:
    return Service(
        name=name,
        argv=(str(PYTHON), "-m", *module_and_arguments),
        environment=portal_environment(here.place, here.addresses, here.port),
        log_path=here.place.log_path(name),
        directory=str(ROOT),
        ready=(lambda: web_answers(here.port)) if ready else None,
    )


def web_answers(port: int) -> bool:
    """Whether the log-in page can be read."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/login/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
