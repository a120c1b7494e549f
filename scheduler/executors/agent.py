"""The agent of a node: makes so what the portal wants to run here, and reports what really happened.

    python -m scheduler.executors.agent --config FILE --join-token-file FILE [--portal URL ...]

It pulls: a heartbeat carries the facts about its ranks to the portal and brings the desired state back; a call of its
wake-up port makes it ask at once. Desired state is declarative: doing it twice is doing it once. It has no database,
and opens no door but the wake-up port.

    STATE/token              its own token, drawn here; the portal keeps its hash
    STATE/contact.json       when it last reached the portal: minders stop by themselves when that is too long ago
    STATE/ranks/RUN.RANK/    one rank (ranks.py, minder.py)
    STATE/programs/          programs that workloads find by name
    WORK/CODE/               a workload's working directory: it stays from run to run, with what was saved there

One thread: it sleeps until its heartbeat is due, somebody calls, or a minder has ended.
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import secrets
import select
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scheduler.executors import minder
from scheduler.executors.agent_config import Config, Refusal, copy_programs, read_config
from scheduler.executors.base import Cause, DesiredRank, Malformed, RankState
from scheduler.executors.contact import Cut, post
from scheduler.executors.heartbeat import FACTS_MAX, Sync
from scheduler.executors.minder import boot_id, boottime_s, write_json
from scheduler.executors.ranks import Rank
from scheduler.executors.surroundings import Surroundings
from scheduler.executors.wake_port import WakePort

LONGEST_DELAY_S = 10.0
JITTER = 0.2
STOP_GRACE_S = 20
"""What tied ranks get at most when the agent is told to end."""
FENCE_S = 3_600
"""Until the portal has said what its policy wants (semantics.md section 7)."""


def say(text: str) -> None:
    """One line in the log."""
    print(text, file=sys.stderr, flush=True)


class Agent:
    """The agent's life."""

    def __init__(self, config: Config) -> None:
        """Take the state folder.

        Raises:
            Refusal: it cannot be used, or another agent does; the wake-up port is taken.
        """
        self.config = config
        self.state = Path(config.state).absolute()
        self.work = Path(config.work).absolute() if config.work else self.state / "work"
        self.url = config.portal.rstrip("/") + "/api/v1/agent/"
        self.surroundings = Surroundings(config, self.state, self.work)
        self.ranks: dict[tuple[int, int], Rank] = {}
        self.fence_s = FENCE_S
        self.failures = 0
        self.stopping = False
        try:
            self._make_folders()
            self.token = self._own_token()
            self.wake_port = None if config.wake_port < 0 else WakePort(config.wake_port)
        except OSError as error:
            raise Refusal(f"{error.filename or 'wake_port'}: {error.strerror}") from None
        self.signals, wake = os.pipe()
        for descriptor in (self.signals, wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_stop)

    def _make_folders(self) -> None:
        self.state.mkdir(mode=0o711, parents=True, exist_ok=True)
        if minder.lock(str(self.state / "lock")) is None:
            raise Refusal(f"{self.state} is in use by another agent")
        (self.state / "ranks").mkdir(mode=0o700, exist_ok=True)
        self.work.mkdir(mode=0o711, parents=True, exist_ok=True)
        if self.config.programs:
            copy_programs(Path(self.config.programs), self.state / "programs")

    def _own_token(self) -> str:
        """Our own token, drawn at the first start: so registering again is registering once."""
        path = self.state / "token"
        if not path.exists():
            draft = path.with_suffix(".new")
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(36))
            draft.replace(path)
        return path.read_text(encoding="utf-8").strip()

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stopping = True

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
            self.send_output()
            self.make_so(self.sync())
            if self.news():
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
            say(f"the portal's answer is malformed: {error}")
        except OSError as error:  # this machine's trouble, such as a full disk: what runs goes on
            self.failures += 1
            say(f"heartbeat failed: {error}")

    def news(self) -> bool:
        """Whether some rank's state is not known to the portal."""
        return any(fact is not None and fact.state != rank.reported for rank, fact in self.facts())

    def facts(self) -> list[tuple[Rank, Any]]:
        """What there is to say of each rank."""
        return [(rank, rank.fact()) for rank in self.ranks.values()]

    def delay_s(self) -> float:
        """Until the next heartbeat: never all agents at once, and less often while it is of no use."""
        beat_s = self.config.heartbeat_s
        plain_s = min(beat_s * 2 ** min(self.failures, 10), max(LONGEST_DELAY_S, beat_s))
        return plain_s * random.uniform(1 - JITTER, 1 + JITTER)

    def sleep(self, delay_s: float) -> None:
        """Until the delay is over, somebody calls, or a minder has ended."""
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
                    os.read(self.signals, 100)
                    reap()
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
            self.send_output()
            self.sync()

    # --- the portal ---------------------------------------------------------------------------------------------------

    def join(self) -> bool:
        """Register with the join token; whether the portal took us."""
        config = self.config
        offer = {
            "cluster": config.cluster,
            "node": config.node,
            "token": self.token,
            "devices": config.devices,
            "rack": config.rack,
            "memory_mib": config.memory_mib,
            "cpu_milli": config.cpu_milli,
        }
        try:
            join_token = Path(config.join_token_file).read_text(encoding="utf-8").strip()
            post(self.url + "register", join_token, offer)
            self.make_so(self.sync())
        except (Cut, Malformed, OSError) as error:
            say(f"cannot join: {error}")
            return False
        say("joined")
        return True

    def sync(self) -> list[DesiredRank]:
        """Send the facts that the portal does not know yet; the desired state.

        Raises:
            Cut: nothing is known to have arrived.
            Malformed: the answer is not one; nothing is done with it.
        """
        known = ((rank, fact) for rank, fact in self.facts() if fact is not None and fact.state != rank.reported)
        news = list(known)[:FACTS_MAX]
        heartbeat = Sync(
            cluster=self.config.cluster,
            node=self.config.node,
            facts=[fact for _rank, fact in news],
            wake_port=None if self.wake_port is None else self.wake_port.number,
            wake_secret="" if self.wake_port is None else self.wake_port.secret,
        )
        sent_s = boottime_s()
        answer = post(self.url + "sync", self.token, heartbeat.write())
        desired = answer.get("desired")
        if not isinstance(desired, list):
            raise Malformed("desired", "is not a list")
        read = [DesiredRank.read(each, f"desired[{number}]") for number, each in enumerate(desired)]
        if type(answer.get("self_fence_s")) is int:
            self.fence_s = answer["self_fence_s"]
        contact = {"boot": boot_id(), "at_s": sent_s, "fence_s": self.fence_s}
        write_json(str(self.state / "contact.json"), contact, durable=False)
        for rank, fact in news:
            rank.reported = fact.state
        for want in read:
            ours = self.ranks.get(want.key)
            if ours is not None and not want.began and ours.reported == RankState.RUNNING:
                ours.reported = None  # the portal has forgotten, as after a restored backup
        return read

    def send_output(self) -> None:
        """Send what ranks have printed since; the portal says from where on it wants it.

        Raises:
            Cut: it was not reached. What it refuses is not sent again, and no reason to keep facts back.
        """
        for rank in self.ranks.values():
            while not rank.refused_output and (data := rank.output()):
                chunk = {
                    "cluster": self.config.cluster,
                    "node": self.config.node,
                    "run": rank.run,
                    "rank": rank.index,
                    "offset": rank.sent_bytes,
                    "data": base64.b64encode(data).decode(),
                }
                try:
                    wanted = post(self.url + "log", self.token, chunk).get("next")
                except Cut as error:
                    if error.status not in (400, 404):
                        raise
                    wanted = None
                if type(wanted) is not int or wanted <= rank.sent_bytes:
                    rank.refused_output = True
                else:
                    rank.sent_bytes = wanted

    # --- making it so -------------------------------------------------------------------------------------------------

    def make_so(self, desired: Sequence[DesiredRank]) -> None:
        """Stop what should not run, start what should, once; forget what is over and known and not wanted."""
        wanted = {want.key: want for want in desired}
        now_s = boottime_s()
        for rank in list(self.ranks.values()):
            rank.look_after()
            want = wanted.get(rank.key)
            if want is None and self.is_over(rank):
                rank.forget()
                del self.ranks[rank.key]
            elif want is None:
                rank.stop(now_s + rank.grace_s, Cause.ASKED)
            elif want.stop_in_s is not None:
                rank.stop(now_s + want.stop_in_s, Cause.ASKED)
        for want in sorted(desired, key=lambda each: each.key):
            if want.key not in self.ranks and not self.is_occupied(want):
                self.start(want)

    def is_over(self, rank: Rank) -> bool:
        """Whether the rank has ended and nothing of it is left to tell."""
        fact = rank.fact()
        known = fact is not None and fact.state != RankState.RUNNING and fact.state == rank.reported
        return known and (rank.refused_output or not rank.output())

    def is_occupied(self, want: DesiredRank) -> bool:
        """Whether another run of the same workload is still here: then this one waits."""
        return any(r.workload == want.workload and r.run != want.run and not r.has_ended() for r in self.ranks.values())

    def start(self, want: DesiredRank) -> None:
        """Start a rank; whatever is in the way is a fact about it.

        Raises:
            OSError: its folder could not be made whole; the next heartbeat tries again.
        """
        folder = self.state / "ranks" / f"{want.run}.{want.rank}"
        Rank.find(folder)  # removes what was begun and not finished
        over: dict[str, Any] = {}
        spec: dict[str, Any] = {
            "run": want.run,
            "rank": want.rank,
            "workload": want.workload,
            "grace_s": want.grace_s,
            "directory": str(self.work / want.workload),
        }
        if want.began:
            over = {"message": "the node's agent has lost its record of it"}
        elif want.stop_in_s is not None:
            over = {"message": "told to stop before it began", "cause": Cause.ASKED}
        else:
            try:
                spec |= self.surroundings.specify(want)
            except (OSError, Refusal) as error:
                over = {"message": str(error)[:300], "state": RankState.FAILED}
        rank = Rank.make(folder, spec)
        self.ranks[rank.key] = rank
        if over:
            rank.kill_marked()
            rank.end(**over)
        else:
            rank.start()


def reap() -> None:
    """Collect minders that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


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
