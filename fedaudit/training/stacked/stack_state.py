"""What runs remember between rounds, and the columns that rounds leave on the host."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Floats32, Ints, Ints16, Ints32
from fedaudit.ledger.rows import Outcome
from fedaudit.privacy.accounting.privacy_events import OBSERVERS
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.training.base.cell import Cell, charges_population, first_hypotheses
from fedaudit.training.base.record_steps import server_moves
from fedaudit.training.base.records import spending_of
from fedaudit.training.base.rounds import Progress, RoundColumns
from fedaudit.training.stacked.server import separation
from fedaudit.training.stacked.stack_round import Cohort, RoundResult
from fedaudit.training.stacked.validation import Figures, joined_figures


@dataclass
class CellState:
    """The state of one experiment."""

    round: int
    """Rounds done."""
    release: int
    release_until: int
    """Rounds up to this one repeat a round that was already charged, under `release`."""
    hypotheses: Floats32
    best_hypotheses: Floats32
    best_sizes: Ints
    best_loss: float
    best_round: int
    without_improvement: int
    collapsed_rounds: int
    releases: Ints32
    """Releases of each of the ledger's subjects: the federation's clients, or everyone as one."""
    budget_uses: Ints32
    """Releases and withheld updates: what the subject's budget is held against."""
    clip: float | None = None
    """What a trusted server clips updates of the next round to; None without one."""
    moments: Floats32 | None = None
    """[moments, k, n]: as of `RoundResult`."""

    def encode(self) -> bytes:
        """Bytes that `decode` reads back, the same for the same state."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if self.best_round == self.round:
            del given["best_hypotheses"]  # the present ones, which can be long
        return packed(given)

    @classmethod
    def decode(cls, checkpoint: bytes) -> "CellState":
        """The state in a checkpoint."""
        found = unpacked(checkpoint)
        if "theta" in found:
            found = _of_one_model(found)
        found.setdefault("best_hypotheses", found["hypotheses"].copy())
        return cls(**found)


def _of_one_model(stored: dict[str, Any]) -> dict[str, Any]:
    """The state as earlier versions stored it of a run whose records have budgets."""
    taken, lost = stored.pop("participations"), stored.pop("lost")
    return {
        "hypotheses": stored.pop("theta")[None],
        "best_hypotheses": stored.pop("best_theta")[None],
        "best_sizes": np.zeros(1, dtype=np.int64),
        "collapsed_rounds": 0,
        "releases": taken,
        "budget_uses": np.full_like(taken, stored["round"] + lost),
        **stored,
    }


def packed(values: Mapping[str, Any]) -> bytes:
    """Arrays and numbers as bytes that `unpacked` reads back; the same for the same values."""
    buffer = io.BytesIO()
    arrays = {name: np.asarray(value) for name, value in values.items()}
    # One record of them all: a file of several takes ten times as long.
    record = np.empty((), [(name, one.dtype, one.shape) for name, one in arrays.items()])
    for name, one in arrays.items():
        record[name] = one
    np.save(buffer, record, allow_pickle=False)
    return buffer.getvalue()


def unpacked(checkpoint: bytes) -> dict[str, Any]:
    """The values in a checkpoint."""
    # The names and types of all fields can pass numpy's own limit.
    stored = np.load(io.BytesIO(checkpoint), allow_pickle=False, max_header_size=len(checkpoint))
    # Earlier versions stored a file of several.
    names = stored.files if isinstance(stored, np.lib.npyio.NpzFile) else stored.dtype.names
    arrays = {name: np.array(stored[name]) for name in names}
    return {name: value if value.ndim else value.item() for name, value in arrays.items()}


def first_state(cell: Cell) -> CellState:
    """The state before the first round."""
    hypotheses, moves = first_hypotheses(cell), server_moves(cell.spec.training)
    subjects = 1 if charges_population(cell) else cell.federation.clients
    return CellState(
        round=0,
        release=0,
        release_until=0,
        hypotheses=hypotheses,
        best_hypotheses=hypotheses.copy(),
        best_sizes=np.zeros(len(hypotheses), dtype=np.int64),
        best_loss=float("inf"),
        best_round=0,
        without_improvement=0,
        collapsed_rounds=0,
        releases=np.zeros(subjects, dtype=np.int32),
        budget_uses=np.zeros(subjects, dtype=np.int32),
        clip=cell.spec.privacy.initial_clip,
        moments=None if moves is None else moves.start(torch.from_numpy(hypotheses)).numpy(),
    )


def participation_cap(cell: Cell) -> int | None:
    """How often a subject may release before its budget is spent; None without a budget."""
    mechanism = mechanism_of(cell.spec)
    plan = None
    if mechanism.epsilon_budget is not None:  # a plan takes time, and only such a budget needs it
        plan = spending_of(cell.spec, cell.federation)
    return mechanism.participation_cap(n=cell.shape.n, plan=plan)


# An enumeration takes a microsecond to be asked.
_RELEASED, _REFUSED, _WITHHELD = (
    int(one) for one in (Outcome.RELEASED, Outcome.REFUSED, Outcome.WITHHELD)
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Gathered:
    """What consecutive rounds of a stack leave; the first two axes are [rounds, cells]."""

    round: Ints
    subjects: Ints32
    outcomes: NDArray[np.uint8]
    radii: Floats
    """[rounds, cells, subjects]; with noise for each layer, [rounds, cells, subjects, layers]."""
    chosen: Ints16
    clusters: Ints16
    cluster_sizes: Ints
    """[rounds, cells, k]; [rounds, cells, 0] where they are secret."""
    separation: Floats
    """NaN for one hypothesis, and where uploads are secret."""

    @property
    def collapsed(self) -> Bools:
        """Whether all uploads fell into one of several clusters."""
        k = self.cluster_sizes.shape[-1]
        empty = (self.cluster_sizes == 0).sum(axis=-1)
        collapsed: Bools = (empty == k - 1) & (k > 1)
        return collapsed


@dataclass
class Stretch:
    """Consecutive rounds of the same cells."""

    positions: Ints
    """Where the cells stand in the stack."""
    _kept: list[Ints] = field(default_factory=list)
    _columns: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    _figures: list[Figures] = field(default_factory=list)

    def add(
        self, gathered: Gathered, figures: Figures | None, *, kept: Ints, **counted: NDArray[Any]
    ) -> None:
        """The next rounds, of which each cell played the first `kept` [cells].

        `figures`: of the rounds that any cell validated, cell after cell. `counted`: what the
        states of the cells make of the rounds, [rounds, cells] each: the numbers under which they
        were charged, what each subject has released, and was charged against each observer where
        there are several, and whether they were validated.
        """
        self._kept.append(kept)
        self._columns.append({**vars(gathered), **counted, "collapsed": gathered.collapsed})
        if figures is not None:
            self._figures.append(figures)

    def columns(self) -> dict[int, RoundColumns]:
        """The rounds of each cell that has played any, by its position in the stack."""
        stacked: dict[str, Any] = {
            name: np.concatenate([part[name] for part in self._columns])
            for name in self._columns[0]
        }
        validated = stacked.pop("validated")
        place = np.cumsum(validated.any(axis=1)) - 1
        stacked["place"] = np.where(validated, place[:, np.newaxis], -1)
        compositions = {name: stacked.pop(name) for name in OBSERVERS if name in stacked}
        figures = Figures(np.zeros(0), np.zeros(0), None, {})
        if self._figures:
            figures = joined_figures(self._figures)
        kept, cells = np.sum(self._kept, axis=0), len(self.positions)
        found = {}
        for row in np.flatnonzero(kept).tolist():
            found[int(self.positions[row])] = RoundColumns(
                **{name: values[: kept[row], row] for name, values in stacked.items()},
                selection_losses=figures.selection_loss[row::cells],
                validation_losses=figures.validation_loss[row::cells],
                accuracies=None if figures.accuracy is None else figures.accuracy[row::cells],
                counts={name: counts[row::cells] for name, counts in figures.counts.items()},
                compositions={name: one[: kept[row], row] for name, one in compositions.items()},
            )
        return found


def joined(parts: list[Tensor]) -> Tensor:
    """The parts one after the other; a single one is not copied, for it may be large."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def gather_to_host(
    cohorts: Sequence[Cohort], played: Sequence[RoundResult], *, subjects: int
) -> Gathered:
    """Copies rounds to the host, and measures how well their hypotheses were separated.

    `subjects`: of the ledger, where who takes part is secret.
    """
    sent = [part.sent for part in played if part.sent is not None]
    if not sent:
        return _gather_secret(cohorts, subjects)
    rounds, k = len(played), played[0].before.shape[1]
    cells = played[0].before.shape[0]
    present = joined([part.present for part in sent])
    separated = torch.full((rounds * cells,), torch.nan)
    if k > 1:
        separated = separation(
            joined([part.before for part in played]),
            joined([part.uploads for part in sent]),
            present,
            joined([part.assigned for part in sent]),
        )
    released = present.cpu().numpy()
    allowed = np.concatenate([cohort.allowed for cohort in cohorts])
    radii = np.full(released.shape, np.nan)
    found = [part.radii for part in sent if part.radii is not None]
    if found:
        measured = joined(found).cpu().numpy()
        of_released = released.reshape(released.shape + (1,) * (measured.ndim - released.ndim))
        radii = np.where(of_released, measured, np.nan)
    chosen = joined([part.chosen for part in sent]).cpu().numpy()
    assigned = joined([part.assigned for part in sent]).cpu().numpy()
    columns = {
        "round": np.concatenate([cohort.rounds for cohort in cohorts]),
        "subjects": np.concatenate([cohort.clients for cohort in cohorts]).astype(np.int32),
        "outcomes": np.where(allowed, np.where(released, _RELEASED, _WITHHELD), _REFUSED).astype(
            np.uint8
        ),
        "radii": radii,
        "chosen": np.where(allowed, chosen, -1).astype(np.int16),
        "clusters": np.where(released, assigned, -1).astype(np.int16),
        # A single one is copied: the engine may write over its own in the next rounds.
        "cluster_sizes": np.array(joined([part.sizes for part in played]).cpu().numpy()),
        "separation": separated.cpu().numpy().astype(np.float64),
    }
    apart = (rounds, cells)
    return Gathered(
        **{name: values.reshape(*apart, *values.shape[1:]) for name, values in columns.items()}
    )


