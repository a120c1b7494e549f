"""The product's settings with what a test run needs: databases of its own, plain static files, quick passwords.

The addresses of the databases are fixed here, in the environment, so that processes which tests start find them too;
the servers behind them are started when the first test asks for a database (tests/conftest.py).
"""

import os
import tempfile
from pathlib import Path

from portal.supervisor.databases import allot
from portal.supervisor.place import Place

WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
"""Which of several processes that share the tests this is; each has databases of its own."""

if "ALLOTMENT_TEST_DIR" not in os.environ or os.environ.get("ALLOTMENT_TEST_WORKER") != WORKER:
    TEST_DIR = Path(tempfile.mkdtemp(prefix="allotment-test-", dir="/tmp"))
    TEST_DIR.chmod(0o711)  # the servers' account has its folders inside
    if "ALLOTMENT_TEST_DIR" in os.environ:  # these are of the process that shares out the tests
        del os.environ["DATABASE_URL"], os.environ["REDIS_URL"]
    ADDRESSES = allot(Place.open(TEST_DIR))
    os.environ.update(ADDRESSES.environment)
    os.environ.update(
        ALLOTMENT_TEST_DIR=str(TEST_DIR),
        ALLOTMENT_TEST_WORKER=WORKER,
        ALLOTMENT_DATA_DIR=str(TEST_DIR),
        ALLOTMENT_AGENT_TOKEN_FILE=str(Place.open(TEST_DIR).secret_path("agent_token")),
        ALLOTMENT_ANY_COMMANDS="true",
        SECRET_KEY_FILE=str(Place.open(TEST_DIR).secret_path("secret_key")),
        DJANGO_ALLOW_ASYNC_UNSAFE="true",  # Playwright's synchronous calls run inside an event loop of their own
    )
    (TEST_DIR / "static").mkdir()

from portal.settings import *

# Threads of the live server come and go with each test; connections of their own end with them.
DATABASES["default"].get("OPTIONS", {}).pop("pool", None)
DATABASES["default"]["ENGINE"] = "tests.postgresql"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
