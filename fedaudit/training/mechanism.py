"""What protects the updates of a stack, from the cells' specs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fedaudit.networks.shape import layer_sizes
from fedaudit.privacy.adaptive_clipping import update_noise_multiplier
from fedaudit.privacy.gaussian import LocalGaussian
from fedaudit.privacy.laplace import Sanitiser
from fedaudit.privacy.layers import LayerSanitiser
from fedaudit.spec.privacy import GaussianCentral, GaussianLocal, LaplaceL2, NoMechanism
from fedaudit.training.cell import Cell, expected_cohort
from fedaudit.training.central import Central

Mechanism = Sanitiser | LayerSanitiser | LocalGaussian | Central


def build_mechanism(cells: Sequence[Cell], device: torch.device) -> Mechanism | None:
    """What protects the updates of cells that can be stacked; None where nothing does.

    Raises ValueError for a mechanism that is not trained update by update.
    """
    privacy = [cell.spec.privacy for cell in cells]
    if laplace := [part for part in privacy if isinstance(part, LaplaceL2)]:
        if laplace[0].per_layer:
            return _layer_sanitiser(laplace, layer_sizes(cells[0].shape), device)
        return _sanitiser(laplace, cells[0].shape.n, device)
    if local := [part for part in privacy if isinstance(part, GaussianLocal)]:
        return LocalGaussian(
            clip=_column([part.clip for part in local], device),
            noise_multiplier=_column([part.noise_multiplier for part in local], device),
        )
    if central := [part for part in privacy if isinstance(part, GaussianCentral)]:
        return _central(central, cells, device)
    for part in privacy:
        if not isinstance(part, NoMechanism):
            raise ValueError(f"updates are not protected by {part.mechanism} here")
    return None


def _sanitiser(privacy: Sequence[LaplaceL2], n: int, device: torch.device) -> Sanitiser:
    fixed = [np.nan if part.radius == "adaptive" else part.radius for part in privacy]
    return Sanitiser(
        noise_scale=_column([part.noise_multiplier / n for part in privacy], device),
        fixed_radius=None if np.isnan(fixed).all() else _column(fixed, device),
        radius_floor=_column([part.radius_floor for part in privacy], device),
        clip=_clips(privacy, device),
    )


def _layer_sanitiser(
    privacy: Sequence[LaplaceL2], sizes: tuple[int, ...], device: torch.device
) -> LayerSanitiser:
    layers = [replace(_sanitiser(privacy, size, device), clip=None) for size in sizes]
    return LayerSanitiser(sizes=sizes, parts=tuple(layers), clip=_clips(privacy, device))


def _clips(privacy: Sequence[LaplaceL2], device: torch.device) -> Tensor | None:
    """The bound on each cell's updates; None where no cell has one."""
    clips = [np.inf if part.clip is None else part.clip for part in privacy]
    return None if np.isinf(clips).all() else _column(clips, device)


def _central(
    privacy: Sequence[GaussianCentral], cells: Sequence[Cell], device: torch.device
) -> Central:
    expected, k = expected_cohort(cells[0]), cells[0].spec.training.hypotheses
    return Central(
        noise_multiplier=_column([_of_updates(part) for part in privacy], device),
        denominators=_column([expected / k] * len(cells), device),
        expected=expected,
        moves=tuple(part.adaptive_clip for part in privacy if part.adaptive_clip is not None),
    )


def _of_updates(privacy: GaussianCentral) -> float:
    """The noise multiplier of the updates, beside the noise on the count within the clip."""
    clip = privacy.adaptive_clip
    if clip is None:
        return privacy.noise_multiplier
    return update_noise_multiplier(
        noise_multiplier=privacy.noise_multiplier, count_noise=clip.count_noise
    )


def _column(values: Sequence[float], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=device)[:, None]
