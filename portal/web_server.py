"""gunicorn's settings, but for the address (portal/supervisor/services.py)."""

import gc
import logging.config
import os
import signal
from typing import Any

from django.conf import settings
from gunicorn.glogging import Logger

from portal.loaded import load_pages
from portal.supervisor.processes import end_with_parent

wsgi_app = "portal.wsgi"
worker_class = "portal.web_worker.Worker"
workers = 2
threads = 4
preload_app = True  # the workers share the memory of what is loaded before they fork
graceful_timeout = 5
timeout = 60
control_socket_disable = True  # it would lie in the home folder


class InOurLog(Logger):
    """Has the server's own lines look as all others; requests have theirs from portal/logs_requests.py."""

    def setup(self, cfg: Any) -> None:
        """Hand everything to the log of the settings."""
        super().setup(cfg)
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
        logging.config.dictConfig(settings.LOGGING)
        for each in (self.error_log, self.access_log):
            each.handlers.clear()
            each.propagate = True


logger_class = InOurLog


def when_ready(_server: Any) -> None:
    """No worker has been forked yet."""
    load_pages()
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
