"""Archives that cannot be read, or were made to do harm: refused before they do any."""

import gzip
import os
import pickle
import stat
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.federations.reading import archives
from fedaudit.federations.reading.source_files import Files, open_path
from fedaudit.spec.errors import InvalidInputError
from tests.federations.image_files import PATH, arrays, npy, zipped
from tests.federations.image_files import npz as saved
from tests.refusals import refused_by


def header(shape: object = "(4,)", descr: str = "'|u1'", order: object = False) -> str:
    """Of an array of four bytes, or as given."""
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


UINT8 = header()


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


@contextmanager
def opened(folder: Path, content: bytes) -> Iterator[Any]:
    """The archive with this content."""
    (folder / "data.npz").write_bytes(content)
    with (
        open_path("data.npz", files=Files(folder), pointer=PATH) as file,
        archives.open_numpy(file) as archive,
    ):
        yield archive


def read(folder: Path, content: bytes) -> dict[str, Any]:
    """Every array of an archive, read as a whole."""
    with opened(folder, content) as archive:
        return {name: archive.read(name) for name in archive.names}


def refuse(folder: Path, content: bytes) -> str:
    (error,) = refused_by(read, folder, content)
    assert error.pointer == PATH
    assert "data.npz" in error.message
    return error.message


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([True, False]),
        np.array(["ä", "", "long"]),
        np.array([b"a", b"bc"]),
        np.float16(0.5),
        np.array([[["a"], ["b"]]]),
    ],
)
def test_arrays_are_read_as_numpy_reads_them(tmp_path: Path, array: Any) -> None:
    (own,) = read(tmp_path, saved(a=array)).values()
    assert np.array_equal(own, array)
    assert own.dtype == np.asarray(array).dtype.newbyteorder("=")
    newer = zipped({"a.npy": npy(UINT8, b"abcd", version=b"\x02\x00")})
    assert read(tmp_path, newer)["a"].tobytes() == b"abcd"


def test_blocks_are_the_rows_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_BLOCK", 13)
    whole = np.arange(70, dtype="<i2").reshape(10, 7)
    with opened(tmp_path, saved(a=whole, f=np.asfortranarray(whole))) as archive:
        blocks = list(archive.blocks("a"))
        assert [first for first, _ in blocks] == list(range(10))
        assert np.array_equal(np.concatenate([block for _, block in blocks]), whole)
        ((first, block),) = archive.blocks("f")
        assert first == 0
        assert np.array_equal(block, whole)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    mark = tmp_path / "unpickled"
    trapped = saved(**arrays(), note=np.array([Trap(mark)], dtype=object))
    message = refuse(tmp_path, trapped)
    assert "Python objects in the array 'note', which are never unpickled" in message
    assert not mark.exists()
    with np.load(tmp_path / "data.npz", allow_pickle=True) as archive:
        _ = archive["note"]
    assert mark.exists(), "the trap works"


