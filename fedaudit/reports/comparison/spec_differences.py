"""Where the specs of several experiments differ, with every default made explicit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedaudit.reports.comparison.parts import SpecDifference, SpecValue

# Every experiment has its own name, which the comparison's head already shows.
_PASSED_OVER = ("name",)


def spec_differences(specs: Sequence[Mapping[str, Any]]) -> list[SpecDifference]:
    """The paths at which the specs differ, section by section."""
    leaves = [dict(_leaves(spec)) for spec in specs]
    sections = list(dict.fromkeys(name for spec in specs for name in spec))
    paths = dict.fromkeys(path for of_one in leaves for path in of_one)
    differences = []
    for path in sorted(paths, key=lambda one: sections.index(one.partition(".")[0])):
        values = [SpecValue(present=path in of_one, value=of_one.get(path)) for of_one in leaves]
        if path not in _PASSED_OVER and any(one != values[0] for one in values):
            differences.append(SpecDifference(path=path, values=values))
    return differences


def _leaves(part: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted paths and their values: lists, empty objects and scalars."""
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