def _gather_secret(cohorts: Sequence[Cohort], subjects: int) -> Gathered:
    """Rounds that every subject is charged for alike. They reveal nothing about the participants,
    neither their number nor their choices: such figures would come without noise."""
    rounds = np.stack([cohort.rounds for cohort in cohorts])
    shape = (*rounds.shape, subjects)
    return Gathered(
        round=rounds,
        subjects=np.broadcast_to(np.arange(subjects, dtype=np.int32), shape),
        outcomes=np.full(shape, Outcome.RELEASED, dtype=np.uint8),
        radii=np.full(shape, np.nan),
        chosen=np.full(shape, -1, dtype=np.int16),
        clusters=np.full(shape, -1, dtype=np.int16),
        cluster_sizes=np.zeros((*rounds.shape, 0), dtype=np.int64),
        separation=np.full(rounds.shape, np.nan),
    )


@dataclass(eq=False)
class StackState(Progress):
    """The fields of `CellState`, as arrays whose first axis is [cells]."""

    hypotheses: Floats32
    best_hypotheses: Floats32
    best_sizes: Ints
    collapsed_rounds: Ints
    releases: Ints32
    budget_uses: Ints32
    clip: Floats | None
    """None without a trusted server."""
    moments: Floats32 | None
    """None where the server takes averages as they are."""

    @classmethod
    def of_cells(cls, states: Sequence[CellState]) -> "StackState":
        """The states of cells, one after the other."""
        found: dict[str, Any] = {}
        for name in vars(states[0]):
            own = [getattr(state, name) for state in states]
            found[name] = None if own[0] is None else np.array(own)
        return cls(**found)

    def of_cell(self, position: int) -> CellState:
        """The state of one cell."""
        found: dict[str, Any] = {}
        for name, values in vars(self).items():
            own = None if values is None else values[position]
            found[name] = own.item() if isinstance(own, np.generic) else own
        return CellState(**found)

    def store(
        self,
        position: int,
        row: int,
        hypotheses: Tensor,
        clips: Floats | None,
        moments: Tensor | None,
    ) -> None:
        """What a cell has after a round, from its row of the tensors of running cells."""
        self.hypotheses[position] = hypotheses[row].cpu().numpy()
        if self.clip is not None and clips is not None:
            self.clip[position] = clips[row]
        if self.moments is not None and moments is not None:
            self.moments[position] = moments[row].cpu().numpy()

    def count_in(self, cells: Ints, gathered: Gathered, *, kept: Ints) -> Ints32:
        """Counts in the first `kept` [cells] rounds of some of the cells.

        Returns what each subject has released by each round: [rounds, cells, subjects].
        """
        rounds = np.arange(len(gathered.round))[:, np.newaxis]
        self.collapsed_rounds[cells] += (gathered.collapsed & (rounds < kept)).sum(axis=0)
        # The place of each subject in the flattened arrays.
        places = gathered.subjects + (cells * self.releases.shape[1])[:, np.newaxis]
        totals, uses = self.releases.reshape(-1), self.budget_uses.reshape(-1)
        released, used = gathered.outcomes == _RELEASED, gathered.outcomes != _REFUSED
        counted = np.zeros(places.shape, dtype=np.int32)
        for step in range(len(places)):
            playing = slice(None) if step < kept.min() else kept > step
            own = places[step, playing]
            counted[step, playing] = now = totals[own] + released[step, playing]
            totals[own] = now
            uses[own] += used[step, playing]
        return counted

    def keep_best(self, cells: Ints, played: Sequence[RoundResult], improved: Ints) -> None:
        """Takes each cell's hypotheses and their clusters' sizes from the round that `improved`
        [cells] names; none where that is -1. Sizes that are secret stay as they are."""
        for step in set(improved[improved >= 0].tolist()):
            rows = np.flatnonzero(improved == step)
            best = played[step]
            self.best_hypotheses[cells[rows]] = best.hypotheses[rows].cpu().numpy()
            if best.sent is not None:
                self.best_sizes[cells[rows]] = best.sizes[rows].cpu().numpy()
