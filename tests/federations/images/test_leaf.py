"""LEAF's files become the arrays that they were written from, and faults name user and row."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.federations import image_federation as leaf_module
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.fairness import Fairness
from tests.federations.image_files import (
    PATH,
    as_lists,
    handwriting,
    labels_of,
    leaf,
    load_leaf,
    pixels_of,
    rows_of,
    zipped,
)
from tests.refusals import refused_by

GOOD: dict[str, Any] = {
    "a": ([[0.0, 0.5, 1, 0.25], [0.1, 0.2, 0.3, 0.4]], [3, 61]),
    "b": ([[1, 1, 1, 1]], [0]),
}


def refuse(folder: Path, content: bytes, **fields: Any) -> str:
    (error,) = refused_by(load_leaf, folder, content, **fields)
    assert error.pointer == PATH
    assert "leaf.json" in error.message
    return error.message


def test_a_file_is_read_to_the_arrays_it_was_made_from(tmp_path: Path) -> None:
    users = handwriting(1, {"f02_b": 7, "f01_a": 3, "F03": 5})
    federation = load_leaf(tmp_path, leaf(as_lists(users)))
    assert federation.client_names == ("F03", "f01_a", "f02_b"), "sorted by code point"
    rows = rows_of(federation)
    assert rows.image == (28, 28, 1)
    assert (rows.divisor, rows.values.dtype) == (1, np.float32)
    for client, user in enumerate(federation.client_names):
        pixels, labels = users[user]
        assert np.array_equal(pixels_of(federation, client), pixels), "exactly, in float32"
        assert np.array_equal(labels_of(federation, client), labels)
    assert federation.classes == tuple(str(label) for label in range(62))
    assert federation.counts.tolist() == [5, 3, 7]


@pytest.mark.parametrize(
    ("other", "kind"), [([[0, 1, 0.2, 1]], np.uint8), ([[0, 0.1, 0, 1]], np.float32)]
)
def test_bytes_over_255_are_kept_as_bytes_unless_there_is_another_number(tmp_path, other, kind):
    every = np.arange(256).reshape(64, 4)
    users = {"a": ((every / 255).tolist(), [0] * 64), "b": (other, [1])}
    federation = load_leaf(tmp_path, leaf(users))
    assert rows_of(federation).values.dtype == kind
    assert np.array_equal(pixels_of(federation, 0), (every / 255).astype(np.float32)), "exactly"
    assert np.array_equal(pixels_of(federation, 1), np.array(other, dtype=np.float32))


@settings(max_examples=50, deadline=None)
@given(
    pixels=st.lists(
        st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=4
    )
)
def test_any_numbers_are_read_back_exactly(tmp_path_factory, pixels):
    users = {"a": (pixels, [0] * len(pixels)), "b": ([[0, 0, 0]], [0])}
    federation = load_leaf(tmp_path_factory.mktemp("leaf"), leaf(users))
    assert np.array_equal(pixels_of(federation, 0), np.array(pixels, dtype=np.float32))


def test_compressed_and_in_shards_it_is_the_same(tmp_path: Path) -> None:
    users = as_lists(handwriting(2, {"a": 2, "b": 1, "c": 3}, width=9))
    plain = load_leaf(tmp_path, leaf(users))
    packed = load_leaf(tmp_path, gzip.compress(leaf(users)), name="leaf.json.gz")
    members = {
        "train/": b"",
        "train/1.json": leaf({"b": users["b"]}),
        "train/0.json": leaf({name: users[name] for name in "ca"}),
        "__MACOSX/train/._0.json": b"\x00",
    }
    shards = load_leaf(tmp_path, zipped(members), name="leaf.zip")
    for other in (packed, shards):
        assert other.client_names == plain.client_names
        assert np.array_equal(rows_of(other).values, rows_of(plain).values)
        assert np.array_equal(other.raw_target, plain.raw_target)
        assert np.array_equal(other.first, plain.first)
    assert packed.fingerprint == plain.fingerprint
    assert rows_of(plain).image == (3, 3, 1)


def test_users_without_images_are_left_out_and_counted(tmp_path: Path) -> None:
    federation = load_leaf(tmp_path, leaf({**GOOD, "empty": ([], [])}))
    assert federation.client_names == ("a", "b")
    assert federation.notes == ("users without images, left out: 1",)


def changed(user: str, **changes: Any) -> dict[str, Any]:
    data = {name: {"x": x, "y": y} for name, (x, y) in GOOD.items()}
    data[user] = {name: value for name, value in {**data[user], **changes}.items() if value}
    return {"user_data": data}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"users": None}, "at 'users': "),
        ({"user_data": []}, "at 'user_data': "),
        ({"num_samples": ["2", 1]}, "at 'num_samples.0': "),
        ({"num_samples": [2]}, "has user 'b' not once"),
        ({"num_samples": [3, 1]}, "has user 'a' not once"),
        ({"users": ["a", "a"]}, "has user 'a' not once"),
        ({"users": ["a", "c"]}, "has user 'c' not once"),
        ({"users": ["a"], "num_samples": [2]}, "has user 'b' not once"),
        *(
            ({"user_data": {name: {"x": [], "y": []}}}, f"at {says}")
            for name, says in (("", "'user_data."), ("b\u0000", "'user"), ("b" * 201, "'user"))
        ),
        ({"user_data": {"a": [], "b": {}}}, "at 'user_data.a': "),
        (changed("a", x=None), "at 'user_data.a.x': "),
        (changed("a", x=[[0] * 4]), "gives user 'a' 1 images in x and 2 labels in y"),
        (changed("a", x=[[0] * 4, [0] * 3]), "gives user 'a' at x[1] 3 numbers, and 4 at x[0]"),
        (changed("a", x=[[0] * 5] * 2), "user 'b' images of 4 numbers, and 'a' has images of 5"),
        (changed("b", x=[[]]), "at 'user_data.b.x.0': "),
        (changed("b", x=[7]), "at 'user_data.b.x.0': "),
        *(
            (changed("b", x=[[0, 0, 0, other]]), "at 'user_data.b.x.0.3': ")
            for other in ("0.5", True, None, [1], 1.5, -1, 1e300)
        ),
        (changed("a", y=[0, 62]), "gives user 'a' at y[1] no whole number from 0 to 61"),
        *(
            (changed("a", y=[other, 0]), "at 'user_data.a.y.0': ")
            for other in (-1, 1.0, "1", True, 10**30)
        ),
    ],
)
def test_faults_name_the_user_and_the_row(tmp_path, changes, says):
    assert says in refuse(tmp_path, leaf(GOOD, **changes))


@pytest.mark.parametrize("users", [{}, {"a": GOOD["a"]}, {"a": GOOD["a"], "b": ([], [])}])
def test_fewer_than_two_users(tmp_path: Path, users: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=r"/federation/path: .* at least two clients"):
        load_leaf(tmp_path, leaf(users))


def test_fewer_classes(tmp_path: Path) -> None:
    assert "from 0 to 9" in refuse(tmp_path, leaf(GOOD), classes=10)
    assert load_leaf(tmp_path, leaf(GOOD), classes=100).classes[-1] == "99"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "Invalid JSON: EOF", id="empty"),
        pytest.param(b"[]", "at its beginning", id="list"),
        pytest.param(b"x,y\n1,2\n", "Invalid JSON", id="table"),
        pytest.param(leaf(GOOD)[:-9], "Invalid JSON", id="truncated"),
        pytest.param(leaf(GOOD).replace(b"0.25", b"NaN"), "at 'user_data.a.x.0.3'", id="nan"),
        pytest.param(leaf(GOOD).replace(b'"a"', b'"\xff"'), "Invalid JSON", id="not UTF-8"),
        pytest.param(leaf(GOOD).decode().encode("utf-16"), "Invalid JSON", id="utf-16"),
        pytest.param(b"[" * 100_000, "Invalid JSON", id="deep"),
        pytest.param(gzip.compress(leaf(GOOD))[:-20], "gzip file", id="damaged gzip"),
    ],
)
def test_files_that_are_not_leaf(tmp_path: Path, content: bytes, says: str) -> None:
    assert says in refuse(tmp_path, content)


@pytest.mark.parametrize(
    ("shard", "says"),
    [
        (leaf({"b": GOOD["b"]}), "has a user 'b', whom '0.json' has too"),
        (leaf({"c": ([[0] * 9], [0])}), "gives user 'c' images of 9 numbers"),
        (b"{", "is not as LEAF writes it"),
    ],
)
def test_a_fault_in_a_shard_names_the_shard(tmp_path: Path, shard: bytes, says: str) -> None:
    content = zipped({"0.json": leaf(GOOD), "1.json": shard})
    assert f"('1.json') {says}" in refuse(tmp_path, content)


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"../0.json": leaf(GOOD)}, "'../0.json', a path that leads out"),
        ({"0.json": leaf(GOOD), "README.md": b""}, "holds 'README.md', and only .json"),
        ({"0.json": zipped({"2.json": leaf(GOOD)})}, "('0.json') is not as LEAF"),
        ({"data/": b""}, "without a .json file"),
    ],
)
def test_zips_that_hold_anything_else(tmp_path: Path, members: dict[str, bytes], says: str) -> None:
    assert says in refuse(tmp_path, zipped(members))
    assert [path.name for path in tmp_path.rglob("*")] == ["leaf.json"], "nothing is unpacked"


def test_what_would_not_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaf_module, "MAX_VALUES", 10)
    assert "more than 10 values" in refuse(tmp_path, leaf(GOOD))
    monkeypatch.setattr(leaf_module, "MAX_VALUES", 30)
    monkeypatch.setattr(leaf_module, "MAX_IMAGES_BYTES", 47)
    assert "images of more than" in refuse(tmp_path, leaf(GOOD)), "12 numbers of four bytes"
    monkeypatch.setattr(leaf_module, "MAX_IMAGES_BYTES", 48)
    assert load_leaf(tmp_path, leaf(GOOD)).rows == 3
    monkeypatch.setattr(leaf_module, "MAX_SHARD_BYTES", 50)
    assert "holds" in refuse(tmp_path, leaf(GOOD))
    assert "'0.json' of more than" in refuse(tmp_path, zipped({"0.json": leaf(GOOD)}))
    monkeypatch.setattr(leaf_module, "MAX_DATA_SET_BYTES", 50)
    assert "expands to more" in refuse(tmp_path, zipped({f"{i}.json": b" " * 30 for i in range(2)}))


@pytest.mark.parametrize(
    ("fields", "sensitive"), [({}, "rotated"), ({"rotate": {"probability": 0.5}}, "site")]
)
def test_attributes_that_handwriting_does_not_have(tmp_path, fields, sensitive):
    (error,) = refused_by(
        load_leaf, tmp_path, leaf(GOOD), fairness=Fairness(sensitive=[sensitive]), **fields
    )
    assert error.pointer == "/fairness/sensitive/0"
    assert repr(sensitive) in error.message
