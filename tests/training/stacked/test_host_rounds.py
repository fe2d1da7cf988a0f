"""What a round's records say of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedaudit.training.stacked.server import Server
from fedaudit.training.stacked.stack_round import Cohort, RoundResult, Sent
from fedaudit.training.stacked.stack_state import gather_to_host

CLIENTS = 7


def round_of(seed: int) -> tuple[Cohort, RoundResult]:
    """Two hypotheses closer to each other than the noise, and uploads as the server gets them."""
    random = np.random.default_rng(seed)
    theta = torch.from_numpy(random.normal(size=(1, 2, 11))).float()
    chosen = torch.from_numpy(random.integers(0, 2, (1, CLIENTS)))
    noise = torch.from_numpy(10 * random.normal(size=(1, CLIENTS, 11))).float()
    uploads = theta.gather(1, chosen[..., None].expand(-1, -1, 11)) + noise
    present = torch.ones(1, CLIENTS, dtype=torch.bool)
    found = Server(reported=False, relocate=False)(theta, uploads, present, chosen)
    sent = Sent(chosen, uploads, present, None, found.assigned)
    cohort = Cohort(
        rounds=np.array([1]),
        clients=np.arange(CLIENTS)[None],
        allowed=np.ones((1, CLIENTS), dtype=bool),
        noise=None,
    )
    return cohort, RoundResult(theta, found.hypotheses, found.sizes, sent)


@pytest.mark.parametrize("seed", range(5))
def test_separation_says_nothing_of_choices_that_the_uploads_do_not(seed: int) -> None:
    """Whoever knows the uploads, as the server does, finds all 128 possible choices left by it."""
    cohort, played = round_of(seed)
    assert played.sent is not None
    figures = set()
    for choice in range(2**CLIENTS):
        chosen = torch.tensor([[choice >> client & 1 for client in range(CLIENTS)]])
        sent = replace(played.sent, chosen=chosen)
        found = gather_to_host([cohort], [replace(played, sent=sent)], drawn=False)
        figures.add(float(found.separation[0, 0]))
    assert len(figures) == 1
    assert np.isfinite(list(figures)).all()
