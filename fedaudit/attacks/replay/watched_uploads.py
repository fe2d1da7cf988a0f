"""Clients' own protections, looked at: what they are given, and what they send of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.attacks.replay.passed_through import BlockPassed, PassedThrough, UploadsPassed
from fedaudit.randomness import Source
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.cohort import Block, Draws
from fedaudit.training.mechanisms.base import ClientMechanism, ClientProtection, ProtectedUploads

_SOMETHING_ELSE = 1000.0


@dataclass(frozen=True)
class WatchedClients(ClientMechanism):
    """A mechanism of clients that is looked at."""

    inner: ClientMechanism
    passed: PassedThrough
    follow: PassedThrough | None
    """A run whose uploads are sent in place of one's own, so that both see the same transcript."""
    name = "watched"

    def protection(self, cells: Sequence[Cell], device: torch.device) -> ClientProtection:
        """See `ClientMechanism`."""
        return _WatchedProtection(self.inner.protection(cells, device), self.passed, self.follow)


class _WatchedProtection(ClientProtection):
    def __init__(
        self, inner: ClientProtection, passed: PassedThrough, follow: PassedThrough | None
    ) -> None:
        self._inner, self._passed, self._follow = inner, passed, follow
        passed.protection = inner

    def draw_noise(self, draws: Draws, block: Block) -> None:
        new = block.noise is None
        self._inner.draw_noise(draws, block)
        if new:
            self._passed.draws = draws
            self._passed.blocks.append(block_passed(block))

    def draw(
        self, draws: Draws, rounds: NDArray[np.int64], clients: NDArray[np.int64]
    ) -> NDArray[np.float64] | None:
        return self._inner.draw(draws, rounds, clients)

    def draw_cell(
        self, source: Source, rounds: NDArray[np.int64], clients: NDArray[np.int64]
    ) -> NDArray[np.float64] | None:
        return self._inner.draw_cell(source, rounds, clients)

    def protect(
        self, start: Tensor, updated: Tensor, noise: NDArray[np.float64] | None
    ) -> ProtectedUploads:
        found = self._inner.protect(start, updated, noise)
        zeros = None if noise is None else np.zeros_like(noise)
        own = UploadsPassed(
            clients=None,
            start=start[0].clone(),
            updated=updated[0].clone(),
            bare=self._inner.protect(start, updated, zeros).uploads[0],
            uploads=found.uploads[0].clone(),
            radii=None if found.radii is None else found.radii[0].clone(),
            finite=found.finite[0].clone(),
            noise=None if noise is None else noise[0].copy(),
        )
        other = self._kept(own)
        if other is None:
            return found
        radii = None if other.radii is None else other.radii[None].clone()
        sent = other.uploads[None].clone()
        silent = self._follow.silent.get(self._passed.round) if self._follow else None
        if silent is not None:
            sent[0, torch.from_numpy(silent)] += _SOMETHING_ELSE
        return ProtectedUploads(sent, radii, other.finite[None].clone())

    def protect_in_place(
        self, upload: Tensor, start: Tensor, *, source: Source, round_: int, client: int
    ) -> Tensor | float:
        updated = upload.clone()
        radius = self._inner.protect_in_place(
            upload, start, source=source, round_=round_, client=client
        )
        radii = torch.as_tensor(radius, dtype=torch.float64)
        own = UploadsPassed(
            clients=np.array([client]),
            start=start[None].clone(),
            updated=updated[None],
            bare=None,
            uploads=upload[None].clone(),
            radii=None if bool(radii.isnan().all()) else radii[None].clone(),
            finite=torch.isfinite(upload[None]).all(-1),
            noise=None,
        )
        other = self._kept(own)
        if other is None:
            return radius
        upload.copy_(other.uploads[0])
        return float("nan") if other.radii is None else other.radii[0]

    def radii_shape(self, clients: int) -> tuple[int, ...]:
        return self._inner.radii_shape(clients)

    def _kept(self, own: UploadsPassed) -> UploadsPassed | None:
        """Keeps what passed; what the other run sent at this place, if one is followed."""
        kept = self._passed.uploads[self._passed.round]
        kept.append(own)
        if self._follow is None:
            return None
        return self._follow.uploads[self._passed.round][len(kept) - 1]


def block_passed(block: Block) -> BlockPassed:
    """What is kept of a block of one cell."""
    return BlockPassed(
        rounds=block.rounds[:, 0].copy(),
        cohort=block.cohort[:, 0].copy(),
        drawn=None if block.drawn is None else block.drawn[:, 0].copy(),
        noise=None if block.noise is None else block.noise[:, 0].copy(),
    )
