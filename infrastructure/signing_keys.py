"""The file of the private signing key: made once, for its owner alone, and never overwritten.

`python -P -m infrastructure.signing_keys create --file FILE` makes one; beside it stands
`FILE.pub`, the public half to hand out. `ensure` makes one unless there is one; `check` only looks.
"""

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from infrastructure.settings import Settings

_MAX_FILE_BYTES = 1 << 16


class SigningKeyError(Exception):
    """There is no usable key; the message says why and what to do."""


def key_file_of(settings: Settings) -> Path:
    """Where the key is: named in production, below the data folder in the embedded service.

    Raises SigningKeyError where production names none.
    """
    if settings.signing_key_file is not None:
        return settings.signing_key_file
    if settings.embedded:
        return settings.data_dir / "signing-key.pem"
    raise SigningKeyError(
        "FEDAUDIT_SIGNING_KEY_FILE is not set, and ledgers and reports are signed with the key in "
        "that file; make one with `fedaudit keys signing --out FILE` and give its path to every "
        "worker and sweeper"
    )


def read_key_file(path: Path) -> bytes:
    """The file's PEM, an unencrypted Ed25519 private key.

    Raises SigningKeyError where it holds none, cannot be read, or can be read by others.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(_MAX_FILE_BYTES)
    except FileNotFoundError:
        raise SigningKeyError(
            f"there is no signing key at {path}; make one with `fedaudit keys signing --out {path}`"
        ) from None
    except OSError as error:
        raise SigningKeyError(f"the signing key {path} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise SigningKeyError(
            f"the signing key {path} is open to others (mode {mode:04o}), who could sign with it; "
            f"run `chmod 600 {path}`"
        )
    try:
        usable = isinstance(load_pem_private_key(content, password=None), Ed25519PrivateKey)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        usable = False
    if not usable:
        raise SigningKeyError(
            f"{path} holds no unencrypted Ed25519 private key in PEM; make one with `fedaudit keys "
            "signing --out FILE`, or with `openssl genpkey -algorithm ed25519`"
        )
    return content


def create_key_file(path: Path) -> None:
    """Make a key. Raises SigningKeyError where the file is there already, or cannot be made.

    The file appears whole or not at all, and one that is there is never touched.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(private)
            file.flush()
            os.fsync(file.fileno())
        os.link(aside, path)
        public_file(path).write_bytes(public)
    except FileExistsError:
        raise SigningKeyError(f"{path} is there already; a key is never overwritten") from None
    except OSError as error:
        raise SigningKeyError(f"cannot make the signing key {path}: {error.strerror}") from None
    finally:
        aside.unlink(missing_ok=True)


def ensure_key_file(path: Path) -> None:
    """Make a key unless there is one; one that is there must be usable. Raises SigningKeyError."""
    if path.exists():
        read_key_file(path)
        return
    try:
        create_key_file(path)
    except SigningKeyError:
        # Another process may have made it meanwhile.
        if not path.exists():
            raise
        read_key_file(path)


def public_file(path: Path) -> Path:
    """Where the public half of a key stands."""
    return path.with_name(f"{path.name}.pub")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; prints the path of the public key."""
    parser = argparse.ArgumentParser(prog="python -P -m infrastructure.signing_keys")
    commands = parser.add_subparsers(dest="command", required=True)
    actions = {"create": create_key_file, "ensure": ensure_key_file, "check": read_key_file}
    for name in actions:
        commands.add_parser(name).add_argument("--file", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        actions[options.command](options.file)
    except SigningKeyError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{public_file(options.file)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
