"""What an accountant needs to know about a mechanism.

Public numbers only, but for the events of record groups, whose rates follow from the budgets; the
ledger that keeps them is confidential.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Literal

GuaranteeKind = Literal["formal", "heuristic", "none"]


@dataclass(frozen=True)
class MechanismInputs:
    """The mechanism of one ledger entry. None stands for a number that it does not have."""

    mechanism: str
    n: int
    """Released parameters."""
    noise_multiplier: float | None
    radius: float | None
    """The fixed, public radius; None where it is adaptive or there is no mechanism."""
    radius_floor: float | None
    """The public lower bound on an adaptive radius; None where the radius is fixed."""
    clip: float | None
    noise: str
    guarantee: GuaranteeKind
    event: str | None = None
    """Canonical JSON of what is composed (`SpendingPlan.events_json`); None where nothing is
    counted as an epsilon with a delta, and then so are the fields below."""
    delta: float | None = None
    adjacency: str | None = None
    accountant: str | None = None

    @property
    def counts_epsilon(self) -> bool:
        """Whether the cost is an epsilon with a delta; otherwise it is leakage, or unbounded."""
        return self.event is not None

    @property
    def leakage_factor(self) -> Fraction | None:
        """n / nu, exactly, nu taken as the decimal that was asked for; None without leakage."""
        if self.noise_multiplier is None or self.counts_epsilon:
            return None
        return Fraction(self.n) / Fraction(repr(self.noise_multiplier))

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "MechanismInputs":
        """What `as_dict` gave. Raises TypeError for a missing or unknown field."""
        return cls(**fields)
