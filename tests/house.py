"""The house in figures, from the imports of its files: `python -m tests.house` prints them.

A room is a package. Its boxes are what lies in it: files, and folders as one box each. An arrow
leads from a box to another that it imports; a box stands one floor above the highest of those.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PLACES = {
    **dict.fromkeys(("fedaudit", "models", "infrastructure", "api", "workers", "migrations"), ROOT),
    "fedaudit_client": ROOT / "clients" / "python",
}
"""Every package, and the folder that it lies in."""

Arrows = Mapping[str, Collection[str]]


@dataclass(frozen=True)
class Room:
    """One package: its boxes, with the boxes that each of them imports."""

    name: str
    boxes: Arrows
    files: int
    """Modules that lie in the folder itself."""

    @property
    def arrows(self) -> int:
        """How many ordered pairs of boxes import each other's names."""
        return sum(len(found) for found in self.boxes.values())

    @property
    def floors(self) -> int:
        """The longest chain of imports, in boxes. Raises RecursionError where there is a circle."""

        @cache
        def floor(box: str) -> int:
            return 1 + max(map(floor, self.boxes[box]), default=0)

        return max(map(floor, self.boxes), default=0)


@cache
def files() -> dict[str, Path]:
    """Every source file, by its module's name."""
    return {
        ".".join(path.relative_to(place).with_suffix("").parts): path
        for package, place in PLACES.items()
        for path in (place / package).rglob("*.py")
    }


@cache
def imports() -> Arrows:
    """The modules that each module imports, within the house."""
    graph = grimp.build_graph(*PLACES, cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


@cache
def rooms() -> tuple[Room, ...]:
    """Every package, by name. What an `__init__` hands on is part of no box."""
    known = imports()
    packages = sorted(name.removesuffix(".__init__") for name in files() if name.endswith("init__"))
    return tuple(_room(name, known) for name in packages)


def circles(arrows: Arrows) -> list[list[str]]:
    """Groups of two or more that reach each other, by what they reach."""
    reached = {name: _reached(name, arrows) for name in arrows}
    groups = {
        tuple(sorted({name, *(other for other in reached[name] if name in reached[other])}))
        for name in arrows
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _room(name: str, known: Arrows) -> Room:
    inside = [module for module in known if module.startswith(f"{name}.")]
    boxes: dict[str, set[str]] = {_box(name, module): set() for module in inside}
    for module in inside:
        here = _box(name, module)
        others = {_box(name, one) for one in known[module] if one.startswith(f"{name}.")}
        boxes[here] |= others - {here}
    folder = PLACES[name.split(".", maxsplit=1)[0]] / name.replace(".", "/")
    flat = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    return Room(name, boxes, len(flat))


def _box(room: str, module: str) -> str:
    return module[len(room) + 1 :].split(".", maxsplit=1)[0]


def _reached(start: str, arrows: Arrows) -> set[str]:
    found: set[str] = set()
    ahead = list(arrows[start])
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += arrows.get(name, ())
    return found


def main() -> None:
    """Print the figures of every room with two boxes or more."""
    print(f"{len(files())} files, {sum(map(len, imports().values()))} imports between them")
    print("| room | files | boxes | arrows | floors |\n|---|---|---|---|---|")
    for room in rooms():
        if len(room.boxes) > 1:
            floors = "a circle" if circles(room.boxes) else room.floors
            figures = (room.files, len(room.boxes), room.arrows, floors)
            print(f"| `{room.name}` | {' | '.join(map(str, figures))} |")


if __name__ == "__main__":
    main()
