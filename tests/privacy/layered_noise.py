"""Noise layer by layer: what the mechanism draws, and what people draw instead."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from torch import Tensor

from fedaudit.privacy.noise.laplace import Sanitiser, layer_slices, unit_layers
from fedaudit.randomness import CounterSource, Source
from tests.privacy.looks_right import Checks, laplace_checks

Numbers = NDArray[np.float64]

SIZES = (3, 1, 3, 20)
"""Two layers of one size, one of a single parameter, one whose norm is drawn by rejection."""
NU = 2.0
NORMS = (0.5, 2.0, 1.0, 0.25)
"""Of each layer's update."""
DRAWS = 40_000


def column(*values: float) -> Tensor:
    """A setting, of each cell."""
    return torch.tensor(values, dtype=torch.float64)[:, None]


def layer_sanitiser(
    sizes: tuple[int, ...] = SIZES,
    *,
    nu: float = NU,
    radius: float | None = None,
    floor: float = 1e-6,
    clip: float | None = None,
    per_layer: bool = True,
) -> Sanitiser:
    """Of one cell."""
    return Sanitiser(
        sizes=sizes,
        noise_multiplier=column(nu),
        fixed_radius=None if radius is None else column(radius),
        radius_floor=column(floor),
        clip=None if clip is None else column(clip),
        per_layer=per_layer,
    )


def unit_laplace(
    source: Source, *, n: int, round_: ArrayLike, counters: ArrayLike
) -> NDArray[np.float64]:
    """The noise of a whole vector, with epsilon = 1."""
    return unit_layers(source, sizes=(n,), round_=round_, counters=counters)


def an_update() -> Tensor:
    """Of the norms above: float32 [1, 1, n]."""
    parts = [torch.full((size,), norm / size**0.5) for size, norm in zip(SIZES, NORMS, strict=True)]
    return torch.cat(parts)[None, None]


def layered(sanitise: Sanitiser, unit: Callable[[], NDArray[np.float64]]) -> Numbers:
    """What is added to an update that is released again and again: [draws, n]."""
    update = an_update()
    start, updated = torch.zeros_like(update), update.expand(1, DRAWS, -1)
    uploads, _ = sanitise(start.expand_as(updated), updated, torch.from_numpy(unit()[None]))
    noise: Numbers = (uploads - updated)[0].double().numpy()
    return noise


def unit_noise(sizes: tuple[int, ...] = SIZES) -> NDArray[np.float64]:
    """As it is drawn: [draws, n]."""
    return unit_layers(CounterSource(4), sizes=sizes, round_=1, counters=np.arange(DRAWS))


def mechanism() -> Numbers:
    """The mechanism itself, with the adaptive radius."""
    return layered(layer_sanitiser(), unit_noise)


def whole_norm() -> NDArray[np.float64]:
    """One draw of the whole vector, cut into layers."""
    return unit_laplace(CounterSource(4), n=sum(SIZES), round_=1, counters=np.arange(DRAWS))


def equal_draws() -> NDArray[np.float64]:
    """The first layer's noise in the third layer too."""
    noise, (first, _, third, _) = unit_noise(), layer_slices(SIZES)
    noise[:, third] = noise[:, first]
    return noise


def equal_norms() -> NDArray[np.float64]:
    """Independent directions, and the norm of the first layer in the third."""
    noise, (first, _, third, _) = unit_noise(), layer_slices(SIZES)
    length = np.linalg.norm(noise[:, first], axis=1) / np.linalg.norm(noise[:, third], axis=1)
    noise[:, third] *= length[:, None]
    return noise


def _rate_of_the_whole() -> Numbers:
    """n in place of n_l in every layer's rate: less noise."""
    sanitise = layer_sanitiser()
    vars(sanitise)["scales"] = (column(NU / sum(SIZES)),) * len(SIZES)
    return layered(sanitise, unit_noise)


def _too_little_in_one_layer() -> Numbers:
    noise = mechanism()
    noise[:, layer_slices(SIZES)[2]] *= 0.8
    return noise


BROKEN: dict[str, Callable[[], Numbers]] = {
    "one draw for the whole vector": lambda: layered(layer_sanitiser(), whole_norm),
    "one draw for layers of one size": lambda: layered(layer_sanitiser(), equal_draws),
    "one norm for layers of one size": lambda: layered(layer_sanitiser(), equal_norms),
    "the rate of the whole vector": _rate_of_the_whole,
    "noise too small by 20 % in one layer": _too_little_in_one_layer,
}


def layer_checks(noise: Numbers) -> Checks:
    """Of noise [draws, n]: each layer by itself, and layers of one size against each other."""
    checks: Checks = {}
    parts = layer_slices(SIZES)
    scaled = []
    for place, (part, size, norm) in enumerate(zip(parts, SIZES, NORMS, strict=True), start=1):
        epsilon = size / (NU * norm)
        own = laplace_checks(noise[:, part], epsilon=epsilon)
        checks |= {f"layer-{place} {name}": check for name, check in own.items()}
        scaled.append(np.linalg.norm(noise[:, part], axis=1) * epsilon)
    # Independent gamma numbers add up to another: the layers' norms in units of their rates.
    total = sum(SIZES)
    checks["norms together"] = (np.sum(scaled, axis=0), stats.gamma(total).cdf)
    checks["norms of equals"] = (scaled[0] + scaled[2], stats.gamma(SIZES[0] + SIZES[2]).cdf)
    first, third = noise[:, parts[0]], noise[:, parts[2]]
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(third, axis=1)
    cosine = (first * third).sum(1) / np.where(lengths > 0, lengths, 1.0)
    half = (SIZES[0] - 1) / 2
    checks["directions of equals"] = ((1 + cosine) / 2, stats.beta(half, half).cdf)
    return checks
