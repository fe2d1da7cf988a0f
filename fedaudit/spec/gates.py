"""Conditions that a finished experiment must meet, the figures they name, and policies of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from fedaudit.spec.base import SpecPart, Text
from fedaudit.spec.errors import (
    FieldError,
    Refusals,
    pointer,
    raise_errors,
    refuse,
    refuse_at,
    validated,
)
from fedaudit.spec.metrics import FAIRNESS_FIGURES, SHARES

AttackFigure = Literal[
    "epsilon_lower_bound", "membership_tpr_at_1pct", "recovered_share", "nu_protecting"
]
"""What attacks found: the worst of those of its kind (`fedaudit.reports.gates.gate_evidence`)."""
FigureSection = Literal["privacy", "utility", "sweep", "attacks"]
Proof = Literal["fixed radius", "exact rates"]
"""What would make a heuristic guarantee of the figure a formal one."""


@dataclass(frozen=True, kw_only=True)
class GateFigure:
    """The place of a figure in the report, and its worth as evidence."""

    section: FigureSection
    rests_on_guarantee: bool = True
    """Whether the figure bounds something by the guarantee alone. A row declares it where that is
    not so: a figure that is counted or measured, whatever the mechanism."""
    judges_model: bool = False
    """Whether it measures how well the model decides, which may be good for a model that decides
    nothing."""
    proof: Proof = "fixed radius"
    has_delta: bool = False
    """Whether it is an epsilon, which holds at the delta and adjacency of the guarantee."""


PLAIN_FIGURES: Mapping[str, GateFigure] = {
    "leakage_max": GateFigure(section="privacy"),
    "leakage_median": GateFigure(section="privacy"),
    "log_ratio_max": GateFigure(section="privacy"),
    "participations_max": GateFigure(section="privacy", rests_on_guarantee=False),
    "epsilon_max": GateFigure(section="privacy", proof="exact rates", has_delta=True),
    "validation_loss": GateFigure(section="utility", rests_on_guarantee=False, judges_model=True),
    "accuracy": GateFigure(section="utility", rests_on_guarantee=False, judges_model=True),
    "accuracy_over_baseline": GateFigure(section="utility", rests_on_guarantee=False),
    "weighted_accuracy_over_baseline": GateFigure(section="utility", rests_on_guarantee=False),
    "loss_under_baseline": GateFigure(section="utility", rests_on_guarantee=False),
    "prediction_share": GateFigure(section="utility", rests_on_guarantee=False),
    "auc": GateFigure(section="utility", rests_on_guarantee=False),
    "balanced_accuracy": GateFigure(section="utility", rests_on_guarantee=False),
    "precision": GateFigure(section="utility", rests_on_guarantee=False, judges_model=True),
    "recall": GateFigure(section="utility", rests_on_guarantee=False, judges_model=True),
    "brier": GateFigure(section="utility", rests_on_guarantee=False, judges_model=True),
    "sweep_epsilon_max": GateFigure(section="sweep", proof="exact rates"),
    "sweep_log_ratio_max": GateFigure(section="sweep"),
    "epsilon_lower_bound": GateFigure(section="attacks", rests_on_guarantee=False),
    "membership_tpr_at_1pct": GateFigure(section="attacks", rests_on_guarantee=False),
    "recovered_share": GateFigure(section="attacks", rests_on_guarantee=False),
    "nu_protecting": GateFigure(section="attacks", rests_on_guarantee=False),
}


GateOp = Literal["le", "ge"]
if TYPE_CHECKING:
    # The lists are tables: pydantic reads a table, a type checker does not.
    FairnessFigure = str
    AnyFigure = str
else:
    FairnessFigure = Literal[FAIRNESS_FIGURES]
    AnyFigure = Literal[(*PLAIN_FIGURES, *FAIRNESS_FIGURES)]


class Gate(SpecPart):
    """One figure of the report against one bound."""

    figure: AnyFigure
    op: GateOp
    value: Annotated[float, Field(ge=-1e300, le=1e300)]
    attribute: Text | None = None
    """Which sensitive attribute; unless given, each one of the report has to meet the bound."""
    allow_heuristic: bool = False
    """Whether a heuristic guarantee is evidence enough."""
    allow_conditional: bool = False
    """Whether a figure is evidence that bounds some datasets only, such as n/nu within a radius in
    which nothing keeps the uploads."""
    allow_simulation: bool = False
    """Whether a guarantee that is not in force, because the noise was simulated, is evidence: for
    research. Such a run gives no protection."""
    allow_degenerate: Annotated[bool, Field(exclude_if=lambda allowed: not allowed)] = False
    """Whether rates, gaps, accuracy and loss are evidence for a model that decides nothing, or that
    is not shown to be better than a constant prediction."""

    allow_declared: Annotated[bool, Field(exclude_if=lambda allowed: not allowed)] = False
    """Whether a guarantee and counts are evidence that a trainer elsewhere declares of itself."""
    require_tested: Annotated[bool, Field(exclude_if=lambda required: not required)] = False
    """Whether canaries of sufficient power must have tested the noise without an alarm; a declared
    guarantee is then evidence without `allow_declared`. Sampling remains as declared."""
    allow_personal_models: Annotated[bool, Field(exclude_if=lambda allowed: not allowed)] = False
    """Whether figures of models that clients make for themselves are evidence, where training
    leaves a common model that they do not describe: for clients that use their own models only."""

    @field_validator("attribute")
    @classmethod
    def _figures_of_groups_have_attributes(
        cls, attribute: str | None, others: ValidationInfo
    ) -> str | None:
        figure = others.data.get("figure")
        if attribute is not None and figure is not None and figure not in FAIRNESS_FIGURES:
            raise ValueError(f"{figure} is not a figure of a sensitive attribute; leave it out")
        return attribute

    @property
    def plain_figure(self) -> GateFigure | None:
        """The place of the figure and what it rests on; None for a figure of a sensitive attribute.
        Raises KeyError for a figure that is neither: it has no row in PLAIN_FIGURES."""
        if self.figure in FAIRNESS_FIGURES:
            return None
        return PLAIN_FIGURES[self.figure]

    @property
    def judges_model(self) -> bool:
        """Whether the figure measures how well or how evenly the model decides, which a model that
        decides nothing does by chance."""
        figure = self.plain_figure
        return figure is None or figure.judges_model

    @property
    def measures_predictions(self) -> bool:
        """Whether the figure is of a model's predictions."""
        figure = self.plain_figure
        return figure is None or figure.section == "utility"

    @property
    def compares_groups(self) -> bool:
        """Whether the figure is of a sensitive attribute."""
        return self.plain_figure is None


