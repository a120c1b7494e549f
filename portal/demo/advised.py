"""Programs of the laboratory's past, so that the advisor's pages have something to show: a few, with usual defects.

How busy the GPUs of these workloads were is invented, and knows nothing of their programs: the page says so.
"""

from __future__ import annotations

from random import Random

from budgets.models import Cluster
from scheduler.models import Workload
from scheduler.services import advice
from scheduler.services.asked import Asked

READ = 120
"""Of the latest workloads of each cluster, so many were submitted with their program."""

HEAD = """\
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from model import Net, Data

model = DistributedDataParallel(Net().cuda())
"""
LOADER = "loader = DataLoader(Data(), batch_size={batch}, num_workers={workers}, pin_memory={pinned})\n"
LOOP = """\
for epoch in range(90):
    for step, (x, y) in enumerate(loader):
        loss = model(x.to("cuda", non_blocking=True), y)
        loss.backward()
        optimizer.step()
"""
LOGGED = '        print(f"{step} {loss.item():.4f}")\n'
SAVED_OFTEN = '        torch.save(model.state_dict(), "last.pt")\n'
SAVED = '    torch.save(model.state_dict(), "last.pt")\n'
MODEL = "import torch\n\n\nclass Net(torch.nn.Module): ...\n\n\nclass Data(torch.utils.data.Dataset): ...\n"


def program(chance: Random) -> dict[str, str]:
    """One of them, each defect by its own chance."""
    loader = LOADER.format(
        batch=chance.choice((4, 64, 256)), workers=chance.choice((0, 4, 8)), pinned=chance.random() < 0.7
    )
    loop = LOOP + (LOGGED if chance.random() < 0.3 else "") + (SAVED_OFTEN if chance.random() < 0.2 else "") + SAVED
    return {"train.py": HEAD + loader + loop, "model.py": MODEL}


def read(cluster: Cluster, chance: Random) -> int:
    """Have the advisor read what was submitted on a cluster; of how many workloads."""
    rows = Workload.objects.filter(cluster=cluster, owner__isnull=False, advice=None).exclude(state="refused")
    latest = list(rows.select_related("leaf", "owner").order_by("-submitted_at", "-pk")[:READ])
    for row in latest:
        asked = Asked(
            cluster=cluster,
            leaf=row.leaf,
            owner=row.owner,
            size_milli=row.size_milli,
            min_runtime_s=row.min_runtime_s,
            command=["torchrun", "--nproc_per_node=gpu", "train.py"],
            program=program(chance),
        )
        advice.keep_with(row, advice.look(asked))
    return len(latest)
