"""A trusted server, looked at: what it clips, what it adds up, its noise and what it releases."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.attacks.replay.passed_through import PassedThrough, SumPassed
from fedaudit.attacks.replay.watched_uploads import block_passed
from fedaudit.randomness import Source
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.cohort import Block, Draws
from fedaudit.training.mechanisms.base import ServerMechanism, ServerNoise, TrustedServer


@dataclass(frozen=True)
class WatchedServer(ServerMechanism):
    """A mechanism of a trusted server that is looked at."""

    inner: ServerMechanism
    passed: PassedThrough
    follow: PassedThrough | None
    """A run whose hypotheses and clips are released in place of one's own."""
    name = "watched"

    @property
    def initial_clip(self) -> float:
        """See `ServerMechanism`."""
        return self.inner.initial_clip

    def protection(self, cells: Sequence[Cell], device: torch.device) -> TrustedServer:
        """See `ServerMechanism`."""
        return _Server(self.inner.protection(cells, device), self.passed, self.follow)


class _Server(TrustedServer):
    def __init__(
        self, inner: TrustedServer, passed: PassedThrough, follow: PassedThrough | None
    ) -> None:
        self._inner, self._passed, self._follow = inner, passed, follow
        passed.protection = inner

    @property
    def clip_moves(self) -> bool:
        return self._inner.clip_moves

    def draw_noise(self, draws: Draws, block: Block) -> None:
        new = block.noise is None
        self._inner.draw_noise(draws, block)
        if new:
            self._passed.draws = draws
            self._passed.blocks.append(block_passed(block))

    def draw(self, draws: Draws, rounds: NDArray[np.int64]) -> ServerNoise:
        return self._inner.draw(draws, rounds)

    def draw_cell(self, source: Source, rounds: NDArray[np.int64]) -> ServerNoise:
        return self._inner.draw_cell(source, rounds)

    def clip(self, updates: Tensor, clips: Tensor) -> tuple[Tensor, Tensor]:
        clipped, finite = self._inner.clip(updates, clips)
        own, n = self._own, updates.shape[-1]
        own.updates.append(updates.reshape(-1, n).clone())
        own.clips.append(clips.expand(updates.shape[:-1]).reshape(-1).clone())
        own.clipped.append(clipped.reshape(-1, n).clone())
        return clipped, finite

    def within(self, updates: Tensor, clips: Tensor) -> Tensor:
        return self._inner.within(updates, clips)

    def average(
        self, theta: Tensor, sums: Tensor, noise: NDArray[np.float64] | None, *, clips: Tensor
    ) -> Tensor:
        released = self._inner.average(theta, sums, noise, clips=clips)
        own = self._own
        own.theta, own.sums, own.released = theta[0].clone(), sums[0].clone(), released[0].clone()
        own.noise = None if noise is None else noise[0].copy()
        own.clip = float(clips[0, 0])
        other = self._other
        if other is None or other.released is None:
            return released
        return other.released[None].clone()

    def next_clips(
        self,
        clips: NDArray[np.float64],
        *,
        within: Sequence[int],
        taking_part: Sequence[int],
        noise: NDArray[np.float64] | None,
    ) -> NDArray[np.float64]:
        moved = self._inner.next_clips(clips, within=within, taking_part=taking_part, noise=noise)
        own = self._own
        own.within, own.taking_part, own.next_clip = within[0], taking_part[0], float(moved[0])
        own.count_noise = None if noise is None else float(noise[0])
        other = self._other
        return moved if other is None or other.next_clip is None else np.array([other.next_clip])

    @property
    def _own(self) -> SumPassed:
        return self._passed.sums[self._passed.round]

    @property
    def _other(self) -> SumPassed | None:
        return None if self._follow is None else self._follow.sums[self._passed.round]