_GAINS = {"accuracy_over_baseline", "weighted_accuracy_over_baseline"}
_SHARES = SHARES | _GAINS | {"membership_tpr_at_1pct", "recovered_share"}
"""Figures that are never above 1: a constant has at least half of all weights right."""


def can_fail(figure: str, op: str, bound: float) -> bool:
    """Whether any value of the figure misses the bound: otherwise the gate requires nothing."""
    least = -math.inf if figure == "loss_under_baseline" else -1.0 if figure in _GAINS else 0.0
    most = 1.0 if figure in _SHARES else math.inf
    return bound < most if op == "le" else bound > least


def refuse_percentages(gates: Sequence[Gate], *, at: str = "/gates") -> None:
    """Raises InvalidInputError where a share is given in percent, so that a gate would pass or fail
    whatever the model. `at`: pointer of the list. Specs that were stored before stay readable."""
    faults = [
        FieldError(
            f"{at}/{position}/value",
            f"{gate.figure} is a share and never above 1; for {gate.value:g} % write "
            f"{gate.value / 100:g}",
            of_spec=True,
        )
        for position, gate in enumerate(gates)
        if gate.figure in _SHARES and gate.value > 1
    ]
    raise_errors(faults)


PolicyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""A name that needs no escaping in a URL."""
Description = Annotated[str, Field(max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
PolicyGates = Annotated[list[Gate], Field(min_length=1, max_length=100)]
"""At least one: a policy that asks for nothing would let everything pass."""


class Policy(SpecPart):
    """Gates under a name."""

    name: PolicyName
    description: Description = ""
    gates: PolicyGates


class PolicyFile(SpecPart):
    """What an experiment is to be held against: one policy, named or not, or several."""

    experiment_id: Text | None = None
    name: PolicyName | None = None
    description: Description = ""
    gates: PolicyGates | None = None
    policies: Annotated[list[Policy], Field(min_length=1, max_length=100)] | None = None

    def faults(self) -> Refusals:
        if (self.gates is None) == (self.policies is None):
            yield refuse("must hold either `gates` or `policies`")
        if self.policies is None:
            return
        for field in ("name", "description"):
            if getattr(self, field):
                yield refuse_at(f"/{field}", "belongs into each of `policies`; move it there")
        names = [policy.name for policy in self.policies]
        for position, name in enumerate(names):
            if name in names[:position]:
                where = pointer("policies", position, "name")
                yield refuse_at(where, f"{name!r} is given twice; keep one")

    @property
    def to_evaluate(self) -> list[tuple[str | None, Sequence[Gate]]]:
        """The gates by their policies in order; the name is None for gates without one."""
        if self.policies is None:
            return [(self.name, self.gates or ())]
        return [(policy.name, policy.gates) for policy in self.policies]


def parse_policies(value: object) -> PolicyFile:
    """The policies in a decoded JSON or YAML value; a list is taken for `gates`.

    Raises InvalidInputError naming the fields.
    """
    if isinstance(value, list):
        value = {"gates": value}
    found = validated(PolicyFile, value)
    for position, policy in enumerate(found.policies or ()):
        refuse_percentages(policy.gates, at=f"/policies/{position}/gates")
    refuse_percentages(found.gates or ())
    return found
