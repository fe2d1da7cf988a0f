"""`gaussian-central`: a trusted server adds up clipped updates, and adds noise to the sums.

Anything that depends on who was drawn, on which hypothesis they chose and on the norms of their
updates leaves the server only with noise. An update that is not finite adds nothing to any sum,
which no observer learns; its round is charged like every other.

`gaussian-local`: each client clips its update and adds Gaussian noise before it leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.privacy.noise.adaptive_clipping import (
    next_clip,
    noised_share_within,
    update_noise_multiplier,
)
from fedaudit.privacy.noise.banded_noise import BandedNoise
from fedaudit.privacy.noise.gaussian import (
    CentralGaussian,
    LocalGaussian,
    clip_to_norm,
    unit_gaussian,
)
from fedaudit.randomness import Source
from fedaudit.spec.privacy import AdaptiveClip, GaussianCentral, GaussianLocal
from fedaudit.training.base.cell import Cell, expected_cohort
from fedaudit.training.base.cohort import Draws
from fedaudit.training.mechanisms.base import (
    ClientMechanism,
    ClientProtection,
    ProtectedUploads,
    ServerMechanism,
    ServerNoise,
    TrustedServer,
    column,
    drawn,
    privacy_of,
)

_MIN_CLIP, _MAX_CLIP = 1e-12, 1e12
# A noised share farther out than this is nearly all noise, and would move the clip erratically.
_MIN_SHARE, _MAX_SHARE = -1.0, 2.0


@dataclass(frozen=True)
class GaussianCentralTraining(ServerMechanism):
    """`gaussian-central` in training."""

    privacy: GaussianCentral
    name = "gaussian-central"

    @property
    def initial_clip(self) -> float:
        return self.privacy.initial_clip

    def protection(self, cells: Sequence[Cell], device: torch.device) -> TrustedServer:
        privacy, first = privacy_of(cells, GaussianCentral), cells[0]
        expected, k = expected_cohort(first), first.spec.training.hypotheses
        return GaussianServer(
            n=first.shape.n,
            k=k,
            noise_multiplier=column(
                [_noise_multiplier_of_updates(part) for part in privacy], device
            ),
            denominators=column([expected / k] * len(cells), device),
            expected=expected,
            moves=tuple(part.adaptive_clip for part in privacy if part.adaptive_clip is not None),
            correlated=tuple(
                BandedNoise(part.correlation.bands) for part in privacy if part.correlation
            ),
        )


@dataclass(frozen=True)
class GaussianServer(TrustedServer):
    """Gaussian noise on the sums of clipped updates; tensors float64 [cells, 1]."""

    n: int
    k: int
    noise_multiplier: Tensor
    """Of the updates alone, where an adaptive clip uses part of the whole."""
    denominators: Tensor
    """Clients that fill a block on average, if all blocks were filled alike."""
    expected: float
    """Clients of a round on average: public, and the same for all cells."""
    moves: tuple[AdaptiveClip, ...]
    """How each cell's clip moves; empty where it is a number."""
    correlated: tuple[BandedNoise, ...] = ()
    """What each cell's noise is made into; empty where that of rounds is independent."""

    @property
    def clip_moves(self) -> bool:
        return bool(self.moves)

    def noise_of(self, draws: Draws, rounds: Ints) -> ServerNoise:
        """See `TrustedServer`. Secret noise is kept nowhere: a worker that goes on with a run of
        another begins the correlation anew, which costs as much privacy."""
        noise = self.draw(draws, rounds)
        for cell, correlated in enumerate(self.correlated):
            own = np.atleast_2d(noise.sums[..., cell, 0, :])
            again = None if draws.secret else partial(self._sums_again, draws.of_cell(cell))
            correlated.follow(own, first=int(rounds[..., cell].flat[0]), earlier=again)
        return noise

    def _sums_again(self, source: Source, rounds: Ints) -> Floats:
        """The independent noise of one cell with one hypothesis: [rounds, n]."""
        return self.draw_cell(source, rounds).sums[:, 0]

    def draw_cell(self, source: Source, rounds: Ints) -> ServerNoise:
        places = np.arange(self.k)
        sums = unit_gaussian(source, n=self.n, round_=rounds[..., None], counters=places)
        if not self.moves:
            return ServerNoise(sums, counts=None)
        # Counters below k are the hypotheses'.
        counts = unit_gaussian(source, n=1, round_=rounds, counters=self.k)[..., 0]
        return ServerNoise(sums, counts)

    def clip(self, updates: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
        return clip_to_norm(updates, clip=clips)

    def within(self, updates: Tensor, clips: Tensor) -> Tensor:
        norms = torch.linalg.vector_norm(updates, dim=-1, dtype=torch.float64)
        within: Tensor = norms <= clips
        return within

    def average(
        self, theta: Tensor, sums: Tensor, noise: Floats | None, *, clips: Tensor
    ) -> Tensor:
        release = CentralGaussian(
            clip=clips, noise_multiplier=self.noise_multiplier, denominators=self.denominators
        )
        return release(theta, sums, torch.from_numpy(drawn(noise)).to(theta.device))

    def next_clips(
        self,
        clips: Floats,
        *,
        within: Sequence[int],
        taking_part: Sequence[int],
        noise: Floats | None,
    ) -> Floats:
        """See `TrustedServer`; they stay between 1e-12 and 1e12."""
        moved, unit = clips.copy(), drawn(noise)
        for cell, rule in enumerate(self.moves):
            share = noised_share_within(
                within=within[cell],
                taking_part=taking_part[cell],
                noise=float(unit[cell]) * rule.count_noise,
                deviation=rule.count_noise,
                expected=self.expected,
            )
            clip = next_clip(
                float(clips[cell]),
                share_within=min(max(share, _MIN_SHARE), _MAX_SHARE),
                quantile=rule.quantile,
                step_size=rule.step_size,
            )
            moved[cell] = min(max(clip, _MIN_CLIP), _MAX_CLIP)
        return moved


def _noise_multiplier_of_updates(privacy: GaussianCentral) -> float:
    """The noise multiplier of the updates, beside the noise on the count within the clip."""
    clip = privacy.adaptive_clip
    if clip is None:
        return privacy.noise_multiplier
    return update_noise_multiplier(
        noise_multiplier=privacy.noise_multiplier, count_noise=clip.count_noise
    )


@dataclass(frozen=True)
class GaussianLocalTraining(ClientMechanism):
    """`gaussian-local` in training."""

    privacy: GaussianLocal
    name = "gaussian-local"

    def protection(self, cells: Sequence[Cell], device: torch.device) -> ClientProtection:
        privacy = privacy_of(cells, GaussianLocal)
        gaussian = LocalGaussian(
            clip=column([part.clip for part in privacy], device),
            noise_multiplier=column([part.noise_multiplier for part in privacy], device),
        )
        return GaussianUploads(gaussian, n=cells[0].shape.n)


@dataclass(frozen=True)
class GaussianUploads(ClientProtection):
    """Clipped updates of n parameters, and Gaussian noise, on top of the hypothesis."""

    gaussian: LocalGaussian
    n: int

    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> Floats | None:
        return unit_gaussian(source, n=self.n, round_=rounds[..., None], counters=clients)

    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        unit = torch.from_numpy(drawn(noise)).to(start.device)
        uploads, finite = self.gaussian(start, updated, unit)
        return ProtectedUploads(uploads, radii=None, finite=finite)

    def protect_in_place(
        self, upload: Tensor, start: Tensor, *, source: Source, round_: int, client: int
    ) -> Tensor | float:
        unit = unit_gaussian(source, n=self.n, round_=round_, counters=client)
        noised, finite = self.gaussian(
            start, upload[None, None], torch.from_numpy(unit[None]).to(upload.device)
        )
        upload.copy_(torch.where(finite[0, 0], noised[0, 0], torch.nan))
        return float("nan")
