"""Nodes, as `scontrol show node` and `sinfo` list them, and their racks, as `scontrol show topology` does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.executors.slurm.reading import Row, columns, records

LIST = ("scontrol", "show", "node", "--oneliner")
TOPOLOGY = ("scontrol", "show", "topology", "--oneliner")
SINFO_FIELDS = ("NodeList", "StateLong", "CPUs", "Memory", "Gres", "Features", "Reason")
SINFO = ("sinfo", "--all", "--noheader", "--Node", "-O", ",".join(f"{name}:|" for name in SINFO_FIELDS))

DOWN = frozenset({"DOWN", "ERROR", "FAIL", "FUTURE", "POWERED_DOWN", "INVALID_REG"})
DRAINING = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "RESERVED", "REBOOT_ISSUED"})
SILENT = frozenset({"NOT_RESPONDING", "UNKNOWN", "NO_RESPOND"})
STATE = re.compile(r"[A-Za-z_]+(?:[*~#!%$@^+-]*)(?:\+[A-Za-z_]+[*~#!%$@^-]*)*")
_GRES = re.compile(r"gpu(?::([A-Za-z0-9_.-]+))?(?::(\d{1,6}))?(?:\(.*)?")


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """One node. `held_gpus` and `held_cpus` are what jobs hold of it; `reason` is why it is drained or down."""

    name: str
    flags: frozenset[str]
    cpus: int
    memory_mib: int
    gpus: int
    gpu_model: str
    held_gpus: int = 0
    held_cpus: int = 0
    features: Sequence[str] = ()
    partitions: Sequence[str] = ()
    reason: str = ""
    rack: str = ""
    rail: str = ""
    leaf: str = ""

    @property
    def is_down(self) -> bool:
        """Whether nothing can run there."""
        return bool(self.flags & DOWN)

    @property
    def is_silent(self) -> bool:
        """Whether its slurmd does not answer, and Slurm has not given it up."""
        return bool(self.flags & SILENT) and not self.is_down

    @property
    def is_drained(self) -> bool:
        """Whether it takes nothing new."""
        return bool(self.flags & DRAINING) and not self.is_down


def read(text: str) -> list[SlurmNode]:
    """The nodes that `LIST` printed, by name.

    Raises:
        Unreadable: names line and field.
    """
    found = [_node(row) for row in records("scontrol show node", text, "NodeName")]
    return sorted(found, key=lambda node: node.name)


def _node(row: Row) -> SlurmNode:
    gpus, model = _gpus(row, "Gres")
    held = row.tres("AllocTRES")
    return SlurmNode(
        name=row.need("NodeName"),
        flags=_flags(row, "State"),
        cpus=row.whole("CPUTot"),
        memory_mib=row.whole("RealMemory"),
        gpus=gpus,
        gpu_model=model,
        held_gpus=held.get("gres/gpu", 0),
        held_cpus=row.whole("CPUAlloc"),
        features=_list(row.text("ActiveFeatures") if "ActiveFeatures" in row.cells else ""),
        partitions=_list(row.text("Partitions") if "Partitions" in row.cells else ""),
        reason=_reason(row),
    )


def _reason(row: Row) -> str:
    """Without who set it, and when."""
    said = row.text("Reason") if "Reason" in row.cells else ""
    return re.sub(r"\s*\[[^\[\]]*@[^\[\]]*\]$", "", said)


def _list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _flags(row: Row, column: str) -> frozenset[str]:
    """The words of a state such as "IDLE*+DRAIN"; an asterisk says that it does not answer."""
    said = row.need(column)
    if not STATE.fullmatch(said):
        raise row.fault(column, f"is not a state: {said[:60]!r}")
    flags = {re.sub(r"[*~#!%$@^-]", "", part).upper() for part in said.split("+")}
    return frozenset(flags | ({"NOT_RESPONDING"} if "*" in said else set()))


def _gpus(row: Row, column: str) -> tuple[int, str]:
    """How many GPUs, and of which kind if of one, from "gpu:h100:4(S:0-1),shard:8"."""
    total, models = 0, set()
    for part in re.split(r",(?![^(]*\))", row.text(column)):
        match = _GRES.fullmatch(part.strip())
        if match is None:
            continue
        model, count = match[1] or "", match[2]
        if count is None and model.isdigit():
            model, count = "", model
        total += int(count or 1)
        models.add(model)
    return total, models.pop() if len(models) == 1 else ""


def read_sinfo(source: str, text: str) -> list[SlurmNode]:
    """Nodes from what `SINFO` printed, or from such a file; a node of several partitions counts once.

    Raises:
        Unreadable: names line and column.
    """
    found: dict[str, SlurmNode] = {}
    for row in columns(source, text, SINFO_FIELDS):
        gpus, model = _gpus(row, "Gres")
        for name in row.hosts("NodeList"):
            found[name] = SlurmNode(
                name=name,
                flags=_flags(row, "StateLong"),
                cpus=row.whole("CPUs"),
                memory_mib=row.whole("Memory"),
                gpus=gpus,
                gpu_model=model,
                features=_list(row.text("Features")),
                reason=row.text("Reason"),
            )
    return [found[name] for name in sorted(found)]


def read_topology(text: str) -> dict[str, str]:
    """The lowest switch of each node, by node.

    Raises:
        Unreadable: names line and field.
    """
    racks: dict[str, str] = {}
    for row in records("scontrol show topology", text, "SwitchName"):
        if row.whole("Level") == 0:
            racks |= dict.fromkeys(row.hosts("Nodes"), row.need("SwitchName"))
    return racks


def with_places(nodes: Sequence[SlurmNode], racks: Mapping[str, str]) -> list[SlurmNode]:
    """The nodes with their racks: by topology, or else by a feature that begins with "rack".

    Below which leaf they are, and in which rail, features alone say, which begin with these words.
    """

    def said(node: SlurmNode, word: str) -> str:
        return next((each for each in node.features if each.startswith(word)), "")

    return [
        replace(node, rack=racks.get(node.name) or said(node, "rack"), rail=said(node, "rail"), leaf=said(node, "leaf"))
        for node in nodes
    ]
