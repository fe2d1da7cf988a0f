"""What the attacked clients send: the run's own local steps and noise, on the attacked images."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.randomness import Source
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.spec.privacy import LaplaceL2, PrivacySpec
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.base import ClientProtection
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.one_by_one import ClientData, ClientUpdate
from fedaudit.training.stacked.stack_round import build_loss


@dataclass(frozen=True)
class Sent:
    """What a server makes of some uploads that started from one hypothesis."""

    targets: Tensor
    """float64 [uploads, n]: start minus upload over the step size, the sum of the gradients of the
    local steps and their noise."""
    finite: Tensor
    """bool [uploads]: whether the upload left at all."""


class AttackedClients:
    """The clients of a cell that holds the attacked images alone, as the run would train them."""

    def __init__(self, cell: Cell, spec: GradientLeakageSpec, device: torch.device) -> None:
        local = cell.spec.training.local
        own = local.model_copy(
            update={"epochs": None, "steps": spec.local_steps, "batch_size": None}
        )
        self._cell, self._spec, self._device = cell, spec, device
        self._network = ClientNetwork(cell.shape, device)
        self._data = ClientData(cell.federation, device)
        self._loss = build_loss(cell)
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
    ) -> Sent:
        """What these clients send from the hypothesis `start` [n] under a noise multiplier.

        `source` is that of a stack of one; the same one draws the same noise, to be scaled, under
        every multiplier.
        """
        protection = self._protection(noise_multiplier)
        uploads = torch.stack(
            [self._upload(client, start, protection, source) for client in clients]
        )
        targets = (start.double() - uploads.double()) / self._step_size
        return Sent(targets, torch.isfinite(targets).all(-1))

    def _upload(
        self, client: int, start: Tensor, protection: ClientProtection | None, source: Source
    ) -> Tensor:
        self._network.load(start)
        self._update(client, source=source, round_=0)
        upload = self._network.theta.clone()
        if protection is not None:
            protection.protect_in_place(upload, start, source=source, round_=0, client=client)
        return upload

    def _protection(self, noise_multiplier: float) -> ClientProtection | None:
        """The run's own mechanism with another multiplier; None for no noise."""
        if noise_multiplier == 0:
            return None
        privacy = laplace_of(
            self._cell.spec.privacy,
            noise_multiplier=noise_multiplier,
            per_layer=self._spec.per_layer,
        )
        spec = self._cell.spec.model_copy(update={"privacy": privacy})
        protection = build_protection([replace(self._cell, spec=spec)], self._device)
        assert isinstance(protection, ClientProtection)
        return protection


def laplace_of(privacy: PrivacySpec, *, noise_multiplier: float, per_layer: bool) -> LaplaceL2:
    """The Laplace mechanism of a run, with its radius and clip, under another multiplier; that of
    the paper, with an adaptive radius, where the run has none."""
    changes = {"noise_multiplier": noise_multiplier, "per_layer": per_layer, "client_budget": None}
    if isinstance(privacy, LaplaceL2):
        return privacy.model_copy(update=changes)
    return LaplaceL2(mechanism="laplace-l2", noise_multiplier=noise_multiplier, per_layer=per_layer)


def as_tensor(hypotheses: np.ndarray, device: torch.device) -> Tensor:
    """Hypotheses [k, n] on a device, in single precision."""
    return torch.from_numpy(np.asarray(hypotheses, dtype=np.float32)).to(device)
