"""Which projects may read which files below the sources folder, as the operator declares it.

A YAML (or JSON) file of one mapping: a file, a folder or a pattern, and the projects that may read
it and everything below it.

    acme: [acme]                  # a folder
    shared: [acme, beta]
    public/*.csv: ["*"]           # every project
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

import yaml

EVERY_PROJECT = "*"
_ANY_FOLDERS = "**"
_TEXT = "tag:yaml.org,2002:str"


class SourcesMapError(ValueError):
    """The map cannot be used; the message names the file, the line and the remedy."""


@dataclass(frozen=True)
class _Entry:
    pattern: tuple[str, ...]
    projects: frozenset[str]

    def names(self, path: PurePosixPath) -> bool:
        """Whether the pattern matches the path or a folder that it lies in."""
        end = len(self.pattern)
        reached = self._skip({0})
        for part in path.parts:
            if end in reached:
                return True
            reached = self._skip(
                {
                    place if self.pattern[place] == _ANY_FOLDERS else place + 1
                    for place in reached
                    if self.pattern[place] == _ANY_FOLDERS or fnmatchcase(part, self.pattern[place])
                }
            )
        return end in reached

    def admits(self, project: str) -> bool:
        """Whether the project is one of those named."""
        return EVERY_PROJECT in self.projects or project in self.projects

    def _skip(self, places: set[int]) -> set[int]:
        """The places from which `**` may stand for no folder at all as well."""
        found = set(places)
        for place in range(len(self.pattern)):
            if place in found and self.pattern[place] == _ANY_FOLDERS:
                found.add(place + 1)
        return found


@dataclass(frozen=True)
class SourcesMap:
    """A declared map. An entry can only narrow: where several name a file, all have to admit."""

    entries: tuple[_Entry, ...]

    def admits(self, project: str, path: PurePosixPath) -> bool:
        """Whether a project, by its name, may read a path relative to the sources folder.

        A file that no entry names is nobody's.
        """
        naming = [entry for entry in self.entries if entry.names(path)]
        return bool(naming) and all(entry.admits(project) for entry in naming)


def read_sources_map(path: Path) -> SourcesMap:
    """The map in a file. Raises SourcesMapError naming the line at fault."""
    try:
        root = yaml.compose(path.read_text("utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise SourcesMapError(f"{path} cannot be read: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        detail = " ".join(str(error).split())[:300]
        raise SourcesMapError(f"{path} is neither YAML nor JSON: {detail}") from None
    if not isinstance(root, yaml.MappingNode):
        raise SourcesMapError(
            f"{path} holds no mapping; write lines such as `folder: [project, other]`, or `{{}}` "
            "for files that are nobody's"
        )
    found: dict[tuple[str, ...], _Entry] = {}
    for key, value in root.value:
        pattern = _pattern(key, path)
        if pattern in found:
            raise _fault(path, key, f"{key.value!r} is named twice; put its projects in one list")
        found[pattern] = _Entry(pattern, frozenset(_projects(key, value, path)))
    return SourcesMap(tuple(found.values()))


def _pattern(key: yaml.Node, path: Path) -> tuple[str, ...]:
    if not _is_text(key):
        raise _fault(path, key, "a file, folder or pattern must be a text; put it in quotes")
    name: str = key.value
    parts = name.removesuffix("/").split("/")
    if name.startswith(("/", "~")) or "\\" in name or {"", ".", ".."} & set(parts):
        raise _fault(
            path,
            key,
            f"{name!r} must be a path relative to the sources folder, with `/` between its parts "
            "and without `.` or `..`",
        )
    if any(_ANY_FOLDERS in part and part != _ANY_FOLDERS for part in parts):
        raise _fault(
            path, key, f"`**` in {name!r} stands for folders; let it be a part by itself, as **/x"
        )
    return tuple(parts)


def _projects(key: yaml.Node, value: yaml.Node, path: Path) -> Iterator[str]:
    if not isinstance(value, yaml.SequenceNode):
        raise _fault(
            path,
            value,
            f'{key.value!r} needs a list of projects; write [project] or, for all, ["*"]',
        )
    for one in value.value:
        if not _is_text(one) or not one.value.strip():
            raise _fault(path, one, f"a project of {key.value!r} must be a name; put it in quotes")
        yield one.value


def _is_text(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _TEXT


def _fault(path: Path, node: yaml.Node, message: str) -> SourcesMapError:
    return SourcesMapError(f"{path}, line {node.start_mark.line + 1}: {message}")
