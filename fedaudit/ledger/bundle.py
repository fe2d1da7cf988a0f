"""The evidence that one experiment or audit left, and bundles: a zip file with all of it.

Members are stored, not compressed: the same content has the same bytes with every library, and a
file cannot expand beyond its size. The ledger is written and read row by row. A bundle consists of
its members and nothing else: readers of zip files differ in where they look, and a file with bytes
before, between or behind its members may show different content to each.
"""

import io
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, BinaryIO

from fedaudit.ledger.encoding import SALT_BYTES
from fedaudit.ledger.rows import LineReader, UnreadableRow, to_line
from fedaudit.ledger.statements import PublicKey
from fedaudit.spec.audits import is_audit
from fedaudit.spec.canonical import canonical_json, read_canonical
from fedaudit.stored import LedgerRow


@dataclass(frozen=True)
class Fault:
    """A part of the evidence that could not be read as expected."""

    part: str
    message: str


@dataclass(frozen=True)
class Evidence:
    """The parts as they were found, wherever they were kept; none of them is trusted."""

    experiment_id: str
    spec: Any
    """The spec with every default explicit."""
    names: Sequence[str]
    """The subjects' names by index."""
    report: dict[str, Any] | None
    """None for an experiment that failed or was cancelled."""
    checkpoints: Sequence[Any]
    """DSSE envelopes, oldest first."""
    keys: Sequence[PublicKey]
    """Keys that came with the evidence and prove nothing about the signer."""
    rows: Iterable[LedgerRow | UnreadableRow] = ()
    """The ledger in its order; read once."""
    sign_offs: Sequence[Any] = ()
    """DSSE envelopes, oldest first."""
    later_attacks: Sequence[Any] = ()
    """DSSE envelopes of what attacks found after the report, oldest first."""
    claims: Sequence[Any] = ()
    """Sigstore bundles of what the report claims, in their order."""
    log: Any = None
    """The log of the runs on its data: `entries` and the signed `checkpoint`; None for a run that
    is in no log."""
    salt: bytes | None = None
    """That the digests of the rows are keyed with; None where they are not, or it was erased."""
    erased: Any = None
    """The DSSE envelope of the statement that stands for erased names; None where they are real."""
    compromised: Mapping[str, str] = field(default_factory=dict)
    """When each leaked key was leaked, by key id, as the service states it."""
    faults: list[Fault] = field(default_factory=list)
    """Grows while the rows are read."""


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
    """What the file contains beside its members; None where it contains nothing else.

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
    place = archive.start_dir + sum(
        _DIRECTORY_ENTRY_BYTES + len(info.orig_filename) + len(info.extra) for info in infos
    )
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


def _ends(file: BinaryIO, place: int, members: int) -> bool:
    """Whether the end of the directory is at this place, and is the last thing in the file."""
    start = place
    record = _unpacked(file, place, _END64)
    if record is not None and record[0] == _END64_MAGIC:
        if record[1] != _END64.size - 12 or record[6:8] != (members, members):
            return False
        locator = _unpacked(file, place + _END64.size, _LOCATOR)
        if locator != (_LOCATOR_MAGIC, 0, start, 1):
            return False
        place += _END64.size + _LOCATOR.size
    end = _unpacked(file, place, _END)
    if end is None or end[0] != _END_MAGIC or end[3:5] != (members, members) or end[7] != 0:
        return False
    return file.seek(0, 2) == place + _END.size


def _unpacked(file: BinaryIO, place: int, form: struct.Struct) -> tuple[Any, ...] | None:
    file.seek(place)
    content = file.read(form.size)
    return form.unpack(content) if len(content) == form.size else None


VERSION = 1
LEDGER = "ledger.ndjson"
"""The member with a line for each ledger row."""

_README = "README.txt"
_README_TEXT = """\
A bundle of fedaudit: everything that is needed to verify one experiment without its service.

  bundle.json       the version of this form and the experiment's id
  report.json       the audit report, signed; absent where the experiment did not succeed
  spec.json         what was asked for, every default explicit
  subjects.json     the subjects' names; the ledger's `subjects` are indices into this list
  ledger.ndjson     every ledger entry with its inputs, in the order of the hash chain
  checkpoints.json  signed statements of how many entries there were (DSSE envelopes)
  keys.json         the service's public keys. They are UNVERIFIED: anyone who could change the
                    other files could change these. Take the key from somebody whom you trust.

With the software:      fedaudit verify BUNDLE --public-key FILE
Without the software:   docs/ledger-encoding.md says how each hash and signature is computed, and
                        docs/verification.md what follows from them and what does not.

