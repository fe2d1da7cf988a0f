"""The compiled kernels under the sanitizers of addresses and of undefined behaviour.

Bits that agree with the fallback do not show that a kernel stays within its arrays.
"""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import completed
from tests.training import test_stack as stacks

ROOT = Path(__file__).parents[3]
SANITIZERS = "address,undefined"
NEEDED = ("libasan.so", "libubsan.so", "libstdc++.so.6")
ROOMS = ("fedaudit", "models", "migrations", "workers", "api", "infrastructure")
COPIED = (*ROOMS, "tests", "benchmarks", "examples", "clients", "pyproject.toml")
# By themselves rather than by names: a test that is renamed is noticed when tests are collected.
LAYOUT = (
    stacks.test_alone_and_stacked_agree_bit_for_bit,
    stacks.test_cells_of_one_stack_may_differ_in_noise_clip_rounds_and_budget,
    stacks.test_threads_cuts_and_interruptions_do_not_matter,
)
TESTS = (
    "tests/training/stacked/test_kernels.py",
    "tests/networks/test_pooled_convolutions.py",
    *(f"tests/training/test_stack.py::{test.__name__}" for test in LAYOUT),
    "tests/runs/test_sampled_rounds.py",
)
OVERRUN = """
import numpy as np
from fedaudit.native.library import kernels, place_of
rows = 1000
counters = np.zeros(rows, dtype=np.uint64)
too_short = np.zeros(rows * 4 - 1, dtype=np.uint32)
read = [place_of(counters)] * 3
kernels().fedaudit_philox(*read, 0, rows, 1, place_of(too_short))
"""


@pytest.fixture(scope="module")
def sanitised(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A copy of the tree whose kernels are compiled with sanitizers, and how to run within it."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    found = [
        subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip()
        for name in NEEDED
    ]
    if not all(Path(name).is_absolute() for name in found):
        pytest.skip(f"gcc has not all of {', '.join(NEEDED)}")
    tree = tmp_path_factory.mktemp("sanitised")
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name)
    native = tree / "fedaudit" / "native"
    sources = sorted(map(str, native.glob("*.c")))
    kept = [flag for flag in _flags_of_the_build() if flag != "-O3"]
    made = ["-O1", "-g", f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all"]
    library = ["-shared", "-fPIC", "-o", str(native / "kernels.compiled")]
    subprocess.run([compiler, *kept, *made, *library, *sources, "-lm"], check=True)
    environment = os.environ | {
        "LD_PRELOAD": ":".join(found),
        # Python leaves objects behind on purpose.
        "ASAN_OPTIONS": "detect_leaks=0",
        # An allocator between Python and the sanitizer would hide what passes the end of an array.
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": f"{tree}:{tree / 'clients' / 'python'}",
        "OMP_NUM_THREADS": "1",
    }
    return tree, environment


def _flags_of_the_build() -> list[str]:
    """Those of `setup.py`, which builds when it is imported."""
    for statement in ast.parse((ROOT / "setup.py").read_text()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="FLAGS")], value=value):
                flags: list[str] = ast.literal_eval(value)
                return flags
    raise LookupError("setup.py names no FLAGS")


def _run(
    sanitised: tuple[Path, dict[str, str]], *arguments: str
) -> subprocess.CompletedProcess[str]:
    tree, environment = sanitised
    command = [sys.executable, *arguments]
    return completed(command, cwd=tree, env=environment, timeout=3000)


@pytest.mark.slow
def test_no_kernel_leaves_its_arrays(sanitised: tuple[Path, dict[str, str]]) -> None:
    ended = _run(sanitised, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *TESTS)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
    assert "skipped" not in ended.stdout.splitlines()[-1]


@pytest.mark.slow
def test_the_sanitizer_notices_a_kernel_that_does(sanitised: tuple[Path, dict[str, str]]) -> None:
    ended = _run(sanitised, "-c", OVERRUN)
    assert ended.returncode != 0
    assert "heap-buffer-overflow" in ended.stderr
