"""From a text to a spec, in linear time."""

import json
import math
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import rfc8785
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import decode_text, parse_spec
from tests.processes import completed
from tests.refusals import refused_by

# PyYAML writes a text like 1e5 without quotes, which is a number to everyone else.
NAMES = st.text(st.characters(categories=("L", "N", "P", "Z")), max_size=8).filter(
    lambda name: not re.search("[0-9.]e[-+0-9]", name, re.IGNORECASE)
)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def refusal(text: str) -> str:
    (error,) = refused_by(decode_text, text)
    assert error.pointer == ""
    return error.message


@given(JSON_VALUES)
def test_json_texts_mean_what_json_says(value: Any) -> None:
    document = {"value": value}
    assert decode_text(json.dumps(document)) == document
    assert decode_text(json.dumps(document, indent=2, ensure_ascii=False)) == document


@given(JSON_VALUES)
def test_yaml_texts_mean_what_yaml_says(value: Any) -> None:
    assert decode_text(yaml.safe_dump(value, allow_unicode=True)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-6", 1e-6), ("1E5", 1e5), ("-2.e+3", -2000.0), (".5e1", 5.0), ("1.0e-6", 1e-6)],
)
def test_numbers_with_an_exponent_are_numbers(text: str, value: float) -> None:
    assert decode_text(f"radius_floor: {text}") == {"radius_floor": value}
    assert decode_text(f"{{radius_floor: {text}}}") == {"radius_floor": value}


@pytest.mark.parametrize("text", ["e5", "1e", "zip-1e5", "1e5x", "e"])
def test_words_with_an_e_stay_words_and_an_anchor_without_an_alias_is_harmless(text: str) -> None:
    assert decode_text(f"a: &here {text}") == {"a": text}


@pytest.mark.parametrize(
    ("text", "twice"),
    [
        ("seed: 1\nseed: 2", "line 2: 'seed'"),
        ("a:\n  - {b: 1,\n     b: 1}", "line 3: 'b'"),
        ("a: 1\n'a': 1", "line 2: 'a'"),
        ('{"privacy": {"mechanism": "none", "mechanism": "none"}}', "'mechanism'"),
        ('[{"x": 1, "y": 2, "x": 3}]', "'x'"),
    ],
)
def test_a_name_given_twice_is_refused(text: str, twice: str) -> None:
    assert refusal(text) == f"{twice} is given twice; keep one"


LAUGHS = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line"),
    [(LAUGHS, 2), ("a: &a [*a]", 1), ("base: &base {b: 1}\n\nmore:\n  <<: *base", 4)],
    ids=["billion laughs", "endless", "merge"],
)
def test_aliases_are_refused(text: str, line: int) -> None:
    assert refusal(text) == f"line {line}: aliases (`*name`) are not supported; write the value out"


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 5_000, '{"a":' * 100_000, "- " * 50_000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert refusal(text).startswith("is neither YAML nor JSON")


@pytest.mark.parametrize(
    "text",
    [
        "name: [",
        "{",
        '{"a": 1,}}',
        "\x00",
        "a: \x07",
        "\t- a",
        "--- 1\n--- 2",
        "? [1, 2]\n: 3",
        "a: !!python/object/apply:os.system [true]",
        "a: !!python/name:os.system",
        "a: " + "9" * 5000,
        '{"a": ' + "9" * 5000 + "}",
        "a: 2024-13-45",
        "a: !!bool foo",
        'a: !!int ""',
        'a: !!float ""',
        "a: !!timestamp x",
        "a: !!float 1" + ":59" * 400,
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_neither_is_refused(text: str) -> None:
    message = refusal(text)
    assert message.startswith("is neither YAML nor JSON")
    assert len(message) < 400


def test_a_number_without_end_is_refused_before_it_is_worked_out() -> None:
    number = "1" + ":59" * 130_000
    assert "line 2: a number in base 60 of 390001 characters" in refusal(f"a: 1:30\nb: {number}")


@pytest.mark.parametrize("text", ["", "# nothing", "null", "[]", "just words", "3"])
def test_what_is_no_object_is_no_spec(text: str) -> None:
    (error,) = refused_by(parse_spec, decode_text(text))
    assert (error.pointer, error.message) == ("", "must be an object with named fields")


@given(st.text(max_size=60))
def test_any_text_is_a_value_or_refused(text: str) -> None:
    with suppress(InvalidInputError):
        assert parse_spec(decode_text(text))


_ROOT = Path(__file__).parents[2]
# The name that is given twice stands last, where a search from the front finds it last.
_MANY_NAMES = """
import resource
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from api.http.bodies import decode_json
from api.http.problems import ProblemError
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import decode_text, parse_spec
text = '{' + ','.join(f'"{n}": 0' for n in range(150_000)) + ',"149999": 1}'
for call, given in (
    (decode_json, text.encode()),
    (decode_text, text),
    (parse_spec, {f'field {n}': 0 for n in range(60_000)}),
):
    try:
        call(given)
    except (ProblemError, InvalidInputError) as refused:
        print(call.__name__, len(str(refused)) > 0)
"""


def test_many_names_are_refused_in_linear_time() -> None:
    done = completed([sys.executable, "-c", _MANY_NAMES], cwd=_ROOT)
    said = ["decode_json True", "decode_text True", "parse_spec True"]
    assert done.stdout.splitlines() == said, (done.returncode, done.stderr[-500:])


# -- canonical JSON is that of the library, whichever way it is made ------------------------------


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.integers(-400, 400).map(lambda power: 2.0**power),
    st.integers(-30, 30).map(lambda power: 10.0**power),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner) | st.tuples(inner, inner),
)


@given(VALUES)
def test_values_are_written_as_by_the_library(value):
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "names", [["\ue000", "\U00010000"], ["\uffff", "\U0010ffff", "a"], ["é", "z"], ["10", "9", ""]]
)
def test_names_are_in_the_order_of_utf_16(names):
    value = dict.fromkeys(names, -0.0)
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value", [2**53, -(2**53), math.nan, -math.inf, {1: 2}, {1: 2, "a": 3}, object(), "\ud800"]
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_json([value])
