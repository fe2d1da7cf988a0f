"""A copy of the packages in which every closed union has a member that nothing knows."""

import ast
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.house import PLACES, ROOT
from tests.processes import completed

PACKAGES = tuple(PLACES)
_DUMMY = "Dummy"
# mypy checks what it is given, and of what that imports reads no body. No union of ours is made of
# the types of these libraries, and mypy would read them for a minute.
_SETTINGS = """
[[tool.mypy.overrides]]
module = [
    "torch.*", "scipy.*", "pandas.*", "sklearn.*", "sympy.*", "alembic.*", "fastapi.*",
    "starlette.*", "uvicorn.*", "rich.*", "typer.*", "click.*", "httpx.*", "anyio.*", "psycopg.*",
    "redis.*", "cryptography.*", "google.*", "pydantic.*", "pydantic_core.*",
    "pydantic_settings.*", "structlog.*", "prometheus_client.*", "jinja2.*",
]
follow_imports = "skip"
"""
_NAMED = re.compile(
    r'^(?P<file>[^:]+):(?P<line>\d+): error: Argument 1 to "assert_never" has incompatible type '
    r'(?P<left>.+); expected "Never"'
)


class Place(NamedTuple):
    """A call of `assert_never`."""

    file: str
    line: int


@dataclass(frozen=True)
class Sabotaged:
    """The copy, and what mypy says of it."""

    dispatches: frozenset[Place]
    """Every call of `assert_never` in the copy."""
    named: Mapping[Place, frozenset[str]]
    """Every place that mypy names, and the unions whose dummy is left over there."""
    output: str


class _Insertion(NamedTuple):
    line: int
    column: int
    """In bytes, as the syntax tree counts."""
    text: str


@dataclass
class _Union:
    """A union of classes that has a name."""

    module: str
    members: frozenset[str]


@dataclass
class _Source:
    """A module, and what is to be put into it."""

    path: Path
    module: str
    tree: ast.Module
    insertions: list[_Insertion] = field(default_factory=list)
    footer: list[str] = field(default_factory=list)


def sabotage(folder: Path, samples: Mapping[str, str]) -> Sabotaged:
    """Copy the packages with `samples` (path -> text) into a folder, add the dummies, run mypy over
    what calls `assert_never` and over the samples.

    A literal of two texts or more gets one more text, a union of classes a class that is no member
    of any other; lines keep their numbers.
    """
    for name, place in PLACES.items():
        copy = folder / place.relative_to(ROOT) / name
        shutil.copytree(place / name, copy, ignore=shutil.ignore_patterns("__pycache__"))
    settings = (ROOT / "pyproject.toml").read_text()
    settings = re.sub(r"^packages = .*\n", "", settings, flags=re.MULTILINE)
    (folder / "pyproject.toml").write_text(settings + _SETTINGS)
    for path, text in samples.items():
        (folder / path).write_text(text)
    sources = list(_sources(folder))
    unions = _class_unions(sources)
    for source in sources:
        _add_texts(source)
        _add_classes(source, unions)
        _write(source)
    dispatches = frozenset(_dispatches(sources, folder))
    given = sorted({place.file for place in dispatches} | samples.keys())
    options = ("--no-error-summary", "--no-pretty", "--follow-imports=silent")
    done = completed(
        [sys.executable, "-m", "mypy", *options, *given],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(folder)},
    )
    if done.returncode != 1:
        raise AssertionError(f"mypy ended with {done.returncode}: {done.stdout}{done.stderr}")
    return Sabotaged(dispatches, _named(done.stdout), done.stdout)


def _dispatches(sources: list[_Source], folder: Path) -> Iterator[Place]:
    for source in sources:
        file = source.path.relative_to(folder).as_posix()
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and _is_name(node.func, "assert_never"):
                yield Place(file, node.lineno)


def _named(output: str) -> dict[Place, frozenset[str]]:
    found: dict[Place, frozenset[str]] = {}
    for line in output.splitlines():
        if match := _NAMED.match(line):
            place = Place(match["file"], int(match["line"]))
            unions = re.findall(rf"{_DUMMY}(\w+)", match["left"])
            found[place] = found.get(place, frozenset()) | frozenset(unions)
    return found


