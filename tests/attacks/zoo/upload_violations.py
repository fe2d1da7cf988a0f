"""What goes wrong where clients protect their own uploads."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedaudit.privacy.noise import laplace
from fedaudit.privacy.noise.gaussian import LocalGaussian
from fedaudit.privacy.noise.laplace import Sanitiser, norms
from fedaudit.training.mechanisms.laplace_l2 import LaplaceUploads
from tests.attacks.zoo.cells import adaptive, fixed, in_turn, layered, local
from tests.attacks.zoo.violations import violation

Numbers = NDArray[np.float64]


@violation(fixed, "noise", "noise added", at=(Sanitiser, "release"))
def halve_the_scale(real, self, start, update, unit, **given):
    """The scale of Laplace noise is halved."""
    return real(self, start, update, unit / 2, **given)


@violation(fixed, "noise", "noise used once", at=(LaplaceUploads, "draw"))
def reuse_over_clients(real, self, draws, rounds, clients):
    """Noise is drawn once for all clients of a round."""
    return real(self, draws, rounds, np.zeros_like(clients))


@violation(fixed, "noise", "noise drawn for this round")
def take_the_noise_of_another_round(patch: pytest.MonkeyPatch) -> None:
    """Every round takes the noise of the block's first."""
    from fedaudit.training.stack import Stack

    real = Stack._cohorts

    def cohorts(self, block, steps):
        return [replace(cohort, noise=block.noise[0]) for cohort in real(self, block, steps)]

    patch.setattr(Stack, "_cohorts", cohorts)


@violation(layered, "noise", "norms of layers 1 and 2", at=(laplace, "layer_gamma"))
def share_a_norm_between_layers(_, source, *, sizes, layer, **given):
    """The norm of the noise is drawn once for all layers."""
    return laplace.unit_gamma(source, shape=sizes[layer], **given)


@violation(fixed, "clip", "norm of an update")
def clip_nothing(patch: pytest.MonkeyPatch) -> None:
    """Updates under Laplace noise are not clipped."""
    patch.setattr(laplace, "kept_share", lambda norm, clip: None)


@violation(layered, "clip", "norm of an update", at=(Sanitiser, "__call__"))
def clip_every_layer(_, self, start, updated, unit):
    """Every layer is clipped by itself, and the whole is what is accounted for."""
    lengths = torch.stack([norms((updated - start)[..., own]) for own in self.slices], dim=-1)
    radii, released = self.radii(lengths), []
    for part, own in enumerate(self.slices):
        kept = laplace.kept_share(lengths[..., part], self.clip)
        piece = start[..., own], updated[..., own], unit[..., own]
        released.append(self.release(*piece, part=part, radius=radii[..., part], kept=kept))
    return torch.cat(released, dim=-1), radii


@violation(fixed, "noise", "norms of layer 1", at=(laplace, "unit_gamma"))
def take_a_gaussian_magnitude(_, source, *, shape, round_, counters, **more):
    """Laplace noise has the norm of Gaussian noise."""
    normal = laplace.unit_gaussian(
        source, purpose=laplace.Purpose.MAGNITUDE, n=shape, round_=round_, counters=counters
    )
    # As long on average as a Gamma number is.
    return np.sqrt(np.square(normal).sum(-1)) * np.sqrt(shape)


@violation(fixed, "noise", "directions of layer 1", at=(laplace, "unit_gaussian"))
def point_one_way(real, *given, **named):
    """The direction of the noise is not uniform: uniform numbers in place of normal ones."""
    from scipy import stats

    return 2 * stats.norm.cdf(real(*given, **named)) - 1


@violation(adaptive, "noise", "radius", at=(Sanitiser, "__call__"))
def measure_the_wrong_vector(_, self, start, updated, unit):
    """The adaptive radius is the norm of the parameters, not of the update."""
    radius = self.radii(norms(updated)[..., None])[..., 0]
    return self.release(start, updated, unit, part=0, radius=radius, kept=None), radius


@violation(lambda: local(clip=3.0), "noise", "noise added")
def forget_the_clip_in_the_noise(patch: pytest.MonkeyPatch) -> None:
    """The noise multiplier is not multiplied by the clip."""
    patch.setattr(
        LocalGaussian, "deviation", property(lambda self: self.noise_multiplier[..., None])
    )


@violation(local, "noise", "their size")
def cut_the_tails(patch: pytest.MonkeyPatch) -> None:
    """Noise is cut at two standard deviations."""
    from fedaudit.training.mechanisms import gaussian as training_gaussian

    real = training_gaussian.unit_gaussian

    def unit(*given, **named):
        return real(*given, **named).clip(-2.0, 2.0)

    patch.setattr(training_gaussian, "unit_gaussian", unit)


@violation(lambda: fixed(noise="release"), "noise", "secret noise", at=(LaplaceUploads, "draw"))
def take_secret_noise_from_the_seed(real, self, draws, *given):
    """Noise for a release follows from the seed."""
    return real(self, replace(draws, secret=False), *given)


@violation(
    lambda: in_turn(mechanism="laplace-l2", noise_multiplier=2.0, radius=0.4, clip=0.2),
    "noise",
    "noise added",
    at=(Sanitiser, "release"),
)
def skip_the_end_of_a_vector(real, self, start, updated, noise, **more):
    """The last parameter of a client's upload gets no noise."""
    noise = noise.clone()
    noise[..., -1] = 0.0
    return real(self, start, updated, noise, **more)
