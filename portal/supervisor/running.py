"""`./run`: two processes, so that no `kill -9` leaves anything behind.

The front is what the person started; it waits, passes signals on, and is the last to go. The keeper, its only child,
starts and watches the services. Each is a subreaper. If the front is killed, the kernel tells the keeper, which stops
everything; if the keeper is killed, its orphans become the front's, which ends them. Were both killed in one instant,
the services' own death signals would end them.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TextIO

from portal.supervisor.databases import allot, private_services, release
from portal.supervisor.installation import PYTHON, ROOT
from portal.supervisor.place import Place, remove_sockets_dir, write_json
from portal.supervisor.processes import (
    Running,
    Service,
    become_subreaper,
    end_with_parent,
    last_line,
    reap_strangers,
    send,
    start,
    stop,
    sweep,
    wait_ready,
)
from portal.supervisor.refusal import Refusal
from portal.supervisor.services import Installation, Step, portal_environment, services, setup_steps

STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SWEEP_GRACE_S = 3.0
HURRIED_GRACE_S = 0.5
LOOK_EVERY_S = 2.0
FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 30.0
STEADY_AFTER_S = 60.0


class Stop(Exception):
    """Somebody asked us to stop."""


def run(*, data: Path, port: int, with_demo: bool, only_setup: bool) -> int:
    """Run everything until a signal; the exit status.

    Raises:
        Refusal: the port or the data folder is taken, or something does not start.
    """
    if not only_setup:
        check_port(port)
    place = Place.open(data)
    lock = place.lock()
    become_subreaper()
    front_pid = os.getpid()
    keeper_pid = 0
    for number in STOPPING_SIGNALS:
        signal.signal(number, lambda received, _frame: send(keeper_pid, received) if keeper_pid else None)
    sys.stdout.flush()
    keeper_pid = os.fork()
    if keeper_pid == 0:
        os._exit(_keeper_status(front_pid, place, port, with_demo=with_demo, only_setup=only_setup))
    status = _wait_for(keeper_pid)
    sweep(grace_s=SWEEP_GRACE_S)
    remove_sockets_dir(place.running().get("sockets_dir") or "")
    place.running_path.unlink(missing_ok=True)
    os.close(lock)
    return status


def check_port(port: int) -> None:
    """Refuse a port that something listens on already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise Refusal(f"port {port}: {error.strerror}; choose another with --port") from None


def _wait_for(keeper_pid: int) -> int:
    """Wait until the keeper has ended; its exit status, or 1 if it was killed."""
    while True:
        pid, wait_status = os.wait()  # orphans may be ours too
        if pid == keeper_pid:
            status = os.waitstatus_to_exitcode(wait_status)
            return status if status >= 0 else 1


def _keeper_status(front_pid: int, place: Place, port: int, *, with_demo: bool, only_setup: bool) -> int:
    """The keeper's life, from fork to exit status; errors become one line here, since nobody is above us."""
    with contextlib.suppress(OSError):
        os.setsid()  # a Ctrl-C reaches the front alone, which passes it on once
    become_subreaper()
    try:
        keeper = Keeper(place, port)
        end_with_parent(front_pid, signal.SIGTERM)
        keeper.live(with_demo=with_demo, only_setup=only_setup)
        status = 0
    except Refusal as refusal:
        say(f"run: {refusal}", to=sys.stderr)
        status = 2
    except Stop:
        status = 0
    return status


def say(text: str, to: TextIO = sys.stdout) -> None:
    """Print; a terminal that has gone away must not keep us from stopping what runs."""
    with contextlib.suppress(OSError):
        print(text, file=to, flush=True)


