"""How well the best hypotheses predict held-out clients, in the report."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.reports.document.held_out_document import IntervalSection
from fedaudit.reports.document.part import WHERE_GIVEN
from fedaudit.reports.document.attacks.confidence_limits import Share
from fedaudit.reports.document.part import Part
from fedaudit.spec.training import StoppedBy


class MethodSection(Part):
    """How clients were trained for, where it was not by hypotheses alone."""

    kind: str
    """As in the spec."""
    personalised: str | None
    """What models of their own held-out clients made, in words; None where they made none."""
    sent: str | None
    """What left a client that trained, in words; None where nothing did."""
    of_common_model: Annotated[bool | None, WHERE_GIVEN] = None
    """Whether the figures are of the common model, which may leave; absent where training makes
    none, and from earlier reports."""


class Utility(Part):
    """How well the best hypotheses predict held-out clients, beside a constant prediction.

    The constant is fitted to the same rows, for each hypothesis to those that it predicts: always
    their most frequent class, or the number with the smallest loss. Where clients make models of
    their own, it is fitted for each of them. Earlier reports have no figure of it.
    """

    method: Annotated[MethodSection | None, WHERE_GIVEN] = None
    """Absent for the method `hypotheses`, and from earlier reports."""

    validation_loss: float | None
    selection_loss: float | None
    """The smallest loss over hypotheses. It decides when to stop, and is optimistic as a measure of
    quality."""
    accuracy: float | None
    baseline: Literal["majority", "mean", "number"] | None = None
    """What the constant prediction is."""
    baseline_accuracy: Share | None = None
    """Its accuracy: the share of the most frequent class."""
    baseline_loss: float | None = None
    """Its validation loss; for classes that of their frequencies as probabilities."""
    accuracy_over_baseline: float | None = None
    """Accuracy less that of the constant: at or below 0 the model decides no better."""
    accuracy_over_baseline_interval: IntervalSection | None = None
    loss_under_baseline: float | None = None
    """The constant's validation loss less the model's."""
    loss_under_baseline_interval: IntervalSection | None = None
    prediction_share: Share | None = None
    """Share of rows that are predicted the most frequent outcome of the hypothesis that predicts
    them: favourable or not, where the spec says what is, otherwise the class."""
    prediction_share_interval: IntervalSection | None = None
    """Of counts with noise alone."""
    outcome_share: Share | None = None
    """Share of rows with the most frequent true outcome."""
    degenerate: bool | None = None
    """Whether the model decides nothing: it is no better than the constant, or predicts one outcome
    for nearly all rows. None where it is not shown to be better."""
    start_loss: float | None = None
    """The selection loss of the hypotheses that training started from."""
    improved: bool | None = None
    """Whether the best hypotheses have a smaller selection loss than those."""
    rounds: int
    best_round: int
    collapsed_rounds: int | None = None
    """Rounds whose uploads all fell into one of several clusters, so that one hypothesis alone was
    trained. None where there is one hypothesis, and in earlier reports."""
    stopped_by: StoppedBy
    reasons: dict[str, str]
