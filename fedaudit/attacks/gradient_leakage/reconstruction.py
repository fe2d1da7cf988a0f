"""Images from updates, by the method of a spec."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.attacks.gradient_leakage.batched_lbfgs import minimise
from fedaudit.attacks.gradient_leakage.feature_search import (
    FeatureSearch,
    first_dense,
    smoothness_under,
)
from fedaudit.attacks.gradient_leakage.first_layer import (
    infer_labels,
    invert_first_layer,
    invert_layer,
)
from fedaudit.attacks.gradient_leakage.signed_adam import minimise_signed
from fedaudit.attacks.gradient_leakage.update_match import (
    Distance,
    OneStepMatch,
    UnrolledMatch,
    UpdateMatch,
    cosine_distance,
    sent_updates,
    squared_distance,
)
from fedaudit.networks.shape import LayeredShape
from fedaudit.randomness import Purpose, Source, normals
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec

SMOOTHNESS = 1e-2
"""Weight of the mean total variation beside the cosine, whose distance is at most 2."""

_SPREAD = 0.3
"""Of the starting points of a search by features, around grey."""

Share = Callable[[float], None]


@dataclass(frozen=True)
class Guess:
    """What an attacker makes of some updates."""

    images: Tensor
    """float64 [updates, images, pixels], between 0 and 1."""
    labels: Tensor | None
    """int64 [updates, images]; None where it needs none."""
    distances: Tensor
    """[updates]: how far from the update that was sent the guess's own one lies, in the measure of
    the method; 0 where nothing is searched for."""


@dataclass(frozen=True)
class Reconstruction:
    """An attacker with a network and what it knows of the clients."""

    shape: LayeredShape
    size: tuple[int, int, int]
    """Height, width, channels of an image."""
    classes: int
    step_size: float
    spec: GradientLeakageSpec

    def __call__(
        self,
        theta: Tensor,
        targets: Tensor,
        *,
        known_labels: Tensor,
        numbers: list[int],
        source: Source,
        progress: Share,
    ) -> Guess:
        """The images behind updates `targets` [updates, n] of the hypothesis `theta` [n].

        `known_labels` [updates, images] are used where the spec says that they are known; `numbers`
        [updates] keep the starting points of updates apart. Everything is float64.
        """
        if self.spec.method == "first-layer":
            images = invert_first_layer(self.shape, targets)[:, None]
            return Guess(images.clamp(0, 1), None, torch.zeros(len(targets)))
        if self.spec.method == "features":
            start = self._start(numbers, 0, source).to(targets)
            return self._search_features(theta, targets, start, progress=progress)
        best: Guess | None = None
        for restart in range(self.spec.restarts):
            start = self._start(numbers, restart, source).to(targets)
            found = self._search(
                theta,
                targets,
                start,
                known_labels=known_labels,
                progress=partial(_within, progress, restart, self.spec.restarts),
            )
            best = found if best is None else _better(best, found)
        assert best is not None
        return best

    def _search(
        self,
        theta: Tensor,
        targets: Tensor,
        start: Tensor,
        *,
        known_labels: Tensor,
        progress: Share,
    ) -> Guess:
        """The search from one starting point for each update: `start` [updates, numbers]."""
        given = self._given_labels(targets, known_labels)
        if given is not None:
            start = start[:, : self._pixels]
        search = _Search(self._match(theta, targets), self._measure, given, self)
        match self.spec.method:
            case "lbfgs":
                points, values = minimise(
                    search.values_and_slopes,
                    start,
                    iterations=self.spec.searched_for,
                    progress=progress,
                )
            case "adam-cosine":
                points = minimise_signed(
                    search.slopes,
                    start,
                    boxed=self._pixels,
                    iterations=self.spec.searched_for,
                    progress=progress,
                )
                values, _ = search.values_and_slopes(points, search.all)
            case "first-layer" | "features":
                raise ValueError("no update is compared")
            case _:
                assert_never(self.spec.method)
        images, labels = search.taken_apart(points, search.all)
        return Guess(images.clamp(0, 1), labels.argmax(-1), values)

    def _search_features(
        self, theta: Tensor, targets: Tensor, start: Tensor, *, progress: Share
    ) -> Guess:
        """The search for images with the inputs of the first dense layer: `start` as above."""
        features = invert_layer(first_dense(self.shape), targets)
        search = FeatureSearch(
            self.shape, theta, features.values, self.size, smoothness_under(features.noise)
        )
        points, values = minimise(
            search.values_and_slopes,
            0.5 + _SPREAD * start[:, : self._pixels],
            iterations=self.spec.searched_for,
            progress=progress,
        )
        return Guess(points[:, None].clamp(0, 1), None, values)

    @property
    def _measure(self) -> Distance:
        return squared_distance if self.spec.method == "lbfgs" else cosine_distance

    @property
    def _pixels(self) -> int:
        """Of all images of an update."""
        return self.spec.images_per_update * int(np.prod(self.size))

    def _match(self, theta: Tensor, targets: Tensor) -> UpdateMatch:
        sent = sent_updates(self.shape, targets, by_noise=self.spec.layer_weights == "by-noise")
        if self.spec.local_steps == 1:
            return OneStepMatch(self.shape, theta, sent)
        return UnrolledMatch(
            self.shape, theta, sent, local_steps=self.spec.local_steps, step_size=self.step_size
        )

    def _given_labels(self, targets: Tensor, known: Tensor) -> Tensor | None:
        """One-hot labels [updates, images, classes]; None where they are searched for."""
        match self.spec.label:
            case "optimised":
                return None
            case "inferred":
                labels = infer_labels(self.shape, targets)[:, None]
            case "known":
                labels = known
            case _:
                assert_never(self.spec.label)
        return functional.one_hot(labels, self.classes).to(targets)

    def _start(self, numbers: list[int], restart: int, source: Source) -> Tensor:
        """Standard normal numbers, for images and the logits of their labels."""
        count = self._pixels + self.spec.images_per_update * self.classes
        words = source.words(
            purpose=Purpose.ATTACK,
            round_=1 + restart,
            counters=np.array(numbers),
            count=count + count % 2,
        )
        drawn = normals(words, np.float64).reshape(len(numbers), -1)
        return torch.from_numpy(drawn[:, :count].astype(np.float64))


@dataclass(frozen=True)
class _Search:
    """What is made as small as possible: a distance between updates, and roughness for Adam."""

    match: UpdateMatch
    measure: Distance
    given_labels: Tensor | None
    attacker: Reconstruction

    @property
    def all(self) -> Tensor:
        """Every update."""
        whole = self.match.sent.whole
        return torch.arange(len(whole), device=whole.device)

    def slopes(self, points: Tensor) -> Tensor:
        """Slopes [updates, d] at a point of every update."""
        return self.values_and_slopes(points, self.all)[1]

    def values_and_slopes(self, points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """Values [some] and slopes [some, d] at points of the updates `which`."""
        points = points.detach().requires_grad_()
        with torch.enable_grad():
            images, labels = self.taken_apart(points, which)
            values = self.measure(self.match.products(images, labels, which))
            if self.measure is cosine_distance:
                values = values + SMOOTHNESS * self._variation(images)
            (slopes,) = torch.autograd.grad(values.sum(), points)
        return values.detach(), slopes

    def taken_apart(self, points: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        """Images [some, images, pixels] and their labels, as shares of the classes."""
        together = self.attacker.spec.images_per_update
        pixels = together * int(np.prod(self.attacker.size))
        images = torch.unflatten(points[:, :pixels], 1, (together, -1))
        if self.given_labels is not None:
            return images, self.given_labels[which]
        return images, torch.unflatten(points[:, pixels:], 1, (together, -1)).softmax(-1)

    def _variation(self, images: Tensor) -> Tensor:
        """The mean difference between neighbouring pixels: [some]."""
        maps = torch.unflatten(images, 2, self.attacker.size)
        down, across = maps.diff(dim=2).abs(), maps.diff(dim=3).abs()
        return down.mean((1, 2, 3, 4)) + across.mean((1, 2, 3, 4))


def _within(progress: Share, part: int, parts: int, share: float) -> None:
    """Tells how much of everything is done, from the share of one of its parts."""
    progress((part + share) / parts)


def _better(first: Guess, second: Guess) -> Guess:
    """For each update the guess whose own update is nearer."""
    better = second.distances < first.distances
    assert first.labels is not None
    assert second.labels is not None
    return Guess(
        torch.where(better[:, None, None], second.images, first.images),
        torch.where(better[:, None], second.labels, first.labels),
        torch.where(better, second.distances, first.distances),
    )
