"""Which uploads count: those that are finite, and for a clip that moves, those within it."""

import math

import pytest
import torch

from fedaudit.training.mechanisms.base import finite_uploads
from fedaudit.training.mechanisms.gaussian import GaussianServer
from fedaudit.training.mechanisms.registry import training_mechanism
from tests.training.gaussian import CENTRAL, cell_with

LARGEST = torch.finfo(torch.float32).max


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_upload_with_one_number_that_is_not_finite_does_not_count(bad: float) -> None:
    uploads = torch.ones(2, 3, 4)
    uploads[0, 2, 3] = bad
    assert finite_uploads(uploads).tolist() == [[True, True, False], [True, True, True]]


def test_infinities_that_cancel_and_sums_past_every_number() -> None:
    cancelling = torch.tensor([[[math.inf, -math.inf]], [[1.0, 2.0]]])
    assert finite_uploads(cancelling).tolist() == [[False], [True]]
    assert finite_uploads(torch.full((1, 2, 3), LARGEST)).tolist() == [[True, True]]


def test_an_update_on_the_clip_is_within_it() -> None:
    """Norms of 3, 4 and 5: the noised count of a clip that moves is of those at most the clip."""
    one = cell_with(
        0.0, privacy={**CENTRAL, "clip": {"adaptive": {"initial": 4.0, "count_noise": 1.0}}}
    )
    server = training_mechanism(one.spec.privacy).protection([one], torch.device("cpu"))
    assert isinstance(server, GaussianServer)
    updates = torch.tensor([[[3.0, 0.0], [0.0, 4.0], [3.0, 4.0]]])
    clips = torch.tensor([[4.0]], dtype=torch.float64)
    assert server.within(updates, clips).tolist() == [[True, True, False]]
    beyond = torch.nextafter(torch.tensor(4.0), torch.tensor(5.0))
    assert server.within(torch.stack([beyond, -beyond])[None, :, None], clips).tolist() == [
        [False, False]
    ]
