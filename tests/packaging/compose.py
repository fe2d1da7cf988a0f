"""The compose file as docker-compose understands it; no daemon is needed for that."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house import ROOT
from tests.processes import completed

__all__ = ["ROOT"]
PASSWORDS = {"POSTGRES_PASSWORD": "p4ssw0rd", "REDIS_PASSWORD": "s3cret"}


def tool(name: str) -> str:
    """A binary that a development package carries, beside this Python or elsewhere."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} has no package for this platform")
    return found


def compose(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`docker-compose` on our file, with no variable set but those given."""
    return completed(
        [tool("docker-compose"), "--file", str(ROOT / "docker-compose.yml"), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment},
    )


def resolved_services() -> dict[str, Any]:
    """Every service, its variables and defaults filled in."""
    resolved = compose(
        "--profile", "gpu", "--profile", "tls", "config", "--format", "json", **PASSWORDS
    )
    assert resolved.returncode == 0, resolved.stderr
    assert resolved.stderr == ""
    services: dict[str, Any] = json.loads(resolved.stdout)["services"]
    return services
