"""How near the update that guessed images would give comes to the one that was sent.

An update is taken in the units of a gradient: the sum of the gradients of its local steps.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import torch
from torch import Tensor

from fedaudit.attacks.gradient_leakage.layer_products import layer_products
from fedaudit.attacks.gradient_leakage.traced_network import traced_outputs
from fedaudit.networks.client_network import layered_outputs, parameters_at
from fedaudit.networks.shape import LayeredShape, layer_sizes
from fedaudit.privacy.noise.laplace import layer_slices

_LEAST_SQUARE = 1e-300


@dataclass(frozen=True)
class Products:
    """Of the updates of some guesses with the updates that were sent, layer by layer weighted;
    each [guesses]."""

    inner: Tensor
    squared: Tensor
    """Squared lengths of the guesses' updates."""
    target_squared: Tensor
    """Squared lengths of those that were sent."""


Distance = Callable[[Products], Tensor]


def squared_distance(products: Products) -> Tensor:
    """The squared Euclidean distance over the squared length of what was sent (Zhu et al. 2019)."""
    total = products.squared - 2 * products.inner + products.target_squared
    return total / products.target_squared


def cosine_distance(products: Products) -> Tensor:
    """One minus the cosine (Geiping et al. 2020)."""
    return 1 - products.inner / (products.squared * products.target_squared).sqrt()


@dataclass(frozen=True)
class SentUpdates:
    """Updates that were sent, and how much each of their layers counts."""

    whole: Tensor
    """[updates, n]."""
    layers: tuple[slice, ...]
    """Where the layers lie in an update."""
    weights: Tensor
    """[updates, layers]: factors of the layers' inner products."""

    @cached_property
    def weighted(self) -> Tensor:
        """[updates, n]: each layer times its weight."""
        parts = [self.whole[:, own] * self.weights[:, [at]] for at, own in enumerate(self.layers)]
        return torch.cat(parts, dim=1)

    @cached_property
    def squared(self) -> Tensor:
        """[updates]: their weighted squared lengths."""
        return (self.weights * squared_lengths(self.whole, self.layers)).sum(-1)


def sent_updates(shape: LayeredShape, whole: Tensor, *, by_noise: bool) -> SentUpdates:
    """Updates `whole` [updates, n] of a network.

    Every component counts alike, or, with `by_noise`, as much as its noise is small where each
    layer has noise of its own: by the layer's parameters over its squared length, which is the
    likelihood of normal noise in the proportions of the mechanism's.
    """
    layers = tuple(layer_slices(layer_sizes(shape)))
    weights = whole.new_ones(len(whole), len(layers))
    if by_noise:
        sizes = torch.tensor(layer_sizes(shape)).to(whole)
        weights = sizes / shape.n / squared_lengths(whole, layers).clamp_min(_LEAST_SQUARE)
    return SentUpdates(whole, layers, weights)


def squared_lengths(updates: Tensor, layers: Sequence[slice]) -> Tensor:
    """Of each layer of updates [updates, n]: [updates, layers]."""
    return torch.stack([updates[:, own].square().sum(-1) for own in layers], dim=-1)


class UpdateMatch(ABC):
    """Updates that were sent, to compare guesses with."""

    def __init__(self, shape: LayeredShape, theta: Tensor, sent: SentUpdates) -> None:
        """`theta` [n]: the start that the clients share."""
        self.shape = shape
        self.theta = theta
        self.sent = sent

    @abstractmethod
    def products(self, images: Tensor, labels: Tensor, which: Tensor) -> Products:
        """Of guesses with the updates `which` [guesses], differentiable by both of the others.

        `images` [guesses, images, pixels]; `labels` [guesses, images, classes], a share each.
        """


class OneStepMatch(UpdateMatch):
    """One local step: all guesses at once, and no gradient of a dense layer is ever written out.

    The gradient of a dense layer is the outer product of its inputs and of the slopes at its
    outputs, so that inner products with it are products with these two.
    """

    def __init__(self, shape: LayeredShape, theta: Tensor, sent: SentUpdates) -> None:
        """See `UpdateMatch`."""
        super().__init__(shape, theta, sent)
        # Guesses that rest leave the others the same for many evaluations in a row.
        self._targets_of = lru_cache(maxsize=4)(partial(_targets_of, sent))

    def products(self, images: Tensor, labels: Tensor, which: Tensor) -> Products:
        """See `UpdateMatch`."""
        guesses, together = images.shape[:2]
        parameters = parameters_at(self.shape, self.theta)
        outputs, layers = traced_outputs(self.shape, parameters, images.flatten(0, 1))
        loss = mean_cross_entropy(torch.unflatten(outputs, 0, (guesses, together)), labels)
        slopes = torch.autograd.grad(
            loss.sum(), [layer.outputs for layer in layers], create_graph=True
        )
        targets, weights = self._targets_of(tuple(which.tolist())), self.sent.weights[which]
        inner, squared = torch.zeros_like(loss), torch.zeros_like(loss)
        for layer, slope, weight in zip(layers, slopes, weights.unbind(1), strict=True):
            own = layer_products(layer, slope, targets, together=together)
            inner, squared = inner + own[0], squared + weight * own[1]
        return Products(inner, squared, self.sent.squared[which])


class UnrolledMatch(UpdateMatch):
    """Local steps one after the other, each guess by itself, through the network's own forward."""

    def __init__(
        self,
        shape: LayeredShape,
        theta: Tensor,
        sent: SentUpdates,
        *,
        local_steps: int,
        step_size: float,
    ) -> None:
        """As for `UpdateMatch`; the sizes of the steps are those of the clients."""
        super().__init__(shape, theta, sent)
        self._local_steps = local_steps
        self._step_size = step_size

    def products(self, images: Tensor, labels: Tensor, which: Tensor) -> Products:
        """See `UpdateMatch`."""
        updates = self.updates(images, labels)
        inner = (updates * self.sent.weighted[which]).sum(-1)
        squared = self.sent.weights[which] * squared_lengths(updates, self.sent.layers)
        return Products(inner, squared.sum(-1), self.sent.squared[which])

    def updates(self, images: Tensor, labels: Tensor) -> Tensor:
        """The updates of guesses, in the units of a gradient: [guesses, n]."""
        return torch.stack([self._update(*one) for one in zip(images, labels, strict=True)])

    def _update(self, images: Tensor, labels: Tensor) -> Tensor:
        theta = self.theta.detach().requires_grad_()
        total = torch.zeros_like(theta)
        for _ in range(self._local_steps):
            outputs = layered_outputs(self.shape, parameters_at(self.shape, theta), images)
            loss = mean_cross_entropy(outputs[None], labels[None]).sum()
            (gradient,) = torch.autograd.grad(loss, theta, create_graph=True)
            total = total + gradient
            theta = theta - self._step_size * gradient
        return total


def _targets_of(sent: SentUpdates, which: tuple[int, ...]) -> Tensor:
    """The weighted updates of some guesses, which are ascending: [guesses, n]."""
    whole = len(which) == len(sent.weighted)
    return sent.weighted if whole else sent.weighted[list(which)]


def mean_cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """The loss of each guess, [guesses], against labels that may be shares of several classes.

    `outputs` [guesses, images, outputs], of which two classes share one; `labels` [guesses, images,
    classes].
    """
    if outputs.shape[-1] == 1:
        outputs = torch.cat((torch.zeros_like(outputs), outputs), dim=-1)
    return -(labels * outputs.log_softmax(-1)).sum(-1).mean(-1)
