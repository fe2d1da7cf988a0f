"""A run on the path that every run takes, whose mechanism is observed round by round."""

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, assert_never

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Floats32, Ints
from fedaudit.ledger.columns import EntryColumns
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.networks.record_gradients import ClippedGradients, RecordBatch, vector_norms
from fedaudit.privacy.noise.gaussian import wide_normals
from fedaudit.randomness import Purpose, Source, WideWords
from fedaudit.runs.blocks import MemorySink, record_block
from fedaudit.runs.run import new_run
from fedaudit.training.base.cell import Cell, draws_in_secret
from fedaudit.training.base.cohort import Block, Draws
from fedaudit.training.base.record_steps import Memory, RecordSteps, SiloRecords
from fedaudit.training.base.rounds import FinalResult, RoundColumns
from fedaudit.training.mechanisms.base import (
    ClientProtection,
    ProtectedUploads,
    RecordProtection,
    UnitNoise,
    watching,
)
from fedaudit.training.mechanisms.gaussian import Protection, TrustedServer
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.stack_state import CellState

T = TypeVar("T")
Applied = TypeVar("Applied", ClientProtection, TrustedServer)
_ROUNDING_KEY = bytes(32)
"""Key of counts that are rounded: the same in both runs, as coins and noise are."""
_SOMETHING_ELSE = 1000.0
_SINGLE_STEPS, _SINGLE_ROWS = 2, 64
"""Steps of a round, and records of each batch in them, that are also observed one by one."""


def wide(values: Tensor) -> Floats:
    """The numbers as float64 on the host."""
    return values.detach().cpu().double().numpy()


