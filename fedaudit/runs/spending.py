"""How often each subject was charged so far against one observer, and the leakage of that."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.rows import Outcome

_RELEASED, _REFUSED, _WITHHELD = (
    int(one) for one in (Outcome.RELEASED, Outcome.REFUSED, Outcome.WITHHELD)
)


@dataclass(frozen=True, eq=False)
class Counted:
    """Where the totals stand after each of some rounds."""

    releases: NDArray[np.int32]
    """[rounds, subjects]: of the rounds' own subjects."""
    most: NDArray[np.int64]
    """[rounds]: releases of the training subject that released most often."""
    median: NDArray[np.float64]
    """[rounds]: median releases over those that train; halfway where two stand in the middle."""


class Spending:
    """The running totals of one experiment against one observer.

    Beside the totals it keeps how many of the subjects that train were charged how often, so that a
    round's median and maximum cost no pass over all of them.
    """

    def __init__(
        self,
        releases: NDArray[np.int32],
        *,
        training: NDArray[np.int32],
        refusals: int = 0,
        withheld: int = 0,
    ) -> None:
        """`releases`: [subjects], those that never train included; `training`: indices of
        those that do."""
        self.releases = np.array(releases, dtype=np.int32)
        self.refusals = refusals
        self.withheld = withheld
        self.refused = np.zeros(len(self.releases), dtype=np.int32)
        """How often each subject was refused: [subjects], as far as rounds were counted in."""
        self._training_clients = len(training)
        self._clients_with = np.bincount(self.releases[training], minlength=1)

    def count_rounds(self, subjects: NDArray[np.int32], outcomes: NDArray[np.uint8]) -> Counted:
        """Count consecutive rounds in: [rounds, subjects], each subject once a round."""
        released = outcomes == _RELEASED
        self.refusals += int(np.count_nonzero(outcomes == _REFUSED))
        self.withheld += int(np.count_nonzero(outcomes == _WITHHELD))
        self.count_refused(subjects, outcomes)
        after = np.empty(subjects.shape, dtype=np.int32)
        for at, who in enumerate(subjects):
            after[at] = self.releases[who] + released[at]
            self.releases[who] = after[at]
        # By round, of how many subjects there are so many releases: [rounds, releases].
        sizes = max(len(self._clients_with), int(after.max(initial=0)) + 1)
        of_round = np.nonzero(released)[0] * sizes
        moved = np.bincount(of_round + after[released], minlength=len(subjects) * sizes)
        moved -= np.bincount(of_round + after[released] - 1, minlength=len(subjects) * sizes)
        history = moved.reshape(len(subjects), sizes)
        history[0, : len(self._clients_with)] += self._clients_with
        history = history.cumsum(axis=0)
        self._clients_with = history[-1]
        most, median = self._of_counts(history)
        return Counted(after, most, median)

    def _of_counts(
        self, counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The most releases, and the median, of numbers of subjects [rounds, releases]."""
        most = counts.shape[1] - 1 - (counts > 0)[:, ::-1].argmax(axis=1)
        totals = counts.cumsum(axis=1)
        low = (totals <= (self._training_clients - 1) // 2).sum(axis=1)
        high = (totals <= self._training_clients // 2).sum(axis=1)
        return most, (low + high) / 2

    def count_refused(self, subjects: NDArray[np.int32], outcomes: NDArray[np.integer]) -> None:
        """Count in whom rounds refused whose totals are counted already."""
        np.add.at(self.refused, subjects[outcomes == _REFUSED], 1)

    @property
    def max_releases(self) -> int:
        """Releases of the training client that released most often."""
        return int(self._of_counts(self._clients_with[np.newaxis])[0][0])

    @property
    def median(self) -> float:
        """Median releases over the training clients; halfway where two stand in the middle."""
        return float(self._of_counts(self._clients_with[np.newaxis])[1][0])
