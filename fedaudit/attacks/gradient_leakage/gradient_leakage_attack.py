"""Gradient leakage as a spec asks for it: images out of updates, at each noise multiplier."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

import numpy as np
import torch
from torch import Tensor

from fedaudit.attacks.attack import Attack, AttackedRun, AttackOutcome, Progress
from fedaudit.attacks.gradient_leakage.attacked_images import AttackedImages, draw_images
from fedaudit.attacks.gradient_leakage.attacked_uploads import AttackedClients, as_tensor
from fedaudit.attacks.gradient_leakage.layered_view import layered_view
from fedaudit.attacks.gradient_leakage.leakage_files import leakage_files
from fedaudit.attacks.gradient_leakage.leakage_results import Reconstructed, leakage_section
from fedaudit.attacks.gradient_leakage.reconstruction import Reconstruction
from fedaudit.attacks.gradient_leakage.recovered_images import in_order
from fedaudit.randomness import CounterSource, EntropySource, Purpose, Source
from fedaudit.reproducible import one_thread
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.training.base.cell import Cell, draws_in_secret, first_hypotheses

_NUMBERS_AT_ONCE = 1 << 23
"""Of all updates that are attacked side by side: 64 MiB in double precision."""
_NOISE = (1 << 32) - 1
"""The counter of the seed of the attacked clients' noise, which is none of an update's."""


@dataclass(frozen=True)
class GradientLeakageAttack(Attack):
    """Reconstructs images of training clients from updates that are made for the attack.

    The updates are those that the run's local steps and its mechanism would send from the attacked
    hypothesis; they are no uploads of the run, and its figures stay what they are.
    """

    spec: GradientLeakageSpec

    def execute(self, attacked: AttackedRun, *, progress: Progress) -> AttackOutcome:
        """See `Attack`. Raises ValueError for data that the requirements refuse."""
        cell, device = attacked.run.cell, torch.device(attacked.device)
        source: Source = EntropySource() if draws_in_secret(cell) else CounterSource(cell.spec.seed)
        with one_thread():
            images = draw_images(cell, self.spec, source)
            match self.spec.hypothesis:
                case "initial":
                    hypotheses = first_hypotheses(cell)
                case "trained":
                    hypotheses = attacked.result.hypotheses
                case _:
                    assert_never(self.spec.hypothesis)
            campaign = _Campaign(self.spec, cell, images, as_tensor(hypotheses, device), source)
            found = campaign.reconstruct(progress)
        progress(1.0)
        section = leakage_section(self.spec, cell.spec, images, found)
        return AttackOutcome(section, leakage_files(images, found))


class _Campaign:
    """The attack on all updates, some of them at a time."""

    def __init__(
        self,
        spec: GradientLeakageSpec,
        cell: Cell,
        images: AttackedImages,
        theta: Tensor,
        source: Source,
    ) -> None:
        self._spec, self._images, self._theta, self._source = spec, images, theta, source
        own = replace(cell, federation=images.federation)
        self._clients = AttackedClients(own, spec, theta.device)
        self._noise = _noise_source(source)
        self._attacker = Reconstruction(
            layered_view(cell.shape),
            images.size,
            len(cell.federation.classes),
            cell.spec.training.local.step_size,
            spec,
        )
        self._together = max(1, _NUMBERS_AT_ONCE // cell.shape.n)

    def reconstruct(self, progress: Progress) -> list[Reconstructed]:
        """The reconstructions at each noise multiplier."""
        chosen = np.array(self._clients.choose(self._theta))
        parts = [
            own[first : first + self._together]
            for own in (np.flatnonzero(chosen == one) for one in np.unique(chosen))
            for first in range(0, len(own), self._together)
        ]
        found, done = [], 0.0
        for multiplier in self._spec.noise_multipliers:
            one = Reconstructed.nothing(multiplier, self._images)
            for clients in parts:
                share = len(clients) / len(chosen) / len(self._spec.noise_multipliers)
                start = self._theta[int(chosen[clients[0]])]
                self._attack(one, clients.tolist(), start, partial(_after, progress, done, share))
                done += share
            found.append(one)
        return found

    def _attack(
        self, found: Reconstructed, clients: Sequence[int], start: Tensor, progress: Progress
    ) -> None:
        """Writes what some clients' updates of one hypothesis give away into `found`."""
        sent = self._clients.send(
            clients, start, noise_multiplier=found.noise_multiplier, source=self._noise
        )
        left = [
            client for client, finite in zip(clients, sent.finite.tolist(), strict=True) if finite
        ]
        if not left:
            return
        guess = self._attacker(
            start.double(),
            sent.targets[sent.finite],
            known_labels=torch.from_numpy(self._images.labels[left]).to(start.device),
            numbers=left,
            source=self._source,
            progress=progress,
        )
        for place, client in enumerate(left):
            originals = self._images.pixels[client]
            images = guess.images[place].cpu().numpy().reshape(originals.shape)
            order = in_order(images, originals)
            found.images[client] = images[order]
            found.distances[client] = float(guess.distances[place])
            found.finite[client] = True
            if guess.labels is not None:
                found.labels[client] = guess.labels[place].cpu().numpy()[order]


def _after(progress: Progress, done: float, share: float, own: float) -> None:
    """Tells how much of everything is done, from the share `own` of a part of it."""
    progress(done + share * own)


def _noise_source(source: Source) -> Source:
    """A source of a stack of one that shares no number with the run's own noise."""
    if isinstance(source, EntropySource):
        return EntropySource([0])
    words = source.wide_words(purpose=Purpose.ATTACK, round_=0, counters=_NOISE, count=1)
    return CounterSource(words.reshape(1))
