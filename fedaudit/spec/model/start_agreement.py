"""What the start of training must agree on with the rest of a spec."""

from typing import assert_never

from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.model.kinds import Model
from fedaudit.spec.model.starts import ArtifactStart

_START = "/model/start"


def check_start(model: Model, *, hypotheses: int) -> Refusals:
    """Why nothing would be learnt from a start: errors of a spec's validation, at the field."""
    match model.start:
        case "zeros":
            yield from _check_zeros(model, hypotheses=hypotheses)
        case "normal" | "uniform" | ArtifactStart():
            pass
        case _:
            assert_never(model.start)


def _check_zeros(model: Model, *, hypotheses: int) -> Refusals:
    if model.has_hidden_layers:
        yield refuse_at(
            _START,
            "zeros give the hidden units of a network nothing to tell them apart by, and no "
            "gradient; use `uniform`",
        )
    elif hypotheses > 1:
        yield refuse_at(
            _START,
            f"zeros start all {hypotheses} hypotheses alike, so clients have nothing to choose by "
            "and they never separate; use `uniform` or `normal`, or one hypothesis",
        )
