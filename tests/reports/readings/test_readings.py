"""What all readings have in common: no report is refused, and none is changed."""

import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.reports.readings.reading import plain
from fedaudit.reports.readings.readings import READINGS, reading
from fedaudit.reports.report import assemble
from tests.reports.reading_documents import NAMES, documents, gaussian


@pytest.mark.parametrize("name", NAMES)
def test_a_reading_is_json_or_text_and_leaves_the_report_alone(material, name):
    for document in documents(material).values():
        before = copy.deepcopy(document)
        found = reading(document, name)
        assert document == before
        assert isinstance(found, str) == (READINGS[name].schema is None)
        json.dumps(found, allow_nan=False)
        assert reading(document, name) == found


def _without(value: Any, path: tuple[str, ...], put: Any) -> dict[str, Any]:
    made = copy.deepcopy(value)
    part = made
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = put
    return made


def _paths(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for name, part in value.items():
            found += _paths(part, (*path, name))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_an_older_report_lacks_stops_nothing(material, name):
    """Every field is null once, and once of one of the other types in turn."""
    reading({}, name)
    for document in (assemble(material()), gaussian(material)):
        others = itertools.cycle(("text", 7, [], {}, [1]))
        for path in _paths(document):
            for put in (None, next(others)):
                json.dumps(reading(_without(document, path, put), name), allow_nan=False)


@given(st.text(alphabet=st.sampled_from("ab_*`<>[](){}|$#~&\\ \n")))
def test_escaped_text_marks_nothing_up(text):
    found = plain(text)
    assert "\n" not in found
    bare = found.replace("\\\\", "")
    for mark in "*`<>[]{}|$#~&":
        assert bare.count(mark) == bare.count(f"\\{mark}")
    assert found.replace("\\", "") == " ".join(text.split()).replace("\\", "")
