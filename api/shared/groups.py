"""Which groups may do what in which projects, as the operator declares it.

A YAML (or JSON) file: groups, as the identity provider names them, with projects and scopes.

    data-science:
      acme: [experiments:read, experiments:write, reports:read]
    auditors:
      acme: [reports:read, reports:sign, ledger:read]
      beta: [reports:read]
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from infrastructure.settings import SettingsError
from models.vocabulary import Scope

_Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^\S(.*\S)?$")]
_Scopes = Annotated[list[Scope], Field(min_length=1)]
_MAP: TypeAdapter[dict[str, dict[str, list[Scope]]]] = TypeAdapter(
    Annotated[
        dict[_Name, Annotated[dict[_Name, _Scopes], Field(min_length=1)]], Field(min_length=1)
    ]
)


@dataclass(frozen=True)
class GroupsMap:
    """A declared map."""

    groups: Mapping[str, Mapping[str, list[Scope]]]

    def projects(self, groups: Iterable[str]) -> dict[str, frozenset[str]]:
        """The projects that the groups open, each with all scopes that any of them gives there."""
        found: dict[str, frozenset[str]] = {}
        for group in groups:
            for project, scopes in self.groups.get(group, {}).items():
                found[project] = found.get(project, frozenset()) | frozenset(scopes)
        return dict(sorted(found.items()))


class _OnceLoader(yaml.SafeLoader):
    """Refuses a key that is written twice: the later one would hide the earlier."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping. Raises yaml.constructor.ConstructorError with the place of a second key."""
        found = super().construct_mapping(node, deep=deep)
        written = [self.construct_object(key) for key, _ in node.value]
        for number, key in enumerate(written):
            if key in written[:number]:
                place = node.value[number][0].start_mark
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} is twice", place)
        return found


def read_groups_map(path: Path) -> GroupsMap:
    """The map in a file. Raises SettingsError naming the field at fault."""
    try:
        value = yaml.load(path.read_text("utf-8"), _OnceLoader)
        return GroupsMap(_MAP.validate_python(value, strict=True))
    except OSError as error:
        fault = f"cannot be read: {error.strerror or error}"
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False)[0]
            place = "/" + "/".join(map(str, first["loc"]))
            fault = f"{place}: {first['msg']}; write GROUP: {{PROJECT: [SCOPE, ...]}}"
        else:
            fault = f"is neither YAML nor JSON: {' '.join(str(error).split())[:300]}"
    raise SettingsError(f"FEDAUDIT_GROUPS_MAP: {path}, {fault}")
