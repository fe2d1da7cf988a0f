"""`gaussian-central`: a trusted server adds up clipped updates, and adds noise to the sums.

Anything that depends on who was drawn, on which hypothesis they chose and on the norms of their
updates leaves the server only with noise. An update that is not finite adds nothing to any sum,
which no observer learns; its round is charged like every other.

`gaussian-distance`: the same for one model, with noise that is divided by the largest distance
between two clients' models. That is the trusted server of AI4EOSC, but for what counts as a layer:
here its weights with its biases, there each array by itself.

`gaussian-local`: each client clips its update and adds Gaussian noise before it leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.networks.shape import layer_sizes
from fedaudit.privacy.noise.adaptive_clipping import (
    next_clip,
    noised_share_within,
    update_noise_multiplier,
)
from fedaudit.privacy.noise.gaussian import (
    LocalGaussian,
    clip_to_norm,
    noised_average,
    unit_gaussian,
)
from fedaudit.randomness import Source
from fedaudit.spec.privacy import AdaptiveClip, GaussianCentral, GaussianDistance, GaussianLocal
from fedaudit.training.base.cell import Cell, expected_cohort
from fedaudit.training.mechanisms.base import (
    ClientProtection,
    NoisedMechanism,
    ProtectedUploads,
    UnitNoise,
    column,
    drawn,
    finite_uploads,
    privacy_of,
)

_MIN_CLIP, _MAX_CLIP = 1e-12, 1e12
# A noised share farther out than this is nearly all noise, and would move the clip erratically.
_MIN_SHARE, _MAX_SHARE = -1.0, 2.0


@dataclass(frozen=True)
class LargestDistance:
    """Largest distance of two clients' models before clipping: the mean over layers of the
    Euclidean distances within each (Sainz-Pardo Diaz et al. 2026, section 6)."""

    layers: tuple[int, ...]
    """Parameters of each layer."""
    floors: Tensor
    """float64 [cells, 1]: the least that it is taken for."""

    def __call__(self, updates: Tensor, present: Tensor) -> Tensor:
        """float64 [cells, 1], of updates [cells, clients, n] of one hypothesis, those present
        [cells, clients]; the floor where no two are."""
        parts = torch.split(updates.double(), list(self.layers), dim=-1)
        exact = "donot_use_mm_for_euclid_dist"
        each = [torch.cdist(part, part, compute_mode=exact) for part in parts]
        apart = sum(each[1:], each[0]) / len(each)
        apart = torch.where(present[:, :, None] & present[:, None], apart, 0.0)
        return torch.maximum(apart.flatten(1).amax(-1, keepdim=True), self.floors)


@dataclass(frozen=True)
class TrustedServer(NoisedMechanism):
    """What a trusted server does in the rounds of a stack: it clips, sums and adds Gaussian noise.
    Tensors are float64 [cells, 1]."""

    n: int
    k: int
    noise_multiplier: Tensor
    """Noise multiplier of the updates alone, where an adaptive clip uses part of the whole."""
    denominators: Tensor
    """Clients that fill a block on average, if all blocks were filled alike."""
    expected: float
    """Clients of a round on average: public, and the same for all cells."""
    moves: tuple[AdaptiveClip, ...]
    """How each cell's clip moves; empty where it is a number."""
    distance: LargestDistance | None = None
    """What noise is divided by; None where nothing of the updates scales it."""

    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> UnitNoise:
        places = np.arange(self.k)
        sums = unit_gaussian(source, n=self.n, round_=rounds[..., None], counters=places)
        if not self.moves:
            return UnitNoise(sums)
        # Counters below k are the hypotheses'.
        counts = unit_gaussian(source, n=1, round_=rounds, counters=self.k)[..., 0]
        return UnitNoise(sums, counts)

    def clip(self, updates: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
        """Updates [..., n] cut to norms of at most `clips` [...], and whether each was finite.

        One that is not finite becomes zero.
        """
        return clip_to_norm(updates, clip=clips)

    def within(self, updates: Tensor, clips: Tensor) -> Tensor:
        """Whether the norms of updates [..., n] are at most `clips` [...]: bool [...]."""
        norms = torch.linalg.vector_norm(updates, dim=-1, dtype=torch.float64)
        within: Tensor = norms <= clips
        return within

    def average(
        self,
        theta: Tensor,
        sums: Tensor,
        noise: Floats | None,
        *,
        clips: Tensor,
        apart: Tensor | None = None,
    ) -> Tensor:
        """The next hypotheses, float32 [cells, k, n].

        `theta`: those that were sent out; `sums`: clipped updates of those who chose each, added
        up; both [cells, k, n]. `noise` as in `UnitNoise.vectors`; `clips` [cells, 1]; `apart` by
        `distance`, where there is one. Raises RuntimeError where the noise was not drawn.
        """
        scale = self.noise_multiplier if apart is None else self.noise_multiplier / apart
        return noised_average(
            theta,
            sums,
            torch.from_numpy(drawn(noise)).to(theta.device),
            clip=clips,
            noise_multiplier=scale,
            denominators=self.denominators,
        )

    def next_clips(
        self,
        clips: Floats,
        *,
        within: Sequence[int],
        taking_part: Sequence[int],
        noise: Floats | None,
    ) -> Floats:
        """The clips of the next round, one a cell, of a server whose clip moves; they stay between
        1e-12 and 1e12.

        `within` of the `taking_part` finite updates had a norm of at most the clip; `noise` as in
        `UnitNoise.counts`. Raises RuntimeError where it was not drawn.
        """
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


def gaussian_server(cells: Sequence[Cell], device: torch.device) -> TrustedServer:
    """The server of `gaussian-central`. Raises ValueError for cells of another mechanism."""
    noise, moves = list[float](), list[AdaptiveClip]()
    for part in privacy_of(cells, GaussianCentral):
        multiplier, clip = part.noise_multiplier, part.adaptive_clip
        if clip is not None:  # a part of the noise is on the count within the clip
            moves.append(clip)
            multiplier = update_noise_multiplier(
                noise_multiplier=multiplier, count_noise=clip.count_noise
            )
        noise.append(multiplier)
    return _server(cells, noise, device, moves=tuple(moves))


def distance_server(cells: Sequence[Cell], device: torch.device) -> TrustedServer:
    """The server of `gaussian-distance`. Raises ValueError for cells of another mechanism."""
    privacy = privacy_of(cells, GaussianDistance)
    floors = column([part.distance_floor for part in privacy], device)
    distance = LargestDistance(layer_sizes(cells[0].shape), floors)
    return _server(cells, [part.noise_multiplier for part in privacy], device, distance=distance)


def _server(
    cells: Sequence[Cell],
    noise_multipliers: Sequence[float],
    device: torch.device,
    *,
    moves: tuple[AdaptiveClip, ...] = (),
    distance: LargestDistance | None = None,
) -> TrustedServer:
    expected, k = expected_cohort(cells[0]), cells[0].spec.training.hypotheses
    return TrustedServer(
        n=cells[0].shape.n,
        k=k,
        noise_multiplier=column(noise_multipliers, device),
        denominators=column([expected / k] * len(cells), device),
        expected=expected,
        moves=moves,
        distance=distance,
    )


def gaussian_uploads(cells: Sequence[Cell], device: torch.device) -> ClientProtection:
    """The uploads of `gaussian-local`. Raises ValueError for cells of another mechanism."""
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

    def draw_cell(self, source: Source, rounds: Ints, clients: Ints) -> UnitNoise:
        each = rounds[..., None]
        return UnitNoise(unit_gaussian(source, n=self.n, round_=each, counters=clients))

    def protect(self, start: Tensor, updated: Tensor, noise: Floats | None) -> ProtectedUploads:
        unit = torch.from_numpy(drawn(noise)).to(start.device)
        # An update that is not finite adds nothing: that it is not leaves with noise alone.
        uploads = self.gaussian(start, updated, unit)
        return ProtectedUploads(uploads, radii=None, finite=finite_uploads(uploads))


Protection = ClientProtection | TrustedServer
