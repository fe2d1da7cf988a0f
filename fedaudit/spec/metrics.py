"""The rates and gaps of fairness: one table, from which names, sums, reasons and labels follow.

Names and definitions are Fairlearn's. A gap that is made of rates which are listed here takes one
row more in `FAMILIES`; a new rate takes one row more in `RATES`, and its field of groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Count = Literal["true_positives", "false_positives", "true_negatives", "false_negatives"]
"""What is counted for a group; *positive* is the favourable outcome."""
Kind = Literal["difference", "ratio"]
"""How a gap compares groups."""

COUNTS: tuple[Count, ...] = get_args(Count)
"""In the order of arrays of counts."""
KINDS: tuple[Kind, ...] = get_args(Kind)

_TP, _FP, _TN, _FN = COUNTS


@dataclass(frozen=True)
class Rate:
    """A group's rows of some counts, as a share of those of its denominator. It counts all that the
    numerator does."""

    name: str
    numerator: tuple[Count, ...]
    denominator: tuple[Count, ...]
    rows: str
    """Which rows the denominator counts, in words."""

    @property
    def why_undefined(self) -> str:
        """Why a group has no such rate."""
        return f"no {self.rows}"

    @property
    def words(self) -> str:
        """Such as `true positive rate`."""
        return self.name.replace("_", " ")

    @property
    def label(self) -> str:
        """Such as `True positive rate`."""
        return self.words.capitalize()


@dataclass(frozen=True)
class Family:
    """Gaps between groups in the same rates: a difference and a ratio.

    Of several rates the worst gap counts (Fairlearn's `agg="worst_case"`).
    """

    name: str
    rates: tuple[str, ...]
    """Their names."""
    needs: str | None = None
    """The rows that a group must have to be compared, in words; None for those of the one rate."""

    @property
    def words(self) -> str:
        """Such as `equalized odds`."""
        return self.name.replace("_", " ")

    @property
    def rows(self) -> str:
        """The rows without which a group lacks one of the rates, in words."""
        return self.needs or " or ".join(RATES[name].rows for name in self.rates)


@dataclass(frozen=True)
class Metric:
    """One gap of rates between groups."""

    family: Family
    kind: Kind

    @property
    def name(self) -> str:
        """Such as `equalized_odds_difference`."""
        return f"{self.family.name}_{self.kind}"


RATES: Mapping[str, Rate] = MappingProxyType(
    {
        rate.name: rate
        for rate in (
            Rate("selection_rate", (_TP, _FP), COUNTS, "scored rows"),
            Rate("true_positive_rate", (_TP,), (_TP, _FN), "rows with the favourable outcome"),
            Rate("false_positive_rate", (_FP,), (_FP, _TN), "rows without the favourable outcome"),
        )
    }
)
"""Every rate by its name."""

FAMILIES: tuple[Family, ...] = (
    Family("demographic_parity", ("selection_rate",)),
    Family(
        "equalized_odds",
        ("true_positive_rate", "false_positive_rate"),
        needs="rows with or rows without the favourable outcome",
    ),
    Family("equal_opportunity", ("true_positive_rate",)),
)

METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (Metric(family, kind) for family in FAMILIES for kind in KINDS)
    }
)
"""Every gap of rates by its name: of each family the difference, then the ratio."""

SCORE_METRICS = ("accuracy_difference", "loss_difference", "loss_ratio")
"""Gaps in accuracy and loss, which need no favourable outcome."""

FAIRNESS_FIGURES: tuple[str, ...] = (*METRICS, *SCORE_METRICS)
"""Every figure of a sensitive attribute that a report has, a gate may name, a list sorts by."""

SHARES = frozenset(
    METRICS.keys()
    | {"accuracy", "prediction_share", "accuracy_difference", "loss_ratio"}
    | {"auc", "balanced_accuracy", "precision", "recall", "brier"}
)
"""Figures that lie between 0 and 1, whatever the model."""

HEADLINE = "equalized_odds_difference"
"""The gap that represents an attribute where only one is named."""
HEADLINE_WITHOUT_OUTCOME = "loss_difference"
"""And where no outcome is favourable."""

ROUND_METRICS = (
    "demographic_parity_difference",
    "equalized_odds_difference",
    "equal_opportunity_difference",
)
"""The gaps for which rounds and experiments have columns."""
LEADING_METRICS = (HEADLINE, *(name for name in ROUND_METRICS if name != HEADLINE))
"""The same, the one that represents an attribute first."""

NOT_IN_REPORT = "the report does not have this figure"
"""Why a figure is missing where the report itself gives no reason."""


def is_ratio(metric: str) -> bool:
    """Whether a gap, of rates or of scores, is a ratio: the larger, the fairer."""
    return metric.endswith("_ratio")