This file holds confidential figures: what each named client spent in each round.
"""
_SIGN_OFFS, _LATER_ATTACKS, _ERASED = "sign-offs.json", "later-attacks.json", "erased-names.json"
_SALT, _CLAIMS, _LOG = "salt.json", "claims.jsonl", "log.json"
_LINES = {
    _SIGN_OFFS: """\
  sign-offs.json    what people stated of the report, each chained to the one before (DSSE)
""",
    _LATER_ATTACKS: """\
  later-attacks.json
                    what attacks found after the report was signed, each statement chained to the
                    one before (DSSE). Read it before you rely on the report
""",
    _ERASED: """\
  erased-names.json the service's statement on the ledger whose clients' names were erased: those
                    in subjects.json are made up (DSSE)
""",
    _SALT: """\
  salt.json         the secret that the digests of ledger.ndjson are keyed with: anyone with it can
                    try guesses of who took part on the hashes of the report
""",
    _CLAIMS: """\
  claims.jsonl      what the report claims, for the verifiers of others: in-toto statements in
                    Sigstore bundles
""",
    _LOG: """\
  log.json          the log of the runs on these data, with its signed head: hashes alone
""",
}
"""Texts for bundles that have these members; other bundles stay as they were."""


def _readme_with(members: Iterable[str]) -> bytes:
    """The text of a bundle that has these members beside those of every bundle."""
    text = _README_TEXT.replace(
        "  keys.json ", "".join(_LINES[name] for name in members) + "  keys.json "
    )
    if _ERASED in members:
        text = text.replace("what each named client spent", "what each client spent")
    return text.encode("ascii")


_README_OF_AUDIT = """\
A bundle of fedaudit: everything that is needed to verify one audit of predictions without its
service. The audited rows are not in it.

  bundle.json       the version of this form and the audit's id
  report.json       the audit's report, signed
  spec.json         what was asked for, every default explicit
  keys.json         the service's public keys. They are UNVERIFIED: anyone who could change the
                    other files could change these. Take the key from somebody whom you trust.
  subjects.json, ledger.ndjson, checkpoints.json
                    empty: an audit of predictions spends nothing, and has no ledger

With the software:      fedaudit verify BUNDLE --public-key FILE
Without the software:   docs/verification.md says how the signature is computed, and what follows
                        from it and what does not.
"""
_READMES = (
    *(
        _readme_with(some)
        for count in range(len(_LINES) + 1)
        for some in combinations(_LINES, count)
    ),
    _README_OF_AUDIT.encode("ascii"),
)
_MAX_BYTES = {
    _README: 1 << 16,
    "bundle.json": 1 << 12,
    "report.json": 1 << 26,
    "spec.json": 1 << 22,
    "subjects.json": 1 << 28,
    "checkpoints.json": 1 << 28,
    _SIGN_OFFS: 1 << 26,
    _LATER_ATTACKS: 1 << 28,
    _ERASED: 1 << 16,
    _SALT: 1 << 12,
    _CLAIMS: 1 << 28,
    _LOG: 1 << 28,
    "keys.json": 1 << 20,
}
"""Bytes of each member that is read as a whole."""
_MAX_LINE_BYTES = 1 << 28
_OPTIONAL = {"report.json", *_LINES, _README}
_CHUNK = 1 << 16
# Any fixed time would do: the content alone decides the bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Errors that zipfile raises for a file that is not a zip file, or is damaged.
_DAMAGE = (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)


class NotABundleError(Exception):
    """The file is not a bundle of a version known here."""


def bundle_chunks(evidence: Evidence, rows: Iterable[LedgerRow]) -> Iterator[bytes]:
    """The bytes of a bundle, made while the rows are read: memory use does not grow with them.

    Raises ValueError for a part that has no canonical JSON.
    """
    sink = Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for name, content in _members(evidence):
            archive.writestr(_info(name), content)
        yield sink.take()
        with archive.open(_info(LEDGER), "w", force_zip64=True) as member:
            for row in rows:
                member.write(to_line(row))
                if sink.size >= _CHUNK:
                    yield sink.take()
    yield sink.take()


def stored_zip(files: Mapping[str, bytes]) -> bytes:
    """A zip file of members as bundles have them: the same content has the same bytes."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(_info(name), content)
    return sink.getvalue()


@contextmanager
def opened_bundle(path: Path) -> Iterator[Evidence]:
    """The evidence in a bundle, readable while the block runs.

    Raises NotABundleError where the file is not a bundle; damaged or altered content is listed in
    the evidence's faults.
    """
    with ExitStack() as opened:
        try:
            file = opened.enter_context(path.open("rb"))
            archive = opened.enter_context(zipfile.ZipFile(file))
        except OSError as error:
            raise NotABundleError(f"cannot be read: {error.strerror or error}") from None
        except _DAMAGE as error:
            raise NotABundleError(f"is no zip file: {error}") from None
        _check_members(archive)
        if (fault := layout_fault(file, archive)) is not None:
            raise NotABundleError(fault)
        yield _evidence(archive)


