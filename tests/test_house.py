"""No circles between files or rooms, and no file too long."""

import pytest

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


def test_circles_are_found() -> None:
    arrows = {"a": ["b"], "b": ["c"], "c": ["b"], "d": ["a"]}
    assert circles(arrows) == [["b", "c"]]
    assert circles({"a": ["b"], "b": ["c"], "c": []}) == []
