"""Files of keys: they appear whole or not at all, and are used only where no one else can read
them."""

import os
import secrets
import stat
from pathlib import Path

from infrastructure.settings import SettingsError

_MAX_BYTES = 1 << 16


class KeyFileError(SettingsError):
    """There is no usable key, or it does not fit; the message says why and what to do."""


def read_private(path: Path, *, what: str, risk: str, how: str) -> bytes:
    """The first bytes of the file. Raises KeyFileError, whose message says `what` it is, the `risk`
    where others can read it, and `how` one is made."""
    try:
        with path.open("rb") as file:
            found, content = os.fstat(file.fileno()), file.read(_MAX_BYTES)
    except FileNotFoundError:
        raise KeyFileError(f"there is no {what} at {path}; {how}") from None
    except OSError as error:
        raise KeyFileError(f"the {what} {path} cannot be read: {error.strerror}") from None
    mode = stat.S_IMODE(found.st_mode)
    # A secret that Kubernetes mounts belongs to root, and is read through the pod's own group.
    if mode & (0o037 if found.st_uid != os.geteuid() else 0o077):
        raise KeyFileError(
            f"{risk} the {what} {path}, open to others (mode {mode:04o}); run `chmod 600 {path}`"
        )
    return content


def make_private(path: Path, content: bytes) -> None:
    """A new file for its owner alone. Raises FileExistsError where there is one, which stays as it
    is, or another OSError."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        write_through(aside, content, mode=0o600)
        os.link(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def write_through(path: Path, content: bytes, *, mode: int) -> None:
    """A new file that is on the disk. Raises FileExistsError, or another OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
