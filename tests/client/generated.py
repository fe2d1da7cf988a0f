"""A client that a generator makes of the service's own OpenAPI document."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "generated_fedaudit"


def generate(document: dict[str, Any], folder: Path) -> None:
    """Make the package PACKAGE in a folder.

    Fails where the generator has anything to say: it leaves out what it cannot make, and ends well.
    """
    if find_spec("openapi_python_client") is None:
        pytest.skip("openapi-python-client is not installed: it comes with the extra `dev`")
    described = folder / "openapi.json"
    described.write_text(json.dumps(document))
    settings = folder / "generator.json"
    settings.write_text(json.dumps({"package_name_override": PACKAGE, "post_hooks": []}))
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate"),
            *("--path", str(described), "--config", str(settings)),
            *("--output-path", str(folder / PACKAGE), "--meta", "none", "--fail-on-warning"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
