"""Which records train under `record-personalised`, with which budgets, and what each spent.

No torch: a budget is known before a run, and so is what every record will spend.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Ints, finite, renumbered
from fedaudit.federations.federation import Federation
from fedaudit.federations.record_keys import record_keys
from fedaudit.federations.split import held_out, scored_rows, split_clients, training_clients
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.privacy.records.record_use import drawn_budgets, given_budgets, record_use
from fedaudit.spec.errors import InvalidInputError, error_at
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import RecordPersonalised
from fedaudit.spec.sources import LeaveOneOut, RowSplit
from fedaudit.spreadsheet import plain_text


@dataclass(frozen=True, eq=False)
class TrainingRecords:
    """The rows that train, client after client; arrays [records] but for `clients`."""

    clients: NDArray[np.int64]
    """[training clients]: their indices in the federation, ascending."""
    client_of: NDArray[np.int64]
    """The place of the record's client among `clients`."""
    row: NDArray[np.int64]
    """The record's place among its client's rows in the federation."""
    place: NDArray[np.int64]
    """Where the record is in the federation's arrays [rows]."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many records each training client has."""
        return np.bincount(self.client_of, minlength=len(self.clients))


@dataclass(frozen=True, eq=False)
class ValidationRows:
    """The rows that clients are validated on, client after client."""

    clients: NDArray[np.int64]
    """[clients]: indices in the federation, ascending."""
    client_of: NDArray[np.int64]
    """[rows]: the place of the row's client among `clients`."""
    place: NDArray[np.int64]
    """[rows]: where the row is in the federation's arrays."""
    scored: NDArray[np.bool_]
    """[rows]: those that count for figures other than the selection loss."""
    by_client: bool
    """Whether losses are means over clients; else over all rows alike."""

    @property
    def scored_by_client(self) -> Ints:
        """How many rows of each client are scored: [clients]."""
        return np.bincount(self.client_of[self.scored], minlength=len(self.clients))


def training_records(spec: ExperimentSpec, federation: Federation) -> TrainingRecords:
    """The records of the training clients, less the rows that are held out.

    A client may have none. Raises InvalidInputError where no record trains.
    """
    match spec.federation.validation_unit:
        case "record":
            clients = np.arange(federation.clients)
            place = np.flatnonzero(~held_out(spec, federation))
        case "client":
            clients = split_of(spec, federation)[0]
            place = federation.rows_of(clients)
        case _:
            assert_never(spec.federation.validation_unit)
    if not len(place):
        raise _nothing("every record is held out", "lower `validation_fraction`")
    own = federation.client_of[place]
    return TrainingRecords(
        clients, np.searchsorted(clients, own), place - federation.first[own], place
    )


def validation_rows(spec: ExperimentSpec, federation: Federation) -> ValidationRows:
    """What is scored: the held-out rows of clients that have any, or held-out clients.

    Raises InvalidInputError where no row is held out.
    """
    match spec.federation.validation_unit:
        case "record":
            validates = held_out(spec, federation)
            if federation.left_out is not None:
                validates &= ~federation.left_out
            clients, _ = renumbered(federation.client_of[validates])
            if not len(clients):
                raise _nothing("no record is held out", "raise `validation_fraction`")
            shown = validates
            if spec.training.method.personalises:  # clients make their models of what trains
                shown = validates | ~held_out(spec, federation)
                shown &= np.isin(federation.client_of, clients)
            place = np.flatnonzero(shown)
            client_of = np.searchsorted(clients, federation.client_of[place])
            scored = validates[place]
        case "client":
            clients = split_of(spec, federation)[1]
            place = federation.rows_of(clients)
            client_of = np.repeat(np.arange(len(clients)), federation.counts[clients])
            scored = np.ones(len(place), dtype=np.bool_)
        case _:
            assert_never(spec.federation.validation_unit)
    by_client = not (spec.federation.holds_out_rows and spec.privacy.draws_by_record)
    fraction = scored_fraction(spec)
    if by_client and scored.all() and fraction is not None:
        counts = np.bincount(client_of)
        scored = scored_rows(counts, clients=clients, fraction=fraction, seed=spec.seed)
    return ValidationRows(clients, client_of, place, scored, by_client=by_client)