def _members(evidence: Evidence) -> Iterator[tuple[str, bytes]]:
    yield _README, _readme(evidence)
    contents: dict[str, Any] = {
        "bundle.json": {"bundle_version": VERSION, "experiment_id": evidence.experiment_id},
        "report.json": evidence.report,
        "spec.json": evidence.spec,
        "subjects.json": list(evidence.names),
        "checkpoints.json": list(evidence.checkpoints),
        _SIGN_OFFS: list(evidence.sign_offs) or None,
        _LATER_ATTACKS: list(evidence.later_attacks) or None,
        _ERASED: evidence.erased,
        _SALT: None if evidence.salt is None else {"salt": evidence.salt.hex()},
        _LOG: evidence.log,
        "keys.json": [key_fields(key, evidence.compromised) for key in evidence.keys],
    }
    for name, value in contents.items():
        if value is not None:
            yield name, canonical_json(value)
    if evidence.claims:
        yield _CLAIMS, claim_lines(evidence.claims)


def claim_lines(claims: Iterable[Any]) -> bytes:
    """Claims as they are in a bundle: a line each, in canonical JSON."""
    return b"".join(canonical_json(one) + b"\n" for one in claims)


def _readme(evidence: Evidence) -> bytes:
    if is_audit(evidence.spec):
        return _README_OF_AUDIT.encode("ascii")
    lists = map(bool, (evidence.sign_offs, evidence.later_attacks))
    single = [one is not None for one in (evidence.erased, evidence.salt)]
    has = (*lists, *single, bool(evidence.claims), evidence.log is not None)
    return _readme_with([name for name, is_there in zip(_LINES, has, strict=True) if is_there])


def key_fields(key: PublicKey, compromised: Mapping[str, str]) -> dict[str, str]:
    """An entry of keys.json. `compromised`: by the ids of leaked keys, since when."""
    fields = {"algorithm": key.algorithm, "key_id": key.key_id, "public_key": key.pem}
    since = compromised.get(key.key_id)
    return fields if since is None else {**fields, "compromised_at": since}


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.create_system = 3
    info.external_attr = 0o100644 << 16
    return info


class Sink(io.RawIOBase):
    """A file that is read while it is written, and keeps nothing that was read. It cannot seek
    back, so that of a zip file sizes follow the members."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._position = 0
        self.size = 0
        """How many bytes were not taken yet."""

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Append a copy: the buffer is the writer's."""
        part = bytes(data)
        self._parts.append(part)
        self.size += len(part)
        self._position += len(part)
        return len(part)

    def tell(self) -> int:
        """How many bytes were written in all."""
        return self._position

    def take(self) -> bytes:
        """The bytes written since the last call."""
        taken = b"".join(self._parts)
        self._parts, self.size = [], 0
        return taken


def _check_members(archive: zipfile.ZipFile) -> None:
    """Refuse members with unknown names, duplicates and oversized ones; none is written to a
    path."""
    infos = {info.filename: info for info in archive.infolist()}
    if len(infos) != len(archive.infolist()):
        raise NotABundleError("has two files of one name")
    known = {*_MAX_BYTES, LEDGER}
    if infos.keys() - known or known - _OPTIONAL - infos.keys():
        raise NotABundleError("does not have the files of a bundle")
    for name, info in infos.items():
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 0x1:
            raise NotABundleError(f"has {name} compressed or encrypted; bundles store it plainly")
        if info.file_size > _MAX_BYTES.get(name, info.file_size):
            raise NotABundleError(f"has {info.file_size} bytes in {name}, more than any bundle")


def _evidence(archive: zipfile.ZipFile) -> Evidence:
    faults: list[Fault] = []
    about = _read_json(archive, "bundle.json", faults)
    if not isinstance(about, dict) or set(about) != {"bundle_version", "experiment_id"}:
        raise NotABundleError("has a bundle.json of another form")
    version = about["bundle_version"]
    if type(version) is not int or version != VERSION:
        raise NotABundleError(f"has version {str(version)[:20]}; version {VERSION} is known here")
    keys, compromised = read_keys(_list(archive, "keys.json", faults), faults)
    known = len(faults)
    readme = _read(archive, _README, faults) if _README in archive.namelist() else None
    if readme not in (None, *_READMES) and len(faults) == known:
        faults.append(Fault(_README, "is not the text that every bundle has"))
    return Evidence(
        experiment_id=str(about["experiment_id"]),
        spec=_read_json(archive, "spec.json", faults),
        names=distinct_names(_list(archive, "subjects.json", faults), faults),
        report=_report(archive, faults),
        checkpoints=_list(archive, "checkpoints.json", faults),
        sign_offs=_list(archive, _SIGN_OFFS, faults),
        later_attacks=_list(archive, _LATER_ATTACKS, faults),
        erased=_read_json(archive, _ERASED, faults) if _ERASED in archive.namelist() else None,
        salt=_salt(archive, faults),
        log=_read_json(archive, _LOG, faults) if _LOG in archive.namelist() else None,
        claims=_claims(archive, faults),
        keys=keys,
        compromised=compromised,
        rows=_rows(archive, faults),
        faults=faults,
    )


