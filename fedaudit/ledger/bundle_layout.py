"""Whether a zip file consists of its members and nothing else.

Readers of zip files differ in where they look: some follow the directory at the end, some read
members from the start. A file with additional bytes before, between, beside or after its members
may show different content to each; where every byte belongs to one member they cannot differ.
"""

import struct
import zipfile
from typing import Any, BinaryIO

_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_MAGIC = b"PK\x03\x04"
_DIRECTORY_ENTRY_BYTES = 46
_END = struct.Struct("<4s4H2LH")
_END_MAGIC = b"PK\x05\x06"
_END64 = struct.Struct("<4sQ2H2L4Q")
_END64_MAGIC = b"PK\x06\x06"
_LOCATOR = struct.Struct("<4sLQL")
_LOCATOR_MAGIC = b"PK\x06\x07"
_DESCRIPTOR_MAGIC = b"PK\x07\x08"
_DESCRIPTORS = (struct.Struct("<4s3L"), struct.Struct("<4sL2Q"))
_FOLLOWED_BY_SIZES = 0x8
_ZIP64 = struct.Struct("<2H")
_ZIP64_ID = 1
_UNKNOWN = 0xFFFFFFFF


def layout_fault(file: BinaryIO, archive: zipfile.ZipFile) -> str | None:
    """What the file contains besides its members; None where it contains nothing else.

    `archive` was opened on the same file.
    """
    if archive.comment or any(info.comment for info in archive.infolist()):
        return "has a comment"
    infos = sorted(archive.infolist(), key=lambda one: one.header_offset)
    followers = [*(info.header_offset for info in infos[1:]), archive.start_dir]
    if infos and infos[0].header_offset != 0:
        return "has bytes before its members"
    for info, follower in zip(infos, followers, strict=True):
        ends = _ends_of_member(file, info)
        if not ends:
            return f"says two things about {info.filename}"
        if follower not in ends:
            return f"has bytes outside its members, behind {info.filename}"
    place = archive.start_dir + sum(_directory_bytes(info) for info in archive.infolist())
    return None if _ends(file, place, len(archive.infolist())) else "has bytes behind its members"


def _ends_of_member(file: BinaryIO, info: zipfile.ZipInfo) -> set[int]:
    """The possible starts of the next member; none where the member contradicts the directory.

    For a member without content, both forms of the sizes after it begin alike.
    """
    header = _unpacked(file, info.header_offset, _LOCAL)
    if header is None:
        return set()
    magic, _, flags, method, _, _, crc, packed, size, name_bytes, extra_bytes = header
    name, extra = file.read(name_bytes), file.read(extra_bytes)
    same = (magic, flags, method, name) == (
        _LOCAL_MAGIC,
        info.flag_bits,
        info.compress_type,
        info.orig_filename.encode("ascii", "replace"),
    )
    if not same or not _only_sizes(extra) or not _only_sizes(info.extra):
        return set()
    end: int = info.header_offset + _LOCAL.size + name_bytes + extra_bytes + info.compress_size
    known = (info.CRC, info.compress_size, info.file_size)
    if not flags & _FOLLOWED_BY_SIZES:
        return {end} if crc == info.CRC and _agrees(packed, size, extra, known) else set()
    if crc != 0 or not _agrees(packed, size, extra, (0, 0, 0)):
        return set()
    return {
        end + form.size
        for form in _DESCRIPTORS
        if _unpacked(file, end, form) == (_DESCRIPTOR_MAGIC, *known)
    }


def _agrees(packed: int, size: int, extra: bytes, known: tuple[int, int, int]) -> bool:
    if extra and (packed, size) == (_UNKNOWN, _UNKNOWN):
        size, packed = struct.unpack("<2Q", extra[_ZIP64.size :])
    return (packed, size) == known[1:]


def _only_sizes(extra: bytes) -> bool:
    """Whether an extra field is absent, or holds only 64-bit sizes."""
    if not extra:
        return True
    if len(extra) < _ZIP64.size:
        return False
    kind, length = _ZIP64.unpack_from(extra)
    return kind == _ZIP64_ID and length in (8, 16, 24) and len(extra) == _ZIP64.size + length


def _directory_bytes(info: zipfile.ZipInfo) -> int:
    name = info.orig_filename.encode("ascii", "replace")
    return _DIRECTORY_ENTRY_BYTES + len(name) + len(info.extra)


def _ends(file: BinaryIO, place: int, members: int) -> bool:
    """Whether the end of the directory is at this place, and is the last thing in the file."""
    start = place
    if _starts_with(file, place, _END64_MAGIC):
        record = _unpacked(file, place, _END64)
        if record is None or record[1] != _END64.size - 12 or record[6:8] != (members, members):
            return False
        locator = _unpacked(file, place + _END64.size, _LOCATOR)
        if locator != (_LOCATOR_MAGIC, 0, start, 1):
            return False
        place += _END64.size + _LOCATOR.size
    end = _unpacked(file, place, _END)
    if end is None or end[0] != _END_MAGIC or end[3:5] != (members, members) or end[7] != 0:
        return False
    return file.seek(0, 2) == place + _END.size


def _starts_with(file: BinaryIO, place: int, magic: bytes) -> bool:
    file.seek(place)
    return file.read(len(magic)) == magic


def _unpacked(file: BinaryIO, place: int, form: struct.Struct) -> tuple[Any, ...] | None:
    file.seek(place)
    content = file.read(form.size)
    return form.unpack(content) if len(content) == form.size else None
