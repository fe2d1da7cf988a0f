"""From a unit's rows to experiments that can run: at their beginning, or where they were left."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from fedaudit.federations.load import load_federation
from fedaudit.federations.split import split_clients
from fedaudit.ledger.chain import genesis
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.privacy.guarantees import mechanism_inputs
from fedaudit.privacy.inputs import MechanismInputs
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.training.cell import Cell
from models.database import Database
from models.repositories import (
    CheckpointRepository,
    FederationRepository,
    LedgerRepository,
    SubjectSetRepository,
)
from models.tables.experiments import Experiment
from workers.experiment import RunningExperiment
from workers.ledger_book import LedgerBook
from workers.spending import Spending

_PAGE = 500


def load_cell(database: Database, row: Experiment, *, sources_dir: Path | None) -> Cell:
    """The experiment's spec and data.

    Raises InvalidInputError where the data cannot be used, or is no longer the data on which the
    experiment was admitted and its budget reserved.
    """
    spec = parse_spec(row.spec)
    federation = load_federation(spec, sources_dir=sources_dir)
    with database.read() as session:
        admitted = FederationRepository(session, row.project_id).get(row.federation_id)
        names = SubjectSetRepository(session).names(row.subject_set_id)
    if admitted is None or admitted.fingerprint != federation.fingerprint:
        raise _changed("the data is not what it was when the experiment was submitted")
    if names != federation.client_names:
        raise _changed("the clients are not those of the submitted experiment")
    return Cell(spec, federation)


def take_up(database: Database, row: Experiment, cell: Cell) -> RunningExperiment:
    """The experiment with its ledger as far as it is stored."""
    federation = cell.federation
    training = split_clients(
        federation.clients,
        validation_fraction=cell.spec.federation.validation_fraction,
        seed=cell.spec.seed,
    ).training
    with database.read() as session:
        checkpoint = CheckpointRepository(session).get(row.id)
        lost = LedgerRepository(session).open_intents(row.id)
        book = stored_book(
            session,
            row.id,
            inputs=mechanism_inputs(cell.spec, n=cell.shape.n),
            names=federation.client_names,
            training=training,
        )
        _place_clusters(session, row.id, book)
    return RunningExperiment(
        id=row.id,
        project_id=row.project_id,
        name=row.name,
        cell=cell,
        training=training,
        book=book,
        started_at=row.started_at or row.created_at,
        rounds_done=0 if checkpoint is None else checkpoint.round,
        checkpoint=None if checkpoint is None else checkpoint.data,
        lost=lost,
    )


def stored_book(
    session: Session,
    experiment_id: str,
    *,
    inputs: MechanismInputs,
    names: Sequence[str],
    training: NDArray[np.int32],
) -> LedgerBook:
    """The experiment's ledger as far as it is stored, without the clusters of its clients."""
    ledger = LedgerRepository(session)
    totals = ledger.get_totals(experiment_id)
    spending = Spending(
        np.zeros(len(names), dtype=np.int32) if totals is None else totals.releases,
        training=training,
        refusals=0 if totals is None else totals.refusals,
        withheld=0 if totals is None else totals.withheld,
    )
    return LedgerBook(
        inputs=inputs,
        encoder=EntryEncoder(names),
        spending=spending,
        head=ledger.last_link(experiment_id) or genesis(experiment_id),
    )


def _place_clusters(session: Session, experiment_id: str, book: LedgerBook) -> None:
    """Which cluster each client's newest upload went into, from the stored ledger."""
    ledger = LedgerRepository(session)
    after = None
    while rows := ledger.rows_after(experiment_id, after=after, limit=_PAGE):
        for row in rows:
            book.place(row.subjects, row.outcomes, row.clusters)
        last = rows[-1]
        after = (last.round, last.release, last.subject_kind, last.observer)


def _changed(what: str) -> InvalidInputError:
    return InvalidInputError([FieldError("/federation", f"{what}; submit it anew")])
