"""What is stored of a run: blocks of rounds, each in one fenced transaction; and how a unit's rows
become experiments that can run, from their beginning or from a checkpoint."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from fedaudit.federations.federation import DataKey, Federation, data_key
from fedaudit.federations.load import check_agreement, load_federation
from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.columns import batches
from fedaudit.ledger.encoding import genesis
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.ledger.statements import WORKER, Checkpoint, PublicKey
from fedaudit.privacy.accounting.privacy_events import REPORT, MechanismParameters
from fedaudit.runs.blocks import Block
from fedaudit.runs.experiment_plan import with_start
from fedaudit.runs.ledger_writer import LedgerWriter, Spending
from fedaudit.runs.run import Run, cell_ledger_context, training_subjects
from fedaudit.spec.errors import InvalidInputError, error_at
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.stored import CellPlace, RoundRow
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import PlannedRound
from models.database import Database, Dialect
from models.repositories import (
    CheckpointRepository,
    EventRepository,
    ExperimentRepository,
    FairnessRepository,
    FederationRepository,
    LedgerRepository,
    RoundRepository,
    SubjectSetRepository,
    gathered_writes,
)
from models.tables.experiments import Experiment
from workers.context import ProjectFiles
from workers.proof.signing import witness_of_resumed, writer_checkpoint

log = structlog.get_logger()


@dataclass
class RunningExperiment:
    """A run that is stored."""

    row: Experiment
    """The row at the time when its worker took it up."""
    run: Run
    witness: str
    """What its signatures witness: DATABASE if its ledger began with rows that no verified worker's
    signature covers, else WORKER."""
    checkpoint: bytes | None = None
    """The trainer's state when the worker resumed it."""
    place: CellPlace | None = None
    """The cell that it is a try of."""

    @property
    def id(self) -> str:
        """Its id."""
        return self.row.id

    @property
    def project_id(self) -> str:
        """Its project's."""
        return self.row.project_id

    def ledger_checkpoint(self, status: str) -> Checkpoint:
        """The state of its ledger, to be signed."""
        return writer_checkpoint(self.row, self.run.ledger, status=status, witness=self.witness)


ROUND_COMPLETED = "round.completed"
_IN_EVENTS = ("round", "selection_loss", "validation_loss", "leakage_max", "epsilon_max")


def store_totals(
    session: Session, experiment_id: str, project_id: str, ledger: LedgerWriter
) -> None:
    """Overwrite the experiment's running totals, inside a fenced transaction."""
    LedgerRepository(session, project_id).put_totals(
        experiment_id,
        releases=ledger.totals,
        refusals=ledger.spending.refusals,
        withheld=ledger.spending.withheld,
    )


def _round_event(row: RoundRow) -> dict[str, Any]:
    reasons = {name: row.reasons[name] for name in _IN_EVENTS if name in row.reasons}
    return {**{name: getattr(row, name) for name in _IN_EVENTS}, "reasons": reasons}


@dataclass(frozen=True)
class Played:
    """A block of an experiment's rounds to be stored, with the state to resume from."""

    experiment: RunningExperiment
    block: Block
    checkpoint: bytes


def store_blocks(session: Session, played: Sequence[Played], *, again: bool = False) -> set[str]:
    """Write blocks of rounds of one project's experiments, their checkpoints and totals; returns
    the ids of those to be cancelled. `again`: the blocks may have been stored already."""
    if not played:
        return set()
    project_id = played[0].experiment.project_id
    ledger = LedgerRepository(session, project_id)
    new = list(played)
    if again:
        ends = [(one.experiment.id, one.experiment.run.ledger) for one in played]
        stored = [ledger.last_row(id_) == (end.last_round, end.head) for id_, end in ends]
        new = [one for one, known in zip(played, stored, strict=True) if not known]
    with gathered_writes(session):
        for one in new:
            run, id_ = one.experiment.run, one.experiment.id
            ledger.insert(id_, one.block.ledger)
            RoundRepository(session, project_id).insert(id_, one.block.rounds)
            FairnessRepository(session, project_id).insert(id_, one.block.fairness)
            store_totals(session, id_, project_id, run.ledger)
            checkpoints = CheckpointRepository(session, project_id)
            checkpoints.put(id_, round=run.rounds_done, data=one.checkpoint)
        events = {
            one.experiment.id: [(ROUND_COMPLETED, _round_event(row)) for row in one.block.rounds]
            for one in new
        }
        EventRepository(session, project_id).append_each(events)
    done = {one.experiment.id: one.experiment.run.rounds_done for one in played}
    return ExperimentRepository(session, project_id).progress_each(done)


_FLUSH_SECONDS = 0.5
_FLUSHED = {"sqlite": (120_000, 1_000), "postgresql": (480_000, 8_000)}
"""Client entries and rounds of all experiments together: keeps a transaction on SQLite below 100
ms. On Postgres nothing else waits for it."""
_GROWTH = 16


