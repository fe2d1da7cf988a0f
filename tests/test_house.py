"""No circles between files or rooms, and no file too long."""

from pathlib import Path

import pytest

import migrations
from models.database import HEAD
from tests.house import Room, circles, files, imports, rooms

MAX_LINES = 600


def test_no_circle_between_files() -> None:
    assert circles(imports()) == []


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.name)
def test_no_circle_between_the_boxes_of_a_room(room: Room) -> None:
    assert circles(room.boxes) == []


def test_no_source_file_is_too_long() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in files().items()}
    assert {name: count for name, count in lengths.items() if count > MAX_LINES} == {}


def test_no_two_revisions_of_the_database_have_one_number() -> None:
    folder = Path(migrations.__file__).parent / "earlier" / "versions"
    numbers = sorted(path.name[:4] for path in folder.glob("[0-9]*.py"))
    assert len(set(numbers)) == len(numbers)
    assert numbers[-1] == HEAD


def test_circles_are_found() -> None:
    arrows = {"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}
    assert circles(arrows) == [["b", "c"]]
    assert circles({"a": ["b"], "b": ["c"], "c": []}) == []
