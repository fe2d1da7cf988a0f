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
    federation = _load(spec, Files(sources_dir, open_upload, may_read, room or DataRoom()))
    federation = with_intersections(federation, spec.fairness.combinations)
    check_agreement(spec, federation)
    return federation


def _load(spec: ExperimentSpec, files: Files) -> Federation:
    asked = LoadRequest(
        fairness=spec.fairness,
        classification=spec.classifies,
        seed=spec.seed,
        files=files,
        budgets=spec.privacy.budget_column,
        keyed=spec.privacy.draws_by_record,
    )
    federation = source_kind(spec.federation).load(asked)
    return replace(federation, record_keys=record_keys(federation)) if asked.keyed else federation
