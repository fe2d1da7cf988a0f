"""Load the federation of a spec: the entry point of this package."""

from dataclasses import replace
from pathlib import Path

from fedaudit.federations.agreement import check_agreement
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups.intersections import with_intersections
from fedaudit.federations.reading.data_room import DataRoom
from fedaudit.federations.reading.source_files import Files, MayRead, OpenUpload
from fedaudit.federations.record_keys import record_keys
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.source_kinds import source_kind
from fedaudit.spec.experiment import ExperimentSpec


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
    federation = with_intersections(federation, spec.fairness.combinations)
    check_agreement(spec, federation)
    return federation
