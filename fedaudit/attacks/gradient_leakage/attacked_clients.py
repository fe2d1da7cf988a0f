"""The images that are attacked, and what their clients send: the run's local steps and noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.attacks.feasibility import attackable_clients
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.networks.client_network import ClientNetwork
from fedaudit.randomness import Purpose, Source, wide_uniforms
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.base import ClientProtection
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.one_by_one.client_data import ClientData
from fedaudit.training.one_by_one.client_update import ClientUpdate
from fedaudit.training.stacked.round_method import build_loss


@dataclass(frozen=True)
class AttackedImages:
    """Some images of training clients, a few of one client for each attacked update."""

    federation: Federation
    """A client for each attacked update, with its images alone."""
    rows: NDArray[np.int64]
    """[updates, images]: their places in the run's federation."""
    size: tuple[int, int, int]
    """Height, width, channels."""

    @cached_property
    def pixels(self) -> NDArray[np.float64]:
        """[updates, images, height, width, channels], from 0 to 1."""
        features = self.federation.features
        assert isinstance(features, ClientRows)
        values = features.values.astype(np.float64) / features.divisor
        pixels: NDArray[np.float64] = values.reshape(*self.rows.shape, *self.size)
        return pixels

    @property
    def labels(self) -> NDArray[np.int64]:
        """[updates, images]: their classes."""
        return self.federation.target.astype(np.int64).reshape(self.rows.shape)


def draw_images(cell: Cell, spec: GradientLeakageSpec, source: Source) -> AttackedImages:
    """Images drawn at random, from as many training clients as there are before one has a second
    turn. Raises ValueError if the data lack them (`feasibility.faults` refuses that before)."""
    federation, features = cell.federation, cell.federation.features
    if not isinstance(features, ClientRows) or features.image is None:
        raise ValueError("these rows are no images")
    together, turns = spec.images_per_update, []
    for client in attackable_clients(cell).tolist():
        own = federation.own(client)
        words = source.wide_words(
            purpose=Purpose.ATTACK, round_=0, counters=client, count=own.stop - own.start + 1
        )
        keys = wide_uniforms(words).ravel()
        order = own.start + np.argsort(keys[1:], kind="stable")
        whole = order[: len(order) // together * together].reshape(-1, together)
        turns += [(turn, float(keys[0]), rows) for turn, rows in enumerate(whole)]
    updates = spec.images // together
    if len(turns) < updates:
        raise ValueError("the training clients have too few images")
    turns.sort(key=lambda one: one[:2])
    rows = np.stack([rows for _, _, rows in turns[:updates]])
    place = rows.ravel()
    attacked = replace(
        federation,
        features=replace(features, values=features.values[place]),
        target=federation.target[place],
        raw_target=federation.raw_target[place],
        first=np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1],
        client_names=tuple(f"{update:06d}" for update in range(len(rows))),
        attributes=(),
        record_budgets=None,
        row_numbers=None,
        record_keys=None,
    )
    return AttackedImages(attacked, rows, features.image)


class AttackedClients:
    """The clients of a cell that holds the attacked images alone, as the run would train them."""

    def __init__(self, cell: Cell, spec: GradientLeakageSpec, device: torch.device) -> None:
        local = cell.spec.training.local
        changes = {"epochs": None, "steps": spec.local_steps, "batch_size": None}
        self._cell, self._per_layer, self._device = cell, spec.per_layer, device
        self._network = ClientNetwork(cell.shape, device)
        self._data = ClientData(cell.federation, device)
        self._loss = build_loss(cell)
        own = local.model_copy(update=changes)
        self._update = ClientUpdate(self._network, self._loss, own, self._data)
        self._step_size = local.step_size

    def choose(self, theta: Tensor) -> list[int]:
        """The hypothesis of theta [k, n] with the smallest loss on each client's images."""
        losses = torch.zeros(len(theta), self._cell.federation.clients, dtype=torch.float64)
        for place, hypothesis in enumerate(theta):
            self._network.load(hypothesis)
            for client in range(losses.shape[1]):
                with torch.no_grad():
                    outputs = self._network.outputs(self._data.features(client, slice(None)))
                    target = self._data.target(client, slice(None))
                    losses[place, client] = self._loss.values(outputs, target).double().mean()
        chosen: list[int] = losses.nan_to_num(torch.inf).argmin(0).tolist()
        return chosen

    def send(
        self, clients: Sequence[int], start: Tensor, *, noise_multiplier: float, source: Source
    ) -> Tensor:
        """What these clients send from the hypothesis `start` [n], float64 [clients, n]: start
        minus upload over the step size, the sum of the local steps' gradients and the noise.

        `source` is that of a stack of one; the same one draws the same noise, to be scaled, under
        every multiplier. A client whose update is not finite sends nothing.
        """
        protection, uploads = self._protection(noise_multiplier), []
        for client in clients:
            self._network.load(start)
            self._update(client, source=source, round_=0)
            upload = self._network.theta.clone()
            if protection is not None:
                protection.protect_in_place(upload, start, source=source, round_=0, client=client)
            uploads.append(upload)
        return (start.double() - torch.stack(uploads).double()) / self._step_size

    def _protection(self, noise_multiplier: float) -> ClientProtection | None:
        """The run's Laplace mechanism, with its radius and clip, under another multiplier; if it
        has another mechanism that of the paper, with an adaptive radius. None for no noise."""
        if noise_multiplier == 0:
            return None
        spec, per_layer = self._cell.spec, self._per_layer
        privacy = spec.privacy
        if isinstance(privacy, LaplaceL2):
            changes = {"noise_multiplier": noise_multiplier, "per_layer": per_layer}
            privacy = privacy.model_copy(update={**changes, "client_budget": None})
        else:
            privacy = LaplaceL2(
                mechanism="laplace-l2", noise_multiplier=noise_multiplier, per_layer=per_layer
            )
        cell = replace(self._cell, spec=spec.model_copy(update={"privacy": privacy}))
        protection = build_protection([cell], self._device)
        assert isinstance(protection, ClientProtection)
        return protection
