"""Each rule finds its planted defects, in their lines, and nothing where a program only comes near to one."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduler.advisor import Finding, Severity, advise, catalogue
from tests.advisor import samples_holding, samples_loading, samples_writing  # noqa: F401  (they fill the corpus)
from tests.advisor.corpus import CLEAN, PLANTED, Sample


def found(sample: Sample) -> list[Finding]:
    """What the sample's rule says of it."""
    findings = advise(
        sample.files, gpus=sample.gpus, nodes=sample.nodes, is_interactive_pool=sample.is_interactive_pool
    )
    return [each for each in findings if each.rule == sample.rule]


def named(sample: Sample) -> str:
    return f"{sample.rule}: {sample.name}"


@pytest.mark.parametrize("sample", PLANTED, ids=named)
def test_a_planted_defect_is_found_where_it_is(sample: Sample) -> None:
    findings = found(sample)
    assert sorted((each.file, each.line) for each in findings) == sorted(sample.places())
    assert {each.severity is Severity.UNKNOWN for each in findings} == {sample.unknown}
    for each in findings:
        assert each.evidence == " ".join(sample.files[each.file].split("\n")[each.line - 1].split())
        assert each.what
        assert each.fix


@pytest.mark.parametrize("sample", CLEAN, ids=named)
def test_what_only_comes_near_is_clean(sample: Sample) -> None:
    assert found(sample) == []


def test_every_rule_has_at_least_two_of_each() -> None:
    planted, clean = Counter(each.rule for each in PLANTED), Counter(each.rule for each in CLEAN)
    assert {rule.code: (planted[rule.code] >= 2, clean[rule.code] >= 2) for rule in catalogue()} == {
        rule.code: (True, True) for rule in catalogue()
    }
    assert set(planted) | set(clean) == {rule.code for rule in catalogue()}


def test_the_severities_are_those_of_the_catalogue() -> None:
    of = {rule.code: rule.severity for rule in catalogue()}
    told = {each.rule: each.severity for sample in PLANTED if not sample.unknown for each in found(sample)}
    assert told == {code: of[code] for code in told}
    assert set(of) - set(told) == {"READ"}


def test_a_good_program_has_no_findings_at_all() -> None:
    train = """
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from lab.data import Pictures

model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(Pictures("/tmp/data"), batch_size=256, num_workers=8, pin_memory=True, persistent_workers=True)
for epoch in range(10):
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(step, loss.item())
    torch.save(model.state_dict(), f"/tmp/epoch-{epoch}.pt")
"""
    data = """
from PIL import Image

class Pictures:
    def __init__(self, root):
        self.root = root

    def __getitem__(self, index):
        return Image.open(f"{self.root}/{index}.png")
"""
    run = "#!/bin/bash\n#SBATCH --gpus=8\nset -e\ncp -r /mnt/data /tmp/data\ntorchrun --nproc_per_node=8 train.py\n"
    assert advise({"train.py": train, "lab/data.py": data, "run.sh": run}, gpus=8) == []