class Keeper:
    """Starts the services, starts again what ends by itself, and stops them in reverse order."""

    def __init__(self, place: Place, port: int) -> None:
        self.place, self.port = place, port
        self.running: list[Running] = []
        self.delays_s: dict[str, float] = {}
        self.due: list[tuple[float, Service]] = []
        self.signals = 0
        self._awake, self._wake = os.pipe()
        for descriptor in (self._awake, self._wake):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        for number in STOPPING_SIGNALS:
            signal.signal(number, self._on_stop)

    def _on_stop(self, _number: int, _frame: object) -> None:
        """The first signal unwinds to an orderly stop; a second one, during it, makes it a short one; that is all."""
        self.signals += 1
        if self.signals <= 2:
            raise Stop

    def live(self, *, with_demo: bool, only_setup: bool) -> None:
        """Set up, start, watch; whatever happens, stop what was started."""
        before = self.place.running()
        remove_sockets_dir(before.get("sockets_dir") or "")
        addresses = allot(self.place)
        here = Installation(self.place, addresses, self.port)
        try:
            self._tell(here)
            for service in private_services(self.place, addresses):
                self._start(service)
            for step in setup_steps(with_demo=with_demo):
                self._do(step, here)
            if only_setup:
                say(f"Everything is set up in {self.place.root}.")
                return
            for service in services(here):
                self._start(service)
            self._greet(here)
            while True:
                self._look()
        finally:
            self._stop_all()
            release(addresses)

    def _stop_all(self) -> None:
        """Stop in good order; one more signal meanwhile makes it short."""
        if self.signals:
            say("Stopping ...")
        self.signals = max(self.signals, 1)
        try:
            stop(self.running)
        except Stop:
            stop(self.running, grace_s=HURRIED_GRACE_S)
        sweep(grace_s=SWEEP_GRACE_S)

    def _tell(self, here: Installation) -> None:
        """Write down what `exec` and the next run need to know."""
        write_json(
            self.place.running_path,
            {
                "pid": os.getppid(),
                "port": self.port,
                "sockets_dir": str(here.addresses.sockets_dir or ""),
                "environment": here.addresses.environment,
            },
        )

    def _start(self, service: Service) -> None:
        running = start(service)
        self.running.append(running)
        wait_ready(running)

    def _do(self, step: Step, here: Installation) -> None:
        """Run one step to its end; Refusal with its last words if it fails."""
        say(f"{step.doing} ...")
        running = start(
            Service(
                name=step.name,
                argv=(str(PYTHON), str(ROOT / "manage.py"), *step.arguments),
                environment=portal_environment(here.place, here.addresses, here.port),
                log_path=here.place.log_path(step.name),
                directory=str(ROOT),
            )
        )
        self.running.append(running)
        status = running.process.wait()
        self.running.remove(running)
        if status:
            raise Refusal(f"manage.py {' '.join(step.arguments)} failed: {last_line(running.service)}")

    def _greet(self, here: Installation) -> None:
        say(f"\nAllotment is at {here.url}  (stop with Ctrl-C; logs in {self.place.root / 'log'})")
        if here.logins_path.exists():
            say(f"\n{here.logins_path.read_text(encoding='utf-8').rstrip()}")

    def _look(self) -> None:
        """Wait for a signal or a while; start again what has ended."""
        wait_s = min([LOOK_EVERY_S, *(at_s - time.monotonic() for at_s, _service in self.due)])
        select.select([self._awake], [], [], max(wait_s, 0.0))
        with contextlib.suppress(BlockingIOError):
            os.read(self._awake, 4096)
        for each in [each for each in self.running if each.process.poll() is not None]:
            self.running.remove(each)
            self._start_later(each)
        reap_strangers(self.running)
        now_s = time.monotonic()
        for at_s, service in [entry for entry in self.due if entry[0] <= now_s]:
            self.due.remove((at_s, service))
            self.running.insert(self._position(service), start(service))

    def _position(self, service: Service) -> int:
        """Where a service started again belongs: databases stop last, whenever they were started."""
        return 0 if service.account or service.name in ("postgresql", "valkey") else len(self.running)

    def _start_later(self, ended: Running) -> None:
        """Plan the next start of a service that ended by itself: the oftener it ends, the later."""
        service = ended.service
        steady = time.monotonic() - ended.started_s > STEADY_AFTER_S
        delay_s = (
            FIRST_DELAY_S if steady else min(self.delays_s.get(service.name, FIRST_DELAY_S / 2) * 2, LONGEST_DELAY_S)
        )
        self.delays_s[service.name] = delay_s
        how = f"ended with status {ended.process.returncode}"
        say(f"{service.name} {how}; starting it again in {delay_s:.0f} s (log: {service.log_path})", to=sys.stderr)
        self.due.append((time.monotonic() + delay_s, service))
