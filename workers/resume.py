"""Turn a unit's rows into experiments that can run: from their beginning, or from a checkpoint."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from fedaudit.federations.agreement import check_agreement
from fedaudit.federations.federation import DataKey, Federation, data_key
from fedaudit.federations.load import load_federation
from fedaudit.federations.reading.source_files import Files
from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.columns import batches
from fedaudit.ledger.encoding import genesis
from fedaudit.ledger.ledger_context import (
    LedgerContext,
    build_metric_context,
    rebuild_ledger_context,
)
from fedaudit.ledger.rows import charges_report
from fedaudit.ledger.statements import PublicKey, subjects_hash
from fedaudit.privacy.accounting.privacy_events import REPORT, MechanismParameters
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.runs.experiment_plan import OpenArtifact, with_start
from fedaudit.runs.ledger_writer import LedgerWriter, Spending
from fedaudit.runs.run import Run, cell_ledger_context, training_subjects
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted, parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import PlannedRound
from models.database import Database
from models.repositories import (
    CheckpointRepository,
    ExperimentRepository,
    FederationRepository,
    LedgerRepository,
    SubjectSetRepository,
)
from models.tables.experiments import Experiment
from workers.flush import RunningExperiment, ledger_row, store_totals
from workers.proof.signing import witness_of_resumed

_PAGE = 500


def load_cell(
    database: Database,
    row: Experiment,
    *,
    files: Files,
    open_artifact: OpenArtifact,
    loaded: dict[DataKey, Federation],
    parse: Callable[[object], ExperimentSpec] = parse_spec,
) -> Cell:
    """The experiment's spec, data and initial parameters. `loaded`: data of the unit's earlier
    experiments, to which this adds. `parse`: today's rules for a run, `parse_admitted` to look at
    one with a report. Raises InvalidInputError if they are unusable, or the data has changed since
    admission reserved its budget."""
    spec = parse(row.spec)
    federation = _shared(spec, files, loaded)
    with database.read() as session:
        admitted = FederationRepository(session, row.project_id).get(row.federation_id)
    if admitted is None or admitted.fingerprint != federation.fingerprint:
        raise _changed("the data is not what it was when the experiment was submitted")
    return with_start(Cell(spec, federation), open_artifact)


def _shared(spec: ExperimentSpec, files: Files, loaded: dict[DataKey, Federation]) -> Federation:
    key = data_key(spec)
    if key in loaded:
        check_agreement(spec, loaded[key])
    else:
        loaded[key] = load_federation(
            spec,
            sources_dir=files.sources_dir,
            open_upload=files.open_upload,
            may_read=files.may_read,
            room=files.room,
        )
    return loaded[key]


def resume_experiment(
    database: Database, row: Experiment, cell: Cell, *, key: PublicKey
) -> RunningExperiment:
    """The experiment with its stored ledger, or at its beginning. `key`: this worker's. Raises
    InvalidInputError if the charged subjects, their charges or the groups differ from those at
    submission, which the API may have planned from an unauthenticated index."""
    ledger_context = cell_ledger_context(cell)
    with database.read() as session:
        names = SubjectSetRepository(session).names(row.subject_set_id)
    if names != ledger_context.subjects:
        raise _changed("the clients are not those of the submitted experiment")
    stored = row.mechanism_inputs
    # They may be stored by a version with fewer fields.
    same_inputs = stored is None or MechanismParameters.from_dict(stored) == ledger_context.inputs
    if not same_inputs or row.parameters != cell.shape.n:
        raise _changed("what it would spend is not what was reserved when it was submitted")
    if row.attributes != {one.name: list(one.values) for one in cell.federation.attributes}:
        raise _changed("the groups are not those of the submitted experiment")
    with database.read() as session:
        checkpoint = CheckpointRepository(session).get(row.id)
        interrupted = interrupted_rounds(session, row.id)
        ledger = stored_ledger(
            session,
            row,
            ledger_context=ledger_context,
            training=training_subjects(cell, ledger_context),
        )
        audit = _read_rows(session, row.id, ledger)
        witness = witness_of_resumed(
            session,
            row,
            ledger,
            audit=audit,
            key=key,
            begun=checkpoint is not None,
            interrupted=bool(interrupted),
        )
    return RunningExperiment(
        run=Run(
            experiment_id=row.id,
            name=row.name,
            cell=cell,
            ledger=ledger,
            started_at=row.started_at or row.created_at,
            rounds_done=0 if checkpoint is None else checkpoint.round,
            interrupted_rounds=interrupted,
        ),
        project_id=row.project_id,
        spec_hash=row.spec_hash,
        subjects_hash=subjects_hash(ledger_context.subjects),
        witness=witness,
        checkpoint=None if checkpoint is None else checkpoint.data,
    )


def interrupted_rounds(session: Session, experiment_id: str) -> list[PlannedRound]:
    """Rounds that were charged before their noise was drawn, and that have no ledger row."""
    intents = LedgerRepository(session).open_intents(experiment_id)
    return [PlannedRound(one.round, one.release, one.subjects) for one in intents]


def stored_ledger(
    session: Session,
    experiment: Experiment,
    *,
    ledger_context: LedgerContext,
    training: NDArray[np.int32],
) -> LedgerWriter:
    """The experiment's stored ledger, without each client's clusters and refusals. `training`: the
    subjects that train."""
    ledger, experiment_id = LedgerRepository(session), experiment.id
    totals, newest = ledger.get_totals(experiment_id), ledger.last_row(experiment_id)
    shape = len(ledger_context.observers), len(ledger_context.subjects)
    releases = np.zeros(shape, np.int32) if totals is None else totals.releases.reshape(shape)
    spendings = [Spending(before, training=training) for before in releases]
    if totals is not None:
        spendings[0].refusals, spendings[0].withheld = totals.refusals, totals.withheld
    return LedgerWriter(
        ledger_context=ledger_context,
        spendings=spendings,
        head=genesis(experiment_id) if newest is None else newest[1],
        salt=experiment.ledger_salt,
        entries=ledger.count(experiment_id),
        last_round=0 if newest is None else newest[0],
        report_charges=ledger.count(experiment_id, observer=REPORT),
        report_charged=ledger.newest_observers(experiment_id) == {REPORT},
    )


def _read_rows(session: Session, experiment_id: str, ledger: LedgerWriter) -> LedgerAudit:
    """Read and check all stored rows; the ledger takes the cluster of each client's newest upload
    and its refusals from them."""
    stored, after = LedgerRepository(session), None
    names = ledger.ledger_context.subjects
    audit = LedgerAudit(experiment_id, names, watch=(), salt=ledger.salt)
    while rows := stored.rows_after(experiment_id, after=after, limit=_PAGE):
        for some in batches(rows):
            audit.read(some)
        for row in rows:
            if charges_report(row.observer):
                continue
            ledger.place_uploads(row.subjects, row.outcomes, row.clusters)
            if row.observer == ledger.ledger_context.observers[0]:
                ledger.spending.count_refused(row.subjects, row.outcomes)
        after = rows[-1].key
    return audit


def _changed(what: str) -> InvalidInputError:
    return InvalidInputError([FieldError("/federation", f"{what}; submit it again")])


def context_of_interrupted(
    database: Database, experiment_id: str, project_id: str
) -> LedgerContext | None:
    """What `charge_interrupted_rounds` needs, built outside a transaction since counting epsilons
    may take long; None if there is nothing to charge. Raises LookupError for an unknown
    experiment."""
    with database.read() as session:
        if not interrupted_rounds(session, experiment_id):
            return None
        experiment = _experiment(session, experiment_id, project_id)
        names = SubjectSetRepository(session).names(experiment.subject_set_id)
    return _context_as_submitted(experiment, names)


def charge_interrupted_rounds(
    session: Session,
    experiment_id: str,
    project_id: str,
    *,
    ledger_context: LedgerContext | None = None,
) -> int:
    """Write the ledger rows of an ended experiment's open intents; returns their number. A resuming
    worker does this itself; otherwise the ledger would show less than was charged.
    `ledger_context`: built here unless given. Raises LookupError for an unknown experiment."""
    experiment = _experiment(session, experiment_id, project_id)
    interrupted = interrupted_rounds(session, experiment_id)
    if not interrupted:
        return 0
    names = SubjectSetRepository(session).names(experiment.subject_set_id)
    ledger = stored_ledger(
        session,
        experiment,
        ledger_context=ledger_context or _context_as_submitted(experiment, names),
        training=np.arange(len(names), dtype=np.int32),
    )
    recorded = [ledger.record_interrupted(lost) for lost in interrupted]
    rows = [ledger_row(one) for lost in recorded for entries in lost.written for one in entries]
    LedgerRepository(session).insert(experiment_id, project_id, rows)
    store_totals(session, experiment_id, project_id, ledger)
    return len(interrupted)


def _experiment(session: Session, experiment_id: str, project_id: str) -> Experiment:
    experiment = ExperimentRepository(session, project_id).get(experiment_id)
    if experiment is None:
        raise LookupError(f"no experiment {experiment_id}")
    return experiment


def _context_as_submitted(experiment: Experiment, names: Sequence[str]) -> LedgerContext:
    """The context as of submission: the data may be remote, or deleted."""
    if experiment.mechanism_inputs is not None:
        inputs = MechanismParameters.from_dict(experiment.mechanism_inputs)
        return rebuild_ledger_context(inputs, names, rounds=experiment.rounds_total)
    inputs = mechanism_of(parse_admitted(experiment.spec)).inputs(n=experiment.parameters)
    return build_metric_context(inputs, names)
