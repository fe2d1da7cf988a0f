"""A key that stored secrets are encrypted with."""

import base64
from pathlib import Path


def secrets_key_in(folder: Path) -> Path:
    """The file of a key in a folder."""
    path = folder / "secrets-key"
    path.touch(mode=0o600)
    path.write_text(f"{base64.b64encode(bytes(32)).decode()}\n")
    return path
