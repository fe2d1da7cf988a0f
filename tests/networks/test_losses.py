"""Losses against torch's own, and where they are delicate."""

import pytest
import torch
from torch.nn import functional

from fedaudit.networks.losses import Loss, predicted_class


def lanes(values: torch.Tensor) -> torch.Tensor:
    """[rows, out] as [out, rows, 1 cell, 1 client]."""
    return values.t()[:, :, None, None]


def test_cross_entropy_of_two_classes_is_that_of_one_logit() -> None:
    logits = torch.tensor([[-3.0], [0.0], [0.5], [20.0]])
    target = torch.tensor([1.0, 0.0, 1.0, 0.0])
    values = Loss("cross-entropy", 2).values(lanes(logits), target[:, None, None]).flatten()
    expected = functional.binary_cross_entropy_with_logits(logits[:, 0], target, reduction="none")
    torch.testing.assert_close(values, expected)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["cross-entropy", "mse", "rmse"])
def test_large_outputs_stay_finite(kind: str, classes: int) -> None:
    outputs = torch.tensor([[1e30, -1e30, 0.0], [-1e30, 1e30, 0.0]])[
        :, : classes if classes > 2 else 1
    ]
    target = torch.tensor([1.0, 0.0])[:, None, None]
    values, slopes = Loss(kind, classes).values_and_slopes(lanes(outputs), target)
    assert torch.isfinite(values).all()
    assert torch.isfinite(slopes).all()


def test_the_value_of_a_class_error_is_the_mean_over_classes() -> None:
    """RMSE for classes is taken between softmax and one-hot."""
    outputs = torch.tensor([[0.1, 0.7, -0.4]])
    target = torch.tensor([2.0])[:, None, None]
    hot = functional.one_hot(torch.tensor([2]), 3).float()
    expected = functional.mse_loss(outputs.softmax(1), hot)
    torch.testing.assert_close(Loss("mse", 3).values(lanes(outputs), target).squeeze(), expected)


def test_only_an_rmse_takes_the_root() -> None:
    mean = torch.tensor([4.0, 0.0])
    assert Loss("rmse", 0).client_loss(mean).tolist() == [2.0, 0.0]
    assert Loss("rmse", 0).client_slope(mean).tolist() == [0.25, 0.0]
    assert Loss("mse", 0).client_loss(mean).tolist() == [4.0, 0.0]
    assert Loss("mse", 0).client_slope(mean).tolist() == [1.0, 1.0]


def test_the_predicted_class_is_the_most_likely_one() -> None:
    outputs = torch.tensor([[0.0, 3.0, -1.0], [2.0, 1.0, -2.0]])
    assert predicted_class(outputs.t(), 3).tolist() == [1, 0]
    logits = torch.tensor([[-0.1, 0.0, 0.1]])
    assert predicted_class(logits, 2).tolist() == [0, 0, 1]
    two = torch.stack([torch.zeros(3), logits[0]])
    assert torch.equal(predicted_class(logits, 2), two.argmax(0))


def test_cross_entropy_needs_classes() -> None:
    with pytest.raises(ValueError, match="needs classes"):
        Loss("cross-entropy", 0)
