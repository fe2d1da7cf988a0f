"""A bundle with anything beside its members is refused: two readers must not see two reports."""

import struct
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from fedaudit.ledger.bundle import LEDGER, NotABundleError, opened_bundle
from fedaudit.reports.verification.verification import verify
from tests.reports.signed_run import KEY, signed_run
from tests.reports.verification.test_verification import failed, judged, rewritten


@pytest.fixture
def genuine(tmp_path: Path) -> Path:
    return signed_run().write(tmp_path / "genuine.zip")


def end_of(content: bytes) -> int:
    return content.rindex(b"PK\x05\x06")


def directory_of(content: bytes) -> int:
    start: int = struct.unpack_from("<L", content, end_of(content) + 16)[0]
    return start


def local_header(file: Path, member: str) -> int:
    with zipfile.ZipFile(file) as archive:
        return archive.getinfo(member).header_offset


def with_comment(content: bytes) -> bytes:
    return content[:-2] + struct.pack("<H", 7) + b"comment"


def before_the_directory(content: bytes, more: bytes) -> bytes:
    """Other bytes between the members and their directory, which still names the right places."""
    start, end = directory_of(content), end_of(content)
    moved = content[end : end + 16] + struct.pack("<L", start + len(more)) + content[end + 20 :]
    return content[:start] + more + content[start:end] + moved


def between_members(content: bytes, more: bytes) -> bytes:
    """Other bytes between the first member and the second, every place in the directory moved."""
    start, end = directory_of(content), end_of(content)
    second = content.index(b"PK\x03\x04", 4)
    directory = bytearray(content[start:end])
    place = 0
    while place < len(directory):
        name, extra, comment = struct.unpack_from("<3H", directory, place + 28)
        offset = struct.unpack_from("<L", directory, place + 42)[0]
        if offset >= second:
            struct.pack_into("<L", directory, place + 42, offset + len(more))
        place += 46 + name + extra + comment
    moved = content[end : end + 16] + struct.pack("<L", start + len(more)) + content[end + 20 :]
    return content[:second] + more + content[second:start] + bytes(directory) + moved


def two_directories(content: bytes) -> bytes:
    start, end = directory_of(content), end_of(content)
    return before_the_directory(content, content[start:end])


def another_name_inside(content: bytes) -> bytes:
    """The local header of a member names it otherwise than the directory does."""
    place = content.index(b"\x0b\x00\x00\x00report.json") + 4
    return content[:place] + b"REPORT.json" + content[place + 11 :]


def another_size_inside(content: bytes) -> bytes:
    """Read from the start, the first member would end elsewhere."""
    place = content.index(b"PK\x03\x04")
    return content[: place + 18] + struct.pack("<2L", 5, 5) + content[place + 26 :]


@pytest.mark.parametrize(
    "attack",
    [
        lambda content: b"#!/bin/sh\n" + content,
        lambda content: content + content,
        lambda content: signed_fake() + content,
        lambda content: content + b"\0",
        lambda content: content + b"\n",
        with_comment,
        lambda content: before_the_directory(content, b"more"),
        lambda content: between_members(content, b"more"),
        two_directories,
        another_name_inside,
        another_size_inside,
    ],
    ids=[
        *("prefix", "twice", "another-bundle-before", "zero-behind", "line-behind", "comment"),
        *("before-directory", "between-members", "two-directories", "other-name", "other-size"),
    ],
)
def test_what_lies_beside_the_members_is_refused(genuine, attack):
    content = genuine.read_bytes()
    changed = genuine.with_name("changed.zip")
    changed.write_bytes(attack(content))
    assert changed.read_bytes() != content
    with pytest.raises(NotABundleError), opened_bundle(changed) as evidence:
        verify(evidence, trusted=[KEY.public])
    assert judged(genuine, KEY).verdict == "valid"


