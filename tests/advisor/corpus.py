"""Programs with a planted defect, and others that come near to it and are clean; written for these tests.

Each is (rule, files, gpus, nodes, marked): where planted, the finding is expected in the line that ends with `# <-`.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

MARK = "# <-"


@dataclass(frozen=True)
class Sample:
    """A program.

    Attributes:
        rule: what it is about.
        name: why it is there.
        unknown: the finding is that it can't be told.
    """

    rule: str
    name: str
    files: dict[str, str]
    gpus: int = 1
    nodes: int | None = None
    is_interactive_pool: bool = False
    unknown: bool = False

    def places(self) -> list[tuple[str, int]]:
        """(file, line) of each mark, in order."""
        return [
            (path, number)
            for path, text in self.files.items()
            for number, line in enumerate(text.split("\n"), 1)
            if line.rstrip().endswith(MARK)
        ]


PLANTED: list[Sample] = []
CLEAN: list[Sample] = []

TRAINS = """
import torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def python(text: str, *, head: str = TRAINS) -> str:
    """A program that trains, with this in it."""
    return head + dedent(text)


def planted(rule: str, name: str, files: str | dict[str, str], **how: object) -> None:
    """A program with the defect in each marked line."""
    PLANTED.append(Sample(rule, name, _files(files), **how))  # type: ignore[arg-type]


def clean(rule: str, name: str, files: str | dict[str, str], **how: object) -> None:
    """A program without it."""
    CLEAN.append(Sample(rule, name, _files(files), **how))  # type: ignore[arg-type]


def _files(files: str | dict[str, str]) -> dict[str, str]:
    if isinstance(files, str):
        return {"train.py": python(files)}
    return {path: dedent(text).lstrip("\n") for path, text in files.items()}
