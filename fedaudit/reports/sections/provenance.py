"""Which code computed a run, on what hardware, and when."""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fedaudit.version import __version__

_LIBRARIES = ("numpy", "pyarrow", "torch")


def provenance(*, device: str, backend: Mapping[str, str], started_at: datetime) -> dict[str, Any]:
    """The report's provenance of a run that ends now; `backend` as the trainer reports it."""
    return {
        "code_version": __version__,
        "libraries": {"python": platform.python_version(), **_versions()},
        "device": device,
        "backend": dict(backend),
        "started_at": started_at.isoformat(),
        "finished_at": datetime.now(UTC).isoformat(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
