"""The folder that files are kept in."""

from pathlib import Path

import pytest

from infrastructure.files import FileStorage
from infrastructure.settings import Settings


@pytest.fixture
def storage(tmp_path: Path) -> FileStorage:
    return FileStorage(Settings(data_dir=tmp_path))


def test_what_was_written_is_read_until_it_is_deleted(storage: FileStorage) -> None:
    storage.write("artifacts/one.bin", b"first")
    storage.write("artifacts/one.bin", b"second")
    assert storage.read("artifacts/one.bin") == b"second"
    storage.delete("artifacts/one.bin")
    storage.delete("artifacts/one.bin")
    with pytest.raises(FileNotFoundError):
        storage.read("artifacts/one.bin")


@pytest.mark.parametrize("name", ["", ".", "../up", "a/../../up", "/etc/passwd", "nul\x00"])
def test_no_name_leads_out_of_the_folder(storage: FileStorage, name: str) -> None:
    with pytest.raises(ValueError, match="relative"):
        storage.write(name, b"x")


def test_a_write_leaves_nothing_beside_the_file(storage: FileStorage, tmp_path: Path) -> None:
    storage.write("one", b"x")
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["one"]
