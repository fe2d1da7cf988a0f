"""The interface between training and a mechanism.

`registry` makes what a spec's mechanism does to the tensors of a stack of cells: a
`ClientProtection` or a `TrustedServer` (`gaussian`), or for a cell whose records have
budgets a `RecordProtection`. An engine matches on the first two and knows no mechanism. They are
classes, not structural protocols, so that nothing is taken for a protection because of its
attributes alone.

An observer (`watching`, used by replay) wraps a protection in one of the same kind, which passes
every call on and sees inputs and outputs. All are made through `watched`, so an observed run takes
the path of every other run.

`none`: updates are sent unchanged, as the spec explicitly asks.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.randomness import Source
from fedaudit.spec.base import SpecPart
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.cohort import Block, Draws
from fedaudit.training.base.record_steps import RecordSteps

Privacy = TypeVar("Privacy", bound=SpecPart)
Applied = TypeVar("Applied")


# -- what is done to tensors ----------------------------------------------------------------------


@dataclass(frozen=True)
class ProtectedUploads:
    """What clients are about to send; the first two axes are [cells, clients]."""

    uploads: Tensor
    """float32 [cells, clients, n]."""
    radii: Tensor | None
    """float64 [cells, clients]; with noise for each layer, [cells, clients, layers]. None where
    noise has no radius."""
    finite: Tensor
    """bool: whether the upload may be sent. One that is not finite is withheld."""


@dataclass(frozen=True)
class UnitNoise:
    """Unscaled noise."""

    vectors: Floats | None
    """float64 [..., cells, vectors, n]: a vector for each client, or for the sum of each
    hypothesis; None from a mechanism without noise."""
    counts: Floats | None = None
    """[..., cells]: for the number of updates within a clip that moves; None where none does."""


class NoisedMechanism(ABC):
    """What a mechanism of whole updates does in the rounds of a stack."""

    def draw_noise(self, draws: Draws, block: Block) -> None:
        """Adds the noise of all rounds to a block, once."""
        if block.noise is None:
            noise = self.draw(draws, block.rounds, block.cohort)
            block.noise, block.count_noise = noise.vectors, noise.counts

    def draw(self, draws: Draws, rounds: Ints, clients: Ints) -> UnitNoise:
        """The noise of rounds [..., cells] and clients [..., cells, clients], each cell's from its
        own source."""
        cells = range(len(draws.seeds))
        found = [
            self.draw_cell(draws.of_cell(cell), rounds[..., cell], clients[..., cell, :])
            for cell in cells
        ]
        axis = rounds.ndim - 1
        vectors = _side_by_side([one.vectors for one in found], axis=axis)
        return UnitNoise(vectors, _side_by_side([one.counts for one in found], axis=axis))

    @abstractmethod
    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> UnitNoise:
        """The noise of one cell, whose axis is left out, for rounds [...] and clients [...,
        clients]. `source` is of this cell alone."""


class ClientProtection(NoisedMechanism):
    """What the clients of a stack do to their uploads before sending them."""

    @abstractmethod
    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        """The protected uploads of many clients at once.

        `start`, `updated`: float32 [cells, clients, n], the hypothesis that a client chose and its
        update of it; `noise` as the vectors of `draw`. Raises RuntimeError where noise is required
        and was not drawn.
        """


@dataclass(frozen=True)
class RecordProtection:
    """Local steps that are private record by record."""

    steps: RecordSteps
    noise_multipliers: Floats
    """[training clients]: standard deviation of each one's noise over the clip; 0 is no privacy."""


# -- what several mechanisms need -----------------------------------------------------------------


def privacy_of(cells: Sequence[Cell], kind: type[Privacy]) -> list[Privacy]:
    """The parameters of cells that share a mechanism. Raises ValueError where one has another."""
    found: list[Privacy] = []
    for cell in cells:
        privacy = cell.spec.privacy
        if not isinstance(privacy, kind):
            raise ValueError(f"cells of {privacy.mechanism} are not protected by {kind.__name__}")
        found.append(privacy)
    return found


def column(values: Sequence[float], device: torch.device) -> Tensor:
    """One value a cell: float64 [cells, 1]."""
    return torch.tensor(values, dtype=torch.float64, device=device)[:, None]


def drawn(noise: Floats | None) -> Floats:
    """The noise that was drawn. Raises RuntimeError if it is missing: nothing is sent
    unprotected."""
    if noise is None:
        raise RuntimeError("the noise of this round was not drawn")
    return noise


def _side_by_side(found: Sequence[Floats | None], *, axis: int) -> Floats | None:
    """The noise of cells along a new axis; None where there is none."""
    there = [one for one in found if one is not None]
    if not there:
        return None
    return there[0][(slice(None),) * axis + (None,)] if len(there) == 1 else np.stack(there, axis)


def finite_uploads(uploads: Tensor) -> Tensor:
    """Which of uploads [cells, clients, n] are finite: bool [cells, clients].

    An update that is not finite has no norm to scale noise by, so it is withheld.
    """
    if math.isfinite(uploads.sum().item()):
        return torch.ones(uploads.shape[:2], dtype=torch.bool, device=uploads.device)
    return torch.isfinite(uploads).all(-1)


_onlooker: ContextVar[Callable[[Any], Any] | None] = ContextVar("onlooker", default=None)


@contextmanager
def watching(wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Within it, this thread trains with what `wrap` makes of each protection, of the same kind."""
    token = _onlooker.set(wrap)
    try:
        yield
    finally:
        _onlooker.reset(token)


def watched(protection: Applied) -> Applied:
    """The protection as it is trained with: itself, unless a wrapper is set."""
    wrap = _onlooker.get()
    return protection if wrap is None else wrap(protection)


class Unprotected(ClientProtection):
    """Uploads are sent unchanged, unless they are not finite."""

    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> UnitNoise:
        return UnitNoise(None)

    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        return ProtectedUploads(updated, radii=None, finite=finite_uploads(updated))
