#!/usr/bin/env python3
"""A training run: makes steps, saves what it has now and then and when it is told to stop, goes on where it was."""

import argparse
import json
import math
import os
import signal
import sys
import time

SAVE_EVERY_STEPS = 20
PRINT_EVERY_STEPS = 10


def natural(text: str) -> int:
    """A whole number, 1 or more."""
    return max(1, int(text))


def restore(path: str) -> int:
    """The step that was saved last; 0 at the first start."""
    try:
        with open(path, encoding="utf-8") as file:
            return int(json.load(file)["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def save(path: str, step: int) -> None:
    """Save, whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"step": step, "loss": loss(step)}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def loss(step: int) -> float:
    """A curve such as training draws."""
    return round(0.4 + 3.2 * math.exp(-step / 400) + 0.03 * math.sin(step), 4)


def main() -> int:
    """Train; 0 when all steps are done, 143 when told to stop after saving."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=natural, default=600)
    parser.add_argument("--step-ms", type=natural, default=1_000)
    parser.add_argument("--save-ms", type=natural, default=500, help="how long saving takes at a stop")
    options = parser.parse_args()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    path = f"checkpoint-{rank}.json"
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))

    step = restore(path)
    where = f"rank {rank} of {world} on {os.environ.get('ALLOTMENT_NODE', 'this machine')}"
    devices = os.environ.get("CUDA_VISIBLE_DEVICES") or "none"
    print(f"{where}, devices {devices}: {'resumed' if step else 'began'} at step {step}", flush=True)
    while step < options.steps and not told:
        time.sleep(options.step_ms / 1_000)
        step += 1
        if step % PRINT_EVERY_STEPS == 0 and rank == 0:
            print(f"step {step}/{options.steps} loss {loss(step)}", flush=True)
        if step % SAVE_EVERY_STEPS == 0:
            save(path, step)
    if told:
        print(f"told to stop at step {step}: saving", flush=True)
        time.sleep(options.save_ms / 1_000)
    save(path, step)
    print(f"saved at step {step}", flush=True)
    return 128 + told[0] if told else 0


if __name__ == "__main__":
    sys.exit(main())
