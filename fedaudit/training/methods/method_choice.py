"""The method of a spec: the only place that names them all."""

from typing import assert_never

from fedaudit.spec.methods.method_kinds import Ditto, FineTuning, Hypotheses, LocalOnly, QFfl
from fedaudit.spec.training import Training
from fedaudit.training.methods.ditto import DittoMethod
from fedaudit.training.methods.fine_tuning import FineTuningMethod
from fedaudit.training.methods.hypotheses_method import HypothesesMethod
from fedaudit.training.methods.local_only import LocalOnlyMethod
from fedaudit.training.methods.q_ffl import QFflMethod
from fedaudit.training.methods.training_method import TrainingMethod


def training_method(training: Training) -> TrainingMethod:
    """The method of a spec, with its parameters."""
    method, step_size = training.method, training.local.step_size
    match method:
        case Hypotheses():
            return HypothesesMethod()
        case FineTuning():
            return FineTuningMethod(method, step_size)
        case Ditto():
            return DittoMethod(method, step_size)
        case QFfl():
            return QFflMethod(method, step_size)
        case LocalOnly():
            return LocalOnlyMethod(method, step_size)
        case _:
            assert_never(method)
