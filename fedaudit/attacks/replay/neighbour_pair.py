"""Two federations that differ by one unit, as far apart as the guarantee's adjacency lets them be,
and what a replay observes of runs on them.

The guarantee covers all data, so in both the unit is one whose gradients are as large as the loss
lets them be: what nothing bounds is then seen. The rows of all others are the spec's.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.replay.watched_run import Floats, UploadsPassed, WatchedRun
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.record_keys import record_keys
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.randomness import CounterSource
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.client_coins import drawn_clients
from fedaudit.training.base.cohort import Block, draw_block
from fedaudit.training.base.record_sources import record_use_of, training_records, validation_rows
from fedaudit.training.base.splits import split_cells
from fedaudit.training.stacked.round_method import build_draws

_LOUD = 1000.0
"""How many times the largest target of the data a loud unit's target is."""
_QUIET = 1e-3
"""Steps, and features and targets of records, of a run whose updates do not reach their clip."""
_LOUD_FEATURES = 100.0
"""Features of a loud unit, if slopes grow with these alone."""


@dataclass(frozen=True, eq=False)
class NeighbourPair:
    """The cells of the runs of a replay."""

    base: Cell
    neighbour: Cell
    held_out: Cell
    """The base, but for a unit that is held out for validation."""
    quiet: Cell
    """The spec's data, with updates that do not reach their clip."""
    client: int
    record: int | None
    """The record that differs, among those that train; None if all of the client does."""
    words: str


def neighbour_pair(cell: Cell, ledger_context: LedgerContext, *, rounds: int) -> NeighbourPair:
    """A pair by the adjacency that the ledger charges; the unit is one that takes part often.

    If the adjacency is a distance, or there is none, the unit has other values.
    """
    # With fixed keys of records, so that other values keep their coins.
    keyed = replace(cell.federation, record_keys=record_keys(cell.federation))
    cell = replace(cell, federation=keyed)
    inputs = ledger_context.inputs
    sends_nothing = inputs.adjacency == "add-or-remove-one"
    often = _participations(cell, rounds)
    record = None
    if mechanism_of(cell.spec).facts.applied_by == "local-steps":
        record, client, place = _most_used_record(cell, often)
    else:
        client = int(often.argmax())
        place = keyed.rows_of(np.array([client]))
    bounded = mechanism_of(cell.spec).cost_kind == "epsilon" or inputs.clip
    factor = 1.0 if not bounded else _LOUD
    # A root of a mean, and a cross-entropy, have slopes that no target makes larger.
    scale = _LOUD_FEATURES if bounded and cell.spec.training.loss != "mse" else 1.0
    base = _with_loud_rows(keyed, place, (factor, scale), sign=1)
    if sends_nothing:
        other = _with_silent_rows(base, place)
    else:
        other = _with_loud_rows(keyed, place, (factor, scale), sign=-1)
    held_out = _with_loud_rows(base, _held_out_rows(cell), (1.0, 1.0), sign=-1)
    unit = "a client" if record is None else "a record"
    difference = "sends nothing" if sends_nothing else "has other values"
    return NeighbourPair(
        base=replace(cell, federation=base),
        neighbour=replace(cell, federation=other),
        held_out=replace(cell, federation=held_out),
        quiet=_quiet(cell),
        client=client,
        record=record,
        words=f"{unit} that trains {difference}",
    )


def _quiet(cell: Cell) -> Cell:
    """The cell with short updates, or gradients of records: noise must not follow their length."""
    federation, training = cell.federation, cell.spec.training
    if mechanism_of(cell.spec).facts.applied_by != "local-steps":
        step_size = {"step_size": _QUIET * training.local.step_size}
        shorter = training.model_copy(update={"local": training.local.model_copy(update=step_size)})
        return replace(cell, spec=cell.spec.model_copy(update={"training": shorter}))
    if not isinstance(federation.features, ClientRows):
        federation = replace(federation, features=_QUIET * federation.features)
    if not federation.classes:
        federation = replace(federation, target=_QUIET * federation.target)
    return replace(cell, federation=federation)


def _participations(cell: Cell, rounds: int) -> NDArray[np.int64]:
    """How often each client of the federation is drawn: [clients]. It does not depend on data."""
    if mechanism_of(cell.spec).facts.applied_by == "local-steps":
        rate = cell.spec.training.cohort.rate  # type: ignore[union-attr]
        source = CounterSource(cell.spec.seed)
        clients = training_records(cell.spec, cell.federation).clients
        drawn = [
            drawn_clients(source, round_=round_, clients=clients, rate=rate)
            for round_ in range(1, rounds + 1)
        ]
    else:
        block = drawn_block(cell, first=1, rounds=rounds)
        drawn = [
            row if block.drawn is None else row[block.drawn[place, 0]]
            for place, row in enumerate(block.cohort[:, 0])
        ]
    together = np.concatenate(drawn).astype(np.int64)
    times: NDArray[np.int64] = np.bincount(together, minlength=cell.federation.clients)
    return times


def drawn_block(cell: Cell, *, first: int, rounds: int) -> Block:
    """The cohorts of some rounds, as the engine draws them."""
    splits = split_cells([cell])
    return draw_block(
        build_draws([cell]),
        first_rounds=np.array([first]),
        rounds=rounds,
        training=splits.training,
        cohort=cell.spec.training.cohort,
        validation=splits.validation,
        validation_size=None,
    )


