"""Images of NumPy archives and LEAF files, and clients whose images are turned."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.federations import groups, mapped
from fedaudit.federations import image_federation as images
from fedaudit.federations import image_federation as leaf_module
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.image_federation import rotate, rotated_clients
from fedaudit.federations.levels import Levels
from fedaudit.federations.mapped import pack
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.fairness import Fairness
from tests.federations.image_files import (
    PATH,
    arrays,
    as_lists,
    handwriting,
    labels_of,
    leaf,
    load_leaf,
    load_npz,
    npz,
    pixels_of,
    rows_of,
    zipped,
)
from tests.refusals import refused_by

KEY = "/federation/client_key"
CLASSES = "/federation/classes"
SENSITIVE = "/fairness/sensitive/0"
PAST_UNICODE = np.array([65, 0x110000] * 6, dtype="<u4").view("<U1")
EDGES = "/fairness/edges/group"
CUT = {"group": [3.0]}
TURNED = {"rotate": {"probability": 1}}


def assert_refused(folder: Path, content: bytes, where: str, says: str, **fields: Any) -> None:
    (error,) = refused_by(load_npz, folder, content, **fields)
    assert error.pointer == where
    assert says in error.message


def test_rows_are_stored_client_after_client_in_the_order_of_the_file(tmp_path: Path) -> None:
    data = arrays(images=30, writer=np.array([7, 10, 9] * 10))
    federation = load_npz(tmp_path, npz(**data))
    assert federation.client_names == ("10", "7", "9"), "sorted by code point"
    assert rows_of(federation).image == (4, 4, 1)
    for client, writer in enumerate((10, 7, 9)):
        own = data["writer"] == writer
        expected = data["x"][own].reshape(10, 16).astype(np.float32) / np.float32(255)
        assert np.array_equal(pixels_of(federation, client), expected)
        assert np.array_equal(labels_of(federation, client), data["y"][own])
    pixels = ("pixel 0,0", "pixel 0,1", "pixel 0,2", "pixel 0,3", "pixel 1,0")
    assert federation.feature_names[:5] == pixels
    assert federation.target_name == "y"
    assert federation.target.dtype == np.float32
    assert not federation.notes


def test_clients_of_different_length_are_stored_one_after_the_other(tmp_path: Path) -> None:
    data = arrays(images=6, writer=np.array(["b", "a", "b", "b", "a", "c"]))
    data["site"] = np.array(["s", "t", "s", "", "t", "u"])
    federation = load_npz(tmp_path, npz(**data), fairness=Fairness(sensitive=["site"]))
    assert federation.client_names == ("a", "b", "c")
    assert federation.first.tolist() == [0, 2, 5, 6]
    site = federation.attribute("site")
    assert site.values == ("s", "t", "u")
    assert site.codes.tolist() == [1, 1, 0, 0, -1, 2]
    assert federation.notes == ("rows without a value of 'site', in no group: 1",)


@pytest.mark.parametrize("kind", ["<f4", ">f4", "<f8", "<f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_floats_are_kept_as_they_are(tmp_path: Path, kind: str, order: Any) -> None:
    x = np.asarray(np.random.default_rng(3).random((5, 3, 4, 2)).astype(kind), order=order)
    writer = np.array([0, 1, 0, 1, 1])
    federation = load_npz(tmp_path, npz(**arrays(5, x=x, writer=writer)))
    rows = rows_of(federation)
    assert rows.image == (3, 4, 2)
    assert (rows.divisor, rows.values.dtype) == (1, np.float32)
    assert federation.feature_names[:3] == ("pixel 0,0,0", "pixel 0,0,1", "pixel 0,1,0")
    expected = x[writer == 1].reshape(3, 24).astype(np.float32)
    assert np.array_equal(pixels_of(federation, 1), expected)


@pytest.mark.parametrize(("width", "image"), [(16, (4, 4, 1)), (15, None)])
def test_flat_rows(tmp_path: Path, width: int, image: object) -> None:
    x = np.zeros((12, width), dtype=np.float32)
    federation = load_npz(tmp_path, npz(**arrays(x=x)))
    assert rows_of(federation).image == image
    assert len(federation.feature_names) == federation.width == width


def test_the_spec_names_classes_by_numbers_before_the_archive_names_them(tmp_path: Path) -> None:
    data = npz(**arrays(classes=np.array(["w", "x", "y", "z", "never seen"])))
    own, numbered = load_npz(tmp_path, data), load_npz(tmp_path, data, classes=5)
    assert own.classes == ("w", "x", "y", "z", "never seen")
    assert numbered.classes == ("0", "1", "2", "3", "4")
    assert np.array_equal(own.raw_target, numbered.raw_target)


def test_classes_are_counted_where_nothing_names_them(tmp_path: Path) -> None:
    numbers = load_npz(tmp_path, npz(**arrays(3, y=np.array([10, 9, 700]), writer=np.arange(3))))
    assert numbers.classes == ("9", "10", "700")
    assert numbers.raw_target.ravel().tolist() == [1, 0, 2]
    texts = load_npz(tmp_path, npz(**arrays(3, y=np.array([b"b", b"a", b"b"]))))
    assert texts.classes == ("a", "b")


def test_an_array_called_rotated_serves_where_nothing_is_turned(tmp_path: Path) -> None:
    data = npz(**arrays(rotated=np.array(["left", "right"] * 6)))
    for turn, values in ((None, ("left", "right")), ({"probability": 0}, ("no", "yes"))):
        found = load_npz(tmp_path, data, fairness=Fairness(sensitive=["rotated"]), rotate=turn)
        assert found.attribute("rotated").values == values, "both exist, whatever was drawn"


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"x": None}, PATH, "no array 'x'"),
        ({"y": None}, PATH, "no array 'y'"),
        ({"writer": None}, KEY, "no array 'writer'; it has 'x', 'y'"),
        ({"x": np.zeros(12, dtype=np.uint8)}, PATH, "shape [12]"),
        ({"x": np.zeros((12, 1, 1, 1, 1), dtype=np.uint8)}, PATH, "shape [12, 1, 1, 1, 1]"),
        ({"x": np.zeros((12, 4, 4), dtype=np.int64)}, PATH, "type int64; store bytes"),
        ({"x": np.zeros((12, 4, 4), dtype=bool)}, PATH, "type bool; store bytes"),
        ({"x": np.zeros((0, 4, 4), dtype=np.uint8)}, PATH, "without an entry"),
        ({"x": np.zeros((12, 400, 400), dtype=np.uint8)}, PATH, "lower resolution"),
        ({"x": np.full((12, 4, 4), 255.0)}, PATH, "row 1 of column 'x' has a pixel outside 0 to 1"),
        ({"x": np.full((12, 4, 4), -0.1)}, PATH, "outside 0 to 1; store bytes, or divide"),
        ({"x": np.full((12, 4, 4), np.nan)}, PATH, "row 1 of column 'x' has a pixel that is no fi"),
        ({"y": np.arange(11)}, PATH, "shape [11]; it needs one entry for each of the 12 images"),
        ({"y": np.float64(3)}, PATH, "shape []"),
        ({"y": np.linspace(0, 1, 12)}, PATH, "type float64; labels are"),
        ({"y": np.zeros(12, dtype=int)}, PATH, "has 1 classes"),
        ({"y": np.array(["a", ""] * 6)}, PATH, "row 2 of column 'y' is empty"),
        ({"writer": np.arange(11)}, KEY, "shape [11]"),
        ({"writer": np.linspace(0, 1, 12)}, KEY, "type float64; clients are named by"),
        ({"writer": np.array(["a", " "] * 6)}, KEY, "row 2 of column 'writer' is empty"),
        *(
            ({"writer": np.array(["a", name] * 6)}, KEY, "row 2 of column 'writer' has control")
            for name in ("b\x07c", "\ud800")
        ),
        ({"writer": np.array([b"a", b"\xff"] * 6)}, KEY, "row 2 of column 'writer' has control"),
        ({"writer": PAST_UNICODE}, KEY, "row 2 of column 'writer' has control"),
        ({"writer": np.array(["a", "b" * 201] * 6)}, PATH, "at most 200 characters"),
        ({"writer": np.zeros(12, dtype=int)}, KEY, "at least two"),
        ({"classes": np.array(["a", "b", "c"])}, PATH, "row 4 of column 'y' is no whole number"),
        ({"classes": np.array(["a", "b", "c", "c"])}, PATH, "comes twice"),
        ({"classes": np.array(["a", "b", "c", ""])}, PATH, "is empty"),
        ({"classes": np.int64(4)}, PATH, "shape []"),
    ],
)
def test_arrays_that_are_no_federation(tmp_path, changes, where, says):
    assert_refused(tmp_path, npz(**arrays(**changes)), where, says)


@pytest.mark.parametrize("block", [1, 2**22])
def test_the_faulty_image_is_named(tmp_path, monkeypatch, block):
    monkeypatch.setattr("fedaudit.federations.reading.archives._BLOCK", block)
    x = np.zeros((12, 4, 4), dtype=np.float32)
    x[7, 1, 2] = np.inf
    says = "row 8 of column 'x' has a pixel that is no finite number"
    assert_refused(tmp_path, npz(**arrays(x=x)), PATH, says)


@pytest.mark.parametrize(
    ("changes", "fields", "where", "says"),
    [
        ({}, {"classes": 3}, PATH, "row 4 of column 'y' is no whole number from 0 to 2"),
        ({"y": -np.arange(12)}, {"classes": 3}, PATH, "row 2 of"),
        ({"y": np.full(12, 2**64 - 1, dtype=np.uint64)}, {"classes": 3}, PATH, "row 1 of"),
        ({"y": np.array(["0", "1"] * 6)}, {"classes": 3}, CLASSES, "labels are texts"),
        ({}, {"client_key": "site"}, KEY, "no array 'site'"),
        ({}, {"client_key": "x"}, KEY, "shape [12, 4, 4]"),
        ({"x": np.zeros((12, 4, 5), dtype=np.uint8)}, TURNED, "/federation/rotate", "4 by"),
        ({"x": np.zeros((12, 5), dtype=np.uint8)}, TURNED, "/federation/rotate", "5 feat"),
    ],
)
def test_specs_that_do_not_fit_the_arrays(tmp_path, changes, fields, where, says):
    assert_refused(tmp_path, npz(**arrays(**changes)), where, says, **fields)


@pytest.mark.parametrize(
    ("attribute", "edges", "where", "says"),
    [
        (None, {}, SENSITIVE, "no array 'group'"),
        (np.arange(11), {}, SENSITIVE, "shape [11]"),
        (np.full(12, np.nan), {}, SENSITIVE, "empty in every row"),
        (np.full(12, np.inf), {}, SENSITIVE, "row 1 of column 'group' has control"),
        (np.array(["1", "b"] * 6), CUT, EDGES, "row 2 of column 'group' is not a"),
        (np.array([True, False] * 6), CUT, EDGES, "is not a number"),
    ],
)
def test_sensitive_attributes_that_cannot_be_used(tmp_path, attribute, edges, where, says):
    fairness = Fairness(sensitive=["group"], edges=edges)
    assert_refused(tmp_path, npz(**arrays(group=attribute)), where, says, fairness=fairness)


@pytest.mark.parametrize(
    ("module", "limit", "value", "where", "says"),
    [
        (groups, "MAX_GROUPS", 11, SENSITIVE, "12 distinct values"),
        (images, "MAX_CLASSES", 3, PATH, "has 4 classes"),
        (images, "MAX_IMAGES_BYTES", 12 * 16 - 1, PATH, "images of more than"),
        (mapped, "MAX_FEDERATION_CELLS", 59, KEY, "12 rows of 0 features"),
    ],
)
def test_too_much_is_refused(tmp_path, monkeypatch, module, limit, value, where, says):
    monkeypatch.setattr(module, limit, value)
    by_group = Fairness(sensitive=["group"] if module is groups else [])
    content = npz(**arrays(group=np.arange(12)))
    assert_refused(tmp_path, content, where, says, fairness=by_group)


def federation_with(rows: ClientRows, counts: list[int]) -> Federation:
    names, clients = tuple(map(str, range(len(counts)))), np.repeat(np.arange(len(counts)), counts)
    rest: Any = {"feature_names": (), "classes": (), "notes": (), "fingerprint": ""}
    target = np.zeros(len(clients))
    return pack(Levels(names, clients), features=rows, target=target, target_name="y", **rest)


def test_a_turn_is_counter_clockwise() -> None:
    picture = np.array([[1, 2], [3, 4]], dtype=np.uint8)
    rows = ClientRows(np.stack([picture.ravel()] * 3), 255.0, image=(2, 2, 1))
    rotate(federation_with(rows, [1, 2]), np.array([False, True]))
    assert rows.values.tolist() == [[1, 2, 3, 4], [2, 4, 1, 3], [2, 4, 1, 3]]


def test_the_draw_follows_the_probability_by_seed_and_index_alone() -> None:
    """False alarm below 1e-6: five standard deviations of a binomial of 10,000."""
    drawn = rotated_clients(10_000, probability=0.2, seed=5)
    assert abs(drawn.mean() - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 10_000)
    assert not rotated_clients(1000, probability=0.0, seed=5).any()
    assert rotated_clients(1000, probability=1.0, seed=5).all()
    assert np.array_equal(drawn[:100], rotated_clients(100, probability=0.2, seed=5))
    assert not np.array_equal(drawn, rotated_clients(10_000, probability=0.2, seed=6))


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_all_of_a_clients_images_turn_and_nothing_else_changes(tmp_path: Path, kind: type) -> None:
    data = arrays(40, writer=np.arange(40) % 8)
    data["x"] = (data["x"] % 2).astype(kind) if kind is np.float32 else data["x"]
    fairness = Fairness(sensitive=["rotated"])
    plain = load_npz(tmp_path, npz(**data))
    turned = load_npz(tmp_path, npz(**data), rotate={"probability": 0.5}, fairness=fairness, seed=3)
    drawn = rotated_clients(8, probability=0.5, seed=3)
    assert 0 < drawn.sum() < 8
    attribute = turned.attribute("rotated")
    assert attribute.values == ("no", "yes")
    assert np.array_equal(attribute.codes, np.repeat(drawn, 5))
    for client in range(8):
        before = pixels_of(plain, client).reshape(-1, 4, 4)
        after = pixels_of(turned, client).reshape(-1, 4, 4)
        expected = np.rot90(before, axes=(1, 2)) if drawn[client] else before
        assert np.array_equal(after, expected)
    assert np.array_equal(turned.raw_target, plain.raw_target)
    assert turned.fingerprint == plain.fingerprint, "of the data, not of what a run does to it"


# -- LEAF's files become the arrays that they were written from -----------------------------------


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
