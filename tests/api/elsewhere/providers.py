"""Identity providers for tests, and APIs that take their word."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from tests.api.service import Api, running_api, settings_for

AUDIENCE = "fedaudit-api"
GROUPS = """
analysts: {acme: [experiments:read, experiments:write, reports:read]}
auditors: {acme: [reports:read, reports:sign, ledger:read]}
travellers: {acme: [experiments:read], beta: [experiments:read]}
"""


@dataclass
class Provider:
    """A provider's document and keys over HTTP, and tokens under them."""

    issuer: str
    keys: list[RSAKey] = field(default_factory=lambda: [new_key("first")])
    asked: int = 0
    """How often the keys were read."""

    def token(self, *, key: RSAKey | None = None, alg: str = "RS256", **claims: Any) -> str:
        """A token of Ada's; `claims` replace hers, and None leaves one out."""
        signing = key or self.keys[0]
        made = {**self.claims(), **claims}
        known = {name: value for name, value in made.items() if value is not None}
        header = {"alg": alg, "kid": signing.kid}
        return jwt.encode(header, known, signing, algorithms=[alg])

    def claims(self) -> dict[str, Any]:
        """What a good token says."""
        now = int(time.time())
        return {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "ada-1",
            "name": "Ada Lovelace",
            "groups": ["analysts"],
            "iat": now,
            "exp": now + 300,
        }

    def unsigned(self, alg: str, secret: bytes = b"") -> str:
        """The same without a signature, or with a MAC, as an attacker writes it."""
        parts = [{"alg": alg, "kid": self.keys[0].kid}, self.claims()]
        text = b".".join(_encoded(json.dumps(part).encode()) for part in parts)
        mac = _encoded(hmac.digest(secret, text, hashlib.sha256)) if secret else b""
        return (text + b"." + mac).decode()


def new_key(kid: str) -> RSAKey:
    """A key pair."""
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


def _encoded(value: bytes) -> bytes:
    return base64.urlsafe_b64encode(value).rstrip(b"=")


@contextmanager
def provider() -> Iterator[Provider]:
    """A provider on a free port."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/keys":
                made.asked += 1
                body: Any = KeySet(made.keys).as_dict(private=False)
            else:
                names = ("authorization_endpoint", "token_endpoint")
                places = {name: f"{made.issuer}/{name}" for name in names}
                body = {"issuer": made.issuer, "jwks_uri": f"{made.issuer}/keys", **places}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        made = Provider(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield made
        finally:
            server.shutdown()


def groups_file(folder: Path, text: str = GROUPS) -> Path:
    """The map of groups as a file."""
    path = folder / "groups.yaml"
    path.write_text(text)
    return path


@contextmanager
def api_of(database_url: str, folder: Path, **settings: Any) -> Iterator[Api]:
    """An API with these settings and the map of groups."""
    known = {"groups_map": groups_file(folder), "oidc_client_id": "fedaudit-pages", **settings}
    if "oidc_issuer" not in known:
        del known["oidc_client_id"]
    with running_api(settings_for(database_url, folder, **known)) as api:
        yield api
