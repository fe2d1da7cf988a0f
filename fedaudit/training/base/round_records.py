"""The results of a round and of a run. No torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.predicted_rows import PredictedRows
from fedaudit.fairness.scores import GroupScores
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.training.base.record_table import RecordTable
from fedaudit.training.base.stopping import RunEnd
from fedaudit.utility.constant_comparison import ConstantComparison


@dataclass(frozen=True)
class RoundPlot:
    """A round of a model of two parameters, as the server saw it. For synthetic data only."""

    hypotheses: NDArray[np.float32]
    """[k, 2], the hypotheses after the round."""
    uploads: NDArray[np.float32]
    """[uploads, 2]."""
    clusters: NDArray[np.int16]
    """[uploads]: the cluster that the server put each into."""

    def as_dict(self) -> dict[str, list[Any]]:
        """The same as lists, for JSON."""
        return {name: values.tolist() for name, values in vars(self).items()}


@dataclass(frozen=True)
class RoundRecord:
    """One round of one experiment; arrays are aligned with `subjects`."""

    round: int
    """From 1 to T."""
    release: int
    """0, unless a run with `release` noise repeated the round after an interruption."""
    subjects: NDArray[np.int32]
    """Indices of the ledger's subjects that were charged or refused, ascending: the clients of the
    cohort; the population as one; groups of records."""
    outcomes: NDArray[np.uint8]
    radii: NDArray[np.float64]
    """Radius of each release; NaN where nothing was released or no mechanism protects it. With
    noise for each layer, [subjects, layers]."""
    releases: NDArray[np.int32]
    """What each subject has released, up to and including this round."""
    chosen: NDArray[np.int16]
    """Hypothesis that the client chose, -1 where it took no part, or subjects are not clients.
    Confidential."""
    clusters: NDArray[np.int16]
    """Cluster of the upload, as the server assigned it; -1 for none, or where subjects are not
    clients."""
    selection_loss: float | None
    """Mean over validation clients of their smallest loss; None in rounds without validation."""
    validation_loss: float | None
    """Mean over validation clients, each row scored by a hypothesis chosen without it."""
    accuracy: float | None
    """Share of validation rows classified correctly, chosen likewise; None for regression."""
    cluster_sizes: tuple[int, ...]
    """Uploads in each cluster; empty where it is secret who was drawn."""
    separation: float | None
    """Median over uploads of the distance to the hypothesis of the cluster that the server put them
    into, divided by that hypothesis's distance to the nearest other (after equation 9); None for
    one hypothesis, without uploads, or where the distance to the other is 0."""
    collapsed: bool
    """Whether all uploads fell into one of several clusters."""
    fairness: dict[str, NDArray[np.int64]]
    """Attribute -> [groups, 4]: true and false positives, then true and false negatives."""
    compositions: Mapping[Observer, NDArray[np.int32]] = field(default_factory=dict)
    """What each subject has been charged against each observer, up to and including this round.
    Empty where there is only one observer, against whom it is `releases`."""
    by_client: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """Attribute -> [validation clients, groups, 4]: the counts of `fairness` client by client,
    where noise bounds what each of them adds (`counts_clients`). Confidential."""
    plane: RoundPlot | None = None
    """Of validated rounds, where the run can be drawn (`fedaudit.training.base.parameter_plot`)."""


@dataclass(frozen=True)
class PlannedRound:
    """A round whose noise is about to be drawn; `subjects` will be charged for it."""

    round: int
    release: int
    subjects: NDArray[np.int32]


@dataclass(frozen=True)
class FinalResult:
    """The results of a finished run, at its best hypotheses and on all validation clients."""

    stopped_by: RunEnd
    rounds: int
    best_round: int
    hypotheses: NDArray[np.float32]
    """[k, n], those with the smallest selection loss."""
    selection_loss: float
    validation_loss: float
    accuracy: float | None
    fairness: dict[str, NDArray[np.int64]]
    """Attribute -> [validation clients, groups, 4], counts as in RoundRecord."""
    single_row_clients: int
    """Validation clients with one row, scored with the largest hypothesis, or with the first if it
    is secret which one is the largest."""
    collapsed_rounds: int
    scores: Mapping[str, GroupScores] = field(default_factory=dict)
    """Attribute -> loss and accuracy of each validation client's rows, by group."""
    by_hypothesis: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """Attribute -> [k, groups, 4]: counts as in RoundRecord, by the hypothesis that predicted."""
    predicted: Mapping[str, PredictedRows] = field(default_factory=dict)
    """Attribute -> the scored rows that `fairness` counts, one by one. Confidential."""
    predicting: NDArray[np.int64] | None = None
    """[rows]: the hypothesis that predicted each scored row; None for one only. Confidential."""
    records: RecordTable | None = None
    """Of `record-personalised`: every record's own figures. Confidential."""
    against_constant: ConstantComparison | None = None
    """The same rows under the best prediction that looks at nothing; None for a run that has not
    been scored. Confidential."""
    start_loss: float | None = None
    """The selection loss of the hypotheses that training started from, on the same clients."""
