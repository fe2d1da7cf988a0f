"""The evidence that one experiment or audit left, and bundles: a zip file with all of it.

Members are stored, not compressed: the same content has the same bytes with every library, and a
file cannot expand beyond its size. The ledger is written and read row by row. A bundle consists of
its members and nothing else: readers of zip files differ in where they look, and a file with bytes
before, between or behind its members may show different content to each.
"""

import io
import struct
import zipfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field
from itertools import product
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
    report: dict[str, Any] | None
    """None for an experiment that failed or was cancelled."""
    keys: Sequence[PublicKey]
    """Keys that came with the evidence and prove nothing about the signer."""
    names: Sequence[str] = ()
    """The subjects' names by index."""
    checkpoints: Sequence[Any] = ()
    """DSSE envelopes, oldest first."""
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
    """The DSSE envelope of the statement that replaces erased names; None where they are real."""
    compromised: Mapping[str, str] = field(default_factory=dict)
    """When each leaked key was leaked, by key id, as the service states it."""
    faults: list[Fault] = field(default_factory=list)
    """Grows while the rows are read."""


_DESCRIPTOR_MAGIC = b"PK\x07\x08"
_FOLLOWED_BY_SIZES = 0x8
_PLAIN_VERSION = 20


def layout_fault(file: BinaryIO, archive: zipfile.ZipFile) -> str | None:
    """Where the file is not as `zipfile` writes its members, one behind the other and their
    directory behind them; None where it is. `archive` was opened on the same file."""
    members = [copy(one) for one in archive.infolist()]
    place = 0
    for one in members:
        one.extra = one.comment = b""
    for one in sorted(members, key=lambda one: one.header_offset):
        end = _end_of_member(file, one) if one.header_offset == place else None
        if end is None:
            return f"says two things about {one.filename}, or has other bytes before it"
        place = end
    sink = Sink(place)
    with zipfile.ZipFile(sink, "w") as again:
        again.filelist, again.start_dir = members, place
    directory = sink.take()
    file.seek(place)
    if file.read(len(directory) + 1) != directory:
        return "has a comment, or other bytes behind its members"
    return None


def _end_of_member(file: BinaryIO, info: zipfile.ZipInfo) -> int | None:
    """Where a member ends, content and sizes behind it included; None where what is written there
    contradicts the directory."""
    # Behind 2 GiB the directory asks for a later version than the member itself.
    for is_large, version in product((False, True), {info.extract_version, _PLAIN_VERSION}):
        if not is_large and info.file_size > zipfile.ZIP64_LIMIT:
            continue
        stated = copy(info)
        stated.extract_version = version
        header = stated.FileHeader(zip64=is_large)
        file.seek(info.header_offset)
        if file.read(len(header)) != header:
            continue
        end = file.seek(info.file_size, 1)
        if not info.flag_bits & _FOLLOWED_BY_SIZES:
            return end
        sizes = (info.CRC, info.compress_size, info.file_size)
        form = "<4sL2Q" if is_large else "<4s3L"
        descriptor = struct.pack(form, _DESCRIPTOR_MAGIC, *sizes)
        if file.read(len(descriptor)) == descriptor:
            return end + len(descriptor)
    return None


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
_SALT, CLAIMS_FILE, _LOG = "salt.json", "claims.jsonl", "log.json"
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
    CLAIMS_FILE: """\
  claims.jsonl      what the report claims, for the verifiers of others: in-toto statements in
                    Sigstore bundles
""",
    _LOG: """\
  log.json          the log of the runs on these data, with its signed head: hashes alone
""",
}
"""Texts for bundles that have these members; other bundles stay as they were."""


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
_EARLIER = {
    "anyone who could change the\n                    other files could change these.": (
        "whoever could change the other\n                    files could change these."
    ),
    "anyone with it can": "whoever has it can",
}
"""Words of these texts in bundles of earlier versions."""
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
    contents = {name: getattr(evidence, part) for name, (part, _, _) in _PARTS.items()}
    contents["keys.json"] = [key_fields(key, evidence.compromised) for key in evidence.keys]
    if evidence.salt is not None:
        contents[_SALT] = {"salt": evidence.salt.hex()}
    about = {"bundle_version": VERSION, "experiment_id": evidence.experiment_id}
    files = {"bundle.json": canonical_json(about)}
    for name, content in contents.items():
        if content or (content is not None and name not in _LINES):
            files[name] = claim_lines(content) if name == CLAIMS_FILE else canonical_json(content)
    yield _README, _readme(evidence.spec, files).encode("ascii")
    yield from files.items()


def claim_lines(claims: Iterable[Any]) -> bytes:
    """Claims as they are in a bundle: a line each, in canonical JSON."""
    return b"".join(canonical_json(one) + b"\n" for one in claims)


def _readme(spec: Any, members: Container[str]) -> str:
    """The text of a bundle of such a spec with these members."""
    if is_audit(spec):
        return _README_OF_AUDIT
    lines = "".join(line for name, line in _LINES.items() if name in members)
    text = _README_TEXT.replace("  keys.json ", f"{lines}  keys.json ")
    if _ERASED in members:
        text = text.replace("what each named client spent", "what each client spent")
    return text


