"""Two federations that differ by one unit, as far apart as the guarantee's adjacency lets them be.

The guarantee speaks of all data, so in both the unit is one whose gradients are as large as the
loss lets them be: what nothing bounds is then seen. Everybody else's rows are the spec's own.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.replay.passed_through import Floats
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.record_keys import record_keys
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.randomness import CounterSource
from fedaudit.training.base.cell import Cell, split_cells
from fedaudit.training.base.cohort import draw_block, drawn_clients
from fedaudit.training.base.records import record_use_of, training_records, validation_rows
from fedaudit.training.stacked.stack_round import build_draws

_LOUD = 1000.0
"""How many times the largest target of the data a loud unit's target is."""
_QUIET = 1e-3
"""Steps, and features and targets of records, of a run whose updates do not reach their clip."""
_LOUD_FEATURES = 100.0
"""Features of a loud unit, where slopes grow with these alone."""

Difference = Literal["sends nothing", "has other values"]


@dataclass(frozen=True, eq=False)
class NeighbourPair:
    """The cells of two runs."""

    base: Cell
    neighbour: Cell
    held_out: Cell
    """The base, but for a unit that is held out for validation."""
    quiet: Cell
    """The spec's own data, with updates that do not reach their clip."""
    client: int
    record: int | None
    """The record that differs, among those that train; None where all of the client does."""
    difference: Difference
    words: str


def neighbour_pair(cell: Cell, ledger_context: LedgerContext, *, rounds: int) -> NeighbourPair:
    """A pair by the adjacency that the ledger charges; the unit is one that takes part often.

    Where the adjacency is a distance, or there is none, the unit has other values.
    """
    cell = replace(cell, federation=with_keys(cell.federation))
    adjacency = ledger_context.inputs.adjacency
    difference: Difference = (
        "sends nothing" if adjacency == "add-or-remove-one" else "has other values"
    )
    often = _participations(cell, rounds)
    record = None
    if mechanism_of(cell.spec).facts.applied_by == "local-steps":
        record, client, place = _record(cell, often)
    else:
        client = int(often.argmax())
        place = cell.federation.rows_of(np.array([client]))
    bounded = mechanism_of(cell.spec).cost_kind == "epsilon" or ledger_context.inputs.clip
    factor = 1.0 if not bounded else _LOUD
    # A root of a mean, and a cross-entropy, have slopes that no target makes larger.
    scale = _LOUD_FEATURES if bounded and cell.spec.training.loss != "mse" else 1.0
    base = replace(cell, federation=_loud(cell.federation, place, (factor, scale), sign=1))
    if difference == "sends nothing":
        other = _silent(base.federation, place)
    else:
        other = _loud(cell.federation, place, (factor, scale), sign=-1)
    unit = "a record" if record is not None else "a client"
    return NeighbourPair(
        base=base,
        neighbour=replace(cell, federation=other),
        held_out=replace(
            base, federation=_loud(base.federation, _validated(cell), (1.0, 1.0), sign=-1)
        ),
        quiet=_quiet(cell),
        client=client,
        record=record,
        difference=difference,
        words=f"{unit} that trains {difference}",
    )


def with_keys(federation: Federation) -> Federation:
    """The federation with the keys of its records fixed, so that other values keep their coins."""
    return replace(federation, record_keys=record_keys(federation))


def _quiet(cell: Cell) -> Cell:
    """The cell with short updates, or gradients of records: noise may not follow how long they
    are."""
    federation = cell.federation
    if mechanism_of(cell.spec).facts.applied_by != "local-steps":
        local = cell.spec.training.local
        local = local.model_copy(update={"step_size": _QUIET * local.step_size})
        training = cell.spec.training.model_copy(update={"local": local})
        return replace(cell, spec=cell.spec.model_copy(update={"training": training}))
    if not isinstance(federation.features, ClientRows):
        federation = replace(federation, features=_QUIET * federation.features)
    if not federation.classes:
        federation = replace(federation, target=_QUIET * federation.target)
    return replace(cell, federation=federation)


def _participations(cell: Cell, rounds: int) -> NDArray[np.int64]:
    """How often each client of the federation is drawn: [clients]. Data have no say in it."""
    if mechanism_of(cell.spec).facts.applied_by == "local-steps":
        rate = cell.spec.training.cohort.rate  # type: ignore[union-attr]
        source, clients = CounterSource(cell.spec.seed), np.arange(cell.federation.clients)
        clients = training_records(cell.spec, cell.federation).clients
        drawn = [
            drawn_clients(source, round_=round_, clients=clients, rate=rate)
            for round_ in range(1, rounds + 1)
        ]
    else:
        splits = split_cells([cell])
        block = draw_block(
            build_draws([cell]),
            first_rounds=np.array([1]),
            rounds=rounds,
            training=splits.training,
            cohort=cell.spec.training.cohort,
            validation=splits.validation,
            validation_size=None,
        )
        drawn = [
            row if block.drawn is None else row[block.drawn[place, 0]]
            for place, row in enumerate(block.cohort[:, 0])
        ]
    times: NDArray[np.int64] = np.bincount(
        np.concatenate(drawn).astype(np.int64), minlength=cell.federation.clients
    )
    return times


def _record(cell: Cell, often: NDArray[np.int64]) -> tuple[int, int, NDArray[np.int64]]:
    """The record that is expected in most steps: its number, its client and its place."""
    records = training_records(cell.spec, cell.federation)
    use = record_use_of(cell.spec, cell.federation)
    assert use is not None
    client_of = records.clients[records.client_of]
    weight: Floats = use.plan.rates * use.plan.rounds * (often[client_of] + 0.5)
    record = int(weight.argmax())
    return record, int(client_of[record]), records.place[[record]]


def _validated(cell: Cell) -> NDArray[np.int64]:
    """The rows of one unit that is held out."""
    if mechanism_of(cell.spec).facts.applied_by == "local-steps":
        rows = validation_rows(cell.spec, cell.federation)
        of_client: NDArray[np.int64] = rows.place[rows.client_of == 0]
        return of_client
    client: NDArray[np.int64] = split_cells([cell]).validation[0, :1]
    rows_of_client: NDArray[np.int64] = cell.federation.rows_of(client)
    return rows_of_client


def _loud(
    federation: Federation, place: NDArray[np.int64], factors: tuple[float, float], *, sign: int
) -> Federation:
    """These rows with other values: targets as far out as the first factor says, and features as
    many times as large as the second, unless they are images."""
    factor, scale = factors
    target, raw = federation.target.copy(), federation.raw_target.copy()
    features = federation.features
    if federation.classes:
        last = len(federation.classes) - 1
        # The class that is given is the one that a row has not, or else its neighbour in turn.
        target[place] = 0 if sign > 0 else last
    else:
        largest = float(np.abs(federation.target[np.isfinite(federation.target)]).max()) + 1.0
        target[place] = sign * factor * largest
    if scale > 1 and not isinstance(features, ClientRows):
        scaled = features.copy()
        scaled[place] *= scale
        features = scaled
    raw[place] = target[place] * federation.target_scale
    return replace(federation, target=target, raw_target=raw, features=features)


def _silent(federation: Federation, place: NDArray[np.int64]) -> Federation:
    """These rows give gradients that are not finite, which no sum takes in."""
    features = federation.features
    if isinstance(features, ClientRows):
        values = features.values.astype(np.float32)
        values[place] = np.nan
        return replace(federation, features=replace(features, values=values))
    silent = features.copy()
    silent[place] = np.nan
    return replace(federation, features=silent)
