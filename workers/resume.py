"""From a unit's rows to experiments that can run: at their beginning, or where they were left."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from fedaudit.federations.load import load_federation
from fedaudit.federations.sources import Files
from fedaudit.federations.split import split_clients, training_clients
from fedaudit.ledger.accounts import Account, account_of
from fedaudit.ledger.chain import genesis
from fedaudit.ledger.checkpoints import subjects_hash
from fedaudit.networks.shape import layer_sizes
from fedaudit.privacy.cluster_leakage import ClusterCounts
from fedaudit.privacy.inputs import MechanismInputs
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.training.cell import Cell
from fedaudit.training.spending import spending_of
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


def load_cell(database: Database, row: Experiment, *, files: Files) -> Cell:
    """The experiment's spec and data.

    Raises InvalidInputError where the data cannot be used, or is no longer the data on which the
    experiment was admitted and its budget reserved.
    """
    spec = parse_spec(row.spec)
    federation = load_federation(spec, sources_dir=files.sources_dir, open_upload=files.open_upload)
    with database.read() as session:
        admitted = FederationRepository(session, row.project_id).get(row.federation_id)
    if admitted is None or admitted.fingerprint != federation.fingerprint:
        raise _changed("the data is not what it was when the experiment was submitted")
    return Cell(spec, federation)


def take_up(database: Database, row: Experiment, cell: Cell) -> RunningExperiment:
    """The experiment with its ledger as far as it is stored.

    Raises InvalidInputError where others would pay than when it was submitted.
    """
    federation = cell.federation
    account = _account(cell)
    with database.read() as session:
        names = SubjectSetRepository(session).names(row.subject_set_id)
    if names != account.subjects:
        raise _changed("the clients are not those of the submitted experiment")
    if not _same_inputs(row.mechanism_inputs, account.inputs):
        raise _changed("what it would spend is not what was reserved when it was submitted")
    with database.read() as session:
        checkpoint = CheckpointRepository(session).get(row.id)
        lost = LedgerRepository(session).open_intents(row.id)
        book = stored_book(
            session,
            row.id,
            account=account,
            training=_training(cell, account),
        )
        _follow_clients(session, row.id, book)
    return RunningExperiment(
        id=row.id,
        project_id=row.project_id,
        name=row.name,
        spec_hash=row.spec_hash,
        subjects_hash=subjects_hash(account.subjects),
        cell=cell,
        training_clients=training_clients(federation.clients, cell.spec.federation),
        book=book,
        started_at=row.started_at or row.created_at,
        by_cluster=_by_cluster(book),
        rounds_done=0 if checkpoint is None else checkpoint.round,
        checkpoint=None if checkpoint is None else checkpoint.data,
        lost=lost,
    )


def stored_book(
    session: Session,
    experiment_id: str,
    *,
    account: Account,
    training: NDArray[np.int32],
) -> LedgerBook:
    """The experiment's ledger as far as it is stored, without what each client came across.

    `training`: the subjects that train.
    """
    ledger = LedgerRepository(session)
    totals, newest = ledger.get_totals(experiment_id), ledger.last_row(experiment_id)
    shape = len(account.observers), len(account.subjects)
    releases = np.zeros(shape, np.int32) if totals is None else totals.releases.reshape(shape)
    spendings = [Spending(before, training=training) for before in releases]
    if totals is not None:
        spendings[0].refusals, spendings[0].withheld = totals.refusals, totals.withheld
    return LedgerBook(
        account=account,
        spendings=spendings,
        head=genesis(experiment_id) if newest is None else newest[1],
        entries=ledger.count(experiment_id),
        last_round=0 if newest is None else newest[0],
    )


def store_totals(session: Session, experiment_id: str, project_id: str, book: LedgerBook) -> None:
    """Overwrite the experiment's running totals; inside a fenced transaction."""
    LedgerRepository(session).put_totals(
        experiment_id,
        project_id,
        releases=book.totals,
        refusals=book.spending.refusals,
        withheld=book.spending.withheld,
    )


def _by_cluster(book: LedgerBook) -> ClusterCounts | None:
    if book.inputs.noise_multiplier is None or book.inputs.counts_epsilon:
        return None
    return ClusterCounts(book.clusters, book.spending.releases)


def _account(cell: Cell) -> Account:
    federation = cell.federation
    return account_of(
        cell.spec,
        layers=layer_sizes(cell.shape),
        client_names=federation.client_names,
        plan=spending_of(cell.spec, federation),
    )


def _same_inputs(stored: Mapping[str, Any] | None, inputs: MechanismInputs) -> bool:
    """Whether these are the inputs that were stored, maybe by a version with fewer fields."""
    return stored is None or MechanismInputs.from_dict(stored) == inputs


def _training(cell: Cell, account: Account) -> NDArray[np.int32]:
    """The subjects that can pay: clients that train, or all where subjects are no clients."""
    source = cell.spec.federation
    if account.subject_kind != "client" or source.validation_unit == "record":
        return np.arange(len(account.subjects), dtype=np.int32)
    return split_clients(
        cell.federation.clients,
        validation_fraction=source.validation_fraction,
        seed=cell.spec.seed,
    ).training


def _follow_clients(session: Session, experiment_id: str, book: LedgerBook) -> None:
    """Where each client's newest upload went and how often it was refused, from the ledger."""
    ledger = LedgerRepository(session)
    after = None
    while rows := ledger.rows_after(experiment_id, after=after, limit=_PAGE):
        for row in rows:
            book.place(row.subjects, row.outcomes, row.clusters)
            if row.observer == book.account.observers[0]:
                book.spending.count_refused(row.subjects, row.outcomes)
        last = rows[-1]
        after = (last.round, last.release, last.subject_kind, last.observer)


def _changed(what: str) -> InvalidInputError:
    return InvalidInputError([FieldError("/federation", f"{what}; submit it anew")])
