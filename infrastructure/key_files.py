"""Files of keys: they appear whole or not at all, and are used only where no one else can read
them."""

import os
import secrets
import stat
from pathlib import Path


class OpenToOthersError(Exception):
    """Others can read the file; the message gives its mode and the remedy."""


def read_private(path: Path, *, at_most: int) -> bytes:
    """The first bytes of the file. Raises OpenToOthersError, or the OSError of reading it."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        mode = stat.S_IMODE(found.st_mode)
        # A secret that Kubernetes mounts belongs to root, and is read through the pod's own group.
        if mode & (0o037 if found.st_uid != os.geteuid() else 0o077):
            raise OpenToOthersError(f"open to others (mode {mode:04o}); run `chmod 600 {path}`")
        return file.read(at_most)


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
