"""Where the portal is and who asks: from the environment, else from a file of one's own that nobody else can read.

The token is a password. It comes from a hidden prompt, a file or the environment, never from an argument (which
`ps` and the shell's history show), and is never printed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from urllib.parse import urlsplit

from allot.failures import NOT_ALLOWED, USAGE, Failure

LOOPBACK = ("localhost", "127.0.0.1", "::1")
MORE_THAN_OWNER = stat.S_IRWXG | stat.S_IRWXO
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Settings:
    """What a command knows of its surroundings.

    Attributes:
        url: the portal's address, without a slash at its end.
        token: who asks.
        cluster, leaf: taken where a command names none.
        ca_file: certificates of authorities to trust in place of the system's.
        plain_http: the token may travel unencrypted to another machine.
        timeout_s: how long one answer may take.
    """

    url: str = ""
    token: str = field(default="", repr=False)
    cluster: str = ""
    leaf: str = ""
    ca_file: str = ""
    plain_http: bool = False
    timeout_s: float = TIMEOUT_S

    def signed_in(self) -> Settings:
        """These, if they say where the portal is and who asks.

        Raises:
            Failure: they do not.
        """
        if not self.url:
            raise Failure("not signed in: run `allot login`, or set ALLOT_URL and ALLOT_TOKEN", NOT_ALLOWED)
        if not self.token:
            raise Failure(f"no token for {self.url}: run `allot login`, or set ALLOT_TOKEN", NOT_ALLOWED)
        return self


def config_path() -> Path:
    """The file: ALLOT_CONFIG, or allot/config.json where the user's settings are (XDG)."""
    named = os.environ.get("ALLOT_CONFIG")
    if named:
        return Path(named).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME", "")
    # XDG: a path that is not absolute is ignored.
    base = Path(home) if os.path.isabs(home) else Path("~/.config").expanduser()
    return base / "allot" / "config.json"


def load() -> Settings:
    """What is in force: the environment over the file.

    Raises:
        Failure: a file that others may read, or that can't be read; a setting that makes no sense.
    """
    settings = stored()
    env = os.environ
    url = env.get("ALLOT_URL", "")
    if url and address(url) != settings.url:
        # Another portal: the stored token, and the names that go with it, are not for that one.
        settings = replace(Settings(), url=address(url), ca_file=settings.ca_file)
    token = env.get("ALLOT_TOKEN", "").strip()
    if not token and env.get("ALLOT_TOKEN_FILE"):
        token = token_in(env["ALLOT_TOKEN_FILE"])
    if token:
        settings = replace(settings, token=checked_token(token))
    settings = replace(
        settings,
        cluster=env.get("ALLOT_CLUSTER") or settings.cluster,
        leaf=env.get("ALLOT_LEAF") or settings.leaf,
        ca_file=env.get("ALLOT_CA_FILE") or settings.ca_file,
    )
    if env.get("ALLOT_PLAIN_HTTP"):
        settings = replace(settings, plain_http=env["ALLOT_PLAIN_HTTP"].lower() not in ("0", "false", "no"))
    settings = replace(settings, timeout_s=_timeout_s(env.get("ALLOT_TIMEOUT", "")))
    check_encrypted(settings)
    return settings


def stored() -> Settings:
    """What the file says; empty settings without one.

    Raises:
        Failure: others may read it, or it can't be read.
    """
    path = config_path()
    try:
        with path.open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & MORE_THAN_OWNER:
                raise Failure(f"others may read {path}, which holds your token: chmod 600 {path}", NOT_ALLOWED)
            said = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return Settings()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", NOT_ALLOWED) from None
    except ValueError:
        raise Failure(f"{path} is damaged: run `allot login` again", USAGE) from None
    known = {each.name: type(each.default) for each in fields(Settings)}
    if not isinstance(said, dict) or any(
        not isinstance(value, known.get(name, object)) for name, value in said.items()
    ):
        raise Failure(f"{path} is damaged: run `allot login` again", USAGE)
    return Settings(**{name: value for name, value in said.items() if name in known})


def store(settings: Settings) -> Path:
    """Write the file in one step, readable by its owner alone. Gives its path.

    Raises:
        Failure: it can't be written.
    """
    path = config_path()
    said = {name: value for name, value in asdict(settings).items() if value and name != "timeout_s"}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # mkstemp makes it 0600, and a reader sees the old file or the new one.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(said, file, indent=2)
                file.write("\n")
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from None
    return path


def address(text: str) -> str:
    """A portal's address as it is kept: scheme, host, port and path, without a slash at its end.

    Raises:
        Failure: it is no http or https address.
    """
    text = text.strip()
    if text and "://" not in text:
        host = text.split("/")[0].rsplit(":", 1)[0]
        text = f"{'http' if host in LOOPBACK else 'https'}://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Failure(f"{text!r} is not the address of a portal, such as https://gpu.example.org", USAGE)
    if parts.username is not None or parts.password is not None:
        raise Failure("the portal's address holds a name or password; a token is all that is needed", USAGE)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/")
    if path.endswith("/api/v1"):
        path = path[: -len("/api/v1")]
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{path}"


def check_encrypted(settings: Settings) -> None:
    """Refuse to send a token through a network in the clear, unless that was said to be wanted.

    Raises:
        Failure: the address is http on another machine.
    """
    parts = urlsplit(settings.url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK and not settings.plain_http:
        raise Failure(
            f"{settings.url} is not encrypted: everybody on the way could read your token. Use https, or, in a network "
            "that you trust, say `allot login --plain-http` or ALLOT_PLAIN_HTTP=1",
            USAGE,
        )


def token_in(path: str) -> str:
    """The token that is a file's only line.

    Raises:
        Failure: it can't be read.
    """
    try:
        with Path(path).expanduser().open(encoding="utf-8", errors="replace") as file:
            return file.read(10_000).strip()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", USAGE) from None


def checked_token(token: str) -> str:
    """The token, if a header can carry it. What is wrong with it is said without showing it.

    Raises:
        Failure: it is empty, or has spaces or other characters that no token has.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Failure("that is not a token: it is one word of letters and digits, as the portal showed it", USAGE)
    return token


def _timeout_s(text: str) -> float:
    try:
        seconds = float(text or TIMEOUT_S)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise Failure(f"ALLOT_TIMEOUT: {text!r} is not a number of seconds", USAGE)
    return seconds
