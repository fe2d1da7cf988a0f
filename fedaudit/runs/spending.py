"""How often each subject was charged so far against one observer, and the leakage of that."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.ledger.entries import Outcome
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters


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

    def count_round(self, subjects: NDArray[np.int32], outcomes: NDArray[np.uint8]) -> None:
        """Count one round in."""
        self.refusals += int(np.count_nonzero(outcomes == Outcome.REFUSED))
        self.count_refused(subjects, outcomes)
        self.withheld += int(np.count_nonzero(outcomes == Outcome.WITHHELD))
        released = subjects[outcomes == Outcome.RELEASED]
        if not len(released):
            return
        before = self.releases[released]
        self.releases[released] = before + 1
        after = np.bincount(before + 1, minlength=len(self._clients_with))
        after[: len(self._clients_with)] += self._clients_with
        after -= np.bincount(before, minlength=len(after))
        self._clients_with = after

    def count_refused(self, subjects: NDArray[np.int32], outcomes: NDArray[np.integer]) -> None:
        """Count in whom a round refused, one whose totals are counted already."""
        self.refused[subjects[outcomes == Outcome.REFUSED]] += 1

    @property
    def max_releases(self) -> int:
        """Releases of the training client that released most often."""
        return int(np.flatnonzero(self._clients_with)[-1])

    @property
    def median(self) -> float:
        """Median releases over the training clients; halfway where two stand in the middle."""
        ranks = [(self._training_clients - 1) // 2, self._training_clients // 2]
        low, high = np.searchsorted(np.cumsum(self._clients_with), ranks, side="right")
        return float(low + high) / 2

    def max_leakage(self, inputs: MechanismParameters) -> float | None:
        """The largest leakage of a training client; None where the cost is no leakage."""
        return inputs.leakage(self.max_releases) if inputs.cost_kind == "leakage" else None

    def leakage_median(self, inputs: MechanismParameters) -> float | None:
        """The median leakage over the training clients; None where the cost is no leakage."""
        return inputs.leakage(self.median) if inputs.cost_kind == "leakage" else None
