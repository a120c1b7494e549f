"""Django's settings. Everything that differs between installations comes from the environment (docs/settings.md).

They import without any environment at all, for the commands that work on files alone.
"""

import secrets
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import environ
from csp.constants import NONE, SELF, UNSAFE_INLINE
from django.core.exceptions import ImproperlyConfigured
from kombu import Queue

from portal.settings_operations import operations_settings
from portal.settings_signing import BACKENDS, PASSWORD_VALIDATORS, signing

env = environ.Env()
BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.str("ALLOTMENT_DATA_DIR", default=str(BASE_DIR / "data")))
"""The folder of everything that is written outside the database."""

SEALING_KEY_MIN_CHARS = 32
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


def secret(name: str) -> str:
    """The secret in variable NAME, or in the file that NAME_FILE names; empty where neither is set."""
    path = env.str(f"{name}_FILE", default="")
    if not path:
        return env.str(name, default="")
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE: cannot read {path}: {error.strerror}") from None


# --- Who we are -------------------------------------------------------------------------------------------------------

URL = env.str("ALLOTMENT_URL", default="http://127.0.0.1:8000").rstrip("/")
"""The address people type, without a path. Hosts, origins and the safety of cookies follow from it."""

_address = urlsplit(URL)
if _address.scheme not in ("http", "https") or not _address.hostname:
    raise ImproperlyConfigured(f"ALLOTMENT_URL: {URL!r} is not an address such as https://allotment.example.org")
IS_LOCAL = _address.scheme == "http" and _address.hostname in LOOPBACK_HOSTS

DEBUG = env.bool("ALLOTMENT_DEBUG", default=False)
SECRET_KEY = secret("SECRET_KEY")
HAS_LASTING_SECRET_KEY = bool(SECRET_KEY)
"""Whether sessions outlive this process; the web process refuses to start without (see wsgi.py)."""
SECRET_KEY = SECRET_KEY or secrets.token_urlsafe(50)
SEALING_KEYS = secret("ALLOTMENT_SEALING_KEYS").split()
"""The first seals what the database keeps of secrets, every one opens it (budgets/sealing.py). What was sealed while
there was none but SECRET_KEY is opened by that."""
if any(len(each) < SEALING_KEY_MIN_CHARS for each in SEALING_KEYS):
    raise ImproperlyConfigured(f"ALLOTMENT_SEALING_KEYS: each must have {SEALING_KEY_MIN_CHARS} characters or more")
SEALING_KEYS = [*SEALING_KEYS, SECRET_KEY] if HAS_LASTING_SECRET_KEY else SEALING_KEYS
AGENT_TOKEN = secret("ALLOTMENT_AGENT_TOKEN")
"""What a node's agent shows to join; empty means that no agent can join."""

ANY_COMMANDS = env.bool("ALLOTMENT_ANY_COMMANDS", default=False)
"""Whether members may run commands of their own. Only where the nodes' agents are root, and so make every owner's
workloads a Unix user of their own; elsewhere that takes an operator's right."""
OPEN_PROGRAMS = sorted(
    path.stem.replace("_", "-") for path in (BASE_DIR / "portal" / "demo" / "programs").glob("demo_*.py")
)
"""The demo's own programs, harmless with any arguments: every member may run them."""

ALLOWED_HOSTS = [*env.list("ALLOTMENT_HOSTS", default=[]), _address.hostname]
if IS_LOCAL:
    ALLOWED_HOSTS = [*ALLOWED_HOSTS, *LOOPBACK_HOSTS, "[::1]"]
CSRF_TRUSTED_ORIGINS = [f"{_address.scheme}://{_address.netloc}"]

# --- Parts ------------------------------------------------------------------------------------------------------------

ROOT_URLCONF = "portal.urls"
WSGI_APPLICATION = "portal.wsgi.application"
AUTH_USER_MODEL = "budgets.Person"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "rest_framework",
    "drf_spectacular",
    "django_filters",
    "django_htmx",
    "rules",
    "csp",
    "budgets",
    "scheduler",
    "portal",
]

MIDDLEWARE = [
    "portal.logs_requests.RequestLog",
    "portal.headers.guard",
    "portal.probes.answered_first",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "portal.outages.answer_in_trouble",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "portal.session_ages.end_old_sessions",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.languages.LanguageMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.addresses.refuse_strange",
]

FORM_RENDERER = "portal.forms.renderer.FormRenderer"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

# --- Database ---------------------------------------------------------------------------------------------------------

CONNECTIONS_PER_PROCESS = 6
"""The pool's bound: a web process has four threads, a worker's child one; the private server takes 60 in all."""


