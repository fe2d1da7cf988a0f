"""What goes wrong at a trusted server, and in what is published beside the models."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.randomness import Source
from fedaudit.runs import blocks
from fedaudit.training.base import cohort
from fedaudit.training.mechanisms import gaussian
from fedaudit.training.mechanisms.base import ServerNoise
from fedaudit.training.mechanisms.gaussian import GaussianServer
from fedaudit.training.stack import Stack
from fedaudit.training.stacked import stack_round, stack_state
from tests.attacks.zoo.cells import central, coins, moving
from tests.attacks.zoo.violations import violation


def _without_clip(patch: pytest.MonkeyPatch) -> None:
    def clip(self: Any, updates: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
        finite = torch.isfinite(updates).all(-1)
        return torch.where(finite[..., None], updates, 0.0), finite

    patch.setattr(GaussianServer, "clip", clip)


@violation(coins, stage="clip", check="norm of a clipped update")
def do_not_clip(patch: pytest.MonkeyPatch) -> None:
    """A trusted server does not clip."""
    _without_clip(patch)


@violation(central, stage="clip", check="norm of a clipped update")
def clip_the_sum(patch: pytest.MonkeyPatch) -> None:
    """The clip comes after the sum."""
    _without_clip(patch)
    real = stack_round.block_sums

    def sums(*given: Any, **named: Any) -> Tensor:
        found = real(*given, **named)
        return found * (0.2 / found.norm(dim=-1, keepdim=True)).clamp(max=1.0)

    patch.setattr(stack_round, "block_sums", sums)


@violation(central, stage="clip", check="norm of a clipped update")
def clip_the_largest_component(patch: pytest.MonkeyPatch) -> None:
    """The largest component is clipped, not the Euclidean norm."""

    def clip(self: Any, updates: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
        bound = clips[..., None].float() if clips.ndim else clips.float()
        return updates.clamp(-bound, bound), torch.isfinite(updates).all(-1)

    patch.setattr(GaussianServer, "clip", clip)


@violation(central, stage="clip", check="norm of a clipped update")
def measure_in_single_precision(patch: pytest.MonkeyPatch) -> None:
    """Norms are float32, and some pass the clip by their rounding."""

    def clip(vectors: Tensor, *, clip: Tensor) -> tuple[Tensor, Tensor]:
        lengths = torch.linalg.vector_norm(vectors, dim=-1)
        share = (clip.float() / lengths).clamp(max=1.0)
        return vectors * share[..., None], lengths.isfinite()

    patch.setattr(gaussian, "clip_to_norm", clip)


@violation(central, stage="clip", check="norm of a clipped update")
def move_the_clip_after_looking(patch: pytest.MonkeyPatch) -> None:
    """The clip is set by the updates of the same round."""
    real = GaussianServer.clip

    def clip(self: Any, updates: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = real(
            self, updates, updates.double().norm(dim=-1).mean(-1, keepdim=True)
        )
        return found

    patch.setattr(GaussianServer, "clip", clip)


@violation(central, stage="sum", check="distance of neighbouring sums")
def count_a_client_twice(patch: pytest.MonkeyPatch) -> None:
    """The sum has every update twice."""
    real = stack_round.block_sums
    patch.setattr(stack_round, "block_sums", lambda *given, **named: 2 * real(*given, **named))


@violation(central, stage="noise", check="noise used once")
def share_noise_between_hypotheses(patch: pytest.MonkeyPatch) -> None:
    """Noise is drawn once for all hypotheses."""
    real = GaussianServer.draw

    def draw(self: Any, *given: Any) -> ServerNoise:
        found = real(self, *given)
        return replace(found, sums=np.repeat(found.sums[..., :1, :], self.k, axis=-2))

    patch.setattr(GaussianServer, "draw", draw)


@violation(central, stage="noise", check="noise of runs side by side")
def share_noise_between_cells(patch: pytest.MonkeyPatch) -> None:
    """Experiments that are trained side by side share their noise."""
    real = GaussianServer.draw

    def draw(self: Any, *given: Any) -> ServerNoise:
        found = real(self, *given)
        shared = np.broadcast_to(found.sums[..., :1, :, :], found.sums.shape)
        return replace(found, sums=shared.copy())

    patch.setattr(GaussianServer, "draw", draw)


@violation(coins, stage="noise", check="noise added")
def noise_only_what_was_chosen(patch: pytest.MonkeyPatch) -> None:
    """A hypothesis that nobody chose gets no noise."""
    real = GaussianServer.average

    def average(self: Any, theta: Tensor, sums: Tensor, noise: Any, *, clips: Tensor) -> Tensor:
        chosen = (sums != 0).any(-1, keepdim=True).numpy()
        return real(self, theta, sums, noise * chosen, clips=clips)

    patch.setattr(GaussianServer, "average", average)


@violation(moving, stage="noise", check="noise added")
def leave_no_room_for_the_count(patch: pytest.MonkeyPatch) -> None:
    """Updates have the noise of updates and count together."""
    patch.setattr(
        gaussian, "_noise_multiplier_of_updates", lambda privacy: float(privacy.noise_multiplier)
    )


@violation(moving, stage="noise", check="noise on the count")
def count_without_noise(patch: pytest.MonkeyPatch) -> None:
    """The clip follows a count without noise."""
    real = GaussianServer.next_clips

    def following(self: Any, clips: Any, *, noise: Any, **given: Any) -> Any:
        return real(self, clips, noise=np.zeros_like(noise), **given)

    patch.setattr(GaussianServer, "next_clips", following)


@violation(coins, stage="release", check="hypotheses of the next round")
def divide_by_who_came(patch: pytest.MonkeyPatch) -> None:
    """The mean is over those who came."""
    real = stack_round._add_up

    def add_up(server: Any, theta: Tensor, drawn: Any, **given: Any) -> Any:
        found = real(server, theta, drawn, **given)
        came, expected = max(1, int(drawn.allowed.sum())), 0.4 * 18
        moved = (found.hypotheses - theta) * expected / came
        return replace(found, hypotheses=theta + moved)

    patch.setattr(stack_round, "_add_up", add_up)


@violation(coins, stage="release", check="divisor of sums")
def divide_by_the_size_of_the_sum(patch: pytest.MonkeyPatch) -> None:
    """The mechanism divides by what the updates themselves add up to."""
    real = GaussianServer.average

    def average(self: Any, theta: Tensor, sums: Tensor, noise: Any, *, clips: Tensor) -> Tensor:
        secret = replace(self, denominators=self.denominators * (1 + sums.norm()))
        return real(secret, theta, sums, noise, clips=clips)

    patch.setattr(GaussianServer, "average", average)


@violation(coins, stage="release", check="cluster_sizes")
def publish_who_chose_what(patch: pytest.MonkeyPatch) -> None:
    """Reports say without noise how many chose each hypothesis."""
    kept: dict[int, Tensor] = {}
    real_sums, real_gather = stack_round.block_sums, stack_state._gather_population

    def sums(updates: Tensor, present: Tensor, chosen: Tensor, *, hypotheses: int) -> Tensor:
        member = chosen[..., None] == torch.arange(hypotheses)
        kept[0] = (member & present[..., None]).sum(1)
        return real_sums(updates, present, chosen, hypotheses=hypotheses)

    def gather(drawn: Any) -> Any:
        # The replay plays one round at a time.
        return replace(real_gather(drawn), cluster_sizes=kept[0].numpy()[np.newaxis])

    patch.setattr(stack_round, "block_sums", sums)
    patch.setattr(stack_state, "_gather_population", gather)


@violation(lambda: central(fairness={}), stage="release", check="validation_loss")
def validate_on_those_who_train(patch: pytest.MonkeyPatch) -> None:
    """Losses that are published are those of clients that train."""
    real = Stack._validate

    def validate(self: Any, *given: Any) -> Any:
        splits = self._splits
        self._splits = replace(splits, validation=splits.training)
        try:
            return real(self, *given)
        finally:
            self._splits = splits

    patch.setattr(Stack, "_validate", validate)


@violation(
    lambda: central(
        fairness={
            "sensitive": ["group"],
            "favourable": {"op": "ge", "value": 5},
            "noise": {
                "mechanism": "discrete-laplace",
                "epsilon": 1.0,
                "unit": "client",
                "max_rows_per_client": 6,
            },
        },
        training__stopping={"patience": None},
    ),
    stage="release",
    check="validation_loss",
)
def publish_a_protected_loss(patch: pytest.MonkeyPatch) -> None:
    """A validation loss is released though those held out are promised noise."""
    patch.setattr(blocks, "_OF_HELD_OUT", ())


@violation(central, stage="sampling", check="a client once in a cohort")
def draw_a_client_twice(patch: pytest.MonkeyPatch) -> None:
    """A client is twice in a cohort."""
    real = cohort._sample

    def sample(*given: Any) -> NDArray[np.int64]:
        found = real(*given)
        found[..., -1] = found[..., -2]
        return found

    patch.setattr(cohort, "_sample", sample)


@violation(coins, stage="sampling", check="rate of the clients' coins")
def toss_other_coins(patch: pytest.MonkeyPatch) -> None:
    """Clients take part at a rate other than the charged one."""
    real = cohort.client_coins

    def tossed(source: Source, *, rate: float, **given: Any) -> Any:
        return real(source, rate=1.15 * rate, **given)

    patch.setattr(cohort, "client_coins", tossed)


@violation(coins, stage="sampling", check="cohorts in turn")
def toss_coins_once(patch: pytest.MonkeyPatch) -> None:
    """The coins of the first round count for all rounds."""
    real = cohort.client_coins

    def tossed(source: Source, *, round_: Any, **given: Any) -> Any:
        found = real(source, round_=round_, **given)
        return np.broadcast_to(found[:1], found.shape).copy()

    patch.setattr(cohort, "client_coins", tossed)
