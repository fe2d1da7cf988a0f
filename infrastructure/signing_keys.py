"""The file of the private signing key: made once, for its owner alone, and never overwritten.

`python -P -m infrastructure.signing_keys create --file FILE` makes one, and beside it
`FILE.pub`, the public half to hand out. `ensure` makes one unless there is one; `check` only looks.
`rotate` exchanges it for another: processes that use the file take the new one up by themselves.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fedaudit.ledger.statements import SigningKey
from infrastructure.key_files import KeyFileError, make_private, read_private, write_through
from infrastructure.settings import Settings

ROUNDING = b"fedaudit-rounding-key-1"
"""Purpose of the secret that rounds counts: the same for runs and audits, and after a key exchange.
Under another secret the same count would be rounded again, and the mean of many roundings reveals
the count."""


def key_file_of(settings: Settings) -> Path:
    """Path of the key: named in production, below the data folder if embedded. Raises
    KeyFileError if production names none."""
    if settings.signing_key_file is not None:
        return settings.signing_key_file
    if settings.embedded:
        return settings.data_dir / "signing-key.pem"
    raise KeyFileError(
        "FEDAUDIT_SIGNING_KEY_FILE is not set, and ledgers and reports are signed with the key in "
        "that file; make one with `fedaudit keys signing --out FILE` and give its path to every "
        "worker and sweeper"
    )


def read_key_file(path: Path, how: str = "") -> bytes:
    """The file's PEM, an unencrypted Ed25519 private key. Raises KeyFileError if it holds none,
    is unreadable, or others can read it."""
    how = how or f"make one with `fedaudit keys signing --out {path}`"
    content = read_private(path, what="signing key", risk="anyone could sign with", how=how)
    try:
        SigningKey.from_pem(content)
    except ValueError as error:
        raise KeyFileError(
            f"{path}: {error}; put a copy of the file back, or make a new one with `fedaudit keys "
            "signing --out FILE`, or with `openssl genpkey -algorithm ed25519`"
        ) from None
    return content


def create_key_file(path: Path) -> None:
    """Make a key, atomically. Raises KeyFileError if the file exists or cannot be made; an
    existing file is never touched."""
    key = SigningKey.generate()
    try:
        make_private(path, key.pem())
        public_file(path).write_text(key.public.pem)
    except FileExistsError:
        raise KeyFileError(f"{path} is there already; a key is never overwritten") from None
    except OSError as error:
        raise KeyFileError(f"cannot make the signing key {path}: {error.strerror}") from None


def rotate_key_file(path: Path) -> Path:
    """Exchange the key, atomically; returns where the old one is kept. `FILE.pub` lists all public
    keys, the newest first. The secret for rounding counts stays. Raises KeyFileError."""
    how = "name its service's folder with --data-dir or FEDAUDIT_DATA_DIR, or the file with --file"
    content = read_key_file(path, how)
    old, new = SigningKey.from_pem(content), SigningKey.generate()
    retired = path.with_name(f"{path.name}.retired-{old.key_id[:12]}")
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    public = public_file(path)
    known = public.read_bytes() if public.exists() else old.public.pem.encode()
    try:
        if not retired.exists():
            write_through(retired, content, mode=0o600)
        # First the public half: a process that is killed here leaves a key that no one has.
        write_through(aside, new.public.pem.encode() + known, mode=0o644)
        aside.replace(public)
        # The key comes last: a file that was cut off anywhere holds none.
        write_through(aside, old.derived_pem(ROUNDING) + new.pem(), mode=0o600)
        aside.replace(path)
    except OSError as error:
        raise KeyFileError(f"cannot exchange the key {path}: {error.strerror}") from None
    finally:
        aside.unlink(missing_ok=True)
    return retired


def ensure_key_file(path: Path) -> None:
    """Make a key unless there is one; one that is there must be usable. Raises KeyFileError."""
    if not path.exists():
        try:
            create_key_file(path)
        except KeyFileError:
            # Another process may have made it meanwhile.
            if not path.exists():
                raise
    read_key_file(path)


def public_file(path: Path) -> Path:
    """Where the public half of a key is."""
    return path.with_name(f"{path.name}.pub")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; prints the path of the public key."""
    parser = argparse.ArgumentParser(prog="python -P -m infrastructure.signing_keys")
    commands = parser.add_subparsers(dest="command", required=True)
    actions: dict[str, Callable[[Path], object]] = {
        "create": create_key_file,
        "ensure": ensure_key_file,
        "check": read_key_file,
        "rotate": rotate_key_file,
    }
    for name in actions:
        commands.add_parser(name).add_argument("--file", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        done = actions[options.command](options.file)
    except KeyFileError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    shown = done if options.command == "rotate" else public_file(options.file)
    sys.stdout.write(f"{shown}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
