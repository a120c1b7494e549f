"""The agent of a node: makes so what the portal wants to run here, and reports what really happened.

    python -m scheduler.executors.agent --config FILE --join-token-file FILE [--portal URL ...]

It pulls: a heartbeat carries the facts about its ranks to the portal and brings the desired state back; a call of its
wake-up port makes it ask at once. Desired state is declarative: doing it twice is doing it once. It has no database,
and opens no door but the wake-up port. It needs Python and nothing else; with nvidia-ml-py it knows its GPUs.

    STATE/token              its own token, drawn here; the portal keeps its hash
    STATE/fences.json        epochs, and the newest run of each workload (fences.py)
    STATE/contact.json       when it last reached the portal: minders stop by themselves when that is too long ago
    STATE/ranks/RUN.RANK/    one rank (ranks.py, minder.py)
    STATE/programs/          programs that workloads find by name
    WORK/CODE/               a workload's working directory: it stays from run to run, with what was saved there

One thread decides: it sleeps until its heartbeat is due, somebody calls, or a minder has ended. Beside it are the
minders, saved directories on their way (carrier.py), and commands of the operator's (health.py).
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scheduler.executors import minder
from scheduler.executors.agent_config import Config, Refusal, copy_programs, read_config
from scheduler.executors.base import Cause, DesiredRank, RankFact, RankState
from scheduler.executors.carrier import Carrier
from scheduler.executors.contact import Cut
from scheduler.executors.fences import Fences
from scheduler.executors.health import Health, Repairs
from scheduler.executors.heartbeat import FACTS_MAX, Answer
from scheduler.executors.meter import Meter
from scheduler.executors.minder import NO_ROOM, boottime_s
from scheduler.executors.old_directories import OldDirectories
from scheduler.executors.portal_side import PortalSide
from scheduler.executors.ranks import Rank, reap
from scheduler.executors.reading import Malformed
from scheduler.executors.surroundings import Surroundings
from scheduler.executors.wake_port import WakePort

LONGEST_DELAY_S = 10.0
JITTER = 0.2
STOP_GRACE_S = 20
"""What tied ranks get at most when the agent is told to end."""
PROGRAMS = Path(__file__).parent / "programs"


def say(text: str) -> None:
    """One line in the log; one that cannot be written is no reason to end."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


