"""Why programs fail: lines that they print, and whether trying again can help."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.failures import EXIT_CLASSES, ORIGINS, Failure, FailureClass, Origin, failure_of, signature_of

C = FailureClass
SAID = [
    ("ModuleNotFoundError: No module named 'flash_attn'", C.IMPORT),
    ("[rank3]: ImportError: cannot import name 'x' from 'y' (/opt/y.py)", C.IMPORT),
    ("error while loading shared libraries: libcudart.so.12: cannot open shared object file", C.IMPORT),
    ("SyntaxError: invalid syntax", C.SYNTAX),
    ("train.sh: line 3: syntax error near unexpected token `fi'", C.SYNTAX),
    ("train.py: error: unrecognized arguments: --lrr 0.1", C.ARGUMENTS),
    ("bash: torchrum: command not found", C.COMMAND),
    ("sh: 1: pyhton: not found", C.COMMAND),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'", C.MISSING_FILE),
    ("python: can't open file 'trian.py': [Errno 2] No such file or directory", C.MISSING_FILE),
    ("PermissionError: [Errno 13] Permission denied: '/data/out'", C.PERMISSION),
    ("OSError: [Errno 122] Disk quota exceeded", C.QUOTA),
    ("RuntimeError: CUDA error: invalid device ordinal", C.DEVICE),
    ("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", C.GPU_MEMORY),
    ("MemoryError", C.HOST_MEMORY),
    ("RuntimeError: DataLoader worker (pid 4242) is killed by signal: Killed.", C.HOST_MEMORY),
    ("ValueError: loss is nan", C.CODE),
    ("KeyError: 'weight'", C.CODE),
    ("mylib.errors.BadBatchError: 7", C.CODE),
    ("AssertionError", C.CODE),
    ("RuntimeError: CUDA error: device-side assert triggered", C.CODE),
    ("[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation timeout", C.COLLECTIVE),
    ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970", C.COLLECTIVE),
    ("RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:5123", C.COLLECTIVE),
    ("RuntimeError: The server socket has failed to listen: EADDRINUSE", C.RENDEZVOUS),
    ("ConnectionResetError: [Errno 104] Connection reset by peer", C.NETWORK),
    ("curl: (6) Could not resolve: Temporary failure in name resolution", C.NETWORK),
    ("OSError: [Errno 116] Stale file handle: '/nfs/a'", C.STORAGE),
    ("OSError: [Errno 5] Input/output error", C.STORAGE),
    ("OSError: [Errno 28] No space left on device", C.DISK_FULL),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", C.GPU_FAULT),
    ("Segmentation fault (core dumped)", C.CRASH),
]  # fmt: skip
SILENT = [
    "epoch 3: loss 0.12, error rate 4 %",
    "saved /data/Errors/last.pt",
    '  File "train.py", line 3, in <module>',
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "srun: error: n3: task 2: Exited with exit code 1",
]


@pytest.mark.parametrize(("line", "kind"), SAID, ids=[f"{kind}-{at}" for at, (_line, kind) in enumerate(SAID)])
def test_a_line_says_what_failed(line: str, kind: FailureClass) -> None:
    found = failure_of([f"epoch 1\n2026-03-02T10:00:00Z {line}\n"], 1)
    assert found.kind == kind
    assert found.may_pass == (ORIGINS[kind] != Origin.OWN)


@pytest.mark.parametrize("line", SILENT)
def test_other_lines_say_nothing(line: str) -> None:
    assert failure_of([line], 1) == Failure(C.UNKNOWN, "", "exit 1")


def test_every_class_has_an_origin_and_an_example_or_an_exit_code() -> None:
    assert set(ORIGINS) == set(C)
    assert {kind for _line, kind in SAID} | set(EXIT_CLASSES.values()) | {C.UNKNOWN} == set(C)


def test_the_last_line_that_says_anything_counts() -> None:
    text = "UserWarning: no such file or directory\nFileNotFoundError: a\nretrying\nValueError: shape\nbye\n"
    assert failure_of([text], 1).line == "ValueError: shape"


def test_the_rank_whose_own_program_failed_goes_before_those_that_lost_it() -> None:
    lost = "torch.distributed.DistBackendError: NCCL error: remote process exited"
    assert failure_of([lost, "", "ModuleNotFoundError: No module named 'x'", lost], 1).kind == C.IMPORT
    assert failure_of(["Segmentation fault", lost], 1).kind == C.COLLECTIVE


@pytest.mark.parametrize(
    ("code", "kind", "may_pass"),
    [
        (127, C.COMMAND, False),
        (-9, C.KILLED, True),
        (139, C.CRASH, True),
        (1, C.UNKNOWN, True),
        (None, C.UNKNOWN, True),
    ],
)
def test_without_a_line_the_exit_code_says_it(code: int | None, kind: FailureClass, may_pass: bool) -> None:
    found = failure_of(["", "all is well"], code)
    assert (found.kind, found.may_pass, found.line) == (kind, may_pass, "")


def test_what_differs_from_run_to_run_is_not_in_its_signature() -> None:
    one = signature_of("[pid 4242] NCCL timeout after 1800.5 s at 0x7f3a00 in 9f8e7d6c5b4a3f2e")
    assert one == signature_of("[pid 17] NCCL timeout after 1799.1 s at 0x11 in 0f8e7d6c5b4a3f20")
    assert one != signature_of("[pid 17] NCCL error after 1799.1 s at 0x11 in 0f8e7d6c5b4a3f20")
    assert signature_of("KeyError: 'a'") != signature_of("KeyError: 'b'")


@given(st.lists(st.text(max_size=300), max_size=3), st.none() | st.integers(-64, 255))
def test_anything_may_be_printed(outputs: list[str], code: int | None) -> None:
    assert isinstance(failure_of(outputs, code), Failure)


def test_long_output_of_one_line_takes_no_time() -> None:
    began_s = time.process_time()
    for text in (
        "a" * 16_000_000,
        "[" * 2_000_000,
        "Error " * 1_000_000,
        "0" * 1_000_000,
        ("NCCL " * 200 + "\n") * 1_000,
    ):
        failure_of([text], 1)
    assert time.process_time() - began_s < 3
