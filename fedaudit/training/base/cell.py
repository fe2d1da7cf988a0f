"""One experiment as input to training: its data, who trains, what it is stacked with. No torch."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import why_too_few
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.mapped import first_rows
from fedaudit.federations.split import training_clients
from fedaudit.networks.initial import initial_hypotheses
from fedaudit.networks.shape import NetworkShape, network_shape
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import mean_cohort
from fedaudit.spec.errors import error_at
from fedaudit.spec.experiment import BASE_RATE, Decision, ExperimentSpec
from fedaudit.spec.models import ArtifactStart
from fedaudit.spec.parse import refuse_retired_training, refuse_small_clip
from fedaudit.spec.privacy import NoisedUpdates
from fedaudit.training.base.planted import Planted
from fedaudit.training.base.records import (
    ValidationRows,
    scored_fraction,
    split_of,
    training_records,
    validation_rows,
)

_SHORT_ROWS = 64
"""Clients with at most so many rows are one class: each class costs some small operations."""


@dataclass(frozen=True, eq=False)
class LengthClass:
    """Clients that are padded to the same number of rows."""

    clients: NDArray[np.int64]
    """Indices in the federation, ascending."""
    rows: int
    """Rows of the longest of them."""


def are_even(counts: NDArray[np.int64]) -> bool:
    """Whether clients with these numbers of rows [clients] can all be padded to the longest: they
    are short, or padding makes at most twice as many rows of theirs."""
    longest = int(counts.max())
    return longest <= _SHORT_ROWS or longest * len(counts) <= 2 * int(counts.sum())


def length_classes(counts: NDArray[np.int64]) -> list[LengthClass]:
    """Classes of clients with these numbers of rows [clients], the longest clients first.

    Even clients are of one class (`are_even`). Otherwise those with more than half as many rows as
    the longest are a class, and so on. So no more than twice as many rows are computed as there
    are, but for the short clients.
    """
    order = np.argsort(-counts, kind="stable")
    found = []
    while len(order):
        lengths = counts[order]
        longest, size = int(lengths[0]), len(order)
        if not are_even(lengths):
            size = int(np.count_nonzero(2 * lengths > longest))
        found.append(LengthClass(np.sort(order[:size]), longest))
        order = order[size:]
    return found


@dataclass(frozen=True)
class Cell:
    """A spec and its data."""

    spec: ExperimentSpec
    federation: Federation
    start: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)
    """[hypotheses, n]: the parameters of the artifact that the spec starts from."""
    planted: Planted | None = field(default=None, compare=False, repr=False)
    """What an audit plants; such a cell is trained alone. None in every run itself."""

    def __post_init__(self) -> None:
        """Raises InvalidInputError for a spec that can be read, and must not be trained, and
        ValueError for one whose noise multiplier is yet to be found."""
        refuse_small_clip(self.spec)
        refuse_retired_training(self.spec)
        if isinstance(self.spec.privacy, NoisedUpdates) and self.spec.privacy.is_unsolved:
            raise ValueError("the noise multiplier of privacy.target is not found yet")

    @cached_property
    def validation_rows(self) -> ValidationRows:
        """What is scored. Raises InvalidInputError where no row is held out."""
        return validation_rows(self.spec, self.federation)

    @cached_property
    def chooses_by_losses(self) -> bool:
        """See `ExperimentSpec.chooses_by_losses`. False, too, where a round may score fewer people
        than a group has to have: the model would be the best one for these."""
        if not self.spec.chooses_by_losses:
            return False
        smallest = np.sort(self.validation_rows.scored_by_client)
        rows = smallest[: self.spec.training.stopping.validation_clients]
        return why_too_few(self.spec.fairness, np.repeat(np.arange(len(rows)), rows)) is None

    @cached_property
    def shape(self) -> NetworkShape:
        """The network's layers over this federation's features."""
        return network_shape(
            self.spec.model, features=self.federation.width, classes=len(self.federation.classes)
        )

    @cached_property
    def threshold(self) -> float | None:
        """The probability of the second of two classes above which it is predicted; None for other
        targets. Raises InvalidInputError where it is to be the base rate of rows of one class."""
        if len(self.federation.classes) != 2:
            return None
        declared = self.spec.decision.threshold
        if declared != BASE_RATE:
            return declared
        place = training_records(self.spec, self.federation).place
        found = float((self.federation.target[place] == 1).mean())
        if 0 < found < 1:
            return found
        raise error_at(
            "/decision/threshold",
            "all training rows are of one class, so their base rate decides nothing; give a number",
        )

    @property
    def cutoff(self) -> float:
        """The output above which the second of two classes is predicted: the threshold's logit, in
        single precision as outputs are."""
        threshold = 0.5 if self.threshold is None else self.threshold
        return float(np.float32(math.log(threshold / (1 - threshold))))


def is_client_by_client(cell: Cell) -> bool:
    """Whether clients are computed one after the other, because their rows are not padded."""
    return isinstance(cell.federation.features, ClientRows)


def is_by_length(cell: Cell) -> bool:
    """Whether clients are computed in classes of about the same length, some of them at a time,
    because padding all of them to the longest would cost too much, or because all of them together
    are too large."""
    if is_client_by_client(cell):
        return False
    return cell.federation.is_large or cell.federation.longest > _SHORT_ROWS


def stands_alone(cell: Cell) -> bool:
    """Whether a cell has nothing to gain from others beside it, and is always trained alone."""
    if is_client_by_client(cell) or is_by_length(cell) or cell.planted is not None:
        return True
    if cell.spec.federation.holds_out_rows and cell.federation.left_out is not None:
        return True  # how many rows are scored then follows from the seed
    return cell.spec.privacy.draws_by_record


def expected_cohort(cell: Cell) -> float:
    """How many clients take part in a round on average, which is public; it may be below 1."""
    training = training_clients(cell.federation.clients, cell.spec.federation)
    return mean_cohort(cell.spec.training.cohort, training)


def charges_population(cell: Cell) -> bool:
    """Whether the population is charged for every round as one subject.

    With a trusted server, ledger rows for participants would reveal who was drawn.
    """
    kind = mechanism_of(cell.spec).facts.subject_kind
    match kind:
        case "population":
            return True
        case "client" | "record_group":
            return False
        case _:
            assert_never(kind)


def draws_in_secret(cell: Cell) -> bool:
    """Whether coins and noise come from the operating system's entropy, and not from the seed."""
    return mechanism_of(cell.spec).noise_is_secret