def _most_used_record(cell: Cell, often: NDArray[np.int64]) -> tuple[int, int, NDArray[np.int64]]:
    """The record that is expected in most steps: its number, its client and its place."""
    records = training_records(cell.spec, cell.federation)
    use = record_use_of(cell.spec, cell.federation)
    assert use is not None
    client_of = records.clients[records.client_of]
    weight: Floats = use.plan.rates * use.plan.rounds * (often[client_of] + 0.5)
    record = int(weight.argmax())
    return record, int(client_of[record]), records.place[[record]]


def _held_out_rows(cell: Cell) -> NDArray[np.int64]:
    """The rows of one unit that is held out."""
    if mechanism_of(cell.spec).facts.applied_by == "local-steps":
        rows = validation_rows(cell.spec, cell.federation)
        of_client: NDArray[np.int64] = rows.place[rows.client_of == 0]
        return of_client
    client: NDArray[np.int64] = split_cells([cell]).validation[0, :1]
    rows_of_client: NDArray[np.int64] = cell.federation.rows_of(client)
    return rows_of_client


def _with_loud_rows(
    federation: Federation, place: NDArray[np.int64], factors: tuple[float, float], *, sign: int
) -> Federation:
    """These rows with other values: targets as far out as the first factor says, and features as
    many times as large as the second, unless they are images."""
    factor, scale = factors
    target, raw = federation.target.copy(), federation.raw_target.copy()
    features = federation.features
    if federation.classes:
        target[place] = 0 if sign > 0 else len(federation.classes) - 1
    else:
        largest = float(np.abs(federation.target[np.isfinite(federation.target)]).max()) + 1.0
        target[place] = sign * factor * largest
    if scale > 1 and not isinstance(features, ClientRows):
        scaled = features.copy()
        scaled[place] *= scale
        features = scaled
    raw[place] = target[place] * federation.target_scale
    return replace(federation, target=target, raw_target=raw, features=features)


def _with_silent_rows(federation: Federation, place: NDArray[np.int64]) -> Federation:
    """These rows give gradients that are not finite, which no sum takes in."""
    features = federation.features
    if isinstance(features, ClientRows):
        values = features.values.astype(np.float32)
        values[place] = np.nan
        return replace(federation, features=replace(features, values=values))
    silent = features.copy()
    silent[place] = np.nan
    return replace(federation, features=silent)


@dataclass(frozen=True, eq=False)
class Replayed:
    """A run, the run of its neighbour, and one in which a held-out unit differs; the latter two
    release what the first did."""

    pair: NeighbourPair
    base: WatchedRun
    neighbour: WatchedRun
    held_out: WatchedRun

    @property
    def spec(self) -> ExperimentSpec:
        """What was asked for."""
        return self.base.cell.spec

    @property
    def charged(self) -> MechanismParameters:
        """The mechanism that the ledger states."""
        return self.base.ledger_context.inputs

    @property
    def sensitivity(self) -> float:
        """How many clips apart neighbouring sums may lie, by the adjacency charged."""
        return 1.0 if self.charged.adjacency == "add-or-remove-one" else 2.0

    @cached_property
    def role(self) -> str:
        """Where the mechanism is applied: clients, server or local-steps."""
        return mechanism_of(self.spec).facts.applied_by

    @property
    def laplace_sizes(self) -> tuple[int, ...] | None:
        """Parameters of each part that has separate Laplace noise; None of Gaussian noise.

        Raises ValueError if the mechanism draws no noise.
        """
        law = mechanism_of(self.spec).facts.noise_law
        match law:
            case "laplace":
                return self.charged.noised_sizes
            case "gaussian":
                return None
            case "none":
                raise ValueError(f"{self.charged.mechanism} draws no noise")
            case _:
                assert_never(law)

    @property
    def rounds(self) -> range:
        """The rounds that the first run played."""
        return range(1, self.base.rounds + 1)

    @property
    def together(self) -> range:
        """Rounds that both runs played from one transcript."""
        last = min(self.base.rounds, self.neighbour.rounds)
        for round_ in range(1, last + 1):
            before = self.base.hypotheses[round_ - 1], self.neighbour.hypotheses[round_ - 1]
            if not np.array_equal(*before, equal_nan=True):
                return range(1, round_)
        return range(1, last + 1)

    def clip(self, round_: int) -> float | None:
        """What updates of a round may be clipped to: the ledger's number, or the clip that was
        released the round before."""
        released = self.base.clips[round_ - 1]
        return self.charged.clip if self.charged.clip is not None else released

    def charged_clients(self, round_: int) -> NDArray[np.int64]:
        """Who was asked to take part in a round, by the ledger."""
        entries = [entry for entry in self.base.entries if entry.round == round_]
        return entries[0].subjects.astype(np.int64) if entries else np.zeros(0, dtype=np.int64)

    def uploads(self, round_: int) -> Iterator[tuple[NDArray[np.int64], UploadsPassed]]:
        """The clients and uploads of each part of a round, in the order in which they passed."""
        cohort = self.base.passed.cohorts.get(round_)
        for part in self.base.passed.uploads[round_]:
            known = part.clients if part.clients is not None else cohort
            yield self.charged_clients(round_) if known is None else known, part

    def rounds_of_clients(self) -> NDArray[np.int64]:
        """How many rounds each client of the federation took local steps in: [clients]."""
        rounds = np.zeros(self.base.cell.federation.clients, dtype=np.int64)
        for parts in self.base.passed.steps.values():
            for part in parts:
                rounds[part.silos] += 1
        return rounds
