"""Which method trained, what it sent and what was personalised, in plain sentences."""

from typing import assert_never

from fedaudit.reports.document.utility_document import MethodSection
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import Ditto, FineTuning, Hypotheses, LocalOnly, QFfl

_TUNED = (
    "each held-out client made a model of its own by {steps} steps of gradient descent from "
    "{start}, on rows of its own that are not scored, and every figure of held-out rows is of "
    "these models, which stay with the clients"
)
_AS_WITHOUT = "updates, as without models of the clients' own, and protected alike"
_LOCAL_DATA = (
    "No client that trains was computed: the models of those would stay with them, and nobody here "
    "is scored by one."
)
_ROWS_OF_TUNING = (
    "Held-out clients make their models from rows that are in no count. These rows move the "
    "predictions that are counted, without noise; suppression and rounding look at the scored "
    "rows alone."
)
_WEIGHTS = (
    "With q-ffl the server can work out each client's loss of a round from what the client sends: "
    "the weighted update and a number made of both."
)


def method_section(spec: ExperimentSpec) -> MethodSection | None:
    """The section; None for `hypotheses`, of which the rest of the report speaks."""
    method = spec.training.method
    match method:
        case Hypotheses():
            return None
        case FineTuning():
            several = "the hypothesis that fits these rows best"
            start = "the common model" if spec.training.hypotheses == 1 else several
            personalised = _TUNED.format(steps=method.steps, start=start)
            return _tuned(method, personalised)
        case Ditto():
            near = f"the common model, pulled back to it by lambda = {method.proximal:g}"
            personalised = _TUNED.format(steps=method.steps, start=near)
            return _tuned(method, personalised)
        case QFfl():
            sent = (
                f"updates weighted by the loss to the power of {method.q:g}, and a number made of "
                "both"
            )
            return MethodSection(
                kind=method.kind, personalised=None, sent=sent, of_common_model=True
            )
        case LocalOnly():
            personalised = _TUNED.format(steps=method.steps, start="the start")
            return MethodSection(kind=method.kind, personalised=personalised, sent=None)
        case _:
            assert_never(method)


def _tuned(method: FineTuning | Ditto, personalised: str) -> MethodSection:
    return MethodSection(
        kind=method.kind, personalised=personalised, sent=_AS_WITHOUT, of_common_model=False
    )


def method_limits(spec: ExperimentSpec) -> list[str]:
    """What the method keeps a report from showing."""
    method, protects_held_out = spec.training.method, spec.fairness.noise is not None
    found = [_ROWS_OF_TUNING] if method.personalises and not protects_held_out else []
    match method:
        case Hypotheses() | FineTuning() | Ditto():
            return found
        case QFfl():
            return [_WEIGHTS]
        case LocalOnly():
            return [*found, _LOCAL_DATA]
        case _:
            assert_never(method)
