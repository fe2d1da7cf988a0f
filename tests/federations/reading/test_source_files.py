"""Only regular files below the sources folder are read."""

import gzip
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedaudit.federations.load import load_federation
from fedaudit.federations.reading import source_files
from fedaudit.federations.reading.source_files import Files, Upload, open_path, open_source
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.sources import FileSource
from tests.federations.conftest import Load, Refuse, spec_value

GOOD = "hospital,x,cost\na,1,2\nb,3,4\nb,5,6\n"
PATH, ID = "/federation/path", "/federation/id"
FEDERATION = "019aa500-0000-7000-8000-000000000001"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret.csv", "a/../../secret.csv", "~/secret.csv", "C:\\secret.csv",
             "https://example.org/data.csv", "s3://bucket/data.csv", "file:///etc/passwd", "..\\x"],
)  # fmt: skip
def test_paths_that_lead_out_are_refused_by_the_spec(refuse: Refuse, path: str) -> None:
    assert list(refuse({"federation.path": path})) == [PATH]


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../secret.csv", "below/../../secret.csv", "../sources-private/data.csv"],
)
def test_and_by_the_reader_itself(sources: Path, path: str) -> None:
    (sources.parent / "secret.csv").write_text(GOOD)
    (sources.parent / "sources-private").mkdir()
    (sources.parent / "sources-private" / "data.csv").write_text(GOOD)
    with pytest.raises(InvalidInputError, match="leads out of the sources folder"):
        open_path(path, files=Files(sources), pointer=PATH).__enter__()


def test_links_may_not_lead_out(refuse: Refuse, sources: Path) -> None:
    (sources.parent / "secret.csv").write_text(GOOD)
    (sources.parent / "secrets").mkdir()
    (sources.parent / "secrets" / "more.csv").write_text(GOOD)
    (sources / "link.csv").symlink_to(sources.parent / "secret.csv")
    (sources / "folder").symlink_to(sources.parent / "secrets")
    for path in ("link.csv", "folder/more.csv"):
        message = refuse({"federation.path": path})[PATH]
        assert "leads out of the sources folder" in message
        assert str(sources.parent) not in message


def test_links_within_and_a_folder_that_is_a_link(load: Load, sources: Path) -> None:
    (sources / "real").mkdir()
    (sources / "real" / "data.csv").write_text(GOOD)
    (sources / "link.csv").symlink_to(Path("real") / "data.csv")
    assert load({"federation.path": "link.csv"}).clients == 2

    outside = sources.parent / "linked-sources"
    outside.symlink_to(sources)
    spec = parse_spec(spec_value({"federation.path": "real/data.csv"}))
    assert load_federation(spec, sources_dir=outside).clients == 2


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("folder.csv", "is a folder"),
        (".", "is a folder"),
        ("pipe.csv", "no regular file"),
        ("device.csv", "leads out"),
        ("circle.csv", ""),
        ("other.csv", "no file 'other.csv'"),
        ("data.csv/inner.csv", "no file"),
        ("x" * 400, "cannot be read"),
    ],
)
def test_what_is_no_regular_file(refuse: Refuse, sources: Path, path: str, says: str) -> None:
    (sources / "data.csv").write_text(GOOD)
    (sources / "folder.csv").mkdir()
    os.mkfifo(sources / "pipe.csv")
    (sources / "device.csv").symlink_to("/dev/zero")
    (sources / "circle.csv").symlink_to("circle.csv")
    faults = refuse({"federation.path": path})
    assert list(faults) == [PATH]
    assert says in faults[PATH]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_files_that_may_not_be_read(refuse: Refuse, sources: Path) -> None:
    (sources / "data.csv").write_text(GOOD)
    (sources / "data.csv").chmod(0)
    assert "may not read" in refuse()[PATH]


def test_no_sources_folder(tmp_path: Path) -> None:
    spec = parse_spec(spec_value({}))
    with pytest.raises(InvalidInputError, match="set FEDAUDIT_SOURCES_DIR"):
        load_federation(spec, sources_dir=None)
    with pytest.raises(InvalidInputError, match="correct FEDAUDIT_SOURCES_DIR"):
        load_federation(spec, sources_dir=tmp_path / "missing")


def test_a_small_archive_may_not_become_a_large_file(refuse, sources, monkeypatch):
    bomb = gzip.compress(GOOD.encode() + b"\n" * 2**25)
    assert len(bomb) < 2**16
    (sources / "data.csv").write_bytes(bomb)
    with (
        open_path("data.csv", files=Files(sources), pointer=PATH) as file,
        pytest.raises(InvalidInputError, match="more than 1 MiB"),
    ):
        file.read_all(2**20)
    monkeypatch.setattr(source_files, "MAX_EXPANDED_BYTES", 2**24)
    assert "expands to more than" in refuse(data=bomb)[PATH]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_streams_of_one_file_do_not_disturb_each_other(sources, pack):
    data = GOOD.encode() * 1000
    (sources / "data.csv").write_bytes(pack(data))
    with open_path("data.csv", files=Files(sources), pointer=PATH) as file:
        with file.open() as first, file.open() as second:
            assert first.read(5) == second.read(5) == data[:5]
            assert second.read() == first.read() == data[5:]
            assert first.seekable() != file.compressed
        assert file.read_all() == data
        assert file.fingerprint == hashlib.sha256(data).hexdigest()
        assert file.size == (sources / "data.csv").stat().st_size


def test_a_file_that_changes_while_it_is_read(sources: Path) -> None:
    path = sources / "data.csv"
    path.write_text(GOOD)
    opened = open_path("data.csv", files=Files(sources), pointer=PATH)
    opened.__enter__().read_all()
    path.write_text(GOOD + "c,5,6\n")
    with pytest.raises(InvalidInputError, match="changed while it was being read"):
        opened.__exit__(None, None, None)


def test_uploads_are_opened_by_their_id_and_must_be_what_was_uploaded(tmp_path: Path) -> None:
    stored = tmp_path / "7f"
    stored.write_text(GOOD)
    kept: list[str] = []

    def files(fingerprint: str) -> Files:
        @contextmanager
        def open_upload(federation_id: str) -> Iterator[Upload]:
            kept.append(federation_id)
            yield Upload(stored, "adult.csv", fingerprint)

        return Files(None, open_upload)

    federation = {**spec_value({})["federation"], "path": None, "id": FEDERATION}
    source = parse_spec(spec_value({"federation": federation})).federation
    assert isinstance(source, FileSource)
    right = hashlib.sha256(GOOD.encode()).hexdigest()
    with open_source(source, files=files(right)) as file:
        assert (file.label, file.pointer, file.fingerprint) == ("adult.csv", ID, right)
    with open_source(source, files=files("0" * 64)) as file:
        with pytest.raises(InvalidInputError, match="no longer the file that was uploaded"):
            assert file.fingerprint
        assert file.read_all() == GOOD.encode()
    assert kept == [FEDERATION] * 2

    stored.unlink()
    with pytest.raises(InvalidInputError) as caught:
        open_source(source, files=files(right)).__enter__()
    assert [fault.pointer for fault in caught.value.errors] == [ID]
    with pytest.raises(InvalidInputError, match="known to their service only"):
        open_source(source, files=Files(tmp_path)).__enter__()
