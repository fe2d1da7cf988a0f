"""The interface between training and a mechanism.

`registry.training_mechanism` finds the mechanism of a spec, which is one of three:
`ClientMechanism`, `ServerMechanism` or `RecordMechanism`. Its effect on the tensors of a stack of
cells is a `ClientProtection` or a `TrustedServer`; an engine matches on that pair and knows no
mechanism. These are base classes, not structural protocols, so that nothing is taken for a
protection because of its attributes alone.

An observer (`watching`, used by replay) wraps a mechanism in one of the same kind, which passes
every call on and sees inputs and outputs. Engines build their protections through `watched`, so an
observed run takes the path of every other run.

`none`: updates are sent unchanged, as the spec explicitly asks.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.networks.stacked_network import Loss
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.randomness import Source
from fedaudit.spec.base import SpecPart
from fedaudit.spec.privacy import NoMechanism
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.cohort import Block, Draws
from fedaudit.training.base.record_steps import RecordSteps

Privacy = TypeVar("Privacy", bound=SpecPart)


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


class ClientProtection(ABC):
    """What the clients of a stack do to their uploads before sending them."""

    def draw_noise(self, draws: Draws, block: Block) -> None:
        """Adds the noise of all rounds to a block, once."""
        if block.noise is None:
            block.noise = self.draw(draws, block.rounds, block.cohort)

    def draw(self, draws: Draws, rounds: Ints, clients: Ints) -> Floats | None:
        """Unscaled noise, float64 [..., cells, clients, n], for rounds [..., cells] and clients
        [..., cells, clients], each cell's from its own source; None without noise."""
        return _side_by_side(
            [
                self.draw_cell(draws.of_cell(cell), rounds[..., cell], clients[..., cell, :])
                for cell in range(len(draws.seeds))
            ],
            axis=rounds.ndim - 1,
        )

    @abstractmethod
    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> Floats | None:
        """Noise of one cell, of unit scale: float64 [..., clients, n], for rounds [...] and clients
        [..., clients]; None from a mechanism without noise. `source` is of this cell alone."""

    @abstractmethod
    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        """The protected uploads of many clients at once.

        `start`, `updated`: float32 [cells, clients, n], the hypothesis that a client chose and its
        update of it; `noise` as `draw` gives it. Raises RuntimeError where noise is required and
        was not drawn.
        """

    @abstractmethod
    def protect_in_place(
        self, upload: Tensor, start: Tensor, *, source: Source, round_: int, client: int
    ) -> Tensor | float:
        """Turns a client's update of `start` [n], in `upload`, into its protected upload, in place.

        `source` is that of a stack of one. Returns the radius of its noise, [layers] where each
        layer has its own, NaN where noise has no radius. An update that is not finite stays so.
        """

    def radii_shape(self, clients: int) -> tuple[int, ...]:
        """The shape of the radii of this many clients of one cell."""
        return (clients,)


@dataclass(frozen=True)
class ServerNoise:
    """The unscaled noise of a trusted server."""

    sums: Floats
    """[..., cells, k, n]: for the sum of the updates of those who chose each hypothesis."""
    counts: Floats | None
    """[..., cells]: for the number of updates within a clip that moves; None where none does."""


