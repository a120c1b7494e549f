"""What NVML says of this node's GPUs: which there are, what is wrong with them, how busy they are.

`nvidia-ml-py` (module pynvml) is used where it is installed; without it an agent counts /dev/nvidia* only. Questions
that a GPU's kind or driver does not answer are left out; a GPU that answers nothing any more is lost.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MIB = 2**20
VENDOR = ("NVIDIA", "Tesla", "Quadro")
"""What models begin with, and classes do not."""
FATAL_XIDS = {
    46: "it has stopped processing",
    48: "double-bit memory error",
    62: "its micro-controller has halted",
    64: "a memory row could not be remapped",
    74: "NVLink error",
    79: "it has fallen off the bus",
    95: "uncontained memory error",
    119: "its firmware does not answer",
    120: "its firmware has failed",
    140: "unrecovered memory error",
    143: "it could not be initialised",
}
"""Errors after which work on the GPU fails until somebody resets it, by NVIDIA's catalogue of Xid messages. Those that
a program brings upon itself (13, 31, 43, 45, 94 and their like) say nothing of the node."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One GPU as it answered.

    Attributes:
        index: as /dev/nvidiaN and PCI order count.
        uuid: its own name.
        is_lost: it does not answer, or says that it needs a reset.
        uncorrected: memory errors since the driver was loaded that nothing corrected; None where it counts none.
        has_remap_failed: a bad memory row could not be replaced.
    """

    index: int
    uuid: str
    is_lost: bool = False
    uncorrected: int | None = None
    has_remap_failed: bool = False


class Use(NamedTuple):
    """Of a GPU by one process: how busy it has kept it, 0 to 1, and its memory there in MiB, None if nobody says."""

    busy: float = 0.0
    memory_mib: int | None = None


def class_named(model: str) -> str:
    """The class of a GPU by its model: "H100-80GB-HBM3" of "NVIDIA H100 80GB HBM3"; "" of none."""
    words = re.sub(r"[^A-Za-z0-9_.-]+", " ", model).split()
    while words and words[0] in VENDOR:
        del words[0]
    return "-".join(words)[:60].strip("-._")


def problems_of(seen: Sequence[Seen], xids: Sequence[tuple[str, int]], expected: Sequence[str]) -> list[str]:
    """What makes the node unfit, each in a line.

    Args:
        seen: every GPU that is there now.
        xids: critical errors since the last repair, by the GPU's uuid.
        expected: uuids of the GPUs that were there when the agent started.
    """
    found = []
    names = {each.uuid: f"GPU {each.index}" for each in seen}
    for uuid in expected:
        if uuid not in names:
            found.append(f"GPU {expected.index(uuid)} ({uuid}) is gone")
    for each in seen:
        if each.is_lost:
            found.append(f"GPU {each.index} is lost")
        if each.uncorrected:
            found.append(f"GPU {each.index}: {each.uncorrected} uncorrected memory errors")
        if each.has_remap_failed:
            found.append(f"GPU {each.index}: a bad memory row could not be replaced")
    for uuid, xid in dict.fromkeys(xids):
        if xid in FATAL_XIDS:
            found.append(f"{names.get(uuid, uuid)}: Xid {xid}, {FATAL_XIDS[xid]}")
    return found


class Gpus:
    """The GPUs of this node through NVML."""

    def __init__(self, nvml: Any) -> None:
        """Begin to listen for critical errors.

        Raises:
            nvml.NVMLError: no driver is loaded, or it is another version.
        """
        self._nvml = nvml
        nvml.nvmlInit()
        self._handles: list[Any] = []
        self.uuids: list[str] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            self._handles.append(handle)
            self.uuids.append(nvml.nvmlDeviceGetUUID(handle))
        names = {class_named(self._answer(nvml.nvmlDeviceGetName, handle) or "") for handle in self._handles}
        self.gpu_class = names.pop() if len(names) == 1 else ""
        self._xids: list[tuple[str, int]] = []
        self._events: Any = None
        self._busy_since_us: dict[int, int] = {}
        self._processes_since_us: dict[int, int] = {}
        with contextlib.suppress(nvml.NVMLError):
            self._events = nvml.nvmlEventSetCreate()
            for handle in self._handles:
                self._answer(nvml.nvmlDeviceRegisterEvents, handle, nvml.nvmlEventTypeXidCriticalError, self._events)

    def problems(self) -> list[str]:
        """What is wrong with them now."""
        self._xids.extend(self._new_xids())
        return problems_of([self._look(index) for index in range(len(self._handles))], self._xids, self.uuids)

    def forget(self) -> None:
        """They have been repaired: what was remembered counts no more."""
        self._xids.clear()

    def activity(self, index: int) -> tuple[float, float | None] | None:
        """How busy a GPU has been since the last look, and how full its memory is, each 0 to 1; None: no answer."""
        nvml, handle = self._nvml, self._handles[index]
        busy = self._busy(index)
        memory = self._answer(nvml.nvmlDeviceGetMemoryInfo, handle)
        if busy is None:
            return None
        return busy, memory.used / memory.total if memory is not None and memory.total else None

    def memory_mib(self, index: int) -> int:
        """How much memory a GPU has; 0 where it does not say."""
        if not 0 <= index < len(self._handles):
            return 0
        memory = self._answer(self._nvml.nvmlDeviceGetMemoryInfo, self._handles[index])
        return 0 if memory is None else memory.total // MIB

    def processes(self, index: int) -> dict[int, Use] | None:
        """What each process has done on a GPU since the last look, by its id; None where they are not told apart."""
        nvml, handle = self._nvml, self._handles[index]
        try:
            samples = nvml.nvmlDeviceGetProcessUtilization(handle, self._processes_since_us.get(index, 0))
        except nvml.NVMLError as error:
            if error.value not in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_SUCCESS):  # these say that nobody was busy
                return None
            samples = []
        if samples:
            self._processes_since_us[index] = max(each.timeStamp for each in samples)
        found: dict[int, Use] = {}
        for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses"):
            ask = getattr(nvml, name, None)  # of before NVML 11.4 there is no second one
            for each in (ask and self._answer(ask, handle)) or ():
                found[each.pid] = Use(0.0, None if each.usedGpuMemory is None else each.usedGpuMemory // MIB)
        for each in samples:
            found[each.pid] = found.get(each.pid, Use())._replace(busy=min(each.smUtil, 100) / 100)
        return found

    def _busy(self, index: int) -> float | None:
        """From the driver's own samples, several a second; where it keeps none, from its last one."""
        nvml, handle = self._nvml, self._handles[index]
        since_us = self._busy_since_us.get(index, 0)
        kept = self._answer(nvml.nvmlDeviceGetSamples, handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, since_us)
        if kept is not None and kept[1]:
            samples = [each for each in kept[1] if each.timeStamp > since_us]
            if samples:
                self._busy_since_us[index] = max(each.timeStamp for each in samples)
                return sum(each.sampleValue.uiVal for each in samples) / len(samples) / 100
        rates = self._answer(nvml.nvmlDeviceGetUtilizationRates, handle)
        return None if rates is None else rates.gpu / 100

    def _look(self, index: int) -> Seen:
        nvml, handle, uuid = self._nvml, self._handles[index], self.uuids[index]
        try:
            nvml.nvmlDeviceGetPciInfo(handle)
            uncorrected = self._answer(
                nvml.nvmlDeviceGetTotalEccErrors,
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
                fatal=True,
            )
            remapped = self._answer(nvml.nvmlDeviceGetRemappedRows, handle, fatal=True)
        except nvml.NVMLError as error:
            if error.value in self._lost:
                return Seen(index, uuid, is_lost=True)
            return Seen(index, uuid)
        return Seen(index, uuid, uncorrected=uncorrected, has_remap_failed=remapped is not None and bool(remapped[3]))

    @property
    def _lost(self) -> tuple[int, ...]:
        return (self._nvml.NVML_ERROR_GPU_IS_LOST, self._nvml.NVML_ERROR_RESET_REQUIRED)

    def _new_xids(self) -> Iterator[tuple[str, int]]:
        """What has been reported since; never waits."""
        nvml = self._nvml
        while self._events is not None:
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError:  # a time-out: there is none
                return
            if event.eventType == nvml.nvmlEventTypeXidCriticalError:
                yield nvml.nvmlDeviceGetUUID(event.device), int(event.eventData)

    def _answer(self, ask: Callable[..., Any], *arguments: Any, fatal: bool = False) -> Any:
        """What it answers; None where it does not know the question.

        Raises:
            nvml.NVMLError: it is lost, and that is `fatal`.
        """
        try:
            return ask(*arguments)
        except self._nvml.NVMLError as error:
            if fatal and error.value in self._lost:
                raise
            return None


def find() -> tuple[Gpus | None, str]:
    """This node's GPUs, and why there are none: no such module, no driver."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None, "nvidia-ml-py is not installed"
    try:
        return Gpus(nvml), ""
    except nvml.NVMLError as error:
        return None, f"NVML: {error}"
