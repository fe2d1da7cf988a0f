"""Programs that a test runs to their end."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def completed(
    command: Sequence[str | Path], *, check: bool = False, timeout: float = 600, **options: Any
) -> subprocess.CompletedProcess[str]:
    """A program that has ended, and what it printed.

    `options`: those of `subprocess.run`. Fails where the program takes more than `timeout` seconds.
    """
    return subprocess.run(
        command, check=check, timeout=timeout, capture_output=True, text=True, **options
    )