@pytest.mark.parametrize(
    "descr", ["'|O'", "[('a', '|O')]", "[('a', '<i4'), ('b', '|O', (2,))]", "('|O', (2, 2))"]
)
def test_objects_in_disguise(tmp_path: Path, descr: str) -> None:
    content = npy(header("(1,)", descr), pickle.dumps(Trap(tmp_path / "no")))
    message = refuse(tmp_path, zipped({"a.npy": content}))
    assert "never unpickled" in message
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        (header("(5,)"), "shape does not fit"),
        (header("(3,)"), "shape does not fit"),
        (header("(-2, -2)"), "shape does not fit"),
        (header("(10**18,)", "'<f8'"), "header"),
        (header(f"({10**30},)", "'<f8'"), "shape does not fit"),
        (header(f"({2**64 + 4},)"), "shape does not fit"),
        (header("(2,)", "'<c2'"), "header"),
        (header("()", "'<M8[s]'"), "shape does not fit"),
        (header("()", "'|V4'"), "of type"),
        (header("()", "[('a', '<i4')]"), "of type"),
        (header("__import__('os')"), "header"),
        (header(order=7), "header"),
        ("{'descr': '|u1', 'shape': (4,), }", "header"),
        *((text, "header") for text in ("{", "", "(" * 1000, "[" * 100 + "]" * 100)),
        (UINT8 + " " * 5000, "header"),
        # Many entries of no size.
        (header(f"({10**18},)", "'<U0'"), ""),
        (header(f"(0, {10**12})"), ""),
        (header(f"({10**12},)", "'|V0'"), ""),
    ],
)
def test_headers_that_are_wrong(tmp_path: Path, stated: str, says: str) -> None:
    message = refuse(tmp_path, zipped({"a.npy": npy(stated, b"abcd" if says else b"")}))
    assert "array 'a'" in message
    assert says in message


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2, dtype=complex),
        np.zeros(2, dtype="M8[s]"),
        np.zeros(2, dtype=np.longdouble),
        np.array(["a" * 201]),
        np.array([b"a" * 201]),
    ],
)
def test_types_that_are_no_numbers_or_texts(tmp_path: Path, array: Any) -> None:
    if np.asarray(array).dtype == np.float64:
        pytest.skip("long doubles are doubles on this machine")
    assert "of type" in refuse(tmp_path, saved(a=array))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "is no NumPy archive", id="empty"),
        pytest.param(b"PK\x03\x04", "damaged", id="four bytes"),
        pytest.param(b"x,y\n1,2\n" * 9, "is no NumPy archive", id="a table"),
        pytest.param(npy(UINT8, b"abcd"), "numpy.savez_compressed", id="one array"),
        pytest.param(zipped({}), "damaged", id="empty zip"),
        pytest.param(zipped({"data/": b""}), "without a .npy file", id="no array"),
        pytest.param(zipped({"a.npy": b""}), "header", id="empty array"),
        pytest.param(gzip.compress(saved(**arrays())), "name the archive itself", id="gzip"),
        pytest.param(zipped({"readme.txt": b""}), "'readme.txt', and only .npy", id="text"),
        pytest.param(zipped({"a.npy/b.npz": saved(a=1)}), "only .npy", id="an archive in it"),
    ],
)
def test_files_that_are_no_archives_of_arrays(tmp_path: Path, content: bytes, says: str) -> None:
    assert says in refuse(tmp_path, content)


@pytest.mark.parametrize(
    "name",
    [
        *("../a.npy", "a/../../b.npy", "/etc/a.npy", "..\\a.npy", "\\a.npy", "C:\\a.npy"),
        *("c:a.npy", "../", "__MACOSX/../../a.npy"),
    ],
)
def test_paths_that_leave_the_archive(tmp_path: Path, name: str) -> None:
    message = refuse(tmp_path, zipped({"b.npy": npy(UINT8, b"abcd"), name: b""}))
    assert f"holds {name!r}, a path that leads out of the archive's folder" in message
    assert [path.name for path in tmp_path.rglob("*")] == ["data.npz"]
    assert not (tmp_path.parent / "a.npy").exists()


def test_links_devices_and_names_that_could_not_be_printed(tmp_path: Path) -> None:
    for kind in (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO):
        link = zipfile.ZipInfo("a.npy")
        link.external_attr = (kind | 0o777) << 16
        assert "is a link or a device" in refuse(tmp_path, zipped([(link, b"/etc/passwd")]))
    assert "control characters" in refuse(tmp_path, zipped({"a\x1b[2J.npy": b""}))
    long = refuse(tmp_path, zipped({"a" * 5000: b""}))
    assert len(long) < 300
    assert "holds '', and only .npy files" in refuse(tmp_path, zipped([(zipfile.ZipInfo(""), b"")]))