def _sources(folder: Path) -> Iterator[_Source]:
    for name, place in PLACES.items():
        here = folder / place.relative_to(ROOT)
        for path in sorted((here / name).rglob("*.py")):
            module = path.relative_to(here).with_suffix("").as_posix().replace("/", ".")
            yield _Source(path, module.removesuffix(".__init__"), ast.parse(path.read_bytes()))


# -- literals -------------------------------------------------------------------------------------


def _add_texts(source: _Source) -> None:
    """One more text in every literal of at least two; that of an alias has the alias's name."""
    names = {id(node): name for name, value in _aliases(source) for node in ast.walk(value)}
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.Subscript) and _is_name(node.value, "Literal")):
            continue
        texts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(texts) < 2 or not all(_is_text(one) for one in texts):
            continue
        union = names.get(id(node), "Unnamed")
        source.insertions.append(_behind(texts[-1], f', "{_DUMMY}{union}"'))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


# -- classes --------------------------------------------------------------------------------------


def _class_unions(sources: list[_Source]) -> dict[str, _Union]:
    """Every named union of classes, by its name."""
    found = {}
    for source in sources:
        for name, value in _aliases(source):
            for node in _unions_in(value):
                found[name] = _Union(source.module, frozenset(_members(node)))
    return found


def _add_classes(source: _Source, unions: Mapping[str, _Union]) -> None:
    """The dummy of a union behind its members, and behind those that annotations pick from it."""
    own = {id(node): name for name, value in _aliases(source) for node in _unions_in(value)}
    for node in _annotations(source.tree):
        for part in _unions_in(node):
            members = frozenset(_members(part))
            wider = next((name for name, one in unions.items() if members <= one.members), None)
            if wider is not None:
                own.setdefault(id(part), wider)
                source.insertions.append(_behind(part, f" | {_DUMMY}{wider}"))
                if unions[wider].module != source.module:
                    source.footer.append(f"from {unions[wider].module} import {_DUMMY}{wider}")
    for name, value in _aliases(source):
        for node in _unions_in(value):
            source.insertions.append(_behind(node, f" | {_DUMMY}{name}"))
            source.footer.append(f"class {_DUMMY}{name}: ...")


def _aliases(source: _Source) -> Iterator[tuple[str, ast.expr]]:
    """The names that the module gives to types, or to anything else, at its top."""
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _unions_in(value: ast.expr) -> Iterator[ast.BinOp]:
    """`A | B`, alone or as what is annotated."""
    value = _annotated(value)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
        members = list(_members(value))
        if len(members) >= 2 and all(name[:1].isupper() for name in members):
            yield value


def _annotated(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Subscript) and _is_name(value.value, "Annotated"):
        return value.slice.elts[0] if isinstance(value.slice, ast.Tuple) else value.slice
    return value


def _members(node: ast.expr) -> Iterator[str]:
    node = _annotated(node)
    if isinstance(node, ast.BinOp):
        yield from _members(node.left)
        yield from _members(node.right)
    elif isinstance(node, ast.Name):
        yield node.id
    elif not (isinstance(node, ast.Constant) and node.value is None):
        yield "?"


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=ast.expr() as found) | ast.AnnAssign(annotation=found):
                yield found
            case ast.FunctionDef(returns=ast.expr() as found):
                yield found
            case _:
                pass


# -- text -----------------------------------------------------------------------------------------


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _behind(node: ast.expr, text: str) -> _Insertion:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return _Insertion(node.end_lineno, node.end_col_offset, text)


def _write(source: _Source) -> None:
    lines = source.path.read_bytes().split(b"\n")
    for line, column, text in sorted(set(source.insertions), reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[:column] + text.encode() + old[column:]
    lines += [line.encode() for line in dict.fromkeys(source.footer)]
    source.path.write_bytes(b"\n".join(lines) + b"\n")