NOTICE_A_LOST_SERVER = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""A machine that vanished closes no connection: then nothing is waited for longer than this (s; the last in ms)."""


def database() -> dict:
    """The connection that DATABASE_URL names: PostgreSQL, or none at all."""
    url = secret("DATABASE_URL")
    if not url:
        return {"ENGINE": "portal.no_database"}
    named = env.db_url_config(url)
    if named["ENGINE"] != "django.db.backends.postgresql":
        raise ImproperlyConfigured(
            "DATABASE_URL: only PostgreSQL is supported (postgres://user:password@host:port/name)"
        )
    # While the server is away nobody waits long, and as soon as it is back it is found: at its defaults the pool tries
    # again ever more seldom.
    pool = {
        "min_size": 0,
        "max_size": CONNECTIONS_PER_PROCESS,
        "timeout": 5,
        "reconnect_timeout": 1,
        "max_idle": 60,
    }
    options = {**NOTICE_A_LOST_SERVER, **named.get("OPTIONS", {}), "pool": pool}
    host = unquote(named["HOST"])  # the folder of a unix socket is written %2Frun%2F...
    return {**named, "HOST": host, "OPTIONS": options, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True}


DATABASES = {"default": database()}

# --- Time -------------------------------------------------------------------------------------------------------------

USE_TZ = True
TIME_ZONE = env.str("ALLOTMENT_TIME_ZONE", default="UTC")
"""The organisation's time zone: its days are the days of shares. Stored instants are UTC."""
try:
    ZoneInfo(TIME_ZONE)
except (ZoneInfoNotFoundError, ValueError, OSError):
    raise ImproperlyConfigured(f"ALLOTMENT_TIME_ZONE: {TIME_ZONE!r} is not a time zone such as Europe/Berlin") from None

# --- Languages --------------------------------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("es", "Español")]
"""Each by its own name. The words of `es` are in locale/; `manage.py translations` keeps them."""
USE_I18N = True
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["portal.locale_formats"]
LANGUAGE_COOKIE_NAME = "language"
LANGUAGE_COOKIE_AGE = int(timedelta(days=365).total_seconds())
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_SECURE = not IS_LOCAL

# --- Broker -----------------------------------------------------------------------------------------------------------

REDIS_URL = secret("REDIS_URL")