@dataclass(frozen=True)
class Splits:
    """Client indices within each cell's own federation, ascending; the first axis is [cells]."""

    training: NDArray[np.int64]
    """[cells, clients]."""
    validation: NDArray[np.int64]
    """[cells, clients]; where rows are held out, indices among the clients that have such rows."""
    _scored: tuple[NDArray[np.bool_], ...] | None
    """For each cell, the rows of its validation clients, client after client; None where every row
    is scored, by a choice made without it."""
    _first: tuple[NDArray[np.int64], ...]
    """For each cell, where the rows of each validation client begin: [clients + 1]."""

    def scored(
        self, clients: NDArray[np.int64], positions: Sequence[int], *, rows: int
    ) -> NDArray[np.bool_] | None:
        """The rows that are scored, of validation clients [len(positions), clients] of the cells
        at `positions`: bool [len(positions), clients, rows], False beyond a client's own.

        None where every row is scored, by a choice made without it.
        """
        if self._scored is None:
            return None
        found = np.zeros((*clients.shape, rows), dtype=np.bool_)
        for place, (own, position) in enumerate(zip(clients, positions, strict=True)):
            members = np.searchsorted(self.validation[position], own)
            first = self._first[position]
            index = first[members, None] + np.arange(rows)
            within = index < first[members + 1, None]
            found[place][within] = self._scored[position][index[within]]
        return found

    def scored_rows(self, clients: NDArray[np.int64], position: int) -> NDArray[np.bool_] | None:
        """The same of clients [clients] of one cell, their rows end to end."""
        if self._scored is None:
            return None
        first, own = self._first[position], np.searchsorted(self.validation[position], clients)
        return np.concatenate([self._scored[position][first[at] : first[at + 1]] for at in own])


def split_cells(cells: Sequence[Cell]) -> Splits:
    """The splits of cells that can be stacked."""
    training = np.stack([split_of(cell.spec, cell.federation)[0] for cell in cells])
    rows = [cell.validation_rows for cell in cells]
    spec, by_rows = cells[0].spec, cells[0].spec.federation.holds_out_rows
    every = scored_fraction(spec) is None and not (by_rows and spec.training.method.personalises)
    return Splits(
        training,
        np.stack([np.arange(len(own.clients)) if by_rows else own.clients for own in rows]),
        None if every else tuple(own.scored for own in rows),
        tuple(first_rows(np.bincount(own.client_of)) for own in rows),
    )


