"""What goes wrong beside the noise: who is drawn, what is weighed, remembered and accounted for."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fedaudit.ledger.rows import Outcome
from fedaudit.networks.record_gradients import SmallDenseClippedGradients
from fedaudit.privacy.accounting.privacy_events import RandomAllocated
from fedaudit.privacy.mechanisms import gaussian as gaussian_mechanism
from fedaudit.privacy.noise import laplace
from fedaudit.randomness import Purpose
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training import engine, stack
from fedaudit.training.base import cell as cell_module
from fedaudit.training.base import cohort, record_steps
from fedaudit.training.base.record_steps import Adam
from fedaudit.training.stack import Stack
from fedaudit.training.stacked import stack_round
from tests.attacks.zoo.cells import blocks, central, coins, fixed, of_rows, records
from tests.attacks.zoo.violations import violation


@violation(central, "sampling", "every client as often", at=(cohort, "_sample"))
def draw_one_always(real, source, purpose, rounds, clients, size):
    """One client is in every cohort."""
    found = real(source, purpose, rounds, clients, size)
    if purpose is Purpose.COHORT:
        found[..., 0] = clients[:, 0]  # the smallest number, so no client is drawn twice
    return found


@violation(blocks, "sampling", "rounds of a client in a block", at=(cohort, "_allocated"))
def enter_twice(real, source, rounds, clients, every):
    """A client that entered the first round of a block enters the last one too."""
    entered = real(source, rounds, clients, every)
    last = (rounds - 1) % every == every - 1
    begun = np.roll(entered, every - 1, axis=0)
    return entered | (begun & last[..., None])


@violation(blocks, "sampling", "every round of a block as often", at=(cohort, "_allocated"))
def enter_early(real, source, rounds, clients, every):
    """No client enters the last round of a block."""
    entered = real(source, rounds, clients, every)
    last = ((rounds - 1) % every == every - 1)[..., None]
    moved = np.roll(entered & last, -1, axis=0)
    return (entered & ~last) | moved


@violation(blocks, "sampling", "a client's rounds in turn", at=(cohort, "_allocated"))
def allocate_once(real, source, rounds, clients, every):
    """A client enters the same round of every block."""
    return real(source, (rounds - 1) % every + 1, clients, every)


@violation(blocks, "accounting", "event of the ledger")
def account_for_coins_of_blocks(patch: pytest.MonkeyPatch) -> None:
    """Random allocation is accounted for as a rarer one."""
    patch.setattr(
        gaussian_mechanism,
        "RandomAllocated",
        lambda rounds, event: RandomAllocated(2 * rounds, event),
    )


@violation(coins, "sampling", "sizes of cohorts", at=(cohort, "client_coins"))
def draw_as_many_as_expected(_, source, *, round_, clients, rate):
    """As many are drawn as coins would on average, and coins are accounted for."""
    words = source.words(purpose=Purpose.CLIENT_COINS, round_=round_, counters=clients, count=1)[
        ..., 0
    ]
    return words.argsort(-1).argsort(-1) < round(rate * clients.shape[-1])


@violation(fixed, "clip", "norm of an update")
def clip_a_little_late(patch: pytest.MonkeyPatch) -> None:
    """Updates are clipped to 1.01 times the clip."""
    real = laplace.kept_share
    patch.setattr(
        laplace, "kept_share", lambda norm, clip: real(norm, None if clip is None else 1.01 * clip)
    )


@violation(central, "sum", "distance of neighbouring sums", at=(stack_round, "block_sums"))
def weigh_clients(real, updates, *given, **named):
    """Updates have weights of 1.5 and 0.5 once they are clipped."""
    weights = 1.5 - torch.arange(updates.shape[1]) % 2
    return real(updates * weights[:, None], *given, **named)


@violation(
    lambda: fixed(budget=6.0),
    "release",
    "uploads of clients that are not charged",
    at=(stack_round, "_allowed"),
)
def let_one_refused_send(real, present, room):
    """One client of a cohort sends though it is refused."""
    room = room.copy()
    refused = np.argwhere(~room)
    if len(refused):
        room[tuple(refused[0])] = True
    return real(present, room)


@violation(
    fixed, "release", "uploads of clients that are not charged", at=(stack, "gather_to_host")
)
def call_a_sender_refused(real, *given, **named):
    """The ledger calls a client refused that has sent."""
    found = real(*given, **named)
    outcomes = found.outcomes.copy()
    outcomes[..., 0] = Outcome.REFUSED
    return replace(found, outcomes=outcomes)


@violation(central, "release", "hypotheses of the next round")
def remember_bare_sums(patch: pytest.MonkeyPatch) -> None:
    """The server has a momentum of sums without noise."""
    real, before = stack_round._add_up, {0: torch.zeros(())}

    def add_up(server, theta, drawn, learned, **given):
        [part] = learned
        found = real(server, theta, drawn, [part], **given)
        moved = found.hypotheses + 0.1 * before[0]
        before[0] = (part.updated - part.start).mean(1, keepdim=True)
        return replace(found, hypotheses=moved)

    patch.setattr(stack_round, "_add_up", add_up)


@violation(
    lambda: central(fairness={}, training__stopping={"patience": 1}),
    "release",
    "selection_loss",
    at=(Stack, "_validate"),
)
def end_by_training_loss(real, self, *given):
    """Runs end by the loss of those who train."""
    splits, figures = self._splits, real(self, *given)
    self._splits = replace(splits, validation=splits.training)
    try:
        return replace(figures, selection_loss=real(self, *given).selection_loss)
    finally:
        self._splits = splits


@violation(of_rows(central), "release", "released hypotheses without those held out")
def release_the_best_round(patch: pytest.MonkeyPatch) -> None:
    """Losses of held-out rows of clients that train choose the round that is released."""
    patch.setattr(ExperimentSpec, "chooses_by_losses", property(lambda self: True))


@violation(of_rows(fixed), "release", "training without those held out", at=(engine, "cells_apart"))
def train_on_held_out_rows(_, cells):
    """Clients train on the rows that are held out."""
    return list(cells), cell_module.cells_apart(cells)[1]


@violation(
    lambda: records(rounds=20), "sampling", "batches in turn", at=(record_steps, "tossed_coins")
)
def shuffle_batches(_, source, *, steps, silos, inclusion):
    """Records take turns, as in shuffled batches, at the rate of their coins."""
    first = np.broadcast_to(steps[:1], steps.shape)
    words = source.words(
        purpose=Purpose.RECORDS, round_=first, counters=silos, count=inclusion.shape[-1]
    )
    begun = words / 2.0**32 + (steps - first)[..., None] * inclusion
    return np.floor(begun + inclusion) > np.floor(begun)


@violation(records, "release", "hypotheses of the next round")
def adapt_to_bare_gradients(patch: pytest.MonkeyPatch) -> None:
    """Adam's second moments are of gradients without noise."""
    bare: dict[int, Tensor] = {}
    real_sum, real_step = SmallDenseClippedGradients.__call__, Adam.step

    def call(self, *given, **named):
        bare[0] = real_sum(self, *given, **named)
        return bare[0]

    def step(self, theta, gradient, memory):
        moved, after = real_step(self, theta, gradient, memory)
        square = real_step(self, theta, bare[0].float() / 4, memory)[1][1]
        return moved + 0.01 * square, after

    patch.setattr(SmallDenseClippedGradients, "__call__", call)
    patch.setattr(Adam, "step", step)
