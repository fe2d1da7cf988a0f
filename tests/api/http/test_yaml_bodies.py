"""Bodies in YAML mean what the same in JSON means, and nothing else gets through."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from api.http.bodies import decode_json, decode_yaml
from api.http.problems import ProblemError
from fedaudit.spec.errors import InvalidInputError
from tests.api.service import SPEC, Api, spec
from tests.api.uploads import CONTENT, REGISTRATION

YAML = {"Content-Type": "application/yaml"}
EXAMPLE = Path(__file__).parents[3] / "examples" / "synthetic-groups-k2.yaml"


@pytest.fixture
def api(shared_api: Api) -> Api:
    """Nothing that a test here stores is in the way of another."""
    return shared_api


def _faults(api: Api, body: str, path: str = "/v1/experiments") -> list[tuple[str, str]]:
    answer = api.post(path, content=body.encode(), headers=YAML)
    assert answer.status_code == 422, answer.text
    return [(one["pointer"], one["message"]) for one in answer.json()["errors"]]


@pytest.mark.parametrize("media_type", ["application/yaml", "application/x-yaml", "text/yaml"])
def test_an_example_is_sent_as_it_is(api: Api, media_type: str) -> None:
    headers = {"Content-Type": f"{media_type}; charset=utf-8"}
    answer = api.post("/v1/experiments", content=EXAMPLE.read_bytes(), headers=headers)
    assert answer.status_code == 202, answer.text
    assert answer.json()["name"] == "synthetic-groups-k2"


def test_it_is_the_same_request_as_in_json(api: Api) -> None:
    once = {"Idempotency-Key": "once"}
    text = yaml.safe_dump(SPEC)
    first = api.post("/v1/experiments", content=text, headers={**YAML, **once})
    again = api.post("/v1/experiments", json=SPEC, headers=once)
    assert first.json()["id"] == again.json()["id"]


def test_policies_gates_and_registrations_are_taken_too(api: Api) -> None:
    policy = "gates:\n- {figure: accuracy, op: ge, value: 0.7}\n"
    path = "/v1/gates/policies/release"
    assert api.request("PUT", path, content=policy, headers=YAML).status_code == 201
    asked = f"experiment_id: {api.submit()['id']}\npolicy: release\n"
    assert api.post("/v1/gates/evaluations", content=asked, headers=YAML).status_code == 200
    [(pointer, message)] = _faults(
        api,
        "name: people\nfederation: {source: table, path: none.csv, client_key: a, target: b}\n",
        "/v1/federations",
    )
    assert pointer == "/federation/path"
    assert "none.csv" in message


def test_the_registration_of_an_upload_is_taken_too(api: Api) -> None:
    for media_type, status in (("text/yaml", 202), ("text/plain", 422)):
        described = ("registration", (None, yaml.safe_dump(REGISTRATION), media_type))
        files = [described, ("file", ("incomes.csv", CONTENT, "text/csv"))]
        assert api.post("/v1/federations", files=files).status_code == status


def test_faults_are_those_of_json(api: Api) -> None:
    wrong = spec(surprise=1, privacy={"noise_multiplier": -1}, training={"rounds": 4.5})
    answer = api.post("/v1/experiments", json=wrong).json()
    told = [(one["pointer"], one["message"]) for one in answer["errors"]]
    assert len(told) == 3
    assert _faults(api, yaml.safe_dump(wrong)) == told


@pytest.mark.parametrize(
    ("text", "pointer", "words"),
    [
        ("name: a\nname: b\n", "", "'name' is given twice"),
        ("a: &a [1]\nb: [*a, *a]\n", "", "aliases"),
        ("a: !!python/object/apply:os.system [id]\n", "", "neither YAML nor JSON"),
        ("a: !!bool perhaps\n", "", "neither YAML nor JSON"),
        ("a: !!timestamp today\n", "", "neither YAML nor JSON"),
        ("a: [" * 500, "", "neither YAML nor JSON"),
        ("[" * 300 + "]" * 300, "", "nested"),
        ("- " * 100 + "a", "", "nested"),
        ("a: \x00", "", "neither YAML nor JSON"),
        ("fairness: {sensitive: [2026-01-31]}\n", "/fairness/sensitive/0", "in quotes"),
        ("labels: {sex: {1: male}}\n", "/labels/sex", "quote it"),
        ("seed: .nan\n", "/seed", "no finite number"),
        ("seed: -.inf\n", "/seed", "no finite number"),
        (f"seed: 0x{'f' * 20_000}\n", "/seed", "larger than"),
        ("tags: !!set {a, b}\n", "/tags", "neither a text"),
    ],
)
def test_what_json_has_no_word_for_is_refused(api, text, pointer, words):
    before = api.counts()
    [(found, message)] = _faults(api, text)
    assert found == pointer
    assert words in message
    assert api.counts() == before


def test_a_long_text_is_refused(api: Api) -> None:
    answer = api.post("/v1/experiments", content="a" * 70_000, headers=YAML)
    assert answer.status_code == 413
    assert "65536 bytes" in answer.json()["detail"]
    not_text = api.post("/v1/experiments", content=b"\xff\xfe", headers=YAML)
    assert not_text.json()["detail"].endswith("is not UTF-8")
    assert api.post(
        "/v1/experiments", content="a", headers={"Content-Type": "x/y"}
    ).status_code == (415)


PIECES = st.sampled_from(
    [
        *("a", "1", ":", " ", "\n", "- ", "{", "}", "[", "]", ",", "'", '"', "!!int ", "!!set "),
        *("!!omap ", "&a ", "*a", "<<", "? ", "1:1", ".", "e9", "0x", "2026-01-01", "~", "|", "%"),
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
@settings(deadline=None, max_examples=300)
def test_whatever_is_sent_is_a_value_of_json_or_a_fault(text: str) -> None:
    try:
        value: Any = decode_yaml(text.encode())
    except (InvalidInputError, ProblemError):
        return
    assert decode_json(json.dumps(value).encode()) == value
