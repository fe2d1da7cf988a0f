"""Losses of one row and their derivatives with respect to the network's outputs.

A client's loss is the mean of its rows' values, or the root of that mean for `rmse`. Values are
additive over rows, so that a loss without one row is a subtraction.

Outputs lie on axis 0 and rows on the axis before the last two; everything else is elementwise, so
a client's figures do not depend on what it is stacked with. Only operations whose result is the
same in a vectorised body and in its tail are used (`exp`, `log`; not `sigmoid`, `softplus`).
"""

from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

from fedaudit.reproducible import fixed_order_sum, square_root

LossKind = Literal["rmse", "mse", "cross-entropy"]


@dataclass(frozen=True)
class Loss:
    """`classes` is 0 for regression. Raises ValueError for a cross-entropy without classes."""

    kind: LossKind
    classes: int
    cutoff: float = 0.0
    """Of two classes, the logit of the second above which it is predicted."""

    def __post_init__(self) -> None:
        if self.kind == "cross-entropy" and not self.classes:
            raise ValueError("cross-entropy needs classes")

    @property
    def root_mean(self) -> bool:
        """Whether a client's loss is the root of the mean of its rows' values."""
        match self.kind:
            case "rmse":
                return True
            case "mse" | "cross-entropy":
                return False
            case _:
                assert_never(self.kind)

    def values(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Each row's value: outputs [out, ...], target [...] (broadcast); result [...]."""
        if self.classes == 0:
            residual = outputs[0] - target
            return residual * residual
        log_share, share, hot = self._shares(outputs, target)
        match self.kind:
            case "cross-entropy":
                return -fixed_order_sum(log_share * hot, 0)
            case "rmse" | "mse":
                error = share - hot
                return fixed_order_sum(error * error, 0) / self.classes
            case _:
                assert_never(self.kind)

    def values_and_slopes(self, outputs: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Each row's value and its derivative, shaped like the outputs."""
        if self.classes == 0:
            residual = outputs[0] - target
            return residual * residual, (2 * residual).unsqueeze(0)
        log_share, share, hot = self._shares(outputs, target)
        match self.kind:
            case "cross-entropy":
                return -fixed_order_sum(log_share * hot, 0), self._own_outputs(share - hot)
            case "rmse" | "mse":
                error = share - hot
                inner = fixed_order_sum(error * share, 0)
                slope = (error - inner) * share * (2 / self.classes)
                return fixed_order_sum(error * error, 0) / self.classes, self._own_outputs(slope)
            case _:
                assert_never(self.kind)

    def answers(self, outputs: Tensor) -> Tensor:
        """What is predicted follows from it: of outputs [out, ...] the number, the logit of the
        second of two classes, or the most likely of more (int64): [...]."""
        return outputs.argmax(0) if self.classes > 2 else outputs[0]

    def predictions(self, answers: Tensor) -> Tensor:
        """The predicted class, int64, or number, of `answers` [...]: [...]."""
        return (answers > self.cutoff).long() if self.classes == 2 else answers

    def client_loss(self, mean: Tensor) -> Tensor:
        """A client's loss from the mean of its rows' values."""
        return square_root(mean) if self.root_mean else mean

    def client_slope(self, mean: Tensor) -> Tensor:
        """Derivative of a client's loss by that mean; 0 at a loss of 0 (papers leave it open)."""
        if not self.root_mean:
            return torch.ones_like(mean)
        root = square_root(mean)
        return torch.where(root > 0, 0.5 / root, torch.zeros_like(root))

    def _shares(self, outputs: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logarithm of softmax, softmax, and the one-hot target, each [classes, ...]."""
        if self.classes == 2:  # one output: the logit of the second class against 0
            outputs = torch.cat((torch.zeros_like(outputs), outputs))
        shifted = outputs - outputs.amax(0)
        log_share = shifted - fixed_order_sum(shifted.exp(), 0).log()
        labels = torch.arange(self.classes, device=target.device, dtype=target.dtype)
        hot = (labels.view(-1, *[1] * (outputs.dim() - 1)) == target).to(outputs.dtype)
        return log_share, log_share.exp(), hot

    def _own_outputs(self, slope: Tensor) -> Tensor:
        return slope[1:] if self.classes == 2 else slope
