"""An identity provider for tests, tokens under its keys, and APIs that take its word."""

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
from joserfc.jwk import KeySet, OctKey, RSAKey

from tests.api.service import Api, running_api, settings_for

AUDIENCE = "fedaudit-api"
GROUPS = """
analysts: {acme: [experiments:read, experiments:write, reports:read]}
auditors: {acme: [reports:read, reports:sign, ledger:read]}
travellers: {acme: [experiments:read], beta: [experiments:read]}
"""


@dataclass
class Provider:
    """A provider's document and keys over HTTP."""

    issuer: str
    keys: list[RSAKey] = field(default_factory=lambda: [new_key("first")])
    asked: int = 0
    """How often the keys were read."""

    def token(
        self, *, key: RSAKey | OctKey | None = None, alg: str = "RS256", **claims: Any
    ) -> str:
        """A token of Ada's; `claims` replace hers, and None leaves one out."""
        now, signing = int(time.time()), key or self.keys[0]
        hers = {"sub": "ada-1", "name": "Ada Lovelace", "groups": ["analysts"]}
        made = {"iss": self.issuer, "aud": AUDIENCE, "exp": now + 300, **hers, **claims}
        known = {name: value for name, value in made.items() if value is not None}
        return jwt.encode({"alg": alg, "kid": self.keys[0].kid}, known, signing, algorithms=[alg])


def new_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


@contextmanager
def provider() -> Iterator[Provider]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body: Any = {"issuer": made.issuer, "jwks_uri": f"{made.issuer}/keys"}
            if self.path == "/keys":
                made.asked += 1
                body = KeySet(made.keys).as_dict(private=False)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        made = Provider(f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield made
        server.shutdown()


@contextmanager
def api_of(database_url: str, folder: Path, **settings: Any) -> Iterator[Api]:
    """An API with these settings and the map of groups."""
    (folder / "groups.yaml").write_text(GROUPS)
    if "oidc_issuer" in settings:
        settings["oidc_client_id"] = "fedaudit-pages"
    known = {"groups_map": folder / "groups.yaml", **settings}
    with running_api(settings_for(database_url, folder, **known)) as api:
        yield api
