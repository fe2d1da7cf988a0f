"""Rounds a second of this tree against those of another commit: `python -m benchmarks.against REV`.

    OMP_NUM_THREADS=1 python -m benchmarks.against 39827c1 --data ../shared/data

`benchmarks.rounds` runs in both trees in turn, A B B A, so that whatever else the machine does
slows both. The other tree's kernels are built first, if it has any; this tree's are taken as they
are. The ratio is that of the engine's rounds a second of processor time, this tree's over the
other's; its median over the pairs is what counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import machine

_HERE = Path(__file__).parent.parent
_RESULTS = Path(__file__).parent / "results" / "against.json"

Paces = dict[str, float]
"""By workload, rounds a second of processor time."""


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A folder with the tree of another commit, its kernels built. Raises CalledProcessError where
    there is none."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(_HERE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        if (tree / "setup.py").exists():  # otherwise it would be compared without its kernels
            build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
            subprocess.run(build, cwd=tree, check=True)
        try:
            if (tree / "fedaudit" / "native").is_dir():
                build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
                subprocess.run(build, cwd=tree, check=True)
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def paces(tree: Path, data: Path, seconds: float) -> Paces:
    """One run of the benchmark in a tree."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rounds.json"
        asked = ["--data", str(data.resolve()), "--out", str(out), "--turns", "1"]
        asked += ["--seconds", str(seconds)]
        subprocess.run(
            [sys.executable, "-P", "-m", "benchmarks.rounds", *asked],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        found = json.loads(out.read_text())
    return {
        f"{one['name']}, {one['experiments']} experiments": median(
            pace["processor"] for pace in one["engine"]
        )
        for one in found["measured"]
    }


def compare(other: Path, data: Path, *, pairs: int, seconds: float) -> dict[str, list[float]]:
    """By workload, this tree's pace over the other's: one ratio for each pair of runs."""
    ratios: dict[str, list[float]] = {}
    for pair in range(pairs):
        order = (_HERE, other) if pair % 2 else (other, _HERE)
        found = {tree: paces(tree, data, seconds) for tree in order}
        for name, pace in found[_HERE].items():
            if name in found[other]:
                ratios.setdefault(name, []).append(pace / found[other][name])
    return ratios


def main() -> None:
    """Prints the ratios, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.8)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    asked = parser.parse_args()
    with checked_out(asked.revision) as other:
        ratios = compare(other, asked.data, pairs=asked.pairs, seconds=asked.seconds)
    measured: list[dict[str, Any]] = []
    for name, found in ratios.items():
        print(f"{name}: {median(found):.3f} ({min(found):.3f} to {max(found):.3f})")
        measured.append({"name": name, "ratios": found, "median_ratio": median(found)})
    document = {
        "benchmark": "against",
        "revision": asked.revision,
        "machine": machine(),
        "measured": measured,
    }
    asked.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
