"""What clients compute by themselves: the interface that the engine uses."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.one_by_one.client_scores import ClientScores


class ClientWork(Protocol):
    """Computes clients, each from the hypotheses that it was given last; on one thread."""

    def start_from(self, theta: Tensor) -> None:
        """Takes hypotheses [k, n], which do not change until the next are given."""

    def choose(self, clients: Sequence[int]) -> list[int]:
        """The hypothesis with the smallest loss on each client's rows."""

    def learn(
        self, clients: Sequence[int], chosen: Sequence[int], *, round_: int
    ) -> Iterator[Tensor]:
        """What each client makes of the hypothesis that it chose, in their order.

        [n], or [n + 1] where clients weight what they send; good until the next.
        """

    def score(
        self,
        clients: Sequence[int],
        *,
        largest: int,
        scored: Sequence[NDArray[np.bool_]] | None,
        tuned: bool,
    ) -> list[ClientScores]:
        """Scores on held-out clients, in their order.

        `largest` and `scored` as in `ClientScorer.score`; `tuned` as in `Measure`.
        """
