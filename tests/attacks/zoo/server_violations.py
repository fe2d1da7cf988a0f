"""What goes wrong at a trusted server, and in what is published beside the models."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fedaudit.runs import blocks
from fedaudit.training.base import cohort
from fedaudit.training.mechanisms import gaussian
from fedaudit.training.mechanisms.gaussian import LargestDistance, TrustedServer
from fedaudit.training.stack import Stack
from fedaudit.training.stacked import stack_round, stack_state
from tests.attacks.zoo.cells import NOISED_COUNTS, central, coins, distance, moving
from tests.attacks.zoo.violations import violation


def _without_clip(patch: pytest.MonkeyPatch) -> None:
    def clip(self, updates, clips):
        finite = torch.isfinite(updates).all(-1)
        return torch.where(finite[..., None], updates, 0.0), finite

    patch.setattr(TrustedServer, "clip", clip)


@violation(coins, "clip", "norm of a clipped update")
def do_not_clip(patch: pytest.MonkeyPatch) -> None:
    """A trusted server does not clip."""
    _without_clip(patch)


@violation(central, "clip", "norm of a clipped update", at=(gaussian, "clip_to_norm"))
def measure_in_single_precision(_, vectors, *, clip):
    """Norms are float32, and some pass the clip by their rounding."""
    lengths = torch.linalg.vector_norm(vectors, dim=-1)
    return vectors * (clip.float() / lengths).clamp(max=1.0)[..., None], lengths.isfinite()


@violation(central, "noise", "noise of runs side by side", at=(TrustedServer, "draw"))
def share_noise_between_cells(real, self, *given):
    """Experiments that are trained side by side share their noise."""
    found = real(self, *given)
    shared = np.broadcast_to(found.vectors[..., :1, :, :], found.vectors.shape)
    return replace(found, vectors=shared.copy())


@violation(coins, "noise", "noise added", at=(TrustedServer, "average"))
def noise_only_what_was_chosen(real, self, theta, sums, noise, **named):
    """A hypothesis that nobody chose gets no noise."""
    chosen = (sums != 0).any(-1, keepdim=True).numpy()
    return real(self, theta, sums, noise * chosen, **named)


@violation(distance, "noise", "noise added", at=(LargestDistance, "__call__"))
def divide_by_the_distance_over_all_layers(real, self, updates, present):
    """The largest distance is that of whole models, and no mean over their layers."""
    return real(replace(self, layers=(sum(self.layers),)), updates, present)


@violation(moving, "noise", "noise added")
def leave_no_room_for_the_count(patch: pytest.MonkeyPatch) -> None:
    """Updates have the noise of updates and count together."""
    patch.setattr(
        gaussian, "update_noise_multiplier", lambda *, noise_multiplier, **_: noise_multiplier
    )


@violation(moving, "noise", "noise on the count", at=(TrustedServer, "next_clips"))
def count_without_noise(real, self, clips, *, noise, **given):
    """The clip follows a count without noise."""
    return real(self, clips, noise=np.zeros_like(noise), **given)


@violation(coins, "release", "hypotheses of the next round", at=(stack_round, "_add_up"))
def divide_by_who_came(real, server, theta, drawn, learned, **given):
    """The mean is over those who came."""
    found = real(server, theta, drawn, learned, **given)
    came, expected = max(1, int(drawn.allowed.sum())), 0.4 * 18
    moved = (found.hypotheses - theta) * expected / came
    return replace(found, hypotheses=theta + moved)


@violation(coins, "release", "divisor of sums", at=(TrustedServer, "average"))
def divide_by_the_size_of_the_sum(real, self, theta, sums, noise, **named):
    """The mechanism divides by what the updates themselves add up to."""
    secret = replace(self, denominators=self.denominators * (1 + sums.norm()))
    return real(secret, theta, sums, noise, **named)


@violation(coins, "release", "cluster_sizes")
def publish_who_chose_what(patch: pytest.MonkeyPatch) -> None:
    """Reports say without noise how many chose each hypothesis."""
    kept: dict[int, Tensor] = {}
    real_sums, real_gather = stack_round.block_sums, stack_state._gather_secret

    def sums(updates, present, chosen, *, hypotheses):
        member = chosen[..., None] == torch.arange(hypotheses)
        kept[0] = (member & present[..., None]).sum(1)
        return real_sums(updates, present, chosen, hypotheses=hypotheses)

    def gather(*given):
        return replace(real_gather(*given), cluster_sizes=kept[0].numpy()[np.newaxis])

    patch.setattr(stack_round, "block_sums", sums)
    patch.setattr(stack_state, "_gather_secret", gather)


@violation(lambda: central(fairness={}), "release", "validation_loss", at=(Stack, "_validate"))
def validate_on_those_who_train(real, self, *given):
    """Losses that are published are those of clients that train."""
    splits = self._splits
    self._splits = replace(splits, validation=splits.training)
    try:
        return real(self, *given)
    finally:
        self._splits = splits


@violation(
    lambda: central(fairness=NOISED_COUNTS, training__stopping={"patience": None}),
    "release",
    "validation_loss",
)
def publish_a_protected_loss(patch: pytest.MonkeyPatch) -> None:
    """A validation loss is released though those held out are promised noise."""
    patch.setattr(blocks, "_OF_HELD_OUT", ())


@violation(central, "sampling", "a client once in a cohort", at=(cohort, "_sample"))
def draw_a_client_twice(real, *given):
    """A client is twice in a cohort."""
    found = real(*given)
    found[..., -1] = found[..., -2]
    return found


@violation(coins, "sampling", "rate of the clients' coins", at=(cohort, "client_coins"))
def toss_other_coins(real, source, *, rate, **given):
    """Clients take part at a rate other than the charged one."""
    return real(source, rate=1.15 * rate, **given)


@violation(coins, "sampling", "cohorts in turn", at=(cohort, "client_coins"))
def toss_coins_once(real, source, *, round_, **given):
    """The coins of the first round count for all rounds."""
    found = real(source, round_=round_, **given)
    return np.broadcast_to(found[:1], found.shape).copy()
