"""The key that stored secrets are encrypted with, in a file of its owner's alone.

Each line of the file is a key: 32 random bytes in base64. The first encrypts and all decrypt, so a
key is replaced by putting another one above it.
"""

import base64
import secrets
from contextlib import suppress
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from infrastructure.key_files import KeyFileError, make_private, read_private
from infrastructure.settings import Settings

_KEY_BYTES = 32
_HOW = "make one with `(umask 077; openssl rand -base64 32 > FILE)`"


class SecretBox:
    """Encrypts and decrypts short secrets (Fernet: AES-128 in CBC mode with HMAC-SHA256)."""

    def __init__(self, settings: Settings) -> None:
        """Reads the key; the embedded service makes its own. Raises KeyFileError."""
        self._fernet = MultiFernet([Fernet(key) for key in _read(_file_of(settings))])

    def encrypt(self, secret: str) -> str:
        """The secret in a form that can be stored."""
        return self._fernet.encrypt(secret.encode()).decode("ascii")

    def decrypt(self, stored: str) -> str:
        """What `encrypt` was given. Raises KeyFileError where it was encrypted with another
        key."""
        try:
            return self._fernet.decrypt(stored).decode()
        except InvalidToken:
            raise KeyFileError(
                "the stored secret was encrypted with another key than that of "
                "FEDAUDIT_SECRETS_KEY_FILE; put that key back as a line of the file, or rotate the "
                "secret"
            ) from None


def _file_of(settings: Settings) -> Path:
    if settings.secrets_key_file is not None:
        return settings.secrets_key_file
    if settings.embedded:
        path = settings.data_dir / "secrets-key"
        _ensure(path)
        return path
    raise KeyFileError(
        "FEDAUDIT_SECRETS_KEY_FILE is not set, and secrets are stored encrypted with the key in "
        f"that file; {_HOW} and give its path to every API and sweeper"
    )


def _read(path: Path) -> list[bytes]:
    content = read_private(path, what="key", risk="secrets can be read with", how=_HOW)
    lines = content.translate(bytes.maketrans(b"-_", b"+/")).split()
    try:
        keys = [base64.b64decode(line, validate=True) for line in lines]
    except ValueError:
        keys = []
    if not keys or any(len(key) != _KEY_BYTES for key in keys):
        raise KeyFileError(f"{path} holds something else than keys, one a line; {_HOW}")
    # In the alphabet that Fernet reads.
    return [base64.urlsafe_b64encode(key) for key in keys]


def _ensure(path: Path) -> None:
    """Make a key unless there is one; it appears whole or not at all."""
    if path.exists():
        return
    try:
        with suppress(FileExistsError):  # another process was faster, and its key is the one
            make_private(path, base64.b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
    except OSError as error:
        raise KeyFileError(f"cannot make the key {path}: {error.strerror}") from None