class Pace:
    """How many rounds fit into half a second and a transaction; at least one."""

    def __init__(self, dialect: Dialect) -> None:
        self._most, self._newest = _FLUSHED[dialect], 1
        self._seconds_per_round: float | None = None

    def rounds(
        self, *, experiments: int, cohort: int, played: int = 0, seconds: float = 0.0
    ) -> int:
        """The next rounds for this many experiments with this many clients a round each; `played`
        are to be stored with them, which took so many `seconds`."""
        entries, rounds = self._most
        most = min(entries // (experiments * cohort), rounds // experiments) - played
        if self._seconds_per_round is None:
            return 1
        fitting = int((_FLUSH_SECONDS - seconds) / max(self._seconds_per_round, 1e-9))
        # Growing step by step, because one quick round says little about the next thousand.
        return max(1, min(fitting, _GROWTH * self._newest, most))

    def took(self, rounds: int, seconds: float) -> None:
        """Record the newest rounds, and how long they took."""
        self._newest = max(1, rounds)
        self._seconds_per_round = seconds / self._newest


@dataclass
class Loaded:
    """What the experiments of a unit have in common."""

    federations: dict[DataKey, Federation] = field(default_factory=dict)
    fingerprints: dict[str, str | None] = field(default_factory=dict)
    """Fingerprints of contents as admitted, by id."""
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Keyed by the id of the set."""
    places: Mapping[str, CellPlace] = field(default_factory=dict)
    """Keyed by experiment."""


def load_cell(
    database: Database,
    row: Experiment,
    *,
    own: ProjectFiles,
    loaded: Loaded,
    parse: Callable[[object], ExperimentSpec] = parse_spec,
) -> Cell:
    """The experiment's spec, data and initial parameters. `own`: its project's files. `loaded`:
    what the unit's earlier experiments had, to which this adds. `parse`: today's rules for a run,
    `parse_admitted` to look at one with a report. Raises InvalidInputError if they are unusable, or
    the data has changed since admission reserved its budget."""
    spec = parse(row.spec)
    key = data_key(spec)
    if key in loaded.federations:
        check_agreement(spec, loaded.federations[key])
    else:
        loaded.federations[key] = load_federation(spec, files=own.files)
    federation = loaded.federations[key]
    if row.federation_id not in loaded.fingerprints:
        with database.read() as session:
            admitted = FederationRepository(session, row.project_id).get(row.federation_id)
        loaded.fingerprints[row.federation_id] = None if admitted is None else admitted.fingerprint
    if loaded.fingerprints[row.federation_id] != federation.fingerprint:
        raise _changed("the data is not what it was when the experiment was submitted")
    return with_start(Cell(spec, federation), own.artifact)


def resume_experiment(
    database: Database, row: Experiment, cell: Cell, *, loaded: Loaded, key: PublicKey | None
) -> RunningExperiment:
    """The experiment with its stored ledger, or at its beginning. `loaded`: as for `load_cell`;
    `key`: this worker's, None where nothing of a run is stored. Raises InvalidInputError if the
    charged subjects, their charges or the groups differ from those at submission, which the API may
    have planned from an unauthenticated index."""
    ledger_context = cell_ledger_context(cell)
    if row.subject_set_id not in loaded.names:
        with database.read() as session:
            stored_names = SubjectSetRepository(session).names(row.subject_set_id)
        loaded.names[row.subject_set_id] = stored_names
    if loaded.names[row.subject_set_id] != ledger_context.subjects:
        raise _changed("the clients are not those of the submitted experiment")
    stored = row.mechanism_inputs
    # They may be stored by a version with fewer fields.
    same_inputs = stored is None or MechanismParameters.from_dict(stored) == ledger_context.inputs
    if not same_inputs or row.parameters != cell.shape.n:
        raise _changed("what it would spend is not what was reserved when it was submitted")
    if row.attributes != {one.name: list(one.values) for one in cell.federation.attributes}:
        raise _changed("the groups are not those of the submitted experiment")
    training = training_subjects(cell, ledger_context)
    checkpoint, interrupted, witness = None, list[PlannedRound](), WORKER
    if key is None:
        begin, salt = LedgerWriter.from_beginning, row.ledger_salt
        ledger = begin(ledger_context, experiment_id=row.id, training=training, salt=salt)
    else:
        with database.read() as session:
            checkpoint = CheckpointRepository(session).get(row.id)
            interrupted = interrupted_rounds(session, row.id)
            ledger = stored_ledger(session, row, ledger_context=ledger_context, training=training)
            witness = witness_of_resumed(
                session,
                row,
                ledger,
                audit=_read_rows(session, row.id, ledger),
                key=key,
                begun=checkpoint is not None,
                interrupted=bool(interrupted),
            )
    return RunningExperiment(
        row=row,
        run=Run(
            experiment_id=row.id,
            name=row.name,
            cell=cell,
            ledger=ledger,
            started_at=row.started_at or row.created_at,
            rounds_done=0 if checkpoint is None else checkpoint.round,
            interrupted_rounds=interrupted,
        ),
        witness=witness,
        checkpoint=None if checkpoint is None else checkpoint.data,
        place=loaded.places.get(row.id),
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
    """The experiment's stored ledger, without its hash and each client's clusters and refusals.
    `training`: the subjects that train."""
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
        report_charged=ledger.newest_observers(experiment_id) == {REPORT},
    )


def _read_rows(session: Session, experiment_id: str, ledger: LedgerWriter) -> LedgerAudit:
    """Read and check all stored rows; the ledger takes from them what its totals do not say."""
    names = ledger.ledger_context.subjects
    audit = LedgerAudit(experiment_id, names, watch=(), salt=ledger.salt)
    for rows in LedgerRepository(session).blocks(experiment_id):
        for some in batches(rows):
            audit.read(some)
        for row in rows:
            ledger.read_again(row)
    return audit


def _changed(what: str) -> InvalidInputError:
    return error_at("/federation", f"{what}; submit it again")