def scored_fraction(spec: ExperimentSpec) -> float | None:
    """Which share of a client's validation rows is scored, by what the others choose; None where
    every row is, by a choice made without it. Models that clients make of what trains are scored on
    all rows that are held out of these."""
    scoring = spec.federation.scoring
    match scoring:
        case LeaveOneOut():
            return None
        case RowSplit():
            return scoring.fraction
        case _:
            assert_never(scoring)


def record_use_of(spec: ExperimentSpec, federation: Federation) -> RecordPlan | None:
    """How the spec uses the federation's records; None for another mechanism.

    Raises InvalidInputError where no amount of noise is enough.
    """
    if not spec.privacy.draws_by_record:
        return None
    records = training_records(spec, federation)
    return record_use(
        spec,
        budgets=_budgets(spec, federation, records),
        client_of=records.client_of,
        clients=len(records.clients),
    )


def _budgets(
    spec: ExperimentSpec, federation: Federation, records: TrainingRecords
) -> NDArray[np.float64]:
    """The budget of every record that trains: float64 [records]."""
    privacy = spec.privacy
    if not isinstance(privacy, RecordPersonalised):
        raise ValueError(f"{privacy.mechanism} gives records no budgets")
    if privacy.budgets.column is None:
        return drawn_budgets(spec, keys=record_keys(federation)[records.place])
    if federation.record_budgets is None:
        raise ValueError("the federation was loaded without its column of budgets")
    given = federation.record_budgets[records.place]
    return given_budgets(given, rows=records.row, epsilon_max=privacy.epsilon_max)


def split_of(
    spec: ExperimentSpec, federation: Federation
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The clients that train, and those that are scored: indices in the federation, ascending.
    Held-out clients are scored, but for those all of whose rows `fairness.exclude` leaves out.
    Where rows are held out all clients train, and those are scored that have such rows."""
    if spec.federation.holds_out_rows:
        return np.arange(federation.clients), validation_rows(spec, federation).clients
    split = split_clients(
        federation.clients, validation_fraction=spec.federation.validation_fraction, seed=spec.seed
    )
    scored = split.validation.astype(np.int64)
    if federation.left_out is not None:
        nothing = np.logical_and.reduceat(federation.left_out, federation.first[:-1])
        scored = scored[~nothing[scored]]
    return split.training.astype(np.int64), scored


def _nothing(problem: str, remedy: str) -> InvalidInputError:
    return error_at(
        "/federation/validation_unit",
        f"{problem}; {remedy}, or hold out clients (`validation_unit: client`)",
    )


def spending_of(spec: ExperimentSpec, federation: Federation) -> SpendingPlan | None:
    """The plan of a spec over its data; None where nothing is counted as an epsilon with a delta.

    Raises InvalidInputError where no noise is enough for the records' budgets, or none of the
    records can be used.
    """
    return mechanism_of(spec).spending_plan(
        training_clients=training_clients(federation.clients, spec.federation),
        names=federation.client_names,
        records=record_use_of(spec, federation),
    )


_LINES_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordTable:
    """Arrays [records], client after client."""

    client: NDArray[np.int64]
    """Index in the federation."""
    row: NDArray[np.int64]
    """The record's place among its client's rows, from 0."""
    budget: NDArray[np.float64]
    rate: NDArray[np.float64]
    """The chance of the record in a local step of its client."""
    left_out: NDArray[np.bool_]
    spent: Mapping[Observer, NDArray[np.float64]]
    """Epsilon against each observer; infinite where nothing was noised."""

    def csv(self, client_names: Sequence[str]) -> Iterator[bytes]:
        """A line for each record, as pieces of a CSV file: rows are counted from 1, and an infinite
        epsilon is an empty cell."""
        names = np.array([plain_text(name) for name in client_names], dtype=object)
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        spent = [f"epsilon_{observer}" for observer in self.spent]
        table.writerow(["client", "row", "budget", "rate", "left_out", *spent])
        for start in range(0, len(self.client), _LINES_AT_ONCE):
            part = slice(start, start + _LINES_AT_ONCE)
            columns = [names[self.client[part]], self.row[part] + 1]
            columns += [self.budget[part], self.rate[part], self.left_out[part]]
            lists = [column.tolist() for column in columns]
            lists += [list(map(finite, values[part])) for values in self.spent.values()]
            table.writerows(zip(*lists, strict=True))
            yield text.getvalue().encode()
            text.seek(0)
            text.truncate()
