"""What noise layer by layer guarantees, said so that it never claims more than is proven.

Lemma 4.1 of Galli et al. holds for each layer by itself, and the layers' noises are independent:
between two datasets whose uploads lie d_l apart in layer l, the densities of what the server
receives differ by a factor of at most exp(sum of epsilon_l * d_l). With a fixed radius r the rates
epsilon_l = n_l / (nu * r) are public: formal. Within r in every layer the sum is n / nu at most.

A clip bounds whole updates, so that two of them lie within 2c of each other as a whole. By Cauchy
and Schwarz the sum is then at most 2c times the norm of the rates, 2c / (nu * r) * sqrt(sum n_l^2).
"""

from collections.abc import Sequence

from fedaudit.privacy.guarantees.guarantee import at_most, number
from fedaudit.privacy.metric.leakage import covers_every_pair, leakage, leakage_norm
from fedaudit.spec.privacy import LaplaceL2

LAYER_ADJACENCY = (
    "two datasets that one client may hold; their distances in a round are the Euclidean "
    "distances, one for each layer of the network, between the uploads, before noise, that they "
    "give after the same transcript and with the same draws of batches"
)


def adaptive_layers(privacy: LaplaceL2, sizes: Sequence[int]) -> list[str]:
    """The guarantee for radii that are the norms of the layers' updates; `sizes`: parameters per
    layer."""
    nu, bounds = privacy.noise_multiplier, f"at least {number(privacy.radius_floor)}"
    if privacy.clip is not None:
        bounds += f", and at most {number(privacy.clip)}, to which the whole update is clipped"
    return [
        f"Heuristic. Each of the {len(sizes)} layers has noise of its own. By the paper's "
        f"convention a release costs n_l/nu in layer l ({_each(sizes, nu)}) within a radius that "
        f"is the norm of the layer's own update ({bounds}); over layers that is n/nu = "
        f"{at_most(leakage(1, n=sum(sizes), noise_multiplier=nu))}, and releases add up.",
        "This is no theorem: the radii depend on the data, the scales of the noise reveal them, "
        "and the proof for public rates does not cover it.",
    ]


def fixed_layers(privacy: LaplaceL2, sizes: Sequence[int], *, label: str) -> list[str]:
    """The guarantee for one public radius for every layer; `label` states how far it is proven."""
    radius, nu = float(privacy.radius), privacy.noise_multiplier
    cost = leakage(1, n=sum(sizes), noise_multiplier=nu)
    return [
        f"{label}. Each of the {len(sizes)} layers has independent noise of its own public rate "
        f"epsilon_l = n_l/(nu*r) per unit of distance (r = {number(radius)} for every layer; "
        f"n_l/nu is {_each(sizes, nu)}): between two datasets whose uploads lie d_l apart in layer "
        "l, what the server receives differs in likelihood by a factor of at most exp(sum of "
        "epsilon_l*d_l). Over rounds these exponents add up.",
        f"The figure n/nu = {at_most(cost)} for each release, the sum of n_l/nu over the layers, "
        "bounds that exponent only between datasets whose uploads lie within r of each other in "
        "every layer.",
        _reach(privacy.clip, radius, sizes, nu=nu),
    ]


def layer_choice(privacy: LaplaceL2) -> str:
    """The sentences about several hypotheses, where the upload reveals the choice."""
    if privacy.radius == "adaptive":
        return (
            "The hypothesis that a client chose is not hidden by noise of its own: the further "
            "apart the hypotheses in any layer, the more surely an upload reveals which one it was."
        )
    return (
        "Between datasets that choose different hypotheses i and j, each d_l is about the distance "
        "||theta_i - theta_j|| within layer l, which can be many radii: the choice is protected "
        "only so far."
    )


def _each(sizes: Sequence[int], nu: float) -> str:
    return ", ".join(at_most(leakage(1, n=size, noise_multiplier=nu)) for size in sizes)


def _reach(clip: float | None, radius: float, sizes: Sequence[int], *, nu: float) -> str:
    """The extent of n / nu over the datasets that a client may hold."""
    if clip is None:
        return (
            "Updates are not clipped, so nothing keeps uploads within r: no single number holds "
            "for all datasets, and none of this is an (epsilon, delta) guarantee."
        )
    bound = 2 * clip / radius * leakage_norm(sizes, noise_multiplier=nu)
    reach = (
        f"Updates are clipped to {number(clip)} as a whole, before the layers are taken apart, so "
        f"two uploads from one hypothesis lie within {at_most(2 * clip)} over all layers together"
    )
    if covers_every_pair(clip=clip, radius=radius, sizes=sizes):
        return (
            f"{reach}: whatever their distances within the layers, n/nu covers every two datasets "
            "that choose the same hypothesis."
        )
    return (
        f"{reach}: over all datasets that choose the same hypothesis a release is bounded by "
        f"2c/r * sqrt(sum of n_l^2)/nu = {at_most(bound)}, not by n/nu."
    )
