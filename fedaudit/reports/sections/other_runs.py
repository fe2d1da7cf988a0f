"""The sections `model`, `sweep` and `repeats`: the file of the hypotheses, and other runs."""

from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from fedaudit.privacy.guarantees.guarantee import start_limit
from fedaudit.reports.sections.part import WHERE_GIVEN, Part, Section, no_limits
from fedaudit.spec.experiment import ExperimentSpec


class TensorSection(Part):
    """One tensor of the file."""

    name: str
    shape: list[int]


class ModelSection(Part):
    """The safetensors file with the trained hypotheses, as it may leave."""

    sha256: str
    """Hash of the whole file, in hexadecimal."""
    size_bytes: int
    round: int
    """After which the hypotheses are kept: the best, or the last where losses choose nothing."""
    hypotheses: int
    tensors: list[TensorSection]


_CHOSEN_BY_LOSSES = (
    "Which round's hypotheses are kept was decided by the losses of the people held out for "
    "validation, without noise; the guarantee does not speak of them."
)
_LAST_ROUND = (
    "The hypotheses are those of the last validated round: no loss of a held-out person or row "
    "decided anything."
)
_PERSONAL = (
    "The report's figures are of models that held-out clients made of these hypotheses for "
    "themselves, and not of the hypotheses as they are here."
)
_BEFOREHAND = (
    "Scales, categories and classes that were taken from the data before training are part of what "
    "the model does, and of no guarantee."
)


def model_limits(spec: ExperimentSpec, *, chosen_by_losses: bool) -> list[str]:
    """One sentence each; for the file of a model that may leave."""
    chosen = _CHOSEN_BY_LOSSES if chosen_by_losses else _LAST_ROUND
    start = start_limit(spec.model.start)
    if spec.training.method.personalises:
        chosen = f"{chosen} {_PERSONAL}"
    return [chosen, _BEFOREHAND, *([] if start is None else [start])]


class SweepEpsilonSection(Part):
    """An epsilon of all cells together, against one observer."""

    observer: str
    delta: float
    adjacency: str
    unit: str
    value: float = Field(ge=0)


class SweepSection(Part):
    """The sweep of which the run is a cell, and what all cells were charged by then.

    Because the run was chosen among the cells, these are its costs, not those of the run alone.
    """

    id: str
    name: str
    cells: int
    position: int
    tries: Annotated[int | None, WHERE_GIVEN] = None
    """Runs of all cells by then, each as often as it was tried."""
    values: dict[str, Any]
    """The values of the fields in which cells differ."""
    sweep_epsilon_max: float | None
    sweep_log_ratio_max: float | None
    sweep_leakage: float | None
    epsilon: list[SweepEpsilonSection]
    noises: list[str]
    """`simulation` where the noise of some cell is, which protects no one."""
    guarantees: list[str]
    conditions: list[str]
    """Why the guarantee of some cell bounds some datasets only."""
    reasons: dict[str, str]


class SpreadSection(TypedDict):
    """A figure over several seeds; null without one, and what needs two of them without a second.

    `low` and `high` bound the mean over all seeds by Student's t at 95 %, and go no further than
    the figure itself can: they say nothing of other clients or other data.
    """

    n: int
    mean: float | None
    standard_deviation: float | None
    low: float | None
    high: float | None


class RepeatsSection(Part):
    """The same spec with other seeds: how far the figures are a matter of chance in training."""

    seeds: list[int]
    """Seeds of the runs that have a report, this one's first."""
    asked: int
    experiment_ids: list[str]
    metrics: dict[str, SpreadSection]
    """Keyed by figure; those of an attribute as name[attribute]."""
    reasons: dict[str, str]


def chosen_among(sweep: SweepSection | None) -> list[str]:
    """What the cost of a cell is not."""
    if sweep is None or sweep.cells < 2:
        return []
    return [
        f"It is one of {sweep.cells} cells of a sweep: if it was chosen among them, it costs what "
        "all of them cost together, and not what is stated of it alone."
    ]


def _run_limits(material: Any) -> list[str]:
    # A run without a service has no budget, nor have data that a spec makes up.
    others = (
        "what other experiments spent on the same data is in no figure here; of uploaded and "
        "registered data a service keeps it in the federation's budget."
    )
    if material.spec.repeats > 1:
        seed = f"with seed {material.spec.seed} alone"
        return [f"But for those over seeds, the figures are of the run {seed}: {others}"]
    one = f"The figures are of one run with one seed, and of this run alone: {others}"
    return [one, *chosen_among(material.sweep)]


_ELSEWHERE = "it rests on the ledgers of other runs, which are not part of the evidence"
_OfRun = Section[Any, Any]
OTHERS = (
    # Limits go with the file: `model_limits`.
    _OfRun(
        "model",
        lambda material: getattr(material.model, "section", material.model),
        "the file is not part of the evidence; its hash is signed with the report",
        no_limits,
    ),
    _OfRun(
        "sweep",
        lambda material: material.sweep or "the run is a cell of no sweep",
        _ELSEWHERE,
        _run_limits,
    ),
    _OfRun(
        "repeats",
        lambda material: (
            material.repeats or "the run has one seed; give `repeats` for the spread over several"
        ),
        _ELSEWHERE,
        no_limits,
    ),
)
