"""What all readings have in common: no report is refused, and none is changed."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.number_text import plain
from fedaudit.reports.readings.readings import READINGS, reading
from tests.reports.reading_documents import NAMES, documents


@pytest.mark.parametrize("name", NAMES)
def test_a_reading_is_json_or_text_and_leaves_the_report_alone(material, name):
    for document in documents(material).values():
        before = copy.deepcopy(document)
        found = reading(document, name)
        assert document == before
        assert isinstance(found, str) == (READINGS[name].schema is None)
        json.dumps(found, allow_nan=False)
        assert reading(document, name) == found


@given(st.text(alphabet=st.sampled_from("ab_*`<>[](){}|$#~&\\ \n")))
def test_escaped_text_marks_nothing_up(text):
    found = plain(text)
    assert "\n" not in found
    bare = found.replace("\\\\", "")
    for mark in "*`<>[]{}|$#~&":
        assert bare.count(mark) == bare.count(f"\\{mark}")
    assert found.replace("\\", "") == " ".join(text.split()).replace("\\", "")
