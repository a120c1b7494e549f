"""What a node's agent is told at its start: a JSON file, and over it the command line."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from scheduler.executors.minder import read_json
from scheduler.executors.reading import Malformed, read_object

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
RESERVED_UIDS = range(65_534, 65_536)
"""nobody, whom a private PostgreSQL may run as, and the number that means "no change"."""


class Refusal(Exception):
    """Something is in the way that a person has to see to: one line, exit status 2."""


@dataclass(frozen=True)
class Config:
    """An agent's settings; each is a field of the file, and an option with dashes.

    Attributes:
        portal: the portal's address.
        cluster, node: what the agent is to be.
        gpus: how many it offers: /dev/nvidia0 and so on; -1 is as many as NVML shows.
        pretend: they are invented, and not looked for (demo, tests).
        cores: how many it offers, on a CPU-only cluster.
        state: a folder of its own.
        work: where workloads have their directories; agents of one machine may share it. Default STATE/work.
        join_token_file: holds what lets it join; read only while the portal does not know it.
        rack: its RDMA domain, if it is known.
        rail, leaf: which leaves its own belongs to, and the switch that it is wired to, if they are known.
        memory_mib, cpu_milli: what it offers; 0 is unsaid.
        gpu_class: what kind of devices it has, such as V100; empty is as NVML names them, where they are all of one.
        gpu_memory_mib: memory of each GPU, of which a part of one has its part; 0 is as NVML says.
        heartbeat_s: between two heartbeats, a fifth more or less by chance.
        wake_port: where the portal can have it ask at once; 0 is any, -1 is none.
        wake_address: of that port. Other than loopback, the portal has to allow its network.
        uids: where it is root, a workload runs as the first of these plus its owner's number.
        processes_max: of one person's workloads on this machine, where it is root.
        programs: a folder of Python programs that workloads find by name.
        tie: stop all ranks when the agent is told to end, and when the process that started it has ended.
        output_max_kib: kept of what a rank prints.
        memory_limit: "auto" is by control groups where this machine permits them; "rlimit" is for each process alone.
        shared_work: `work` is one file system on all nodes: directories of sessions need not travel.
        archive_max_mib: where it is not, the largest saved directory that travels through the portal; 0 is none.
        health_command: says by its exit status whether the node is well, by its last line what is wrong.
        health_every_s: how often it is run.
        sample_every_s: how long a sample of its devices' activity is.
        repair_command: repairs the node, once it is empty and the portal says so.
    """

    portal: str = ""
    cluster: str = ""
    node: str = ""
    gpus: int = 0
    pretend: bool = False
    cores: int = 0
    state: str = ""
    work: str = ""
    join_token_file: str = ""
    rack: str = ""
    rail: str = ""
    leaf: str = ""
    memory_mib: int = 0
    cpu_milli: int = 0
    gpu_class: str = ""
    gpu_memory_mib: int = 0
    heartbeat_s: int = 10
    wake_port: int = 0
    wake_address: str = "127.0.0.1"
    uids: str = "40000-59999"
    processes_max: int = 4_096
    programs: str = ""
    tie: bool = False
    output_max_kib: int = 1_024
    memory_limit: str = "auto"
    shared_work: bool = False
    archive_max_mib: int = 256
    health_command: list[str] = field(default_factory=list)
    health_every_s: int = 60
    sample_every_s: int = 60
    repair_command: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Refuse what is missing or makes no sense.

        Raises:
            Refusal: names the field.
        """
        for name in ("portal", "cluster", "node", "state"):
            if not getattr(self, name):
                raise Refusal(f"{name}: is missing")
        if not self.portal.startswith(("http://", "https://")):
            raise Refusal(f"portal: {self.portal!r} is not an address such as https://allotment.example.org")
        for name, least, most in (
            ("gpus", -1, 4_096),
            ("cores", 0, 4_096),
            ("memory_mib", 0, 2**40),
            ("cpu_milli", 0, 2**40),
            ("gpu_memory_mib", 0, 2**30),
            ("heartbeat_s", 1, 3_600),
            ("wake_port", -1, 65_535),
            ("processes_max", 1, 2**20),
            ("output_max_kib", 0, 2**20),
            ("archive_max_mib", 0, 2**20),
            ("health_every_s", 1, 86_400),
            ("sample_every_s", 1, 3_600),
        ):
            if not least <= getattr(self, name) <= most:
                raise Refusal(f"{name}: {getattr(self, name)} is not {least} to {most}")
        if self.memory_limit not in ("auto", "rlimit"):
            raise Refusal(f"memory_limit: {self.memory_limit!r} is not auto or rlimit")
        try:
            ip_address(self.wake_address)
        except ValueError:
            raise Refusal(f"wake_address: {self.wake_address!r} is no address of this machine") from None
        if self.gpus and self.cores:
            raise Refusal("cores: a node offers GPUs or cores, not both")
        missing = [path for index in range(self.gpus) if not os.path.exists(path := f"/dev/nvidia{index}")]
        if missing and not self.pretend:
            raise Refusal(f"gpus: there is no {missing[0]}; --pretend invents them")
        first, last = self.uid_bounds
        if not 1_000 <= first <= last < 2**32 - 1 or any(first <= uid <= last for uid in RESERVED_UIDS):
            raise Refusal(f"uids: {self.uids!r} is not FIRST-LAST from 1000 on, without {RESERVED_UIDS.start}")

    @property
    def devices(self) -> int:
        """How many devices it offers."""
        return self.gpus + self.cores

    @property
    def uid_bounds(self) -> tuple[int, int]:
        """First and last user that workloads may run as."""
        first, _, last = self.uids.partition("-")
        return (int(first), int(last)) if first.isdecimal() and last.isdecimal() else (0, 0)