class TrustedServer(ABC):
    """What a trusted server does in the rounds of a stack: it clips, sums and adds noise."""

    @property
    @abstractmethod
    def clip_moves(self) -> bool:
        """Whether the clip of the next round follows from a noised count."""

    def draw_noise(self, draws: Draws, block: Block) -> None:
        """Adds the noise of all rounds to a block, once."""
        if block.noise is None:
            noise = self.noise_of(draws, block.rounds)
            block.noise, block.count_noise = noise.sums, noise.counts

    def noise_of(self, draws: Draws, rounds: Ints) -> ServerNoise:
        """The noise of consecutive rounds [cells] or [rounds, cells], as it is added: what `draw`
        gives, unless the noise of rounds is correlated."""
        return self.draw(draws, rounds)

    def draw(self, draws: Draws, rounds: Ints) -> ServerNoise:
        """The independent noise of rounds [..., cells], each cell's from its own source."""
        cells = range(len(draws.seeds))
        found = [self.draw_cell(draws.of_cell(cell), rounds[..., cell]) for cell in cells]
        sums = _side_by_side([one.sums for one in found], axis=rounds.ndim - 1)
        counts = _side_by_side([one.counts for one in found], axis=rounds.ndim - 1)
        return ServerNoise(drawn(sums), counts)

    @abstractmethod
    def draw_cell(self, source: Source, rounds: Ints) -> ServerNoise:
        """The noise of one cell for rounds [...], of unit scale: the axis of cells is left out.
        `source` is of this cell alone."""

    @abstractmethod
    def clip(self, updates: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
        """Updates [..., n] cut to norms of at most `clips` [...], and whether each was finite.

        One that is not finite becomes zero.
        """

    @abstractmethod
    def within(self, updates: Tensor, clips: Tensor) -> Tensor:
        """Whether the norms of updates [..., n] are at most `clips` [...]: bool [...]."""

    @abstractmethod
    def average(
        self, theta: Tensor, sums: Tensor, noise: Floats | None, *, clips: Tensor
    ) -> Tensor:
        """The next hypotheses, float32 [cells, k, n].

        `theta`: those that were sent out; `sums`: clipped updates of those who chose each, added
        up; both [cells, k, n]. `noise` as in `ServerNoise.sums`; `clips` [cells, 1]. Raises
        RuntimeError where the noise was not drawn.
        """

    @abstractmethod
    def next_clips(
        self,
        clips: Floats,
        *,
        within: Sequence[int],
        taking_part: Sequence[int],
        noise: Floats | None,
    ) -> Floats:
        """The clips of the next round, one a cell, of a server whose clip moves.

        `within` of the `taking_part` finite updates had a norm of at most the clip; `noise` as in
        `ServerNoise.counts`. Raises RuntimeError where it was not drawn.
        """


Protection = ClientProtection | TrustedServer


@dataclass(frozen=True)
class RecordProtection:
    """Local steps that are private record by record."""

    steps: RecordSteps
    noise_multipliers: Floats
    """[training clients]: standard deviation of each one's noise over the clip; 0 is no privacy."""


# -- what a spec asks for -------------------------------------------------------------------------


class ClientMechanism(ABC):
    """A mechanism that clients apply themselves, with the parameters of one cell."""

    name: ClassVar[str]
    """The spec's literal."""

    @abstractmethod
    def protection(self, cells: Sequence[Cell], device: torch.device) -> ClientProtection:
        """What protects the uploads of cells that can be stacked, of which this one's is the first.

        Raises ValueError for cells of another mechanism.
        """


class ServerMechanism(ABC):
    """A mechanism that a trusted server applies to sums, with the parameters of one cell.

    The population is charged for every round as one subject: ledger rows for participants would
    reveal who was drawn.
    """

    name: ClassVar[str]
    """The spec's literal."""

    @property
    @abstractmethod
    def initial_clip(self) -> float:
        """The norm to which updates of the first round are clipped."""

    @abstractmethod
    def protection(self, cells: Sequence[Cell], device: torch.device) -> TrustedServer:
        """The server of cells that can be stacked, of which this one's is the first.

        Raises ValueError for cells of another mechanism.
        """


class RecordMechanism(ABC):
    """A mechanism inside local steps, record by record, with the parameters of one cell."""

    name: ClassVar[str]
    """The spec's literal."""

    @abstractmethod
    def protection(
        self, cell: Cell, loss: Loss, plan: RecordPlan, *, clients: int
    ) -> RecordProtection:
        """The local steps of a cell whose `clients` training clients follow this plan.

        Raises ValueError for a plan whose noise is no positive number.
        """


TrainingMechanism = ClientMechanism | ServerMechanism | RecordMechanism


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


Wrap = Callable[[TrainingMechanism], TrainingMechanism]

_onlooker: ContextVar[Wrap | None] = ContextVar("onlooker", default=None)


@contextmanager
def watching(wrap: Wrap) -> Iterator[None]:
    """Within it, this thread trains with what `wrap` makes of each mechanism."""
    token = _onlooker.set(wrap)
    try:
        yield
    finally:
        _onlooker.reset(token)


def watched(mechanism: TrainingMechanism) -> TrainingMechanism:
    """The mechanism as it is trained with: itself, unless a wrapper is set."""
    wrap = _onlooker.get()
    return mechanism if wrap is None else wrap(mechanism)


@dataclass(frozen=True)
class NoMechanismTraining(ClientMechanism):
    """`none` in training."""

    privacy: NoMechanism
    name = "none"

    def protection(self, cells: Sequence[Cell], device: torch.device) -> ClientProtection:
        privacy_of(cells, NoMechanism)
        return Unprotected()


class Unprotected(ClientProtection):
    """Uploads are sent unchanged, unless they are not finite."""

    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> Floats | None:
        """None: there is no noise."""
        return None

    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        return ProtectedUploads(updated, radii=None, finite=finite_uploads(updated))

    def protect_in_place(
        self, upload: Tensor, start: Tensor, *, source: Source, round_: int, client: int
    ) -> Tensor | float:
        return float("nan")
