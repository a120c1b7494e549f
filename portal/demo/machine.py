"""This machine as a few small nodes with pretend GPUs: what their agents are told (portal/supervisor/services.py)."""

from __future__ import annotations

import json
from pathlib import Path

CLUSTER = "here"
NODES = {"here-1": "left", "here-2": "left", "here-3": "right", "here-4": "right"}
"""The rack of each node."""
GPUS = 4
HEARTBEAT_S = 2


def write_agents(folder: Path) -> None:
    """A file for each node's agent; one that is there stays as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, rack in NODES.items():
        path = folder / f"{name}.json"
        if not path.exists():
            said = {
                "cluster": CLUSTER,
                "node": name,
                "rack": rack,
                "gpus": GPUS,
                "pretend": True,
                "heartbeat_s": HEARTBEAT_S,
            }
            path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