def signed_fake() -> bytes:
    """A zip with a report of its own, as a reader from the start would find it."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("report.json", b'{"privacy":{"leakage_max":0.001}}')
    return file.getvalue()


def test_a_comment_or_a_field_of_one_member_is_refused(genuine: Path) -> None:
    with zipfile.ZipFile(genuine) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for field, value in (("comment", b"look here"), ("extra", b"\x99\x99\x04\x00more")):
        changed = genuine.with_name("changed.zip")
        with zipfile.ZipFile(changed, "w") as archive:
            for name, content in members.items():
                info = zipfile.ZipInfo(name)
                setattr(info, field, value if name == "report.json" else b"")
                archive.writestr(info, content)
        with pytest.raises(NotABundleError), opened_bundle(changed):
            pass


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("README.txt", "is not the text that every bundle has"),
        ("spec.json", "is no canonical JSON (RFC 8785)"),
    ],
)
def test_a_member_is_written_in_one_way(genuine: Path, name: str, fault: str) -> None:
    with zipfile.ZipFile(genuine) as archive:
        content = archive.read(name)
    found = judged(rewritten(genuine, name, content.replace(b":", b": ", 1)), KEY)
    assert found.verdict == "altered"
    assert failed(found)[name] == f"{name} {fault}"


def test_a_member_that_is_encrypted_or_compressed_is_refused_by_its_name(genuine: Path) -> None:
    content = genuine.read_bytes()
    entry = content.index(b"report.json", directory_of(content)) - 46
    local = local_header(genuine, "report.json")
    for offset, value in ((8, 1), (10, zipfile.ZIP_DEFLATED), (10, zipfile.ZIP_BZIP2)):
        changed = bytearray(content)
        for place in (entry + offset, local + offset - 2):
            (before,) = struct.unpack_from("<H", changed, place)
            struct.pack_into("<H", changed, place, before | value)
        file = genuine.with_name("changed.zip")
        file.write_bytes(changed)
        with (
            pytest.raises(NotABundleError, match=r"has report\.json compressed or encrypted"),
            opened_bundle(file),
        ):
            pass


def with_large_end(content: bytes, **changes: int) -> bytes:
    """The end of a file past 4 GiB: two more records before the one that every zip file has."""
    end = end_of(content)
    members = struct.unpack_from("<H", content, end + 10)[0]
    size, start = struct.unpack_from("<2L", content, end + 12)
    said = {
        "record": 44,
        "here": members,
        "members": members,
        "size": size,
        "start": start,
        "place": end,
        "disks": 1,
    } | changes
    record = struct.pack(
        "<4sQ2H2L4Q",
        b"PK\x06\x06",
        said["record"],
        45,
        45,
        0,
        0,
        said["here"],
        said["members"],
        said["size"],
        said["start"],
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, said["place"], said["disks"])
    return content[:end] + record + locator + content[end:]


def test_the_end_of_a_file_past_4_gib_is_read_and_says_one_thing(
    genuine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if so few members were too many for the small record.
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    content = genuine.read_bytes()
    large = genuine.with_name("large.zip")
    large.write_bytes(with_large_end(content))
    assert judged(large, KEY).verdict == "valid"
    members = len(zipfile.ZipFile(large).namelist())
    for change in (
        {"record": 45},
        {"here": members - 1},
        {"members": members + 1},
        {"place": end_of(content) - 1},
        {"disks": 2},
    ):
        large.write_bytes(with_large_end(content, **change))
        with pytest.raises(NotABundleError), opened_bundle(large):
            pass


def test_sizes_of_64_bits_are_those_of_the_member(genuine: Path) -> None:
    """The ledger is written with them, whatever its size."""
    content = genuine.read_bytes()
    name = local_header(genuine, LEDGER) + 30
    assert content[name - 12 : name - 4] == b"\xff" * 8
    extra = name + len(LEDGER)
    assert struct.unpack_from("<2H2Q", content, extra) == (1, 16, 0, 0)
    for place, form, value in (
        (extra, "<H", 2),
        (extra + 2, "<H", 15),
        (extra + 4, "<Q", 1),
        (extra + 12, "<Q", 1),
        (name - 12, "<L", 0),
    ):
        changed = bytearray(content)
        struct.pack_into(form, changed, place, value)
        file = genuine.with_name("changed.zip")
        file.write_bytes(changed)
        with pytest.raises(NotABundleError, match=r"two things about ledger"), opened_bundle(file):
            pass


def test_a_bundle_of_a_version_with_other_words_in_its_readme_is_read(genuine: Path) -> None:
    with zipfile.ZipFile(genuine) as archive:
        text = archive.read("README.txt")
    earlier = text.replace(
        b"anyone who could change the\n                    other files could change these.",
        b"whoever could change the other\n                    files could change these.",
    )
    assert earlier != text
    assert judged(rewritten(genuine, "README.txt", earlier), KEY).verdict == "valid"


def test_a_bundle_that_was_packed_again_is_the_same_bundle(genuine: Path) -> None:
    with zipfile.ZipFile(genuine) as archive:
        ledger = archive.read(LEDGER)
    assert judged(rewritten(genuine, LEDGER, ledger), KEY).verdict == "valid"
