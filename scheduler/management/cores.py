"""Work spread over this machine's cores, in processes that end with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

from scheduler.management.files import fail

MOST_PROCESSES = 64
Given = TypeVar("Given")
Item = TypeVar("Item")
Found = TypeVar("Found")

_given: list[Any] = []
"""What a process was given when it began."""


def carry_out(
    work: Callable[[Given, Item], Found],
    given: Given,
    items: Sequence[Item],
    on_done: Callable[[Item, int], None],
    processes: int | None = None,
) -> list[Found]:
    """What comes of each item, in the order asked.

    Args:
        work: a function of a module.
        given: handed to each process once.
        items: each one's own.
        on_done: told each that is over, in whatever order, and how many are.
        processes: how many at a time; None: one a core.
    """
    most = min(processes or os.cpu_count() or 1, len(items))
    with ProcessPoolExecutor(max_workers=most, initializer=_remember, initargs=(given,)) as pool:
        futures = {pool.submit(_do, work, item): item for item in items}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                on_done(futures[future], done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        return [future.result() for future in futures]


def check_processes(processes: int | None) -> None:
    """Refuse a number of processes that makes no sense.

    Raises:
        CommandError: names --processes.
    """
    if processes is not None and not 1 <= processes <= MOST_PROCESSES:
        fail("--processes", f"must be from 1 to {MOST_PROCESSES}, but is {processes}")


def _remember(given: Any) -> None:
    _given.append(given)


def _do(work: Callable[[Any, Any], Any], item: Any) -> Any:
    return work(_given[0], item)
