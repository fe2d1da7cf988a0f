"""A bundle with anything beside its members is refused: two readers must not see two reports."""

import struct
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from fedaudit.ledger.bundle import LEDGER, NotABundleError, opened_bundle
from tests.reports.signed_run import KEY, signed_run
from tests.reports.verification.test_verification import failed, judged, members_of, rewritten


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


def end_at(content: bytes, start: int) -> bytes:
    """The record at the end, of a directory that starts elsewhere."""
    end = end_of(content)
    return content[end : end + 16] + struct.pack("<L", start) + content[end + 20 :]


def before_the_directory(content: bytes, more: bytes) -> bytes:
    """Other bytes between the members and their directory, which still names the right places."""
    start, end = directory_of(content), end_of(content)
    return content[:start] + more + content[start:end] + end_at(content, start + len(more))


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
    members = content[:second] + more + content[second:start]
    return members + bytes(directory) + end_at(content, start + len(more))


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


ATTACKS = {
    "prefix": lambda content: b"#!/bin/sh\n" + content,
    "twice": lambda content: content + content,
    "another-bundle-before": lambda content: signed_fake() + content,
    "zero-behind": lambda content: content + b"\0",
    "line-behind": lambda content: content + b"\n",
    "comment": with_comment,
    "before-directory": lambda content: before_the_directory(content, b"more"),
    "between-members": lambda content: between_members(content, b"more"),
    "two-directories": two_directories,
    "other-name": another_name_inside,
    "other-size": another_size_inside,
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_what_lies_beside_the_members_is_refused(genuine, attack):
    assert judged(genuine, KEY).verdict == "valid"
    assert attack(genuine.read_bytes()) != genuine.read_bytes()
    refuse(genuine, attack(genuine.read_bytes()))


def refuse(genuine: Path, content: bytes, said: str = "") -> None:
    """Such a file is no bundle."""
    changed = genuine.with_name("changed.zip")
    changed.write_bytes(content)
    with pytest.raises(NotABundleError, match=said), opened_bundle(changed):
        pass


def signed_fake() -> bytes:
    """A zip with a report of its own, as a reader from the start would find it."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("report.json", b'{"privacy":{"leakage_max":0.001}}')
    return file.getvalue()


def test_a_comment_or_a_field_of_one_member_is_refused(genuine: Path) -> None:
    for field, value in (("comment", b"look here"), ("extra", b"\x99\x99\x04\x00more")):
        file = BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in members_of(genuine).items():
                info = zipfile.ZipInfo(name)
                setattr(info, field, value if name == "report.json" else b"")
                archive.writestr(info, content)
        refuse(genuine, file.getvalue())


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("README.txt", "is not the text that every bundle has"),
        ("spec.json", "is no canonical JSON (RFC 8785)"),
    ],
)
def test_a_member_is_written_in_one_way(genuine: Path, name: str, fault: str) -> None:
    content = members_of(genuine)[name].replace(b":", b": ", 1)
    found = judged(rewritten(genuine, name, content), KEY)
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
        refuse(genuine, bytes(changed), r"has report\.json compressed or encrypted")


def with_large_end(content: bytes, **changes: int) -> bytes:
    """The end of a file past 4 GiB: two more records before the one that every zip file has."""
    end = end_of(content)
    members = struct.unpack_from("<H", content, end + 10)[0]
    size, start = struct.unpack_from("<2L", content, end + 12)
    said = {"record": 44, "here": members, "members": members, "size": size, "start": start}
    said |= {"place": end, "disks": 1} | changes
    counted = (said[name] for name in ("here", "members", "size", "start"))
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", said["record"], 45, 45, 0, 0, *counted)
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
        refuse(genuine, with_large_end(content, **change))


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
        refuse(genuine, bytes(changed), "two things about ledger")


def test_a_bundle_that_was_packed_again_or_of_an_earlier_readme_is_the_same_bundle(genuine):
    members = members_of(genuine)
    assert judged(rewritten(genuine, LEDGER, members[LEDGER]), KEY).verdict == "valid"
    text = members["README.txt"]
    earlier = text.replace(
        b"anyone who could change the\n                    other files could change these.",
        b"whoever could change the other\n                    files could change these.",
    )
    assert earlier != text
    assert judged(rewritten(genuine, "README.txt", earlier), KEY).verdict == "valid"
