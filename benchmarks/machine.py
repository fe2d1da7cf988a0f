"""What a measurement was made on."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from fedaudit.training.engine import backend


def machine() -> dict[str, str | int]:
    """Processor, cores, versions and the commit."""
    return {
        "processor": _processor(),
        "cores": _cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": version("scikit-learn"),
        **backend(),
        "threads": torch.get_num_threads(),
        "commit": _commit(),
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
