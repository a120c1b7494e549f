"""Invented nodes: what the agents of a simulated cluster would report by an instant. Pure, and no state of its own.

Everything follows from the run's row and the workload's environment, so a restart loses nothing and two drivers say the
same. A workload says how it behaves by these variables, all optional, whole seconds:

    SIM_STARTUP_S       from holding its devices to every rank running
    SIM_DURATION_S      how long it runs in all, over all its runs, until it is done
    SIM_EXIT_DELAY_S    how long it takes to leave after a stop signal, at most the grace; "never" is stuck
    SIM_RESTART_COST_S  work that is lost at each restart
    SIM_EXIT_CODE       what it ends with when it is done
    SIM_ACTIVITY_MILLI  how busy its devices are while it runs, thousandths: what its nodes say they measured

What is not said is drawn from the workload's code: always the same for the same code.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.executors.base import Cause, RankState

STARTUP_S = (5, 30)
DURATION_S = (600, 14_400)
EXIT_DELAY_S = (2, 20)
ACTIVITY_MILLI = (550, 960)
"""Bounds of what is drawn where a workload does not say."""
WAVERS_MILLI = 60
"""By so much an hour's activity may be more or less than the workload's usual."""

STARTUP, DURATION, EXIT_DELAY = "SIM_STARTUP_S", "SIM_DURATION_S", "SIM_EXIT_DELAY_S"
RESTART_COST, EXIT_CODE = "SIM_RESTART_COST_S", "SIM_EXIT_CODE"
ACTIVITY = "SIM_ACTIVITY_MILLI"
NEVER = "never"


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A run on invented nodes, with the instants of its row in whole seconds.

    `progress_s` is what earlier runs did; `number` is 1 for the first run.
    """

    run: int
    number: int
    workload: str
    started_s: int
    running_s: int | None
    stop_asked_s: int | None
    leave_by_s: int | None
    progress_s: int
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Happening:
    """All ranks of a run begin, or have exited, at an instant."""

    at_s: int
    state: RankState
    exit_code: int | None = None
    cause: Cause = Cause.ITSELF


def next_happening(run: SimulatedRun) -> Happening | None:
    """What its nodes will report next, and when; None if nothing ever."""
    gone = _leaves(run)
    if run.running_s is None:
        if run.stop_asked_s is not None:  # it was told to stop while it was starting up
            return gone
        return Happening(run.started_s + _seconds(run, STARTUP, STARTUP_S), RankState.RUNNING)
    done_s = run.running_s + max(0, _seconds(run, DURATION, DURATION_S) - _kept_s(run))
    if gone is None and run.stop_asked_s is not None:  # stuck: it neither leaves nor finishes
        return None if done_s > run.stop_asked_s else _done(run, done_s)
    if gone is not None and run.stop_asked_s is not None and done_s > run.stop_asked_s:
        return gone
    return _done(run, done_s)


def _done(run: SimulatedRun, at_s: int) -> Happening:
    return Happening(at_s, RankState.EXITED, int(run.environment.get(EXIT_CODE, "0")))


def _leaves(run: SimulatedRun) -> Happening | None:
    """Its exit after a stop signal."""
    if run.stop_asked_s is None or run.leave_by_s is None or run.environment.get(EXIT_DELAY) == NEVER:
        return None
    delay_s = _seconds(run, EXIT_DELAY, EXIT_DELAY_S)
    return Happening(min(run.stop_asked_s + delay_s, run.leave_by_s), RankState.EXITED, -15, Cause.ASKED)


def _kept_s(run: SimulatedRun) -> int:
    """Progress of earlier runs that this one did not have to repeat."""
    lost_s = int(run.environment.get(RESTART_COST, "0")) * (run.number - 1)
    return max(0, run.progress_s - lost_s)


def activity_milli(workload: str, environment: Mapping[str, str], hour: int) -> int:
    """How busy the devices of a workload are in an hour (counted from 1970), thousandths.

    It wavers around what the workload says or is drawn, by at most WAVERS_MILLI and a quarter of it.
    """
    said = environment.get(ACTIVITY)
    usual = int(said) if said is not None else _drawn(workload, ACTIVITY, ACTIVITY_MILLI)
    most = min(WAVERS_MILLI, usual // 4)
    return max(0, min(1_000, usual + _drawn(workload, f"{ACTIVITY} {hour}", (-most, most))))


def _seconds(run: SimulatedRun, name: str, bounds: tuple[int, int]) -> int:
    """What the workload says, or what its code is drawn."""
    said = run.environment.get(name)
    return int(said) if said is not None else _drawn(run.workload, name, bounds)


def _drawn(workload: str, name: str, bounds: tuple[int, int]) -> int:
    """From its code: always the same for the same code."""
    low, high = bounds
    return low + zlib.crc32(f"{workload} {name}".encode()) % (high - low + 1)
