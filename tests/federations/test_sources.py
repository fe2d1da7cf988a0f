"""Only regular files below the sources folder are read."""

import gzip
import os
from pathlib import Path

import pytest

from fedaudit.federations import sources as sources_module
from fedaudit.federations.load import load_federation
from fedaudit.federations.sources import read_source
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec

from .conftest import Load, Refuse, spec_value

GOOD = "hospital,x,cost\na,1,2\nb,3,4\n"
PATH = "/federation/path"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret.csv", "a/../../secret.csv", "~/secret.csv", "C:\\secret.csv",
             "https://example.org/data.csv", "s3://bucket/data.csv", "file:///etc/passwd", "..\\x"],
)  # fmt: skip
def test_paths_that_lead_out_are_refused_by_the_spec(refuse: Refuse, path: str) -> None:
    assert list(refuse({"federation.path": path})) == [PATH]


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret.csv", "below/../../secret.csv"])
def test_and_by_the_reader_itself(sources: Path, path: str) -> None:
    (sources.parent / "secret.csv").write_text(GOOD)
    with pytest.raises(InvalidInputError, match="leads out of the sources folder"):
        read_source(path, sources_dir=sources, pointer=PATH)


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


def test_a_folder_whose_name_begins_alike_is_outside(sources: Path) -> None:
    twin = sources.parent / "sources-private"
    twin.mkdir()
    (twin / "data.csv").write_text(GOOD)
    with pytest.raises(InvalidInputError, match="leads out"):
        read_source("../sources-private/data.csv", sources_dir=sources, pointer=PATH)


def test_what_is_no_regular_file(refuse: Refuse, sources: Path) -> None:
    (sources / "folder.csv").mkdir()
    os.mkfifo(sources / "pipe.csv")
    (sources / "device.csv").symlink_to("/dev/zero")
    (sources / "circle.csv").symlink_to("circle.csv")
    assert "is a folder" in refuse({"federation.path": "folder.csv"})[PATH]
    assert "is a folder" in refuse({"federation.path": "."})[PATH]
    assert "no regular file" in refuse({"federation.path": "pipe.csv"})[PATH]
    assert "leads out" in refuse({"federation.path": "device.csv"})[PATH]
    assert list(refuse({"federation.path": "circle.csv"})) == [PATH]


def test_missing_files_and_impossible_names(refuse: Refuse, sources: Path) -> None:
    (sources / "data.csv").write_text(GOOD)
    assert "no file 'other.csv'" in refuse({"federation.path": "other.csv"})[PATH]
    assert "no file" in refuse({"federation.path": "data.csv/inner.csv"})[PATH]
    assert "cannot be read" in refuse({"federation.path": "x" * 400})[PATH]


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


def test_a_small_archive_may_not_become_a_large_file(
    refuse: Refuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "LARGEST_FILE", 2**20)
    bomb = gzip.compress(GOOD.encode() + b"a,1,2\n" * 2**20)
    assert len(bomb) < 2**16
    assert "more than 1 MiB" in refuse(data=bomb)[PATH]
    assert "more than 1 MiB" in refuse(data=GOOD + "a,1,2\n" * 2**18)[PATH]
