"""A part of a benchmark in a process of its own, so that its memory is its own too."""

import json
import os
import subprocess
import sys


def in_a_process(module: str, *arguments: object) -> dict[str, float]:
    """What `python -m MODULE ARGUMENTS` prints as JSON, on one thread. Raises CalledProcessError
    where it fails."""
    answer = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(answer.stdout)
    return found