def _check_readme(text: bytes, spec: Any, members: Container[str]) -> None:
    own = earlier = _readme(spec, members)
    for now, before in _EARLIER.items():
        earlier = earlier.replace(now, before)
    if text not in (own.encode("ascii"), earlier.encode("ascii")):
        raise ValueError("is not the text that every bundle has")


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

    def __init__(self, position: int = 0) -> None:
        """`position`: how many bytes are in front of those that are written."""
        super().__init__()
        self._parts: list[bytes] = []
        self._position = position
        self.size = 0
        """How many bytes were not taken yet."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Append a copy: the buffer is the writer's."""
        part = bytes(data)
        self._parts.append(part)
        self.size += len(part)
        self._position += len(part)
        return len(part)

    def tell(self) -> int:
        """Where the next byte is written."""
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
        is_plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 0x1
        if not is_plain or info.compress_size != info.file_size:
            raise NotABundleError(f"has {name} compressed or encrypted; bundles store it plainly")
        if info.file_size > _MAX_BYTES.get(name, archive.start_dir):
            raise NotABundleError(f"has {info.file_size} bytes in {name}, more than any bundle")


def _evidence(archive: zipfile.ZipFile) -> Evidence:
    faults: list[Fault] = []
    present = set(archive.namelist())

    def read(name: str, form: Callable[[bytes], Any] = read_canonical) -> Any:
        """What a member holds; None, and a fault, where it is damaged or has another form."""
        if name not in present:
            return None
        try:
            content = archive.read(name)
        except _DAMAGE as error:
            faults.append(Fault(name, f"is damaged: {error}"))
            return None
        try:
            return form(content)
        except ValueError as error:
            faults.append(Fault(name, str(error)))
            return None

    about = read("bundle.json")
    if not isinstance(about, dict) or set(about) != {"bundle_version", "experiment_id"}:
        raise NotABundleError("has a bundle.json of another form")
    version = about["bundle_version"]
    if type(version) is not int or version != VERSION:
        raise NotABundleError(f"has version {str(version)[:20]}; version {VERSION} is known here")
    found = {part: read(name, form) for name, (part, _, form) in _PARTS.items()}
    read(_README, lambda content: _check_readme(content, found["spec"], present))
    keys, compromised = read_keys(found.pop("keys") or (), faults)
    names = distinct_names(found.pop("names") or (), faults)
    spec, report = found.pop("spec"), found.pop("report")
    if "report.json" in present and not isinstance(report, dict):
        report = {}
    return Evidence(
        experiment_id=str(about["experiment_id"]),
        spec=spec,
        report=report,
        names=names,
        keys=keys,
        compromised=compromised,
        rows=_rows(archive, faults),
        faults=faults,
        **{part: value for part, value in found.items() if value is not None},
    )


def _list_in(content: bytes) -> list[Any]:
    value = read_canonical(content)
    if not isinstance(value, list):
        raise ValueError("is no list")
    return value


def _salt_in(content: bytes) -> bytes:
    value = read_canonical(content)
    try:
        salt = bytes.fromhex(value["salt"])
        if {"salt": salt.hex()} == value and len(salt) == SALT_BYTES:
            return salt
    except (TypeError, KeyError, ValueError):
        pass
    raise ValueError(f"does not hold {SALT_BYTES} bytes in hexadecimal")


def claims_in(content: bytes) -> list[Any]:
    """Claims of the lines of a file. Raises ValueError."""
    try:
        found = [read_canonical(line) for line in content.splitlines()]
        if claim_lines(found) == content:
            return found
    except ValueError:
        pass
    raise ValueError("is no canonical JSON (RFC 8785), a line for each claim")


_PARTS: Mapping[str, tuple[str, int, Callable[[bytes], Any]]] = {
    "report.json": ("report", 1 << 26, read_canonical),
    "spec.json": ("spec", 1 << 22, read_canonical),
    "subjects.json": ("names", 1 << 28, _list_in),
    "checkpoints.json": ("checkpoints", 1 << 28, _list_in),
    _SIGN_OFFS: ("sign_offs", 1 << 26, _list_in),
    _LATER_ATTACKS: ("later_attacks", 1 << 28, _list_in),
    _ERASED: ("erased", 1 << 16, read_canonical),
    _SALT: ("salt", 1 << 12, _salt_in),
    _LOG: ("log", 1 << 28, read_canonical),
    "keys.json": ("keys", 1 << 20, _list_in),
    CLAIMS_FILE: ("claims", 1 << 28, claims_in),
}
"""The members that hold a part of the evidence each, in their order in a bundle: the part, most
bytes of the member, and what reads it."""
_MAX_BYTES = {_README: 1 << 16, "bundle.json": 1 << 12} | {
    name: most for name, (_, most, _) in _PARTS.items()
}


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