def test_encrypted_and_exotic_archives(tmp_path: Path) -> None:
    content = bytearray(zipped({"a.npy": npy(UINT8, b"abcd")}))
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in refuse(tmp_path, bytes(content))
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        message = refuse(tmp_path, zipped({"a.npy": npy(UINT8, b"abcd")}, method=method))
        assert "than by deflate" in message


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_may_come_once_and_folders_and_what_a_mac_adds_are_none(tmp_path: Path) -> None:
    array = npy(UINT8, b"abcd")
    message = refuse(tmp_path, zipped([("a.npy", array), ("a.npy", array)]))
    assert "holds 'a.npy' twice" in message
    content = zipped({"data/": b"", "data/a.npy": array, "__MACOSX/._a.npy": b"junk"})
    assert list(read(tmp_path, content)) == ["data/a"]


def test_a_bomb_is_refused_by_its_declared_size(tmp_path: Path) -> None:
    zeros = bytes(archives.UNSUSPICIOUS)
    bomb = zipped({"a.npy": npy(header(f"({len(zeros)},)"), zeros)})
    assert len(bomb) < archives.UNSUSPICIOUS // archives.MAX_COMPRESSION_RATIO
    assert "expands to more than 200 times its size" in refuse(tmp_path, bomb)


def test_archives_that_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = saved(**arrays())
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 600)
    assert "expands to more than" in refuse(tmp_path, content)
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 300)
    assert "'x.npy' of more than" in refuse(tmp_path, content)


def test_a_bomb_that_declares_a_false_size_stops_at_what_it_declared(tmp_path: Path) -> None:
    declared = len(npy(UINT8, b"abcd"))
    content = bytearray(zipped({"a.npy": npy(UINT8, b"abcd") + bytes(32 * 2**20)}))
    for signature, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = content.rindex(signature) + place
        content[at : at + 4] = struct.pack("<I", declared)
    assert "damaged zip archive, of which 'a.npy'" in refuse(tmp_path, bytes(content))


def test_archives_of_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = zipped({f"{i}.npy": b"" for i in range(archives.MAX_MEMBERS + 1)})
    assert "more than 1000 files" in refuse(tmp_path, content)
    few = bytearray(content)
    few[-14:-10] = struct.pack("<HH", 1, 1)
    assert "more than 1000 files" in refuse(tmp_path, bytes(few)), "whatever it declares"
    monkeypatch.setattr(archives, "MAX_DIRECTORY_BYTES", 1000)
    assert "more than 1000 files" in refuse(tmp_path, bytes(few)), "before it is read"


def test_directories_of_64_bits_and_comments(tmp_path: Path) -> None:
    content = zipped({"a.npy": npy(UINT8, b"abcd")})
    wide = content[:-22] + b"PK\x06\x07" + bytes(16) + content[-22:]
    assert "more than 1000 files" in refuse(tmp_path, wide)
    assert "without a comment" in refuse(tmp_path, content[:-2] + b"\x02\x00hi")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.99])
def test_truncated_archives(tmp_path: Path, part: float) -> None:
    content = saved(**arrays(200))
    assert "damaged" in refuse(tmp_path, content[: int(part * len(content))])


def test_an_array_that_is_shorter_than_declared(tmp_path: Path) -> None:
    content = bytearray(zipped({"a.npy": npy(UINT8, b"abcd")}, method=zipfile.ZIP_STORED))
    content[content.index(b"abcd")] ^= 1
    assert "'a.npy' cannot be read" in refuse(tmp_path, bytes(content))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_damage_is_refused_or_harmless(tmp_path_factory, data):
    """Any bytes changed: either an InvalidInputError, or arrays."""
    content = bytearray(saved(x=np.arange(50, dtype=np.uint8), writer=np.array(["a", "b"])))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("damaged")
    try:
        found = read(folder, bytes(content))
    except InvalidInputError:
        return
    assert all(isinstance(array, np.ndarray) for array in found.values())
