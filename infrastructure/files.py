"""Files that the service keeps: a folder on this machine."""

import os
import uuid
from pathlib import Path, PurePosixPath

from infrastructure.settings import Settings


class FileStorage:
    """Bytes under relative names such as `artifacts/<id>.npz`."""

    def __init__(self, settings: Settings) -> None:
        self._root = Path(settings.storage_url.removeprefix("file://"))

    def write(self, name: str, content: bytes) -> None:
        """Store the content whole or not at all."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{path.name}.{uuid.uuid4()}.partial")
        aside.write_bytes(content)
        os.replace(aside, path)

    def read(self, name: str) -> bytes:
        """The stored content. Raises FileNotFoundError."""
        return self._path(name).read_bytes()

    def delete(self, name: str) -> None:
        """Forget the content, if there is any."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\x00" in name:
            raise ValueError(f"a stored file's name is relative and without '..'; it is {name!r}")
        return self._root.joinpath(*parts)