def _read(archive: zipfile.ZipFile, name: str, faults: list[Fault]) -> bytes:
    try:
        return archive.read(name)
    except _DAMAGE as error:
        faults.append(Fault(name, f"is damaged: {error}"))
        return b""


def _read_json(archive: zipfile.ZipFile, name: str, faults: list[Fault]) -> Any:
    """The value of a member, None where it is absent; it must be canonical JSON (RFC 8785)."""
    known = len(faults)
    content = _read(archive, name, faults)
    try:
        return read_canonical(content)
    except ValueError as error:
        if len(faults) == known:
            faults.append(Fault(name, str(error)))
        return None


def _report(archive: zipfile.ZipFile, faults: list[Fault]) -> dict[str, Any] | None:
    if "report.json" not in archive.namelist():
        return None
    value = _read_json(archive, "report.json", faults)
    return value if isinstance(value, dict) else {}


def _salt(archive: zipfile.ZipFile, faults: list[Fault]) -> bytes | None:
    if _SALT not in archive.namelist():
        return None
    value = _read_json(archive, _SALT, faults)
    try:
        salt = bytes.fromhex(value["salt"])
        if {"salt": salt.hex()} == value and len(salt) == SALT_BYTES:
            return salt
    except (TypeError, KeyError, ValueError):
        pass
    faults.append(Fault(_SALT, f"does not hold {SALT_BYTES} bytes in hexadecimal"))
    return None


def _claims(archive: zipfile.ZipFile, faults: list[Fault]) -> list[Any]:
    if _CLAIMS not in archive.namelist():
        return []
    content = _read(archive, _CLAIMS, faults)
    try:
        found = [read_canonical(line) for line in content.splitlines()]
        if claim_lines(found) == content:
            return found
    except ValueError:
        pass
    faults.append(Fault(_CLAIMS, "is no canonical JSON (RFC 8785), a line for each claim"))
    return []


def _list(archive: zipfile.ZipFile, name: str, faults: list[Fault]) -> list[Any]:
    """That of a member, which need not be there unless every bundle has it."""
    if name in _OPTIONAL and name not in archive.namelist():
        return []
    value = _read_json(archive, name, faults)
    if isinstance(value, list):
        return value
    faults.append(Fault(name, "is no list"))
    return []


def distinct_names(
    names: Sequence[Any], faults: list[Fault], *, part: str = "subjects.json"
) -> list[str]:
    """The names; none, and a fault of that part, where they are no distinct texts."""
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        faults.append(Fault(part, "is no list of distinct names"))
        return []
    return list(names)


def read_keys(values: Sequence[Any], faults: list[Fault]) -> tuple[list[PublicKey], dict[str, str]]:
    """The keys in the entries of keys.json, and by id since when one is said to have leaked."""
    found: list[PublicKey] = []
    compromised: dict[str, str] = {}
    for fields in values:
        try:
            key = PublicKey.from_pem(fields["public_key"].encode("ascii"))
            since = fields.get("compromised_at")
            leaked = {key.key_id: since} if isinstance(since, str) else {}
            same = key_fields(key, leaked) == fields
        except (ValueError, TypeError, KeyError, AttributeError):
            same = False
        if same:
            found.append(key)
            compromised |= leaked
        else:
            faults.append(Fault("keys.json", "has an entry that is no key with its id"))
    return found, compromised


def _rows(archive: zipfile.ZipFile, faults: list[Fault]) -> Iterator[LedgerRow | UnreadableRow]:
    number, reader = 0, LineReader()
    try:
        with archive.open(LEDGER) as member:
            while line := member.readline(_MAX_LINE_BYTES):
                number += 1
                try:
                    yield reader.row(line)
                except ValueError as error:
                    yield UnreadableRow(f"line {number} of {LEDGER}", str(error))
    except _DAMAGE as error:
        faults.append(Fault(LEDGER, f"is damaged after line {number}: {error}"))
