"""A private Slurm on this machine: munged, MariaDB, slurmdbd, slurmctld and several slurmd, in one folder, on loopback.

As root, without systemd. Debian's slurmd runs several times on a host (`-N n3`), each with a port and folders of its
own. Everything that is started is ended by its process id.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sbatch", "sacctmgr")
START_S = 90
COMMAND_S = 30
GPUS = 4
CPUS = 32
NODES = ("n1", "n2", "n3", "n4")
SMALL = "n5"
"""A node of half the size, in the partition "uneven" with the last one."""


def missing() -> str:
    """Why no Slurm can be started here; empty where one can."""
    if os.geteuid() != 0:
        return "NOT ROOT, so no tests with a real Slurm"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"NO SLURM ({', '.join(absent)} missing), so no tests with one: ./test --long installs it" if absent else ""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listened at a moment ago."""
    held = [socket.socket() for _each in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


@dataclass
class SlurmSite:
    """One Slurm. `nodes` have `GPUS` pretend GPUs each; the first two are one rack by topology, the others another, and
    a smaller one is the last. The partition "gpu" has all but that one. `settings` replace those of `CONF`, or add to
    them."""

    root: Path
    nodes: Sequence[str] = NODES
    gpus: int = GPUS
    settings: Mapping[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = ("munge", "socket", "db", "etc", "log", "ctld", "spool", "dev", "jobs")
        for name in names:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o755)
        (self.root / "munge").chmod(0o700)
        (self.root / "jobs").chmod(0o1777)
        self.all_nodes = (*self.nodes, SMALL)
        self.ctld_port, self.dbd_port, self.db_port, *self.node_ports = free_ports(3 + len(self.all_nodes))

    @property
    def conf(self) -> Path:
        """Slurm's configuration file."""
        return self.root / "etc" / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """For Slurm's programs."""
        return {"PATH": os.environ["PATH"], "SLURM_CONF": str(self.conf), "TZ": "UTC", "LC_ALL": "C.UTF-8"}

    def run(self, *argv: str, within_s: float = COMMAND_S, must: bool = True) -> str:
        """What a command of Slurm's prints."""
        done = subprocess.run(
            argv, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within_s
        )
        assert not must or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    # --- starting -----------------------------------------------------------------------------------------------------

    def start(self) -> SlurmSite:
        """All of it; ready when every node is idle."""
        self._munge()
        self._mariadb()
        self._configure()
        self.start_dbd()
        self._await("slurmdbd", lambda: self.run("sacctmgr", "-nP", "show", "cluster", within_s=5) is not None)
        if "test" not in self.run("sacctmgr", "-nP", "show", "cluster", "format=cluster"):
            self.run("sacctmgr", "-i", "add", "cluster", "test")
        self.start_ctld()
        for name in self.all_nodes:
            self.start_node(name)
        self._await("nodes", self._all_idle)
        return self

    def _all_idle(self) -> bool:
        states = self.run("sinfo", "-hN", "-o", "%N %T", within_s=5).split("\n")
        return {f"{name} idle" for name in self.all_nodes} <= set(states)

    def _await(self, what: str, is_so: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + START_S
        while True:
            try:
                if is_so():
                    return
            except (AssertionError, subprocess.TimeoutExpired):
                pass
            assert time.monotonic() < ends_s, f"{what} did not come up; its log is in {self.root}/log"
            time.sleep(0.1)

    def _spawn(self, name: str, *argv: str) -> None:
        with (self.root / "log" / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/"
            )

    def _munge(self) -> None:
        key = self.root / "munge" / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        self.socket = self.root / "socket" / "munge.socket"
        self._spawn(
            "munged",
            *("munged", "--foreground", f"--key-file={key}", f"--socket={self.socket}"),
            *(f"--pid-file={self.root}/munge/pid", f"--log-file={self.root}/munge/log"),
            *(f"--seed-file={self.root}/munge/seed", "--num-threads=2"),
        )
        self._await("munged", self.socket.exists)

    def _mariadb(self) -> None:
        data, listening = self.root / "db", self.root / "db.sock"
        subprocess.run(
            ("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}", "--skip-test-db"),
            check=True,
            capture_output=True,
        )
        self._spawn(
            "mariadb",
            *("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={listening}"),
            *("--bind-address=127.0.0.1", f"--port={self.db_port}", f"--pid-file={self.root}/db.pid"),
            *("--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900", "--innodb-log-file-size=16M"),
            "--innodb-flush-log-at-trx-commit=2",
        )
        self.password = secrets.token_hex(16)
        grant = (
            "create database if not exists slurm; "
            f"create user 'slurm'@'127.0.0.1' identified by '{self.password}'; "
            f"create user 'slurm'@'localhost' identified by '{self.password}'; "
            "grant all on slurm.* to 'slurm'@'127.0.0.1', 'slurm'@'localhost';"
        )
        client = ("mariadb", "--no-defaults", "-S", str(listening), "-uroot", "-e")
        self._await("mariadb", lambda: bool(self.run(*client, "select 1", within_s=5)))
        self.run(*client, grant)

    def _configure(self) -> None:
        host = socket.gethostname().split(".")[0]
        etc = self.root / "etc"
        for index in range(self.gpus):  # a GPU's file must be a device; these are clones of /dev/null
            path = self.root / "dev" / f"gpu{index}"
            if not path.exists():
                os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        (etc / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName=n[1-{len(self.nodes)}] Name=gpu Type=h100 "
            f"File={self.root}/dev/gpu[0-{self.gpus - 1}]\n"
            f"NodeName={SMALL} Name=gpu Type=h100 File={self.root}/dev/gpu[0-{self.gpus // 2 - 1}]\n"
        )
        (etc / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nConstrainCores=no\nConstrainDevices=no\nConstrainRAMSpace=no\n"
        )
        (etc / "topology.conf").write_text(
            "SwitchName=rackA Nodes=n[1-2]\nSwitchName=rackB Nodes=n[3-5]\nSwitchName=spine Switches=rackA,rackB\n"
        )
        dbd = etc / "slurmdbd.conf"
        dbd.write_text(
            DBD.format(root=self.root, socket=self.socket, port=self.dbd_port, db=self.db_port, password=self.password)
        )
        dbd.chmod(0o600)
        lines = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
            + (f" CPUs={CPUS // 2} CoresPerSocket={CPUS // 4} Gres=gpu:h100:{self.gpus // 2}" if name == SMALL else "")
            for name, port in zip(self.all_nodes, self.node_ports, strict=True)
        ]
        conf = CONF.format(
            root=self.root,
            socket=self.socket,
            port=self.ctld_port,
            dbd=self.dbd_port,
            gpus=self.gpus,
            nodes="\n".join(lines),
            last=len(self.nodes),
            cpus=CPUS,
            cores=CPUS // 2,
        )
        kept = [line for line in conf.splitlines() if line.partition("=")[0] not in self.settings]
        self.conf.write_text("\n".join([*(f"{name}={value}" for name, value in self.settings.items()), *kept, ""]))

    def start_dbd(self) -> None:
        """The database daemon; ready when sacctmgr answers."""
        self._spawn("slurmdbd", "slurmdbd", "-D")

    def start_ctld(self) -> None:
        """The controller; waits until it answers."""
        self._spawn("slurmctld", "slurmctld", "-D")
        self._await("slurmctld", lambda: "is UP" in self.run("scontrol", "ping", within_s=5))

    def start_node(self, name: str) -> None:
        """One node's daemon."""
        (self.root / "spool" / name).mkdir(exist_ok=True)
        self._spawn(name, "slurmd", "-D", "-N", name)

    # --- ending -------------------------------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """SIGKILL to one of the processes."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(20)

    def stop(self) -> None:
        """End everything, and what jobs left behind."""
        if "slurmctld" in self.processes:
            jobs = self.run("squeue", "-ah", "-o", "%A", must=False).split()
            if jobs:
                self.run("scancel", *sorted(set(jobs)), must=False)
                time.sleep(1)
        for name in reversed(list(self.processes)):
            process = self.processes.pop(name)
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(15)
        for pid in self.left_behind():
            os.kill(pid, signal.SIGKILL)

    def left_behind(self) -> list[int]:
        """Processes of jobs that outlived their slurmd: those that carry our configuration's path."""
        found = []
        mark = f"SLURM_CONF={self.conf}".encode()
        for each in Path("/proc").iterdir():
            try:
                if each.name.isdigit() and mark in (each / "environ").read_bytes().split(b"\0"):
                    found.append(int(each.name))
            except OSError:
                continue
        return [pid for pid in found if pid != os.getpid()]


DBD = """\
AuthType=auth/munge
AuthInfo=socket={socket}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={db}
StorageUser=slurm
StoragePass={password}
StorageLoc=slurm
LogFile={root}/log/slurmdbd.log
PidFile={root}/slurmdbd.pid
DebugLevel=info
"""

CONF = """\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket},cred_expire=5
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={root}/slurmctld.pid
SlurmctldLogFile={root}/log/slurmctld.log
SlurmdPidFile={root}/slurmd.%n.pid
SlurmdLogFile={root}/log/slurmd.%n.log
SlurmdSpoolDir={root}/spool/%n
StateSaveLocation={root}/ctld
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
TopologyPlugin=topology/tree
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldTimeout=60
SlurmdTimeout=20
MessageTimeout=20
KillWait=5
CompleteWait=0
MinJobAge=300
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=5,bf_continue
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
PriorityType=priority/multifactor
PriorityWeightFairshare=100000
PriorityDecayHalfLife=0
PriorityUsageResetPeriod=NONE
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={socket}
AccountingStorageEnforce=associations
AccountingStorageTRES=gres/gpu,gres/gpu:h100
AccountingStoreFlags=job_comment
JobCompType=jobcomp/none
NodeName=DEFAULT CPUs={cpus} Sockets=2 CoresPerSocket={cores} RealMemory=64000 Gres=gpu:h100:{gpus} State=UNKNOWN
{nodes}
PartitionName=gpu Nodes=n[1-{last}] Default=YES MaxTime=INFINITE DefaultTime=60 State=UP OverSubscribe=NO
PartitionName=uneven Nodes=n[{last}-5] MaxTime=INFINITE DefaultTime=60 State=UP OverSubscribe=NO
"""
