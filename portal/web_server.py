"""gunicorn's settings, but for the address (portal/supervisor/services.py)."""

import gc
import signal
from http import HTTPStatus
from typing import Any

from gunicorn.glogging import Logger

from portal.supervisor.processes import end_with_parent

wsgi_app = "portal.wsgi"
worker_class = "portal.web_worker.Worker"
workers = 2
threads = 4
preload_app = True  # the workers share the memory of what is loaded before they fork
graceful_timeout = 5
timeout = 60
accesslog = "-"
control_socket_disable = True  # it would lie in the home folder


class AgentsAside(Logger):
    """Writes down every request but the agents' own that went well: these would be all there is to read."""

    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        """One line of the access log."""
        if not req.path.startswith("/api/v1/agent/") or resp.status_code != HTTPStatus.OK:
            super().access(resp, req, environ, request_time)


logger_class = AgentsAside


def when_ready(_server: Any) -> None:
    """All is loaded, and no worker has been forked yet."""
    spare_the_loaded()


def spare_the_loaded() -> None:
    """Let the garbage collector pass over what is loaded for good, and look less often: pages of many rows make many
    short-lived objects, and each full look over all modules cost them up to a third of their time. It also keeps the
    memory that workers share.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def post_fork(_server: Any, worker: Any) -> None:
    """Let no worker outlive its killed parent and go on holding the port."""
    end_with_parent(worker.ppid, signal.SIGKILL)
