"""Do two trees answer the same? `python -m tests.golden BASE [--present TREE] [--figures]`.

Runs `collected.py` once in each tree and compares every document that it writes. Exits 1 where
they differ.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from tests.golden.compared import differences
except ImportError:  # a copy of this folder, run by its path
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from compared import differences  # type: ignore[no-redef]

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Compare the trees that are named."""
    asked = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    asked.add_argument("base", type=Path, help="the tree that is right, or a commit of this one")
    asked.add_argument("--present", type=Path, default=Path.cwd(), help="the tree to look at")
    asked.add_argument("--figures", action="store_true", help="leave sentences out")
    asked.add_argument("--limit", type=int, default=8, help="differences to show of a document")
    asked.add_argument("--keep", type=Path, help="a folder, not there yet, for what was compared")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        tops = [(given.keep or Path(scratch)) / side for side in ("base", "present")]
        base, commit = given.base, None
        if not base.is_dir():
            base, commit = Path(scratch) / "tree", str(base)
            _git(given.present, "worktree", "add", "--quiet", "--detach", str(base), commit)
        try:
            for tree, top in zip((base, given.present), tops, strict=True):
                _collect(tree.resolve(), top)
        finally:
            if commit is not None:
                _git(given.present, "worktree", "remove", "--force", str(base))
        found = differences(*tops, figures=given.figures)
    for name, differing in found.items():
        print(f"{name}: {len(differing)} differences")
        for one in differing[: given.limit]:
            print(one)
    print(f"{len(found)} documents differ" if found else "equal")
    return int(bool(found))


def _collect(tree: Path, top: Path) -> None:
    print(f"running {tree}", file=sys.stderr)
    top.mkdir(parents=True)
    left_out = ("FEDAUDIT_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    path = f"{tree}{os.pathsep}{tree / 'clients' / 'python'}"
    environment = {**kept, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    command = [sys.executable, "-P", str(HERE / "collected.py"), str(top)]
    if subprocess.run(command, cwd=tree, env=environment, check=False).returncode:
        raise SystemExit(f"{tree} could not be run")


def _git(tree: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(tree), *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())
