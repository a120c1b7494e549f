"""The agent's side of the wire: its token, joining, heartbeats, output. What goes wrong is `Cut` or `Malformed`."""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scheduler.executors.agent_config import Config
from scheduler.executors.contact import Cut, post
from scheduler.executors.fences import Fences
from scheduler.executors.heartbeat import Answer, Sync
from scheduler.executors.minder import boot_id, boottime_s, rewrite_json
from scheduler.executors.ranks import Rank
from scheduler.executors.reading import Malformed
from scheduler.executors.wake_port import WakePort


class PortalSide:
    """How the agent speaks with the portal.

    Attributes:
        fence_s: after how long without an answer ranks stop by themselves, as the portal's policy says.
    """

    def __init__(self, config: Config, state: Path, fences: Fences, wake_port: WakePort | None) -> None:
        """Draw our own token at the first start.

        Raises:
            OSError: it can be neither read nor written.
        """
        self._config, self._state, self._fences, self._wake_port = config, state, fences, wake_port
        self._url = config.portal.rstrip("/") + "/api/v1/agent/"
        self._token = _own_token(state / "token")
        self.fence_s: int | None = None

    def post(self, name: str, **content: Any) -> dict[str, Any]:
        """Say something as this node.

        Raises:
            Cut: no answer, or not a good one.
        """
        return post(
            self._url + name, self._token, {"cluster": self._config.cluster, "node": self._config.node, **content}
        )

    def join(self, devices: int, uuids: list[str], gpu_class: str = "") -> None:
        """Register with the join token; the same again is registering once.

        Raises:
            Cut: the portal did not take us. OSError: there is no join token.
        """
        config = self._config
        offer = {
            "cluster": config.cluster,
            "node": config.node,
            "token": self._token,
            "devices": devices,
            "uuids": uuids,
            "rack": config.rack,
            "rail": config.rail,
            "leaf": config.leaf,
            "memory_mib": config.memory_mib,
            "cpu_milli": config.cpu_milli,
            "epoch": self._fences.epoch,
        }
        if kind := config.gpu_class or gpu_class:  # a portal of before does not know the field
            offer["gpu_class"] = kind
        join_token = Path(config.join_token_file).read_text(encoding="utf-8").strip()
        post(self._url + "register", join_token, offer)

    def heartbeat(self, **said: Any) -> Answer:
        """Say what there is to say (the fields of `Sync`); the answer.

        Raises:
            Cut: nothing is known to have arrived.
            Malformed: the answer is not one, or that of a portal of the past: nothing is done with it.
        """
        port = self._wake_port
        heartbeat = Sync(
            cluster=self._config.cluster,
            node=self._config.node,
            wake_port=None if port is None else port.number,
            wake_secret="" if port is None else port.secret,
            wake_address="" if port is None or port.address == "127.0.0.1" else port.address,
            epoch=self._fences.epoch,
            **said,
        )
        sent_s = boottime_s()
        answer = Answer.read(post(self._url + "sync", self._token, heartbeat.write()))
        if self._fences.is_past(answer.epoch):
            raise Malformed("epoch", f"{answer.epoch} is a portal's that was replaced by {self._fences.portal_epoch}")
        self.fence_s = answer.self_fence_s
        contact = {"boot": boot_id(), "at_s": sent_s, "fence_s": answer.self_fence_s}
        with contextlib.suppress(OSError):  # of a full disk: what the portal said holds all the same
            rewrite_json(str(self._state / "contact.json"), contact)
        return answer

    def send_output(self, ranks: Iterable[Rank]) -> None:
        """Send what ranks have printed since; the portal says from where on it wants it.

        Raises:
            Cut: it was not reached. What it refuses is not sent again, and no reason to keep facts back.
        """
        for rank in ranks:
            while not rank.refused_output and (data := rank.output()):
                text = base64.b64encode(data).decode()
                try:
                    wanted = self.post("log", run=rank.run, rank=rank.index, offset=rank.sent_bytes, data=text).get(
                        "next"
                    )
                except Cut as error:
                    if error.status not in (400, 404):
                        raise
                    wanted = None
                if type(wanted) is not int or wanted <= rank.sent_bytes:
                    rank.refused_output = True
                else:
                    rank.sent_bytes = wanted


def _own_token(path: Path) -> str:
    if not path.exists():
        draft = path.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(36))
        draft.replace(path)
    return path.read_text(encoding="utf-8").strip()
