"""The memory and the disk that clients' data may take."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DataRoom:
    """As a service is set."""

    memory_bytes: int = 4 * 2**30
    """That the data of one run may take, by estimate."""
    maps_dir: Path | None = None
    """Where data are laid out to be mapped, once for all that use them; None lays out large data
    for each run in the system's place for temporary files."""
    maps_bytes: int = 64 * 2**30
    """Of the data in that folder."""
