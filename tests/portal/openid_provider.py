"""An OpenID provider in a process of its own, on loopback: authorization code with PKCE, signed ID tokens, userinfo.

It is as strict as one should be: known clients and addresses, codes that work once, the verifier of the challenge.
Tests tell it who is signed in there, and which lie it tells next (POST /control).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "allotment", "a secret: with/characters%that need + quoting"
REGISTERED = "/login/openid/callback/"


class World:
    """What the provider knows, and how it lies at the moment."""

    def __init__(self) -> None:
        self.issuer = ""
        self.key = new_key()
        self.person: dict[str, Any] = {}
        self.lie = ""
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, dict[str, Any]] = {}


def new_key() -> RSAKey:
    """A signing key with a name of its own."""
    return RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig", "alg": "RS256"})


WORLD = World()


def id_token(nonce: str) -> str:
    """About whoever is signed in, with the lie that was asked for."""
    now, lie = int(time.time()), WORLD.lie
    claims = {
        "iss": WORLD.issuer,
        "aud": CLIENT_ID,
        "iat": now,
        "exp": now + 300,
        "nonce": nonce,
        **{name: value for name, value in WORLD.person.items() if lie != "groups at userinfo" or name != "groups"},
    }
    claims |= {
        "other nonce": {"nonce": "another"},
        "expired": {"iat": now - 900, "exp": now - 600},
        "not yet": {"nbf": now + 600},
        "other issuer": {"iss": "https://elsewhere.example"},
        "other audience": {"aud": "another"},
        "other party": {"aud": [CLIENT_ID, "another"], "azp": "another"},
        "no subject": {"sub": None},
    }.get(lie, {})
    if lie == "no nonce":
        del claims["nonce"]
    if lie == "no expiry":
        del claims["exp"]
    header = {"alg": "RS256", "kid": WORLD.key.kid}
    if lie == "unsigned":
        return f"{plain({'alg': 'none'})}.{plain(claims)}."
    if lie == "signed with the secret":
        return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET))
    if lie == "signed with the public key":
        return by_hand({"alg": "HS256", "kid": WORLD.key.kid}, claims, WORLD.key.as_pem(private=False))
    if lie == "other key":
        return jwt.encode(header, claims, RSAKey.generate_key(2048))
    if lie == "changed":
        head, _, signature = jwt.encode(header, claims, WORLD.key).split(".")
        return f"{head}.{plain({**claims, 'sub': 'somebody else'})}.{signature}"
    return jwt.encode(header, claims, WORLD.key)


def plain(part: dict[str, Any]) -> str:
    """A part of a token."""
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def by_hand(header: dict[str, Any], claims: dict[str, Any], key: bytes) -> str:
    """A token as no library would sign it: with a public key as if it were a shared secret."""
    said = f"{plain(header)}.{plain(claims)}"
    signature = hmac.new(key, said.encode(), hashlib.sha256).digest()
    return f"{said}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


class Provider(BaseHTTPRequestHandler):
    """The provider's addresses."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Description, keys, authorization, userinfo."""
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if WORLD.lie == "away":
            self.give(500, {"error": "away"})
        elif parts.path == "/.well-known/openid-configuration":
            self.give(200, self.description())
        elif parts.path == "/jwks":
            self.give(200, {"keys": [WORLD.key.as_dict(private=False)]})
        elif parts.path == "/authorize":
            self.authorize(asked)
        elif parts.path == "/userinfo":
            self.userinfo()
        else:
            self.give(404, {})

    def do_POST(self) -> None:
        """Tokens, and what tests tell it."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/token":
            self.token({name: values[0] for name, values in parse_qs(body).items()})
        elif self.path == "/control":
            said = json.loads(body)
            WORLD.person, WORLD.lie = said["person"], said["lie"]
            if WORLD.lie == "new key":
                WORLD.key = new_key()
            self.give(200, {})

    def description(self) -> dict[str, Any]:
        """What it says of itself."""
        return {
            "issuer": "https://elsewhere.example" if WORLD.lie == "describes another" else WORLD.issuer,
            "authorization_endpoint": f"{WORLD.issuer}/authorize",
            "token_endpoint": f"{WORLD.issuer}/token",
            "userinfo_endpoint": f"{WORLD.issuer}/userinfo",
            "jwks_uri": f"{WORLD.issuer}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            "code_challenge_methods_supported": ["S256"],
        }

    def authorize(self, asked: dict[str, str]) -> None:
        """Send the browser back with a code; whoever is signed in here has agreed before."""
        wanted = {"client_id": CLIENT_ID, "response_type": "code", "code_challenge_method": "S256"}
        is_known = all(asked.get(name) == value for name, value in wanted.items())
        address = asked.get("redirect_uri", "")
        if not is_known or urlsplit(address).path != REGISTERED or "openid" not in asked.get("scope", "").split():
            self.give(400, {"error": "invalid_request"})
            return
        if WORLD.lie == "no":
            self.send(address, {"error": "access_denied", "state": asked["state"]})
            return
        code = secrets.token_urlsafe(16)
        WORLD.codes[code] = asked
        self.send(address, {"code": code, "state": asked["state"]})

    def token(self, asked: dict[str, str]) -> None:
        """Take a code once, from the client that it was made for and that knows the verifier."""
        made = WORLD.codes.pop(asked.get("code", ""), None)
        digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        shown = self.headers.get("Authorization", "")
        if shown != "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode():
            self.give(401, {"error": "invalid_client"})
        elif made is None or made["redirect_uri"] != asked.get("redirect_uri") or made["code_challenge"] != challenge:
            self.give(400, {"error": "invalid_grant"})
        else:
            access = secrets.token_urlsafe(16)
            WORLD.access[access] = WORLD.person
            self.give(
                200,
                {
                    "access_token": access,
                    "token_type": "Bearer",
                    "expires_in": 300,
                    "id_token": id_token(made.get("nonce", "")),
                },
            )

    def userinfo(self) -> None:
        """What else it knows of somebody."""
        person = WORLD.access.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
        if person is None:
            self.give(401, {"error": "invalid_token"})
        elif WORLD.lie == "somebody else at userinfo":
            self.give(200, {**person, "sub": "another"})
        else:
            self.give(200, person)

    def send(self, address: str, said: dict[str, str]) -> None:
        """302."""
        self.send_response(302)
        self.send_header("Location", f"{address}?{urlencode(said)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def give(self, status: int, body: dict[str, Any]) -> None:
        """JSON."""
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    WORLD.issuer = f"http://127.0.0.1:{server.server_port}"
    sys.stdout.write(WORLD.issuer + "\n")
    sys.stdout.flush()
    server.serve_forever()