def same(left: Any, right: Any) -> bool:
    """Whether two runs left the same, down to what it consists of; NaN is the same as NaN."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        left, right = wide(left), wide(right)
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _overridden(instance: T, *methods: Callable[..., Any]) -> T:
    """A copy that has these in the place of its methods of the same names."""
    found = copy.copy(instance)
    for method in methods:
        object.__setattr__(found, method.__name__, method)
    return found


# -- what passed through a mechanism --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UploadsPassed:
    """Uploads that clients protected together; tensors and arrays [clients, n]."""

    clients: Ints | None
    """[clients]; None for the cohort."""
    start: Tensor
    updated: Tensor
    uploads: Tensor
    radii: Tensor | None
    """float64 [clients], or [clients, layers]."""
    finite: Tensor
    noise: Floats | None
    """Unscaled, as the protection was given it."""


@dataclass(eq=False)
class SumPassed:
    """A round of a trusted server."""

    clips: list[Tensor] = field(default_factory=list)
    """[clients]: what updates were clipped to."""
    clipped: list[Tensor] = field(default_factory=list)
    """[clients, n] each."""
    updates: list[Tensor] = field(default_factory=list)
    """The same before they were clipped."""
    theta: Tensor | None = None
    """[k, n]."""
    sums: Tensor | None = None
    """[k, n]; None if the round added up nothing."""
    noise: Floats | None = None
    """Unscaled, [k, n], as the server was given it."""
    released: Tensor | None = None
    """[k, n]."""
    within: int | None = None
    taking_part: int | None = None
    count_noise: float | None = None
    """Unscaled."""
    next_clip: float | None = None


@dataclass(eq=False)
class StepsPassed:
    """The local steps of some silos in one round; lists have an item for each step."""

    silos: Ints
    inclusion: Floats
    """[silos, rows]."""
    normaliser: float
    sums: list[Tensor] = field(default_factory=list)
    """float64 [silos, n], of clipped gradients."""
    clips: list[float] = field(default_factory=list)
    single_norms: list[Floats] = field(default_factory=list)
    """Norms of the contributions of single records, in the steps in which these were observed."""
    gradients: list[Tensor] = field(default_factory=list)
    """float32 [silos, n], as the optimiser was given them."""
    taken: list[Bools] = field(default_factory=list)
    """[silos, rows]."""
    unit_noise: list[Floats] = field(default_factory=list)
    """Normal numbers that the source was asked for, [silos, n]."""


@dataclass(eq=False)
class PassedThrough:
    """Everything that passed through a mechanism while one cell was trained, by round."""

    round: int = 0
    """The round in progress."""
    uploads: dict[int, list[UploadsPassed]] = field(default_factory=lambda: defaultdict(list))
    sums: dict[int, SumPassed] = field(default_factory=lambda: defaultdict(SumPassed))
    steps: dict[int, list[StepsPassed]] = field(default_factory=lambda: defaultdict(list))
    cohorts: dict[int, Ints] = field(default_factory=dict)
    """The clients drawn for a round, by the block that it was drawn with."""
    drawn: dict[int, Floats] = field(default_factory=dict)
    """The noise drawn ahead for a round: [vectors, n]."""
    silent: dict[int, Bools] = field(default_factory=dict)
    """[clients], by round: uploads for which the ledger charges no one. A run that follows this one
    sends something else there, which must change nothing."""
    draws: Draws | None = None
    source: Source | None = None
    """What noise was drawn from: by the mechanism itself, or step by step."""
    protection: Protection | None = None
    """The one that was observed, to draw from again."""


# -- clients that protect their uploads -----------------------------------------------------------


class _Watched(Generic[Applied]):
    """Observes what applies a mechanism, beside a run that may be followed."""

    def __init__(self, inner: Applied, passed: PassedThrough, follow: PassedThrough | None) -> None:
        self._inner: Applied = inner
        self._passed, self._follow = passed, follow
        passed.protection = inner

    def draw_noise(self, draws: Draws, block: Block) -> None:
        """Lets the mechanism draw the noise of a block of one cell, and keeps it."""
        new, passed = block.noise is None, self._passed
        self._inner.draw_noise(draws, block)
        if not new:
            return
        passed.draws = draws
        for place, round_ in enumerate(block.rounds[:, 0].tolist()):
            cohort = block.cohort[place, 0]
            drawn = cohort if block.drawn is None else cohort[block.drawn[place, 0]]
            passed.cohorts.setdefault(round_, drawn.copy())
            if block.noise is not None:
                passed.drawn.setdefault(round_, block.noise[place, 0].copy())


class _WatchedClients(_Watched[ClientProtection]):
    """Observes a protection of clients, and sends what a run that is followed sent instead."""

    _clients: Ints | None = None
    """Whose noise was drawn just before they are protected; None for the cohort."""

    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> UnitNoise:
        self._clients = clients
        return self._inner.draw_cell(source, rounds, clients)

    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        found = self._inner.protect(start, updated, noise)
        own = UploadsPassed(
            clients=self._clients,
            start=start[0].clone(),
            updated=updated[0].clone(),
            uploads=found.uploads[0].clone(),
            radii=None if found.radii is None else found.radii[0].clone(),
            finite=found.finite[0].clone(),
            noise=None if noise is None else noise[0].copy(),
        )
        kept = self._passed.uploads[self._passed.round]
        kept.append(own)
        if self._follow is None:
            return found
        other = self._follow.uploads[self._passed.round][len(kept) - 1]
        radii = None if other.radii is None else other.radii[None].clone()
        sent = other.uploads[None].clone()
        silent = self._follow.silent.get(self._passed.round)
        if silent is not None:
            sent[0, torch.from_numpy(silent)] += _SOMETHING_ELSE
        return ProtectedUploads(sent, radii, other.finite[None].clone())


# -- a trusted server -----------------------------------------------------------------------------


class _WatchedServer(_Watched[TrustedServer]):
    """Observes a trusted server, and releases what a run that is followed released instead."""

    def clip(self, updates: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
        clipped, finite = self._inner.clip(updates, clips)
        self._own.clips.append(clips.expand(updates.shape[:-1]).reshape(-1).clone())
        self._own.clipped.append(clipped.reshape(-1, updates.shape[-1]).clone())
        self._own.updates.append(updates.reshape(-1, updates.shape[-1]).clone())
        return clipped, finite

    def average(
        self,
        theta: Tensor,
        sums: Tensor,
        noise: Floats | None,
        *,
        clips: Tensor,
        apart: Tensor | None = None,
    ) -> Tensor:
        released = self._inner.average(theta, sums, noise, clips=clips, apart=apart)
        own, other = self._own, self._other
        own.theta, own.sums, own.released = theta[0].clone(), sums[0].clone(), released[0].clone()
        own.noise = None if noise is None else noise[0].copy()
        if other is None or other.released is None:
            return released
        return other.released[None].clone()

    def next_clips(
        self,
        clips: Floats,
        *,
        within: Sequence[int],
        taking_part: Sequence[int],
        noise: Floats | None,
    ) -> Floats:
        moved = self._inner.next_clips(clips, within=within, taking_part=taking_part, noise=noise)
        own, other = self._own, self._other
        own.within, own.taking_part, own.next_clip = within[0], taking_part[0], float(moved[0])
        own.count_noise = None if noise is None else float(noise[0])
        return moved if other is None or other.next_clip is None else np.array([other.next_clip])

    @property
    def _own(self) -> SumPassed:
        return self._passed.sums[self._passed.round]

    @property
    def _other(self) -> SumPassed | None:
        return None if self._follow is None else self._follow.sums[self._passed.round]


# -- local steps on records -----------------------------------------------------------------------


@dataclass(frozen=True)
class _WatchedSteps(RecordSteps):
    """Observes local steps; takes the clipped sums of a run that is followed instead, so that both
    take the same steps."""

    passed: PassedThrough
    follow: PassedThrough | None

    def __call__(
        self, theta: Tensor, records: SiloRecords, *, source: Source, round_: int
    ) -> Tensor:
        self.passed.source = source
        kept, other = self.passed.steps[self.passed.round], None
        if self.follow is not None:
            other = self.follow.steps[self.passed.round][len(kept)]
        own = StepsPassed(records.silos.copy(), records.inclusion.copy(), self.normaliser)
        kept.append(own)

        def batches(taken: Bools) -> Iterator[RecordBatch]:
            own.taken += list(taken)
            return records.batches(taken)

        def step(theta: Tensor, gradient: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
            own.gradients.append(torch.as_tensor(gradient).clone())
            return self.optimiser.step(theta, gradient, memory)

        def wide_words(*, purpose: Purpose, **place: Any) -> WideWords:
            found = source.wide_words(purpose=purpose, **place)
            if purpose is Purpose.GAUSSIAN:
                # The normal numbers that are made of it.
                own.unit_noise += list(wide_normals(found)[..., : self.gradients.n])
            return found

        watched = RecordSteps(
            _WatchedGradients(self.gradients, own, other),
            _overridden(self.optimiser, step),
            self.steps,
            self.clip,
            self.normaliser,
        )
        return watched(
            theta,
            _overridden(records, batches),
            source=_overridden(source, wide_words),
            round_=round_,
        )


class _WatchedGradients:
    """Implements `ClippedGradients`."""

    def __init__(
        self, inner: ClippedGradients, own: StepsPassed, other: StepsPassed | None
    ) -> None:
        self._inner, self._own, self._other = inner, own, other
        self.n = inner.n

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        total, own = self._inner(theta, batch, clip=clip), self._own
        alone = _SINGLE_ROWS if len(own.sums) < _SINGLE_STEPS else 0
        for row in range(min(batch.target.shape[1], alone)):
            part = slice(row, row + 1)
            sizes = (batch.sizes > row).astype(np.int64)
            single = RecordBatch(batch.features[:, part], batch.target[:, part], sizes)
            own.single_norms.append(vector_norms(self._inner(theta, single, clip=clip)).numpy())
        own.sums.append(total.clone())
        own.clips.append(clip)
        return total if self._other is None else self._other.sums[len(own.sums) - 1].clone()


# -- a run ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WatchedRun:
    """A run, what passed through its mechanism, and what it leaves behind."""

    cell: Cell
    passed: PassedThrough
    columns: list[RoundColumns]
    """Of each round by itself."""
    states: list[CellState]
    """What the run remembers before the first round and after each."""
    ledger_context: LedgerContext
    entries: list[EntryColumns]
    """Each by itself."""
    published: Sequence[Mapping[str, Any]]
    """What is published of each round: the figures of rounds and of groups."""
    ledger_lines: Sequence[Mapping[str, Any]]
    result: FinalResult
    """The result that it would have now."""

    @property
    def rounds(self) -> int:
        """Rounds that were played."""
        return len(self.columns)

    @property
    def hypotheses(self) -> list[Floats32]:
        """[k, n] before the first round and after each."""
        return [state.hypotheses for state in self.states]

    def silos(self, round_: int) -> Ints:
        """The clients that took local steps in a round."""
        parts = self.passed.steps.get(round_, [])
        return np.concatenate([np.zeros(0, dtype=np.int64), *(part.silos for part in parts)])


def play(cell: Cell, *, rounds: int, follow: PassedThrough | None = None) -> WatchedRun:
    """Plays at most `rounds` rounds of a cell by itself, and writes their ledger.

    `follow`: another run, whose released values are taken in place of this run's.
    """
    passed = PassedThrough()

    def watch(applied: Protection | RecordProtection) -> Any:
        match applied:
            case ClientProtection():
                clients = _WatchedClients(applied, passed, follow)
                return _overridden(applied, clients.draw_noise, clients.draw_cell, clients.protect)
            case TrustedServer():
                server = _WatchedServer(applied, passed, follow)
                methods = server.draw_noise, server.clip, server.average, server.next_clips
                return _overridden(applied, *methods)
            case RecordProtection():
                steps = _WatchedSteps(**vars(applied.steps), passed=passed, follow=follow)
                return replace(applied, steps=steps)
            case _:
                assert_never(applied)

    run = new_run(cell, experiment_id="replay", started_at=datetime.now(UTC))
    run.rounding_key = _ROUNDING_KEY
    sink = MemorySink(run.ledger.ledger_context)
    columns: list[RoundColumns] = []
    with watching(watch):
        trainer = Stack([cell])
        states = [CellState.decode(trainer.checkpoint(0))]
        while trainer.active and len(columns) < rounds:
            passed.round = len(columns) + 1
            if draws_in_secret(cell):
                trainer.plan(1)
            new = trainer.advance(1)[0]
            columns += new.spans
            sink.write(record_block(run, new, last=False))
            states.append(CellState.decode(trainer.checkpoint(0)))
    return WatchedRun(
        cell=cell,
        passed=passed,
        columns=columns,
        states=states,
        ledger_context=run.ledger.ledger_context,
        entries=sink.entries,
        published=_published(sink, len(columns)),
        ledger_lines=list(sink.lines()),
        result=trainer.result(0),
    )


def _published(sink: MemorySink, rounds: int) -> Sequence[Mapping[str, Any]]:
    found: list[dict[str, Any]] = [{} for _ in range(rounds)]
    for figures in sink.rounds:
        found[figures.round - 1].update(vars(figures))
    for fairness in sink.fairness:
        name = f"fairness of {fairness.attribute}"
        found[fairness.round - 1][name] = list(fairness.figures)
    return found
