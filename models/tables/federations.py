"""Federations, the contents that they share across projects, files, and erasures."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from models.arrays import Packed, PackedArray
from models.tables.base import Base, Identifier, ProjectRow, Word
from models.values import FederationStatus, FileKind, GoneReason, Simulation


class Federation(ProjectRow):
    """The clients' data, by its fingerprint. Deletion keeps the row, so that what was spent on the
    data stays spent."""

    __tablename__ = "federations"
    __table_args__ = (UniqueConstraint("project_id", "fingerprint"),)

    fingerprint: Mapped[str] = mapped_column(String(64), index=True)
    name: Mapped[str]
    source: Mapped[str] = mapped_column(Word)
    profile: Mapped[dict[str, Any]]
    """Empty until there is one; clients and rows alone once the data is deleted, or until it is
    profiled anew."""
    status: Mapped[FederationStatus] = mapped_column(Word)
    reasons: Mapped[list[Any] | None]
    """Why it was rejected: {pointer, message}, the pointer into the registration."""
    registration: Mapped[dict[str, Any] | None]
    """Null if it was never registered, and experiments named the file by path."""
    unit_id: Mapped[str | None] = mapped_column(ForeignKey("units.id"), index=True)
    """The unit that profiled it last, or is to."""
    storage_key: Mapped[str | None] = mapped_column(String(255))
    """Where the uploaded file is stored; null where it is below the sources folder."""
    file_name: Mapped[str | None]
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Size of the file as it was sent, perhaps compressed."""
    simulation: Mapped[Simulation] = mapped_column(Word, server_default="allowed")
    """Whether runs are admitted whose noise anyone can draw again from the seed."""
    disclosure: Mapped[dict[str, Any] | None]
    """What its owner lets anyone ask of its groups; null where everything is left to them."""
    disclosure_set_at: Mapped[datetime | None]
    """When the policy was changed last; also where it was taken back."""
    profiles: Mapped[int] = mapped_column(server_default="0")
    """How many profiles were published of it: each registration that differs gives one."""
    created_at: Mapped[datetime]
    profiled_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]


class Content(Base):
    """Real data that federations of several projects may share; synthetic data has no row.
    Reserving from it locks the row, so that no two projects take the same last room."""

    __tablename__ = "contents"

    fingerprint: Mapped[str] = mapped_column(String(64), primary_key=True)
    owner_project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id"))
    """The project whose totals hold for all: the first that registered it or set a budget on it."""


class RowSketch(Base):
    """The smallest hashes of a table's rows, which recognise near-copies. Deleted with the data:
    rows with few possible values can be guessed from their hashes."""

    __tablename__ = "row_sketches"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    hashes: Mapped[Packed] = mapped_column(PackedArray("int64"))
    """Ascending; fewer than those of a full sketch where the table has fewer distinct rows."""
    rows: Mapped[int] = mapped_column(BigInteger)
    """Distinct rows, estimated where the sketch is full."""


class NearCopy(Base):
    """Two federations of different content most of whose rows are the same."""

    __tablename__ = "near_copies"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    other_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    share: Mapped[float]
    """Estimated share of the rows of `federation_id` that are rows of the other."""


class Artifact(ProjectRow):
    """One file of parameters of a project. The file itself is in the storage, by its hash."""

    __tablename__ = "artifacts"
    __table_args__ = (UniqueConstraint("project_id", "sha256"),)

    sha256: Mapped[str] = mapped_column(String(64))
    """By which a spec names the file."""
    name: Mapped[str | None]
    """Its first name."""
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    hypotheses: Mapped[int]
    parameters: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime]


class PendingUpload(ProjectRow):
    """One file that waits for its registration; only the key that sent it sees it."""

    __tablename__ = "pending_uploads"

    api_key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id"), index=True)
    storage_key: Mapped[str] = mapped_column(String(255))
    fingerprint: Mapped[str] = mapped_column(String(64))
    """SHA-256 of its content, gzip undone."""
    file_name: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    """Size of the file as it was sent, perhaps compressed."""
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
    """The file is removed then, unless it was registered."""


class Erasure(Base):
    """One erasure. A federation that is registered anew may be erased again."""

    __tablename__ = "erasures"

    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Counts from 1 within the federation."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    fingerprint: Mapped[str] = mapped_column(String(64))
    reference: Mapped[str | None]
    """What the caller calls the request, such as a file number."""
    requested_at: Mapped[datetime]
    requested_by: Mapped[dict[str, Any]]
    """The actor: key and person, as they were then."""
    removed: Mapped[dict[str, Any]]
    """How many of each thing were removed at once, by name."""
    files: Mapped[list[Any]]
    """Keys of the storage whose files are to be removed; empty once they are."""
    ledgers: Mapped[list[Any]]
    """Ids of the ledgers whose clients' names are to be removed, or were."""
    others: Mapped[int]
    """Other projects of the service that hold the same content."""
    completed_at: Mapped[datetime | None] = mapped_column(index=True)
    """When all of it was done; null while the sweeper still works on it."""
    envelope: Mapped[dict[str, Any] | None]
    """The signed receipt (DSSE); null until it is done."""


class ErasedLedger(Base):
    """A ledger without its clients' names, and the signed statement that replaces them."""

    __tablename__ = "erased_ledgers"

    owner_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    """The experiment, or the ledger of a training elsewhere."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    federation_id: Mapped[str] = mapped_column(ForeignKey("federations.id"), index=True)
    erased_at: Mapped[datetime]
    envelope: Mapped[dict[str, Any]]
    """DSSE."""


class ExpiredFile(Base):
    """One file that is gone for good, unless the same is brought again."""

    __tablename__ = "expired_files"

    project_id: Mapped[str] = mapped_column(Identifier, primary_key=True)
    kind: Mapped[FileKind] = mapped_column(Word, primary_key=True)
    owner: Mapped[str] = mapped_column(String(64), primary_key=True)
    """The experiment's id, or the hash of an artifact."""
    reason: Mapped[GoneReason] = mapped_column(Word)
    kept_days: Mapped[int | None]
    """The setting that it exceeded; null where it was erased."""
    expired_at: Mapped[datetime]
    removed_at: Mapped[datetime | None] = mapped_column(index=True)
    """When the storage had removed it; null while that is still to be done."""
