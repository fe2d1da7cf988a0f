"""The form of a guarantee, and sentences that several guarantees share."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context
from typing import Literal, assert_never

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import ArtifactStart, Start
from fedaudit.spec.optimisers import DEFAULT_SERVER
from fedaudit.spec.privacy import RecordPersonalised

SIMULATED = (
    "This guarantee is not in force: the run drew its noise from the experiment's seed, to be "
    "repeatable, so anyone with the seed can subtract it. The statement says what the mechanism "
    "gives with secret noise. The model of this run is protected by nothing and is not for "
    "release, and neither is this report: its losses, accuracy, gaps and the figures of every "
    "round follow from the training data, and anyone with two candidate datasets can train on "
    "both and see which one gives them."
)
NO_GUARANTEE = "no mechanism, no guarantee"
UPDATES_AS_THEY_WERE = "There is no privacy mechanism: updates left the clients as they were."

GuaranteeLabel = Literal["formal", "formal within the radius", "heuristic", "declared", "none"]
"""The kind, and whether a proof covers all datasets or only uploads within a radius that nothing
keeps them in."""


@dataclass(frozen=True)
class Guarantee:
    """Who is protected against whom, and how far. A None has its reason in `reasons`."""

    kind: GuaranteeKind
    label: GuaranteeLabel
    mechanism: str
    in_force: bool
    """Whether this run's noise was secret. A guarantee that is not in force protects nobody."""
    conditions: Mapping[str, str]
    """By figure of the report, why it bounds some datasets only; a figure without a condition
    bounds every two datasets of the adjacency."""
    unit: str
    """Whose data the guarantee speaks of."""
    adjacency: str | None
    delta: float | None
    observers: tuple[str, ...]
    """Against whom it holds; empty where there is no guarantee."""
    statement: str
    reasons: dict[str, str] = field(default_factory=dict)


def no_guarantee(mechanism: str, *, unit: str, statement: str, reason: str) -> Guarantee:
    """The statement for a mechanism that bounds nothing; `reason`: why it has no figures."""
    return Guarantee(
        kind="none",
        label="none",
        mechanism=mechanism,
        in_force=False,
        conditions={},
        unit=unit,
        adjacency=None,
        delta=None,
        observers=(),
        statement=statement,
        reasons={"adjacency": reason, "delta": reason},
    )


def number(value: float) -> str:
    """A figure for a sentence."""
    return f"{value:.6g}"


def at_most(value: float, *, digits: int = 6) -> str:
    """An upper bound for a sentence: rounded up, never below the figure that was shown.

    A number that few digits can express is stated unchanged: 2.2 stays, although in binary it lies
    a little higher.
    """
    nearest = f"{value:.{digits}g}"
    if float(nearest) >= value:
        return nearest
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(value)):.{digits}g}"


_FIGURES = ("epsilon_max", "leakage_max", "leakage_median", "log_ratio_max")
_ADDED_ONLY = (
    "it counts what this run adds to the artifact that it started from, whose own cost is not known"
)


def start_limit(start: Start) -> str | None:
    """What nobody has counted of the parameters that training started from; None where they were
    drawn."""
    if not isinstance(start, ArtifactStart):
        return None
    return (
        f"Training started from the artifact {start.artifact}. What that discloses is not counted: "
        "if it was trained on these people without protection, so is the model of this run, "
        "whatever this run adds. Figures on the held-out people are too good where it was "
        "trained on them."
    )


def of_the_run(guarantee: Guarantee, spec: ExperimentSpec) -> Guarantee:
    """The guarantee, with what follows from the server's optimiser and the start.

    Where a run started from an artifact, it is said of what the run adds. Its figures then bound
    nothing of the model as a whole, so that each gets a condition, which a gate has to allow.
    """
    start, server = spec.model.start, spec.training.server
    if server != DEFAULT_SERVER:
        statement = (
            f"{guarantee.statement} The server moves the model by {server.words}, which goes by "
            "what was released alone and costs nothing more."
        )
        guarantee = replace(guarantee, statement=statement)
    if not isinstance(start, ArtifactStart):
        return guarantee
    conditions = {
        name: "; ".join(filter(None, (guarantee.conditions.get(name), _ADDED_ONLY)))
        for name in _FIGURES
    }
    statement = (
        f"{guarantee.statement} All of this covers what this run adds to the artifact "
        f"{start.artifact} that it started from, and takes that as given: nothing is said of whom "
        "it was trained on, nor with what protection."
    )
    return replace(guarantee, conditions=conditions, statement=statement)


def what_follows_from_the_seed(spec: ExperimentSpec) -> list[str]:
    """Why data that differ by a record make training sets that differ by it at most."""
    source = spec.federation
    drawn = {
        "whether it trains or is held out": source.holds_out_rows,
        "its budget": spec.privacy.budget_column is None,
    }
    what = " and ".join(name for name, follows in drawn.items() if follows)
    found = []
    if what:
        found.append(
            f"Of each record, {what} is drawn by the seed and the record itself, so that no other "
            "record changes by its being there. The seed is public: whoever knows it and a record "
            "knows what was drawn for it."
        )
    if source.traits.deals_rows:
        found.append(
            "Rows were dealt to clients by their place (`partition`), which one more record does "
            "anew: with which client the other records lie is taken as fixed."
        )
    return found


def what_the_server_sees(rate: float) -> str:
    """Against the server too, for a client's chance in a round."""
    if rate == 1:
        return (
            "All clients take part in every round, which is no secret, so both observers have the "
            "same figure."
        )
    return (
        "It sees which clients take part, and its figure counts in full the rounds of the client "
        "that came most, so it is larger in the worst case and may be smaller after a run. "
        "`final_model` is for those who do not see that, whom the clients' coins of chance "
        f"{number(rate)} leave in doubt."
    )


def how_budgets_are_kept(privacy: RecordPersonalised, rate: float) -> str:
    """Against whom, and whether always. Raises ValueError without noise."""
    match privacy.baseline:
        case "uniform":
            return (
                f"Every record spends up to {number(privacy.uniform_epsilon)} against "
                "`final_model`, whatever its own budget."
            )
        case "privacy-free":
            raise ValueError("without noise no budget is kept")
        case None:
            if privacy.inversion == "curve-fit":
                return "Budgets are aimed at, against `final_model`, and not always kept."
        case "strong-for-all" | "dropout" | "filter":
            pass
        case other:
            assert_never(other)
    if rate == 1:
        return "Budgets are kept against both."
    return (
        "Budgets are kept against `final_model`; the server may see more spent than a budget says."
    )