def read_config(argv: Sequence[str] | None) -> Config:
    """The settings on a command line and in the file that it names.

    Raises:
        Refusal: names the option or field.
    """
    named = {"int": int, "str": str, "bool": bool, "list[str]": list[str]}
    kinds = {each.name: named[str(each.type)] for each in fields(Config)}
    parser = argparse.ArgumentParser(prog="agent", description="Run the workloads of one node.", exit_on_error=False)
    parser.add_argument("--config", metavar="FILE", help="a JSON file with the options below as fields")
    for name, kind in kinds.items():
        option = f"--{name.replace('_', '-')}"
        if kind is bool:
            parser.add_argument(option, action="store_true", default=None)
        elif kind == list[str]:
            parser.add_argument(option, type=shlex.split, metavar="COMMAND")
        else:
            parser.add_argument(option, type=kind, metavar=name.rpartition("_")[2].upper())
    try:
        given, unknown = parser.parse_known_args(argv)
    except argparse.ArgumentError as error:
        raise Refusal(str(error)) from None
    if unknown:
        raise Refusal(f"unrecognized arguments: {' '.join(unknown)}")
    said: dict[str, Any] = {name: value for name in kinds if (value := getattr(given, name)) is not None}
    config = Config(**(_in_file(given.config, kinds) | said))
    config.check()
    return config


def _in_file(path: str | None, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a file."""
    if path is None:
        return {}
    try:
        content = read_json(path)
        if content is None:
            raise Refusal(f"{path}: is missing, or no JSON")
        return read_object(content, "", kinds, required=())
    except Malformed as error:
        raise Refusal(f"{path}: {error}") from None
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from None


def copy_programs(source: Path, target: Path) -> None:
    """Copy Python programs to where workloads, who are somebody else, can run them: `training.py` as `training`."""
    target.mkdir(mode=0o755, exist_ok=True)
    target.chmod(0o755)  # whatever our umask is: its owner's processes look things up there
    for path in sorted(source.glob("[a-z]*.py")):
        _, _, rest = path.read_text(encoding="utf-8").partition("\n")
        draft = target / f".{path.stem}"
        draft.write_text(f"#!{interpreter()} -IS\n{rest}", encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(target / path.stem.replace("_", "-"))


def interpreter() -> str:
    """A Python that everybody on this machine can run: ours, or the system's where ours lies in a closed folder."""
    ours = os.path.realpath(sys.executable)
    if os.geteuid() != 0 or all(each.stat().st_mode & 0o001 for each in (Path(ours), *Path(ours).parents)):
        return ours
    return shutil.which("python3", path=SYSTEM_PATH) or ours
