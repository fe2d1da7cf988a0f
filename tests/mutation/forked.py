"""Tests in a forked process that has imported all that a change does not reach.

Nothing is written to the working tree: an import hook gives the process the changed file, and what
imports that file is imported anew.
"""

import gc
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Literal

from tests.mutation.importers import PACKAGES, Importers, module_of
from tests.mutation.mutants import Mutant

Verdict = Literal["killed", "survived", "timeout"]

_MEMORY = 8 * 2**30
_LIBRARIES = (
    *("numpy", "scipy.stats", "torch", "pyarrow", "pydantic", "cryptography", "dp_accounting"),
    *("hypothesis", "sqlalchemy", "psycopg", "redis", "alembic", "coverage", "pytest"),
    "anyio.pytest_plugin",
)


def import_libraries() -> None:
    """What every test run would import first."""
    for name in _LIBRARIES:
        __import__(name)
    gc.freeze()


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Gives one module another source."""

    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = path, source
        self._name = module_of(path)

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None):
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._path.resolve(), loader=self)

    def get_filename(self, fullname: str) -> str:
        return str(self._path.resolve())

    def get_data(self, path: str | bytes) -> bytes:
        return self._source.encode()

    def path_stats(self, path: str | bytes):
        raise OSError("a changed file has no bytecode")


def judged(mutant: Mutant, tests: Sequence[str], *, importers: Importers, limit: float) -> Verdict:
    """Whether one of the tests fails, or takes longer than `limit` seconds."""

    def run() -> int:
        for name in importers.of(module_of(mutant.path)):
            _forget(name)
        sys.meta_path.insert(0, _Changed(mutant.path, mutant.source()))
        return _pytest(["-x", *tests])

    status = forked(run, limit=limit)
    if status is None:
        return "timeout"
    return "survived" if status == 0 else "killed"


def _forget(module: str) -> None:
    """Makes the next import of the module start from its source."""
    package, _, name = module.rpartition(".")
    if sys.modules.pop(module, None) is not None and package in sys.modules:
        vars(sys.modules[package]).pop(name, None)


class Related:
    """Which tests execute which lines, and how long they take."""

    def __init__(self, lines: dict[str, dict[str, list[str]]], seconds: dict[str, float]) -> None:
        self._lines, self._seconds = lines, seconds

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that execute the line, the shortest first.

        A line that is executed on import, such as a constant, is seen by every test of its file.
        """
        lines = self._lines.get(str(mutant.path), {})
        found = set(lines.get(str(mutant.line), []))
        if "" in found:
            found = {test for tests in lines.values() for test in tests}
        return sorted(found - {""}, key=lambda test: self._seconds.get(test, 0.0))

    def limit(self, tests: Sequence[str]) -> float:
        """Far longer than these tests take by themselves."""
        return 30 + 4 * sum(self._seconds.get(test, 0.0) for test in tests)


def related(folders: Sequence[str], paths: Sequence[Path]) -> Related:
    """The tests of these folders, each run once. Raises RuntimeError where one of them fails."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "related.json"
        status = forked(lambda: _traced(folders, paths, out), limit=3600, quiet=False)
        if status != 0:
            raise RuntimeError("tests fail as the code stands, so no mutant can be judged")
        found = json.loads(out.read_text())
    for name in found["modules"]:
        __import__(name)
    return Related(found["lines"], found["seconds"])


def _traced(folders: Sequence[str], paths: Sequence[Path], out: Path) -> int:
    import coverage
    import pytest

    tracer = coverage.Coverage(data_file=None, include=[str(path) for path in paths])
    seconds: dict[str, float] = {}

    class Contexts:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item):
            tracer.switch_context(item.nodeid)
            started = time.monotonic()
            try:
                return (yield)
            finally:
                seconds[item.nodeid] = time.monotonic() - started
                tracer.switch_context("")

    tracer.start()
    status = _pytest([*folders], plugins=[Contexts()])
    tracer.stop()
    data = tracer.get_data()
    lines = {
        str(path): {
            str(line): tests for line, tests in data.contexts_by_lineno(str(path.resolve())).items()
        }
        for path in paths
    }
    modules = sorted(name for name in sys.modules if name.split(".")[0] in PACKAGES)
    out.write_text(json.dumps({"lines": lines, "seconds": seconds, "modules": modules}))
    return status


def _pytest(arguments: Sequence[str], plugins: Sequence[object] = ()) -> int:
    import hypothesis
    import pytest

    class Repeatable:
        def pytest_collection_finish(self) -> None:
            # After the conftest has set its own: the same examples for every mutant.
            hypothesis.settings.register_profile(
                "mutation", deadline=None, derandomize=True, database=None
            )
            hypothesis.settings.load_profile("mutation")

    # Without the plugins that are found by themselves a run starts several times as fast; nobody
    # reads why a test failed.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    without = ("cacheprovider", "unraisableexception", "threadexception")
    fixed = ["-q", "-m", "not slow", "--tb=line", "--assert=plain", "-p", "anyio.pytest_plugin"]
    fixed += [part for name in without for part in ("-p", f"no:{name}")]
    fixed += ["-W", "ignore::pytest.PytestConfigWarning"]
    return int(pytest.main([*fixed, *arguments], plugins=[Repeatable(), *plugins]))


def forked(run: Callable[[], int], *, limit: float, quiet: bool = True) -> int | None:
    """The exit status of `run` in a process of its own; None where it took too long."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            if quiet:
                silence = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silence, 1)
                os.dup2(silence, 2)
            status = run()
        finally:
            os._exit(status)
    ends = time.monotonic() + limit
    while time.monotonic() < ends:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