class Agent:
    """The agent's life."""

    def __init__(self, config: Config) -> None:
        """Take the state folder.

        Raises:
            Refusal: it cannot be used, or another agent does; the wake-up port is taken; there are no such GPUs.
        """
        self.config = config
        self.state = Path(config.state).absolute()
        self.work = Path(config.work).absolute() if config.work else self.state / "work"
        self.ranks: dict[tuple[int, int], Rank] = {}
        self.failures = 0
        self.stopping = False
        self.health = Health(config, self.state, self.work)
        try:
            self._make_folders()
            self.fences = Fences(self.state)
            self.wake_port = None if config.wake_port < 0 else WakePort(config.wake_port, config.wake_address)
            self.portal = PortalSide(config, self.state, self.fences, self.wake_port)
            self.signals, self.wake = os.pipe()
            self.carrier = Carrier(self.portal, self.state, config.archive_max_mib, self.nudge)
        except OSError as error:
            raise Refusal(f"{error.filename or 'wake_port'}: {error.strerror}") from None
        self.surroundings = Surroundings(config, self.state, self.work, self.health.gpus)
        self.repairs = Repairs(config, self.state)
        self.meter = Meter(self.health.gpus, config.sample_every_s)
        self.old = OldDirectories(self.work)
        for descriptor in (self.signals, self.wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_stop)

    def _make_folders(self) -> None:
        self.state.mkdir(mode=0o711, parents=True, exist_ok=True)
        if minder.lock(str(self.state / "lock")) is None:
            raise Refusal(f"{self.state} is in use by another agent")
        (self.state / "ranks").mkdir(mode=0o700, exist_ok=True)
        self.work.mkdir(mode=0o711, parents=True, exist_ok=True)
        for source in (PROGRAMS, self.config.programs):
            if source:
                copy_programs(Path(source), self.state / "programs")

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stopping = True

    def nudge(self) -> None:
        """Look again now; from any thread."""
        with contextlib.suppress(BlockingIOError):
            os.write(self.wake, b"\0")

    # --- the loop -----------------------------------------------------------------------------------------------------

    def live(self) -> None:
        """Until told to end. Ranks stay for the next agent to find; only what is tied to us is stopped."""
        for folder in sorted((self.state / "ranks").iterdir()):
            if (rank := Rank.find(folder)) is not None:
                self.ranks[rank.key] = rank
                rank.look_after()
                rank.watch()
        say(f"node {self.config.node} of cluster {self.config.cluster}: {len(self.ranks)} ranks found")
        while not self.stopping:
            self.beat()
            self.sleep(self.delay_s())
        if self.config.tie:
            self.stop_all()

    def beat(self) -> None:
        """One heartbeat: output, facts, and the desired state made so. Nothing that goes wrong ends the agent."""
        try:
            self.portal.send_output(self.ranks.values())
            self.make_so(self.sync())
            if self.has_news():
                self.make_so(self.sync())  # what has just begun is not kept back until the next one
            self.failures = 0
        except Cut as error:
            self.failures += 1
            if error.status == 401 and self.join():
                self.failures = 0
            else:
                say(f"heartbeat failed: {error}")
        except Malformed as error:
            self.failures += 1
            say(f"the portal's answer is not obeyed: {error}")
        except OSError as error:  # this machine's trouble, such as a full disk: what runs goes on
            self.failures += 1
            say(f"heartbeat failed: {error}")

    def has_news(self) -> bool:
        """Whether some rank's state is not known to the portal."""
        return any(fact is not None and fact.state != rank.reported for rank, fact in self.facts())

    def facts(self) -> list[tuple[Rank, RankFact | None]]:
        """What there is to say of each rank."""
        return [(rank, rank.fact()) for rank in self.ranks.values()]

    def delay_s(self) -> float:
        """Until the next heartbeat: never all agents at once, and less often while it is of no use."""
        beat_s = self.config.heartbeat_s
        plain_s = min(beat_s * 2 ** min(self.failures, 10), max(LONGEST_DELAY_S, beat_s))
        return plain_s * random.uniform(1 - JITTER, 1 + JITTER)

    def sleep(self, delay_s: float) -> None:
        """Until the delay is over, somebody calls, a minder has ended, or a directory has arrived."""
        until_s = boottime_s() + delay_s
        minded = {rank.minded: rank for rank in self.ranks.values() if rank.minded is not None}
        listening = -1 if self.wake_port is None else self.wake_port.fileno()
        poll = select.poll()
        for descriptor in (self.signals, listening, *minded):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        while not self.stopping and (left_s := until_s - boottime_s()) > 0:
            for descriptor, _event in poll.poll(left_s * 1000):
                if descriptor in minded:
                    minded[descriptor].unwatch()
                    return
                if descriptor == self.signals:
                    nudged = 0 in os.read(self.signals, 100)
                    reap()
                    if self.repairs.has_just_ended():
                        self.health.was_repaired()
                        return
                    if nudged:
                        return
                elif self.wake_port is not None and self.wake_port.was_called():
                    return

    def stop_all(self) -> None:
        """The node goes down: every rank gets its grace, short as it may have to be, and the portal is told."""
        limit_s = boottime_s() + STOP_GRACE_S
        for rank in self.ranks.values():
            rank.stop(min(limit_s, boottime_s() + rank.grace_s), Cause.NODE)
        while boottime_s() < limit_s + 1 and any(rank.is_minded() for rank in self.ranks.values()):
            select.select([], [], [], 0.05)
        for rank in self.ranks.values():
            rank.look_after()
        with contextlib.suppress(Cut, Malformed):
            self.portal.send_output(self.ranks.values())
            self.sync()

    # --- the portal ---------------------------------------------------------------------------------------------------

    def join(self) -> bool:
        """Register with the join token; whether the portal took us."""
        try:
            self.portal.join(self.health.devices, self.health.uuids, self.health.gpu_class)
            self.make_so(self.sync())
        except (Cut, Malformed, OSError) as error:
            say(f"cannot join: {error}")
            return False
        say("joined")
        return True

    def sync(self) -> Answer:
        """Send what the portal does not know yet; its answer.

        Raises:
            Cut: nothing is known to have arrived.
            Malformed: the answer is not one; nothing is done with it.
        """
        self.meter.look(self.ranks.values())
        if self.repairs.has_just_ended():
            self.health.was_repaired()
        known = [(rank, fact) for rank, fact in self.facts() if fact is not None and rank.is_news(fact)][:FACTS_MAX]
        # What a rank printed to its end comes before the word of it, also where it began and ended between two looks.
        self.portal.send_output([rank for rank, fact in known if fact.state is not RankState.RUNNING])
        checkpoints = [rank.checkpoint_s for rank, _fact in known]
        reports = [rank.report_s for rank, _fact in known]
        samples = self.meter.samples()
        answer = self.portal.heartbeat(
            facts=[fact for _rank, fact in known],
            problems=self.health.problems(self.ranks.values()),
            samples=samples,
            directories=self.old.to_ask(self.used_directories()),
            **self.repairs.said(),
        )
        self.meter.told(len(samples))
        for (rank, fact), checkpoint_s, report_s in zip(known, checkpoints, reports, strict=True):
            rank.reported, rank.reported_checkpoint_s, rank.reported_report_s = fact.state, checkpoint_s, report_s
        for want in answer.desired:
            ours = self.ranks.get(want.key)
            if ours is not None and not want.began and ours.reported == RankState.RUNNING:
                ours.reported = None  # the portal has forgotten, as after a restored backup
        return answer

    def used_directories(self) -> set[str]:
        """Workloads of which a rank is here."""
        return {rank.workload for rank in self.ranks.values()}

    # --- making it so -------------------------------------------------------------------------------------------------

    def make_so(self, answer: Answer) -> None:
        """Stop what should not run, start what should, once; forget what is over and known and not wanted."""
        wanted = {want.key: want for want in answer.desired}
        now_s = boottime_s()
        for rank in list(self.ranks.values()):
            rank.look_after()
            want = wanted.get(rank.key)
            if want is None and self.is_over(rank):
                rank.forget()
                self.carrier.forget(rank.key)
                del self.ranks[rank.key]
            elif want is None:
                rank.stop(now_s + rank.grace_s, Cause.ASKED)
            elif want.stop_in_s is not None:
                rank.stop(now_s + want.stop_in_s, Cause.ASKED)
        for want in sorted(answer.desired, key=lambda each: each.key):
            if want.key not in self.ranks and not self.is_occupied(want):
                self.start(want)
        if self.repairs.make_so(answer.repair):
            say(f"repair {answer.repair}")
        self.old.remove(answer.removable, self.used_directories() | {want.workload for want in answer.desired})

    def is_over(self, rank: Rank) -> bool:
        """Whether the rank has ended and nothing of it is left to tell, nor to carry."""
        fact = rank.fact()
        known = fact is not None and fact.state != RankState.RUNNING and fact.state == rank.reported
        if not known or fact is None or not (rank.refused_output or not rank.output()):
            return False
        return not fact.saved or self.config.shared_work or self.carrier.send(rank)

    def is_occupied(self, want: DesiredRank) -> bool:
        """Whether another run of the same workload is still here: then this one waits."""
        return any(r.workload == want.workload and r.run != want.run and not r.has_ended() for r in self.ranks.values())

    def start(self, want: DesiredRank) -> None:
        """Start a rank; whatever is in the way is a fact about it.

        Raises:
            OSError: its folder could not be made whole; the next heartbeat tries again.
        """
        over = self.hindrance(want)
        if over is None:
            return
        spec: dict[str, Any] = {
            "run": want.run,
            "rank": want.rank,
            "order": want.order_id,
            "workload": want.workload,
            "grace_s": want.grace_s,
            "devices": want.devices,
            "device_milli": want.device_milli,
            "directory": str(self.work / want.workload),
        }
        if not over:
            try:
                spec |= self.surroundings.specify(want)
            except (OSError, Refusal) as error:
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    raise  # that is the node's trouble, and no fault of the workload's
                over = {"message": str(error)[:300], "state": RankState.FAILED}
        folder = self.state / "ranks" / f"{want.run}.{want.rank}"
        rank = Rank.find(folder) or Rank.make(folder, spec)  # the first removes what was begun and not finished
        if not over:
            self.fences.started(want.workload, want.run)
        self.ranks[rank.key] = rank
        if over:
            rank.kill_marked()
            rank.end(**over)
        else:
            say(want.order_id)
            rank.start()

    def hindrance(self, want: DesiredRank) -> dict[str, Any] | None:
        """What its end is if it must not start; empty if it may; None while its directory is on its way."""
        if want.began:
            return {"message": "the node's agent has lost its record of it"}
        if want.stop_in_s is not None:
            return {"message": "told to stop before it began", "cause": Cause.ASKED}
        if not self.fences.may_start(want.workload, want.run):
            return {"message": "it, or a newer run of its workload, has been started here before"}
        if not want.directory_from or self.config.shared_work:
            return {}
        try:
            uid = self.surroundings.uid_for(want.owner)
            problem = self.carrier.fetch(want, self.surroundings.directory_for(want.workload, uid), uid)
        except (OSError, Refusal) as error:
            problem = str(error)
        if problem is None:
            return None
        return {"message": problem[:300], "state": RankState.FAILED} if problem else {}


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    try:
        Agent(read_config(argv)).live()
    except Refusal as refusal:
        say(f"agent: {refusal}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