def cells_apart(cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """The cells as those see them who train, and as they are scored: with the rows of either alone
    where rows are held out, twice the same otherwise. So no held-out row can reach what trains."""
    if not cells[0].spec.federation.holds_out_rows:
        return list(cells), list(cells)
    # Cells that split one federation alike share the parts too, as a stack holds each once.
    found: dict[tuple[int, int], tuple[Federation, Federation]] = {}
    sides: tuple[list[Cell], list[Cell]] = [], []
    for cell in cells:
        key = id(cell.federation), cell.spec.seed
        if key not in found:
            trains = training_records(cell.spec, cell.federation).place
            scored = cell.validation_rows.place
            found[key] = cell.federation.of_rows(trains), cell.federation.of_rows(scored)
        # A base rate is that of the rows that train, in both parts.
        decision = cell.spec.decision
        if cell.threshold is not None:
            decision = Decision(threshold=cell.threshold)
        spec = cell.spec.model_copy(update={"decision": decision})
        for side, federation in zip(sides, found[key], strict=True):
            side.append(replace(cell, spec=spec, federation=federation))
    return sides


def first_hypotheses(cell: Cell) -> NDArray[np.float32]:
    """float32 [hypotheses, n], as the spec asks for.

    Raises ValueError where the spec starts from an artifact and the cell does not have it.
    """
    start = cell.spec.model.start
    match start:
        case ArtifactStart():
            if cell.start is None:
                raise ValueError("the artifact that training starts from was not loaded")
            return cell.start.copy()
        case "zeros" | "normal" | "uniform":
            return initial_hypotheses(
                cell.shape,
                start=start,
                hypotheses=cell.spec.training.hypotheses,
                seed=cell.spec.seed,
            )
        case _:
            assert_never(start)


_BYTES = 8
STACK_BYTES = 512 * 2**20
"""About what cells that are trained together may take, beside their data."""
_COPIES = 4
"""Arrays of the size of a cohort's activations or updates that a round holds at a time."""


def stack_key(cell: Cell) -> tuple[object, ...]:
    """Cells with equal keys can be trained side by side.

    Seeds, noise multipliers, radii, clips, budgets, deltas, patience and, where no schedule goes by
    them, rounds may differ between them. A cell whose clients are computed one by one or by their
    length has nothing to gain from others and is always alone.
    """
    training, mechanism = cell.spec.training, mechanism_of(cell.spec)
    left_some_out = cell.federation.left_out is not None or cell.spec.federation.holds_out_rows
    return (
        id(cell) if stands_alone(cell) else None,
        cell.shape,
        (cell.federation.longest, cell.federation.width),
        tuple((attribute.name, attribute.values) for attribute in cell.federation.attributes),
        cell.federation.clients,
        *([len(split_of(cell.spec, cell.federation)[1])] if left_some_out else []),
        cell.federation.classes,
        (cell.federation.target_scale, cell.federation.target_mean),
        cell.spec.federation.validation_fraction,
        cell.spec.federation.validation_unit,
        cell.spec.federation.scoring,
        training.loss,
        cell.threshold,
        training.method,
        training.hypotheses,
        training.cohort,
        training.local,
        training.rounds if training.local.schedule.kind == "cosine" else None,
        training.server,
        training.clustering,
        training.stopping.validate_every,
        training.stopping.validation_clients,
        cell.chooses_by_losses,
        mechanism.facts.name,
        mechanism.stack_traits(),
        cell.spec.privacy.noise,
        cell.spec.fairness.model_dump_json(),
    )


def stack_digest(cell: Cell) -> str | None:
    """A digest of the key, to be compared between processes; None for a cell that gains nothing
    from others beside it."""
    if stands_alone(cell):
        return None
    return hashlib.sha256(repr(stack_key(cell)).encode()).hexdigest()


def stacks(cells: Sequence[Cell]) -> list[list[int]]:
    """Positions of cells in groups that are trained side by side, in their order."""
    groups: list[list[int]] = []
    key: str | None = None
    for position, cell in enumerate(cells):
        found = stack_digest(cell)
        if found is None or found != key or len(groups[-1]) >= cells_at_once(cell):
            groups.append([])
        groups[-1].append(position)
        key = found
    return groups


def cells_at_once(cell: Cell, *, memory_bytes: int = STACK_BYTES) -> int:
    """How many cells like this one take about so much memory for a round, at least 1.

    An estimate: the activations of the rows of the cohort, or of the clients that a round is
    validated on where these are more, and the cohort's updates. The data themselves are not
    counted, nor the end of a run, which is scored on all held-out clients by itself.
    """
    federation, training = cell.federation, cell.spec.training
    validated = federation.clients
    if not cell.spec.federation.holds_out_rows:
        validated -= training_clients(federation.clients, cell.spec.federation)
        asked = training.stopping.validation_clients
        validated = validated if asked is None else min(asked, validated)
    clients = max(expected_cohort(cell), float(validated))
    rows = clients * federation.longest * training.hypotheses * cell.shape.activations
    updates = expected_cohort(cell) * cell.shape.n
    if not training.local.descends_plainly:
        updates *= 2  # what an optimiser remembers
    needed = _BYTES * _COPIES * (rows + updates)
    return max(1, int(memory_bytes // max(needed, 1.0)))
