"""deploy/nginx.conf in a real nginx, before the portal with its production settings: TLS, limits, what is believed."""

from __future__ import annotations

import datetime
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.conftest import REPOSITORY
from tests.platform.conftest import free_port, wait_until

pytestmark = pytest.mark.long
NAME = "allotment.example.org"
TOKEN = "a-token-that-nobody-guesses"


@dataclass
class Proxy:
    """Where it listens, and the certificate that it shows."""

    http: int
    https: int
    certificate: Path

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Ask over TLS, as a browser that trusts the certificate."""
        context = ssl.create_default_context(cafile=str(self.certificate))
        with socket.create_connection(("127.0.0.1", self.https), timeout=20) as raw:
            secure = context.wrap_socket(raw, server_hostname=NAME)
            connection = http.client.HTTPConnection(NAME)
            connection.sock = secure
            connection.request(method, path, body or None, {"Host": NAME, **headers})
            answer = connection.getresponse()
            said = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            connection.close()
        return answer.status, found, said

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """GET."""
        return self.ask("GET", path, **headers)


def certify(folder: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "fullchain.pem", folder / "privkey.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain, private


def configuration(folder: Path, portal: int, http_port: int, https_port: int) -> Path:
    """deploy/nginx.conf as it is shipped, but for ports, certificate and folders, inside what Debian has around it."""
    text = (REPOSITORY / "deploy" / "nginx.conf").read_text()
    text = re.sub(r"\n    listen \[::\]:[^\n]*", "", text)
    for old, new in (
        ("listen 80;", f"listen 127.0.0.1:{http_port};"),
        ("listen 443 ", f"listen 127.0.0.1:{https_port} "),
        ("127.0.0.1:8000", f"127.0.0.1:{portal}"),
        ("/etc/letsencrypt/live/allotment.example.org", str(folder)),
        ("/var/log/nginx/", f"{folder}/"),
    ):
        assert old in text
        text = text.replace(old, new)
    temporary = "\n".join(
        f"    {kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    path = folder / "nginx.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""
    around = f"{user}daemon off;\npid {folder}/nginx.pid;\nerror_log stderr;\nevents {{}}\n"
    path.write_text(f"{around}http {{\n{temporary}\n{text}\n}}\n")
    return path


@pytest.fixture
def proxy(process_environment: dict[str, str], tmp_path: Path) -> Iterator[Proxy]:
    """nginx before gunicorn, both as they are deployed."""
    nginx = shutil.which("nginx")
    if nginx is None:
        reason = "NO NGINX, so its configuration is not tried: apt-get install nginx-light"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    token = tmp_path / "metrics_token"
    token.write_text(TOKEN)
    chain, _ = certify(tmp_path)
    portal, plain, secure = free_port(), free_port(), free_port()
    environment = {
        **process_environment,
        "ALLOTMENT_DEBUG": "false",
        "ALLOTMENT_URL": f"https://{NAME}",
        "ALLOTMENT_BEHIND_PROXY": "true",
        "ALLOTMENT_HSTS_SUBDOMAINS": "true",
        "ALLOTMENT_DATA_DIR": str(tmp_path / "data"),
        "ALLOTMENT_METRICS_TOKEN_FILE": str(token),
    }
    subprocess.run(
        [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"],
        check=True, env=environment, cwd=REPOSITORY,
    )  # fmt: skip
    gunicorn = [sys.executable, "-m", "gunicorn", "--config", "python:portal.web_server", "--workers", "1"]
    with (tmp_path / "web.log").open("w") as web_log, (tmp_path / "nginx.log").open("w") as nginx_log:
        web = subprocess.Popen(
            [*gunicorn, "--bind", f"127.0.0.1:{portal}"],
            env=environment,
            cwd=REPOSITORY,
            stdout=web_log,
            stderr=web_log,
        )
        front = subprocess.Popen(
            [nginx, "-c", str(configuration(tmp_path, portal, plain, secure)), "-p", str(tmp_path)],
            stdout=nginx_log, stderr=nginx_log,
        )  # fmt: skip
    running = Proxy(plain, secure, chain)

    def answers() -> bool:
        try:
            return running.get("/healthz")[0] == 200
        except OSError:
            return False

    try:
        assert wait_until(answers, within_s=60), (tmp_path / "nginx.log").read_text() + (
            tmp_path / "web.log"
        ).read_text()
        yield running
    finally:
        for process in (front, web):
            process.terminate()
        for process in (front, web):
            process.wait(20)


def test_the_proxy_as_it_is_deployed(proxy: Proxy, tmp_path: Path) -> None:
    """One test, since starting both takes longer than asking them."""
    plain_http_leads_to_tls(proxy)
    headers_and_cookies(proxy)
    only_modern_tls(proxy)
    static_files(proxy)
    agents(proxy)
    sizes(proxy)
    what_is_believed(proxy, tmp_path)
    log_in_is_not_tried_without_end(proxy)


def plain_http_leads_to_tls(proxy: Proxy) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.http, timeout=5)
    connection.request("GET", "/queue/?page=2", headers={"Host": NAME})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Location"]) == (301, f"https://{NAME}/queue/?page=2")
    assert answer.headers["Server"] == "nginx"
    connection.close()


def headers_and_cookies(proxy: Proxy) -> None:
    status, headers, page = proxy.get("/login/")
    assert (status, b"<title>" in page) == (200, True)
    assert headers["strict-transport-security"] == "max-age=2592000; includeSubDomains"
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["server"] == "nginx"
    assert re.fullmatch(r"[0-9a-f]{32}", headers["x-request-id"])
    assert all("Secure" in cookie and "SameSite" in cookie for cookie in headers["set-cookie"].split("csrftoken=")[1:])
    assert proxy.get("/login/", **{"X-Request-ID": "build-4711-a"})[1]["x-request-id"] == "build-4711-a"
    assert proxy.get("/login/", **{"X-Request-ID": "a b"})[1]["x-request-id"] != "a b"
    assert proxy.get("/")[0] == 302


def only_modern_tls(proxy: Proxy) -> None:
    for version, works in ((ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_1, False)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(str(proxy.certificate))
        context.minimum_version = ssl.TLSVersion.TLSv1 if not works else version
        context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")
        with socket.create_connection(("127.0.0.1", proxy.https), timeout=5) as raw:
            if works:
                with context.wrap_socket(raw, server_hostname=NAME) as secure:
                    assert secure.version() == "TLSv1.2"
            else:
                with pytest.raises((ssl.SSLError, OSError)):
                    context.wrap_socket(raw, server_hostname=NAME)


def static_files(proxy: Proxy) -> None:
    _, _, page = proxy.get("/login/")
    (address, *_) = re.findall(rb'href="(/static/[^"]+\.css)"', page)
    status, headers, sheet = proxy.get(address.decode(), **{"Accept-Encoding": "gzip"})
    assert (status, headers["content-type"].split(";")[0]) == (200, "text/css")
    assert "immutable" in headers["cache-control"]
    assert (headers["content-encoding"], sheet[:2]) == ("gzip", b"\x1f\x8b")
    assert re.search(rb"\.[0-9a-f]{12}\.css$", address)


def agents(proxy: Proxy) -> None:
    assert proxy.get("/api/v1/agent/listening")[0] == 200
    status, _, _ = proxy.ask("POST", "/api/v1/agent/sync", b"{}", **{"Content-Type": "application/json"})
    assert status == 400  # the portal's own answer to what is not in its form
    status, _, _ = proxy.ask("POST", "/api/v1/agent/sync", b"x" * 11_000_000)
    assert status in (400, 413)  # it came through to the portal, which has its own bounds


def sizes(proxy: Proxy) -> None:
    status, headers, _ = proxy.ask("POST", "/imports/", b"x" * 12_600_000)
    assert (status, headers["server"]) == (413, "nginx")


def what_is_believed(proxy: Proxy, folder: Path) -> None:
    assert proxy.get("/metrics")[0] == 403
    for lie in ("127.0.0.1", "::1"):
        assert proxy.get("/metrics", **{"X-Forwarded-For": lie, "X-Real-IP": lie, "Forwarded": f"for={lie}"})[0] == 403
    status, _, figures = proxy.get("/metrics", Authorization=f"Bearer {TOKEN}")
    assert (status, b"allotment_scrape_success" in figures) == (200, True)
    assert proxy.get("/readyz?only=database,migrations")[2] == b"ready\n"
    detail = json.loads(proxy.get("/readyz?only=database", Authorization=f"Bearer {TOKEN}")[2])
    assert detail["checks"]["database"]["ok"] is True
    assert proxy.get("/login/", **{"X-Forwarded-Proto": "http"})[0] == 200  # else it would lead to itself for ever
    lines = (folder / "allotment.log").read_text()
    assert "id=build-4711-a" in lines
    assert "/api/v1/agent/" not in lines
    assert "build-4711-a" in (folder / "web.log").read_text()


def log_in_is_not_tried_without_end(proxy: Proxy) -> None:
    found = [proxy.get("/login/")[0] for _ in range(40)]
    assert found[0] in (200, 429)
    assert 429 in found
    assert proxy.get("/healthz")[0] == 200