def broker_url(redis_url: str) -> str:
    """REDIS_URL in Celery's spelling: a unix socket is `redis+socket` there, and its database `virtual_host`."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={database}"


CELERY_BROKER_URL = broker_url(REDIS_URL)
TICKS = "ticks"
"""Ticks have a queue of their own, of which a worker takes in turn with the other: a storm of wake-ups, or work that
can wait, would else stand before them until they expire, and passes would be late."""
CELERY_TASK_QUEUES = [Queue("celery"), Queue(TICKS)]
"""What a worker takes that is told of no queues."""
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_TIME_LIMIT = 60
CELERY_TASK_SOFT_TIME_LIMIT = 50
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 2.0
CELERY_WORKER_ENABLE_SOFT_SHUTDOWN_ON_IDLE = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A task whose worker was killed comes back when the visibility timeout is over, looked for every 2 s (at the defaults
# after an hour, every 100 s). That timeout stays above the longest task, or one that is merely slow would run twice at
# once. A pass waits for neither: the next tick, a second later, finds it undone.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 75,
    "unacked_restore_interval": 2,
    "unacked_restore_throttle": 1,
    "socket_timeout": 5,
    "socket_connect_timeout": 2,
    # A message that cannot be sent is given up at once (portal/celery.py says how often a worker tries again).
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0.2,
    "interval_max": 0.2,
}
# A wake-up that cannot be sent must not hold up the request that caused it: the next tick does the same work.
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2}

# --- Messages ---------------------------------------------------------------------------------------------------------


def mail_server(url: str) -> dict:
    """Django's settings of the mail server that `url` names; nothing is sent where it names none."""
    if not url:
        return {"EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
    ports = {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}
    try:
        parts = urlsplit(url)
        port = parts.port or ports.get(parts.scheme)
    except ValueError:
        parts, port = urlsplit(""), None
    if port is None or parts.scheme not in ports or not parts.hostname:
        raise ImproperlyConfigured(
            "ALLOTMENT_EMAIL_URL: must be smtp+tls://user:password@host:port, or smtp+ssl:// or smtp:// in its place"
        )
    return {**env.email_url_config(url), "EMAIL_PORT": port}


_mail = mail_server(secret("ALLOTMENT_EMAIL_URL"))
HAS_MAIL_SERVER = "EMAIL_HOST" in _mail
"""Whether messages are sent by e-mail at all; without, they stand on the portal, which says so."""
EMAIL_BACKEND = _mail["EMAIL_BACKEND"]
EMAIL_HOST = _mail.get("EMAIL_HOST", "")
EMAIL_PORT = _mail.get("EMAIL_PORT", 25)
EMAIL_HOST_USER = _mail.get("EMAIL_HOST_USER") or ""
EMAIL_HOST_PASSWORD = _mail.get("EMAIL_HOST_PASSWORD") or ""
EMAIL_USE_TLS = bool(_mail.get("EMAIL_USE_TLS"))
EMAIL_USE_SSL = bool(_mail.get("EMAIL_USE_SSL"))
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.str("ALLOTMENT_EMAIL_FROM", default=f"Allotment <allotment@{_address.hostname}>")
DIGEST_HOUR = env.int("ALLOTMENT_DIGEST_HOUR", default=8)
"""The hour of the organisation's day at which daily digests are made."""
if not 0 <= DIGEST_HOUR <= 23:
    raise ImproperlyConfigured(f"ALLOTMENT_DIGEST_HOUR: {DIGEST_HOUR} is not an hour from 0 to 23")
try:
    WEBHOOK_NETWORKS = [ip_network(each) for each in env.list("ALLOTMENT_WEBHOOK_NETWORKS", default=[])]
    """Networks that are not public and that people's webhooks may be in all the same."""
except ValueError as error:
    raise ImproperlyConfigured(f"ALLOTMENT_WEBHOOK_NETWORKS: {error}") from None

# --- Nodes ------------------------------------------------------------------------------------------------------------

try:
    AGENT_NETWORKS = [ip_network(each) for each in env.list("ALLOTMENT_AGENT_NETWORKS", default=[])]
    """Networks of nodes: the portal calls an agent's wake-up port there, if the agent names an address in one."""
except ValueError as error:
    raise ImproperlyConfigured(f"ALLOTMENT_AGENT_NETWORKS: {error}") from None
REPAIR_PROGRAMS = env.list("ALLOTMENT_REPAIR_PROGRAMS", default=[])
"""Programs, by their paths, that operators may name on a page as repair hooks: workers run them beside our secrets."""
DIRECTORY_DAYS = env.int("ALLOTMENT_DIRECTORY_DAYS", default=30)
"""A workload's working directory is removed from nodes so many days after it has ended; 0 is never."""
DIRECTORY_MAX_MIB = env.int("ALLOTMENT_DIRECTORY_MAX_MIB", default=1_024)
"""The largest archive of a session's working directory that the portal takes."""

# --- Signing in -------------------------------------------------------------------------------------------------------

LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
CSRF_FAILURE_VIEW = "portal.views.errors.expired_form"
AUTHENTICATION_BACKENDS = BACKENDS
AUTH_PASSWORD_VALIDATORS = PASSWORD_VALIDATORS
_signing = signing(env, secret)
SESSION_COOKIE_AGE, SESSION_IDLE_S = _signing.session_s, _signing.session_idle_s
TOKEN_MAX_DAYS, HAS_PASSWORDS, OPEN_ID = _signing.token_max_days, _signing.has_passwords, _signing.open_id

# --- Safety -----------------------------------------------------------------------------------------------------------

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not IS_LOCAL
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SECURE_HSTS_SECONDS = int(timedelta(days=30).total_seconds()) if _address.scheme == "https" else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = env.bool("ALLOTMENT_HSTS_SUBDOMAINS", default=False)
SILENCED_SYSTEM_CHECKS = ["security.W021"]  # browsers' preload lists take whole domains, which are not ours to enter
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
IS_BEHIND_PROXY = env.bool("ALLOTMENT_BEHIND_PROXY", default=False)
if IS_BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = _address.scheme == "https"
    SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$", "^api/v1/agent/"]  # past the proxy, on this machine

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "style-src-attr": [UNSAFE_INLINE],  # charts and bars position their parts by style attributes
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# --- Static files -----------------------------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# --- The API ----------------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 50,
    "DEFAULT_SCHEMA_CLASS": "portal.api.schema.ApiSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Allotment",
    "DESCRIPTION": "Budgets, workloads and the reason for every decision.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_PATCH": False,
    "POSTPROCESSING_HOOKS": ["portal.api.schema.with_conventions"],
}

# --- What operators look at -------------------------------------------------------------------------------------------

_operations = operations_settings(env, secret, is_behind_proxy=IS_BEHIND_PROXY)
LOG_LEVEL: str = _operations["LOG_LEVEL"]
LOGGING: dict = _operations["LOGGING"]
METRICS_TOKEN: str = _operations["METRICS_TOKEN"]
"""What Prometheus shows to read `/metrics` and the details of `/readyz`; empty: nobody is let in by it."""
METRICS_NETWORKS: list = _operations["METRICS_NETWORKS"]
"""Networks from which these are read without it."""
METRICS_BUDGETS: int = _operations["METRICS_BUDGETS"]
"""How many budgets, those nearest the root, have figures of their own there."""
