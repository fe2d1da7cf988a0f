"""The Laplace mechanism layer by layer: noise of each layer's own dimension and radius.

Layer l, n_l of the n parameters, has the rate epsilon_l = n_l / (nu * radius_l). The layers' noises
are independent, so that their densities multiply: between uploads that lie d_l apart in layer l,
no output gets likelier by more than exp of the sum of epsilon_l * d_l (Galli et al., Lemma 4.1,
once for each layer). Within every layer's radius that is the sum of n_l / nu, which is n / nu.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedaudit.privacy.noise.laplace import Sanitiser, kept_share, layer_slices, norms
from fedaudit.reproducible import square_root


@dataclass(frozen=True)
class LayerSanitiser:
    """SanitizeUpdate for a stack of cells, layer by layer."""

    sizes: tuple[int, ...]
    """Parameters of each layer; end to end they make up a vector."""
    parts: tuple[Sanitiser, ...]
    """The sanitiser of each layer; none of them clips."""
    clip: Tensor | None
    """Bound on the norm of the whole update, before it is taken apart: float64 [cells, 1], infinite
    in cells that do not clip; None where none does."""

    def __call__(self, start: Tensor, updated: Tensor, unit_noise: Tensor) -> tuple[Tensor, Tensor]:
        """What leaves the clients, and the radius of each layer's release.

        `start`, `updated`, `unit_noise`: [cells, clients, n] as for `Sanitiser`, the noise from
        `unit_layers`. Returns the uploads, float32, and the radii, float64 [cells, clients,
        layers]. An adaptive radius is the norm of the layer's own update, the whole being clipped.
        """
        slices = layer_slices(self.sizes)
        update = updated - start
        lengths = torch.stack([norms(update[..., part]) for part in slices], dim=-1)
        radii, kept = self.radii(lengths), kept_share(whole_norm(lengths), self.clip)
        released = [
            sanitise.release(
                start[..., part],
                update[..., part],
                unit_noise[..., part],
                radius=radii[..., layer],
                kept=kept,
            )
            for layer, (sanitise, part) in enumerate(zip(self.parts, slices, strict=True))
        ]
        return torch.cat(released, dim=-1), radii

    def radii(self, lengths: Tensor) -> Tensor:
        """The radius of each layer's release, from the norms of the layers' updates before the
        clip: both float64 [cells, clients, layers]."""
        if self.clip is not None:
            lengths = lengths * (self.clip / whole_norm(lengths)).clamp(max=1.0)[..., None]
        found = [sanitise.radii(lengths[..., layer]) for layer, sanitise in enumerate(self.parts)]
        return torch.stack(found, dim=-1)


def whole_norm(lengths: Tensor) -> Tensor:
    """The norm of a vector [...] from those of its layers [..., layers]."""
    return square_root((lengths * lengths).sum(-1))
