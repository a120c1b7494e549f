"""Whatever is given: one clear finding for what can't be read, nothing is run, soon and in little memory."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.advisor import MAX_FILE_BYTES, MAX_FILES, MAX_PACKAGE_BYTES, Finding, Severity, advise

QUICK = settings(max_examples=60, deadline=None)


def unread(files: dict[str, Any]) -> list[tuple[str, int, str]]:
    """(file, line, what) of what could not be read."""
    findings = [each for each in advise(files, gpus=1) if each.rule == "READ"]
    assert all(each.severity is Severity.UNKNOWN for each in findings)
    return [(each.file, each.line, each.what) for each in findings]


ERROR = "It was not read: it is not Python 3.11, or has an error: "
DEEP = "It was not read: it is nested too deeply, or holds what Python can't."


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        pytest.param("x = 1\ndef f(:\n", 2, f"{ERROR}invalid syntax.", id="an error"),
        pytest.param("def f[T](x: T) -> T: ...\n", 1, f"{ERROR}expected '('.", id="a later Python"),
        pytest.param(
            "print 'x'\n",
            1,
            "It was not read: it is written for another version of Python: Missing parentheses in call to 'print'. "
            "Did you mean print(...)?.",
            id="an earlier Python",
        ),
        pytest.param("x\0y", 0, "It was not read: it is no text.", id="with a zero"),
        pytest.param(b"\x7fELF\xff\xfe", 0, "It was not read: it is no text.", id="bytes"),
        pytest.param("\ud800", 0, "It was not read: it is no text.", id="half a letter"),
        pytest.param("x" * 10_000_000, 0, "It was not read: 10.0 MB; a file may have 0.5 MB.", id="10 MB"),
        pytest.param("x = 1\n" + "1+" * 20_000, 2, "It was not read: this line has 40,000 characters.", id="a line"),
        pytest.param("x = " + "-" * 5_000 + "1", 0, DEEP, id="signs"),
        pytest.param("x = " + "1+" * 9_000 + "1", 0, DEEP, id="a sum"),
        pytest.param("x = (1\n" + "+1\n" * 90_000 + ")", 0, DEEP, id="a sum over lines"),
        pytest.param("x" + ".y" * 9_000, 0, DEEP, id="attributes"),
        pytest.param("f" + "()" * 9_000, 0, DEEP, id="calls"),
        pytest.param("if 1:\n x\n" + "elif 1:\n x\n" * 9_000, 0, DEEP, id="elif"),
    ],
)
def test_what_cant_be_read_is_one_finding(content: str | bytes, line: int, what: str) -> None:
    begun = time.perf_counter()
    assert unread({"train.py": content}) == [("train.py", line, what)]
    assert time.perf_counter() - begun < 2


def test_the_other_files_are_read_all_the_same() -> None:
    good = "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(d, 64)\n"
    findings = advise({"bad.py": "def", "picture.png": b"\x89PNG", "good.py": good}, gpus=1)
    assert [(each.rule, each.file, each.line) for each in findings] == [
        ("HOST_GPU.workers", "good.py", 3),
        ("READ", "bad.py", 1),
        ("READ", "picture.png", 0),
    ]


def test_too_many_files_and_too_much_in_all() -> None:
    many = {f"m{number}.py": "import torch\n" for number in range(MAX_FILES + 5)}
    assert unread(many) == [(f"m{MAX_FILES}.py", 0, f"It and what follows was not read: more than {MAX_FILES} files.")]
    each = "import torch\n" + "# --------\n" * (MAX_FILE_BYTES // 12)
    assert len(each) <= MAX_FILE_BYTES
    large = {f"m{number}.py": each for number in range(1 + MAX_PACKAGE_BYTES // len(each))}
    assert [(path, line) for path, line, _ in unread(large)] == [(list(large)[-1], 0)]


@pytest.mark.parametrize(
    ("gpus", "nodes"), [(-1, None), (True, None), (1.5, None), (float("nan"), None), (8, 0), (8, -1), (8, 1.0)]
)
def test_what_is_no_number_is_refused_by_name(gpus: Any, nodes: Any) -> None:
    with pytest.raises(ValueError, match=r"^(gpus|nodes): .* is no number of "):
        advise({"train.py": ""}, gpus=gpus, nodes=nodes)


def test_nothing_of_it_is_run(tmp_path: Any) -> None:
    mark = tmp_path / "ran"
    python = f"import torch\nopen({str(mark)!r}, 'w').close()\nraise SystemExit(3)\n"
    assert advise({"train.py": python, "run.sh": f"touch {mark}\n$(touch {mark})\n`touch {mark}`\n"}, gpus=1) == []
    assert not mark.exists()


NAMES = st.sampled_from(["train.py", "run.sh", "lab/model.py", "launch", "notes.txt", "x.ipynb"])
PIECES = st.sampled_from(
    [
        "import torch\n",
        "from torch.utils.data import DataLoader as D\n",
        "for x in D(d, **o):\n",
        "    ",
        "loss.backward()\n",
        "while true; do\n",
        "done\n",
        "\\\n",
        "<<END\n",
        "END\n",
        "'",
        '"',
        "`",
        "$X",
        "${X:-1}",
        "N=4 ",
        "torchrun --nproc_per_node=",
        "$N ",
        "sleep 1h\n",
        "time.sleep(1e999)\n",
        "if x % 2: continue\n",
        "def f(x):\n",
        "class A(Trainer):\n",
        "os.environ['CUDA_VISIBLE_DEVICES'] = ",
        "--nnodes ",
        "99999999999999999999 ",
        "&",
        "&&",
        ";",
        "#",
        "x = y\n",
        "y = x\n",
        "x = x + x\n",
        "torch.save(x, ",
        "s3://a",
        "f'{x}'",
        ")",
        "(",
        "print(loss)\n",
        ".to(device)",
        ".item()\n",
        "export ",
        "bash -c ",
        "\x00",
        "�",
        "é",
        "\r\n",
        "\t",
        "lambda: ",
        "*a",
        "**b",
    ]
)


@QUICK
@given(
    files=st.dictionaries(
        NAMES, st.text(max_size=300) | st.binary(max_size=300) | st.lists(PIECES, max_size=40).map("".join)
    ),
    gpus=st.integers(0, 10**6),
    nodes=st.none() | st.integers(1, 10**4),
)  # fmt: skip
@example(files={"run.sh": "torchrun --nproc_per_node='\n"}, gpus=1, nodes=None)
def test_no_text_and_no_bytes_are_too_much(files: dict[str, str | bytes], gpus: int, nodes: int | None) -> None:
    findings = advise(files, gpus=gpus, nodes=nodes)
    for each in findings:
        assert isinstance(each, Finding)
        assert each.file in files
        assert "\n" not in each.what + each.evidence + each.fix
    assert advise(files, gpus=gpus, nodes=nodes) == findings


TRAINING = '''
def step_{n}(batch, device):
    """One step of part {n}."""
    batch = {{key: value.to(device) for key, value in batch.items()}}
    output = model_{n}(**batch)
    loss = output.loss / accumulate
    loss.backward()
    if step % 10 == 0:
        print(f"{{step}} {{loss.item():.3f}}")
    return loss.detach()


def epoch_{n}(loader, device):
    total = 0.0
    for step, batch in enumerate(loader):
        total += step_{n}(batch, device)
        optimizer.step()
        torch.save(model_{n}.state_dict(), os.path.join("/mnt/out", f"{{step}}.pt"))
    return total / len(loader)
'''


def test_five_thousand_lines_take_less_than_a_second() -> None:
    head = "import os\nimport torch\nfrom torch.utils.data import DataLoader\n"
    parts = [TRAINING.format(n=number) for number in range(270)]
    files = {f"lab/part_{index}.py": head + "".join(parts[index::13]) for index in range(13)}
    assert sum(text.count("\n") for text in files.values()) >= 5_000
    begun = time.process_time()
    findings = advise(files, gpus=8, nodes=1)
    assert time.process_time() - begun < 1
    assert {"CKPT.freq", "CKPT.sync", "HOST_GPU.block", "OVERSUB.wrapper"} <= {each.rule for each in findings}


def filled(line: str) -> str:
    """As much of it as one may give in one file."""
    return line * (min(MAX_FILE_BYTES, 150_000) // len(line.encode()))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("a.py", filled("time.sleep(900)\n"), id="sleeps"),
        pytest.param("a.py", "def f(): pass\n" * 5_000 + "f()\n" * 20_000, id="namesakes"),
        pytest.param("a.py", filled("a = D(x)\nos.system('cp a b')\n"), id="commands"),
        pytest.param("a.py", "while 1:\n" + filled(" if a%2: continue\n b.item()\n")[:-99], id="continues"),
        pytest.param("a.py", "".join(f"x{n} = j.join(x{n + 1}, x{n + 1}, x{n + 1})\n" for n in range(9_000))
                     + "torch.save(a, x0)\n", id="constants of constants"),
        pytest.param("a.sh", filled("while true\n"), id="loops"),
        pytest.param("a.sh", filled("cat <<A <<B\n"), id="documents"),
        pytest.param("a.sh", "cat <<A\n" + filled("\n")[:-99], id="blank lines"),
        pytest.param("a.sh", filled("cp a /mnt/local\n") + "'" + "/local" * 9, id="copies"),
        pytest.param("a.sh", filled("N=1 torchrun --nproc_per_node=$N a.py &\n"), id="launches"),
    ],
)  # fmt: skip
def test_no_program_takes_long_or_much(path: str, text: str) -> None:
    begun = time.process_time()
    advise({path: text}, gpus=8)
    assert time.process_time() - begun < 4


def test_tiny_statements_take_no_more_than_two_kilobytes_each_and_their_number_is_bounded() -> None:
    path, line, what = unread({"a.py": "import torch\n", "b.py": "a\n" * 200_000, "c.py": ""})[0]
    assert (path, line) == ("b.py", 0)
    assert what == "It and what follows was not read: the files have more than 100,000 words in all."
    tracemalloc.start()
    try:
        advise({"a.py": "a\n" * 15_000}, gpus=8)
        assert tracemalloc.get_traced_memory()[1] < 15_000 * 2_000
    finally:
        tracemalloc.stop()
