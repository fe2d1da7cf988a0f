"""Runs to their end, and the figures that the reproductions put into tables."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.split import validation_clients
from fedaudit.privacy.leakage import leakage, leakage_quantiles
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell, stack_key
from fedaudit.training.base.rounds import FinalResult, RoundColumns
from fedaudit.training.stack import Stack

_ROUNDS_A_CALL = 64
_MAX_STACK = 60


@dataclass(frozen=True)
class Run:
    """A finished experiment."""

    cell: Cell
    result: FinalResult
    releases: NDArray[np.int32]
    """[clients] of the federation: how often each took part."""
    last: RoundColumns
    """The newest rounds."""

    @property
    def leakage(self) -> tuple[float, float]:
        """Median and maximum over the training clients; NaN where no mechanism protects them."""
        privacy, federation = self.cell.spec.privacy, self.cell.federation
        if not isinstance(privacy, LaplaceL2):
            return float("nan"), float("nan")
        held_out = validation_clients(
            federation.clients, validation_fraction=self.cell.spec.federation.validation_fraction
        )
        n, nu = self.cell.shape.n, privacy.noise_multiplier
        quantiles = leakage_quantiles(
            self.releases, training_clients=federation.clients - held_out, n=n, noise_multiplier=nu
        )
        return quantiles["p50"], leakage(int(self.releases.max()), n=n, noise_multiplier=nu)

    @property
    def collapsed_share(self) -> float:
        """Share of rounds in which all uploads fell into one of several clusters."""
        return self.result.collapsed_rounds / self.result.rounds


def train(cells: Sequence[Cell]) -> list[Run]:
    """Trains the cells, side by side where their shape allows it; results in the cells' order."""
    shapes: dict[tuple[object, ...], list[int]] = {}
    for position, cell in enumerate(cells):
        shapes.setdefault(stack_key(cell), []).append(position)
    runs: dict[int, Run] = {}
    for alike in shapes.values():
        for start in range(0, len(alike), _MAX_STACK):
            chosen = alike[start : start + _MAX_STACK]
            finished = _train_stack([cells[position] for position in chosen])
            runs.update(zip(chosen, finished, strict=True))
    return [runs[position] for position in range(len(cells))]


def _train_stack(cells: Sequence[Cell]) -> list[Run]:
    stack = Stack(cells)
    last: dict[int, RoundColumns] = {}
    while stack.active:
        for position, played in stack.advance(_ROUNDS_A_CALL).items():
            last[position] = played.spans[-1]
    return [
        Run(cell, stack.result(position), stack.releases(position), last[position])
        for position, cell in enumerate(cells)
    ]


def quartiles(values: Sequence[float], digits: int = 2) -> str:
    """The median, and the quartiles in brackets."""
    low, middle, high = np.percentile(values, (25, 50, 75))
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
