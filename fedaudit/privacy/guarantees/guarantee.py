"""The form of a guarantee, and sentences that all guarantees share."""

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind

SIMULATED = (
    "This run drew its noise from the experiment's seed, to be repeatable: whoever knows the seed "
    "can subtract it. The statement is what the mechanism gives with secret noise; the model "
    "of this run is protected by nothing and is not for release."
)
NO_GUARANTEE = "no mechanism, no guarantee"
UPDATES_AS_THEY_WERE = "There is no privacy mechanism: updates left the clients as they were."


@dataclass(frozen=True)
class Guarantee:
    """Who is protected against whom, and how far. A None has its reason in `reasons`."""

    kind: GuaranteeKind
    mechanism: str
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
        mechanism=mechanism,
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
