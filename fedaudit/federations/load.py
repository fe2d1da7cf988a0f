"""Load or profile the federation of a spec: the entry point of this package."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.agreement import check_agreement, label_faults
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups import compared, left_out_rows, with_intersections
from fedaudit.federations.hospital import HospitalChargesKind
from fedaudit.federations.images.image_federation import FemnistKind, ImagesKind
from fedaudit.federations.reading.source_files import DataRoom, Files, MayRead, OpenUpload
from fedaudit.federations.record_keys import record_keys
from fedaudit.federations.sites import with_pooled_sites
from fedaudit.federations.source_kind import FileKind, LoadRequest, SourceKind
from fedaudit.federations.split import split_clients
from fedaudit.federations.synthetic import SyntheticGroupsKind, SyntheticLinearKind
from fedaudit.federations.table.table_federation import TableKind
from fedaudit.spec.errors import error_at, raise_errors
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.federation import (
    FederationSpec,
    Femnist,
    FileSpec,
    HospitalCharges,
    Images,
    SyntheticGroups,
    SyntheticLinear,
)
from fedaudit.spec.registration import Registration
from fedaudit.spec.sources import FileSource
from fedaudit.spec.table import Table


def source_kind(source: FederationSpec) -> SourceKind[Any]:
    """The loader of this source."""
    match source:
        case SyntheticLinear():
            return SyntheticLinearKind(source)
        case SyntheticGroups():
            return SyntheticGroupsKind(source)
        case FileSource():
            return file_kind(source)
        case _:
            assert_never(source)


def file_kind(source: FileSpec) -> FileKind[Any]:
    """The loader and profiler of this source."""
    match source:
        case HospitalCharges():
            return HospitalChargesKind(source)
        case Table():
            return TableKind(source)
        case Images():
            return ImagesKind(source)
        case Femnist():
            return FemnistKind(source)
        case _:
            assert_never(source)


def load_federation(
    spec: ExperimentSpec,
    *,
    sources_dir: Path | None,
    open_upload: OpenUpload | None = None,
    may_read: MayRead | None = None,
    room: DataRoom | None = None,
) -> Federation:
    """The clients' data that a spec asks for, checked against the rest of the spec.

    Files are read below `sources_dir`, those that `may_read` lets pass, or opened by `open_upload`
    where the spec names an uploaded federation. Large data stay on disk, where `room` says. Raises
    InvalidInputError with pointers below /federation, /fairness or /training.
    """
    asked = _asked(spec, Files(sources_dir, open_upload, may_read, room or DataRoom()))
    return _agreed(spec, source_kind(spec.federation).load(asked))


def outline_federation(spec: ExperimentSpec, *, files: Files) -> Federation:
    """What a plan needs of the data that a spec asks for, with the errors of `load_federation`.

    Of tables the features are left out (`Federation.is_outline`), so that it takes memory for rows
    alone; all else is equal. Raises InvalidInputError.
    """
    return _agreed(spec, source_kind(spec.federation).outline(_asked(spec, files)))


def _asked(spec: ExperimentSpec, files: Files) -> LoadRequest:
    return LoadRequest(
        fairness=spec.fairness,
        classification=spec.classifies,
        seed=spec.seed,
        files=files,
        budgets=spec.privacy.budget_column,
        keyed=spec.privacy.draws_by_record,
    )


def _agreed(spec: ExperimentSpec, federation: Federation) -> Federation:
    if spec.privacy.draws_by_record:
        federation = replace(federation, record_keys=record_keys(federation))
    elif spec.federation.holds_out_rows and federation.is_large:
        raise error_at(
            "/federation/validation_unit",
            f"these data are read from disk, and {spec.privacy.mechanism} cannot hold rows out "
            "there; use `client`",
        )
    groups = compared(federation.attributes, spec.fairness)
    federation = with_pooled_sites(spec, replace(federation, attributes=groups))
    federation = with_intersections(federation, spec.fairness.combinations)
    check_agreement(spec, federation)
    return without_left_out(spec, federation)


@dataclass(frozen=True)
class RegisteredData:
    """The data of a registration, read with it alone: small groups are suppressed. All that reads
    them raises InvalidInputError with the same message as loading the data."""

    registration: Registration
    files: Files
    progress: Callable[[], None] = lambda: None
    """Called now and then."""

    def profile(self, fingerprint: str | None = None) -> dict[str, Any]:
        """Sizes and names, as JSON; `fingerprint` is the expected one of the data.

        A table is read as a stream, with memory for its clients and groups only; images and
        hospital charges are loaded.
        """
        figures = self._kind.profile(self._asked(), fingerprint)
        attributes = {name: tuple(found["groups"]) for name, found in figures["attributes"].items()}
        codes = {figures["target"]: figures["classes"], **attributes}
        raise_errors(label_faults(self.registration.federation.labels, codes))
        return figures

    def row_hashes(self, *, keep: int) -> NDArray[np.int64] | None:
        """The `keep` smallest hashes of a table's rows; None for what is no table.

        Raises InvalidInputError where a column cannot be read, which need not be one that is used.
        """
        return self._kind.row_hashes(self._asked(), keep=keep)

    @property
    def _kind(self) -> FileKind[Any]:
        return file_kind(self.registration.federation)

    def _asked(self, **more: Any) -> LoadRequest:
        fairness = self.registration.fairness
        return LoadRequest(fairness=fairness, files=self.files, progress=self.progress, **more)


_WHERE = "/fairness/exclude"


def without_left_out(spec: ExperimentSpec, federation: Federation) -> Federation:
    """The federation as the spec's figures see it, without the rows that `fairness.exclude` leaves
    out of every one, and which may still train.

    Rows of held-out clients serve figures alone, so they are removed. A client keeps its rows where
    it would have none: it is not scored then. Where rows instead of clients are held out, those
    held out stay in the arrays, and neither train nor validate. Raises
    InvalidInputError at /fairness/exclude where no client is left to be scored, or the data are too
    large to be taken apart in memory.
    """
    left_out = left_out_rows(federation.attributes, spec.fairness)
    if left_out is None:
        return federation
    federation, source = replace(federation, left_out=left_out), spec.federation
    if source.holds_out_rows:
        return federation
    if federation.is_large:
        raise error_at(
            _WHERE,
            "these data are read from disk, and rows cannot be left out there; take the rows out "
            "of the file, or join their value into another group by `groups`",
        )
    split = split_clients(
        federation.clients, validation_fraction=source.validation_fraction, seed=spec.seed
    )
    kept = np.bincount(federation.client_of[~left_out], minlength=federation.clients)
    if not kept[split.validation].any():
        raise error_at(
            _WHERE,
            "leaves no row of the clients that are held out; leave fewer values out, or hold out "
            "more clients by `validation_fraction`",
        )
    held_out = np.zeros(federation.clients, dtype=np.bool_)
    held_out[split.validation] = True
    of_scored = (held_out & (kept > 0))[federation.client_of]
    return federation.of_rows(np.flatnonzero(~(left_out & of_scored)))
