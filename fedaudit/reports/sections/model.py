"""The section `model`: the file with the trained hypotheses."""

from typing import Any

from fedaudit.privacy.guarantees.guarantee import start_limit
from fedaudit.reports.ledger_totals import RunEvidence
from fedaudit.reports.sections.part import Part
from fedaudit.reports.sections.section import Section, no_limits
from fedaudit.spec.experiment import ExperimentSpec


class TensorSection(Part):
    """One tensor of the file."""

    name: str
    shape: list[int]


class ModelSection(Part):
    """The safetensors file with the trained hypotheses, as it may leave."""

    sha256: str
    """Of the whole file, in hexadecimal."""
    size_bytes: int
    round: int
    """After which the hypotheses are kept: the best one, or the last with `fairness.noise`."""
    hypotheses: int
    tensors: list[TensorSection]


_CHOSEN_BY_LOSSES = (
    "Which round's hypotheses are kept was decided by the losses of the people held out for "
    "validation, without noise; the guarantee does not speak of them."
)
_LAST_ROUND = (
    "The hypotheses are those of the last validated round: with fairness.noise no loss of a "
    "held-out person decides anything."
)
_PERSONAL = (
    "The report's figures are of models that held-out clients made of these hypotheses for "
    "themselves, and not of the hypotheses as they are here."
)
_BEFOREHAND = (
    "Scales, categories and classes that were taken from the data before training are part of what "
    "the model does, and of no guarantee."
)


def model_limits(spec: ExperimentSpec) -> list[str]:
    """One sentence each; for the file of a model that may leave."""
    chosen = _CHOSEN_BY_LOSSES if spec.fairness.noise is None else _LAST_ROUND
    start = start_limit(spec.model.start)
    if spec.training.method.personalises:
        chosen = f"{chosen} {_PERSONAL}"
    return [chosen, _BEFOREHAND, *([] if start is None else [start])]


# Limits go with the file: `model_limits`.
MODEL = Section[Any, RunEvidence](
    "model",
    lambda material: getattr(material.model, "section", material.model),
    "the file is not part of the evidence; its hash is signed with the report",
    no_limits,
)
