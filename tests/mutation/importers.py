"""Which modules see a change of a module: those that import it, and those that import these."""

import ast
from collections.abc import Iterator
from pathlib import Path

CLIENT = Path("clients/python")
_ROOMS = ("fedaudit", "models", "infrastructure", "migrations", "api", "workers", "benchmarks")
PACKAGES = {**dict.fromkeys(_ROOMS, Path()), "fedaudit_client": CLIENT}
"""Every package, and the folder that it lies in."""


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    inside = path.relative_to(CLIENT) if path.is_relative_to(CLIENT) else path
    return ".".join(inside.with_suffix("").parts).removesuffix(".__init__")


class Importers:
    """The imports of all packages, wherever in a file they stand."""

    def __init__(self) -> None:
        self._by: dict[str, set[str]] = {}
        for package, place in PACKAGES.items():
            for path in (place / package).rglob("*.py"):
                for name in _imported(path):
                    self._by.setdefault(name, set()).add(module_of(path))

    def of(self, module: str) -> set[str]:
        """The module itself, and every module that imports it in one or several steps."""
        found, new = {module}, [module]
        while new:
            for one in self._by.get(new.pop(), set()) - found:
                found.add(one)
                new.append(one)
        return found


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str() as module, names=names):
                yield module
                yield from (f"{module}.{name.name}" for name in names)
