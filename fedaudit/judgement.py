"""When a model decides nothing, and when it is not shown to decide anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_LOSS = "loss"
NEARLY_CONSTANT = "one outcome is predicted for nearly all rows, so equal rates mean nothing"
OF_OUTCOME = "right predictions of the favourable outcome"
_NEARLY = ((0.99, 0.5), (0.9, 0.1))
"""The share of rows with one prediction from which a model may be nearly constant, and the ratio of
other predictions to other outcomes below which it is: a rare outcome that is predicted half as
often as it occurs is not overlooked."""


@dataclass(frozen=True)
class Judgement:
    """Whether the model is degenerate, or None if unknown, with the reason unless it is shown not
    to be."""

    degenerate: bool | None
    reason: str | None


@dataclass(frozen=True)
class Gained:
    """How much better a model is than the constant in one respect."""

    gain: float
    shown: bool
    """Whether that it is above 0 is shown, at 95 %."""
    too_uneven: bool = False
    """Whether clients are of so uneven sizes that nothing can show it."""


def judge_model(
    *,
    accuracy: Gained | None,
    loss: Gained | None,
    outcome: Gained | None,
    prediction_share: float | None,
    outcome_share: float | None,
    threshold: float = 0.5,
) -> Judgement:
    """Judges a model by its gains over the constant, those that are known, and by how often it
    predicts the same.

    `accuracy` in right classifications, which count by the `threshold`, `loss` in the validation
    loss, `outcome` in rows whose outcome, favourable or not, is predicted correctly. The shares are
    as in `over_constant`. It is degenerate where it is nearly constant or better in none of the
    first two, and not known to be otherwise where it is not better, or not shown to be, in all of
    them.
    """
    if _is_nearly_constant(prediction_share, outcome_share):
        return Judgement(True, NEARLY_CONSTANT)
    named = "accuracy"
    if threshold != 0.5:
        named = f"right decisions, which count as the threshold of {threshold:g} weighs errors,"
    gains = {named: accuracy, _LOSS: loss, OF_OUTCOME: outcome}
    known = {name: one for name, one in gains.items() if one is not None}
    first = [one for one in (accuracy, loss) if one is not None] or list(known.values())
    if not first:
        return Judgement(None, "nothing says how much better than a constant the model is")
    if not any(one.gain > 0 for one in first):
        return Judgement(True, "the model is no better than a constant prediction")
    why = _doubts(known, first)
    return Judgement(False if why is None else None, why)


def _doubts(known: Mapping[str, Gained], first: Sequence[Gained]) -> str | None:
    """Why the model is not shown to be better in every respect; None where it is."""
    for name, one in known.items():
        if not one.gain > 0:
            return f"by {name} the model is no better than always giving the same answer"
        if not one.shown and name != _LOSS:
            return _not_shown(name, one)
    return None if any(one.shown for one in first) else _not_shown(*next(iter(known.items())))


def _not_shown(name: str, one: Gained) -> str:
    why = f"the 95% interval of its gain in {name} reaches 0"
    if one.too_uneven:
        why = f"clients of so uneven sizes allow no interval of its gain in {name}"
    return f"the model may be no better than always giving the same answer: {why}"


def _is_nearly_constant(prediction_share: float | None, outcome_share: float | None) -> bool:
    if prediction_share is None:
        return False
    otherwise = 1.0 - prediction_share
    rare = 0.0 if outcome_share is None else 1.0 - outcome_share
    return otherwise == 0 or any(
        prediction_share >= share and otherwise < least * rare for share, least in _NEARLY
    )
