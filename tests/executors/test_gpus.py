"""What NVML answers, in our words: recorded answers, through the real package's constants and errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from scheduler.executors import gpus
from scheduler.executors.gpus import FATAL_XIDS, Gpus, Seen, Use, class_named, problems_of
from scheduler.executors.meter import Meter

UUIDS = ["GPU-5b1a0f4e-8f2c-0000-0000-000000000000", "GPU-5b1a0f4e-8f2c-0000-0000-000000000001"]


class Recorded:
    """NVML as it answered on a node with two H100: every name that is not answered here is the real package's."""

    def __init__(self) -> None:
        self.uncorrected: dict[int, Any] = {0: 0, 1: 0}
        self.remapped: dict[int, Any] = {0: (0, 0, 0, 0), 1: (1, 0, 0, 0)}
        self.gone: set[int] = set()
        self.events: list[tuple[int, int, int]] = []  # device, type, data
        self.samples: dict[int, Any] = {0: [(1_000, 0), (2_000, 100)], 1: []}
        self.rates: dict[int, Any] = {0: 100, 1: 37}
        memory = SimpleNamespace(total=80 * 2**30, used=20 * 2**30, free=60 * 2**30)
        self.memory: dict[int, Any] = {0: memory, 1: memory}
        self.by_process: Any = []
        self.processes: list[Any] = []
        self.clients: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(pynvml, name)

    def _look(self, device: int) -> None:
        if device in self.gone:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    def _say(self, answer: Any) -> Any:
        if isinstance(answer, pynvml.NVMLError):
            raise answer
        return answer

    def nvmlDeviceGetProcessUtilization(self, device: int, since_us: int) -> Any:  # noqa: N802
        kept = [each for each in self._say(self.by_process) if each.timeStamp > since_us]
        if not kept:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return kept

    def nvmlDeviceGetComputeRunningProcesses(self, device: int) -> Any:  # noqa: N802
        return self.processes

    def nvmlDeviceGetMPSComputeRunningProcesses(self, device: int) -> Any:  # noqa: N802
        return self.clients

    def nvmlInit(self) -> None:  # noqa: N802
        """Loaded."""

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, device: int) -> str:  # noqa: N802
        return "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetUUID(self, device: int) -> str:  # noqa: N802
        return UUIDS[device]

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        return "set"

    def nvmlDeviceRegisterEvents(self, device: int, kinds: int, events: str) -> None:  # noqa: N802
        assert (kinds, events) == (pynvml.nvmlEventTypeXidCriticalError, "set")

    def nvmlEventSetWait_v2(self, events: str, timeout_ms: int) -> Any:  # noqa: N802
        assert (events, timeout_ms) == ("set", 0)
        if not self.events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        device, kind, data = self.events.pop(0)
        return SimpleNamespace(device=device, eventType=kind, eventData=data)

    def nvmlDeviceGetPciInfo(self, device: int) -> None:  # noqa: N802
        self._look(device)

    def nvmlDeviceGetTotalEccErrors(self, device: int, kind: int, counter: int) -> int:  # noqa: N802
        self._look(device)
        assert (kind, counter) == (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
        return self._say(self.uncorrected[device])

    def nvmlDeviceGetRemappedRows(self, device: int) -> Any:  # noqa: N802
        return self._say(self.remapped[device])

    def nvmlDeviceGetSamples(self, device: int, kind: int, since_us: int) -> Any:  # noqa: N802
        assert kind == pynvml.NVML_GPU_UTILIZATION_SAMPLES
        kept = [(at, value) for at, value in self.samples[device] if at > since_us]
        if not kept:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return 1, [SimpleNamespace(timeStamp=at, sampleValue=SimpleNamespace(uiVal=value)) for at, value in kept]

    def nvmlDeviceGetUtilizationRates(self, device: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=self._say(self.rates[device]), memory=0)

    def nvmlDeviceGetMemoryInfo(self, device: int) -> Any:  # noqa: N802
        return self._say(self.memory[device])


@pytest.fixture
def nvml() -> Recorded:
    """Two well GPUs."""
    return Recorded()


def test_two_well_gpus_have_no_problem(nvml: Recorded) -> None:
    found = Gpus(nvml)
    assert (found.uuids, found.problems()) == (UUIDS, [])
    assert found.gpu_class == "H100-80GB-HBM3"


@pytest.mark.parametrize(
    ("model", "found"),
    [
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("NVIDIA GeForce RTX 3090", "GeForce-RTX-3090"),
        ("NVIDIA", ""),
        ("", ""),
        ("H100 (reserved)", "H100-reserved"),
    ],
)
def test_the_class_of_a_model(model: str, found: str) -> None:
    assert class_named(model) == found


def test_what_a_gpu_does_not_know_is_no_problem(nvml: Recorded) -> None:
    """A consumer GPU: no ECC, no remapping."""
    unknown = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    nvml.uncorrected, nvml.remapped = dict.fromkeys((0, 1), unknown), dict.fromkeys((0, 1), unknown)
    assert Gpus(nvml).problems() == []


def test_memory_errors_failed_remapping_and_lost_gpus_are_problems(nvml: Recorded) -> None:
    found = Gpus(nvml)
    nvml.uncorrected[0], nvml.remapped[1] = 3, (0, 2, 1, 1)
    assert found.problems() == ["GPU 0: 3 uncorrected memory errors", "GPU 1: a bad memory row could not be replaced"]
    nvml.gone = {0}
    nvml.remapped[1] = pynvml.NVMLError(pynvml.NVML_ERROR_RESET_REQUIRED)
    assert found.problems() == ["GPU 0 is lost", "GPU 1 is lost"]


def test_critical_errors_are_remembered_until_a_repair(nvml: Recorded) -> None:
    found = Gpus(nvml)
    kind = pynvml.nvmlEventTypeXidCriticalError
    nvml.events = [(1, kind, 79), (1, kind, 79), (0, kind, 31), (0, pynvml.nvmlEventTypeClock, 48)]
    expected = ["GPU 1: Xid 79, it has fallen off the bus"]
    assert found.problems() == expected
    assert found.problems() == expected
    found.forget()
    assert found.problems() == []


def test_what_a_program_brings_upon_itself_is_not_the_nodes_fault() -> None:
    seen = [Seen(0, "a")]
    assert problems_of(seen, [("a", xid) for xid in (13, 31, 43, 45, 94)], ["a"]) == []
    assert len(problems_of(seen, [("a", xid) for xid in FATAL_XIDS], ["a"])) == len(FATAL_XIDS)


def test_a_gpu_that_is_not_listed_any_more_is_gone() -> None:
    assert problems_of([Seen(0, "a")], [], ["a", "b"]) == ["GPU 1 (b) is gone"]


def test_activity_is_that_since_the_last_look(nvml: Recorded) -> None:
    found = Gpus(nvml)
    assert found.activity(0) == (0.5, 0.25)
    nvml.samples[0] += [(3_000, 80), (4_000, 90)]
    busy = found.activity(0)
    assert busy is not None
    assert busy[0] == pytest.approx(0.85)
    assert found.activity(1) == (0.37, 0.25)  # it keeps no samples
    nvml.rates[1] = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert found.activity(1) is None


def test_what_a_gpu_does_not_say_is_not_known_and_is_not_nothing(nvml: Recorded) -> None:
    unknown = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    rank: Any = SimpleNamespace(key=(7, 0), devices=[1], device_milli=1_000, record={"state": "running", "minder": 0})
    meter = Meter(Gpus(nvml), every_s=0)

    def said() -> list[int | None]:
        """The memory of each sample that two looks more give."""
        meter.told(len(meter.samples()))
        for _look in range(2):
            meter.look([rank])
        return [each.memory_milli for each in meter.samples()]

    meter.look([rank])
    assert said() == [250, 250]
    nvml.memory[1] = unknown
    assert Gpus(nvml).activity(1) == (0.37, None)
    assert said() == [None, None]
    nvml.rates[1] = unknown
    assert said() == []


def test_what_each_process_does_on_a_gpu(nvml: Recorded) -> None:
    """Samples since the last look, memory by whoever knows it; nobody busy is an answer, no answer is none."""
    found = Gpus(nvml)
    nvml.processes = [SimpleNamespace(pid=7, usedGpuMemory=2 * 2**30), SimpleNamespace(pid=8, usedGpuMemory=None)]
    nvml.clients = [SimpleNamespace(pid=9, usedGpuMemory=3 * 2**20)]
    nvml.by_process = [
        SimpleNamespace(pid=7, timeStamp=5_000, smUtil=40),
        SimpleNamespace(pid=6, timeStamp=4_000, smUtil=1),
    ]
    assert found.processes(0) == {7: Use(0.4, 2_048), 8: Use(0.0, None), 9: Use(0.0, 3), 6: Use(0.01, None)}
    nvml.by_process.append(SimpleNamespace(pid=7, timeStamp=6_000, smUtil=100))
    assert found.processes(0)[7] == Use(1.0, 2_048)  # type: ignore[index]
    assert found.processes(0)[7] == Use(0.0, 2_048)  # type: ignore[index]
    nvml.by_process = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert found.processes(0) is None
    assert (found.memory_mib(0), found.memory_mib(2)) == (81_920, 0)


def test_without_the_package_or_a_driver_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpus.find() == (None, "NVML: NVML Shared Library Not Found")  # tests run on machines without one
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert gpus.find() == (None, "nvidia-ml-py is not installed")
