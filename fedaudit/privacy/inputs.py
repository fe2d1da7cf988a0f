"""What an accountant needs to know about a mechanism: public numbers only."""

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

    @property
    def leakage_factor(self) -> Fraction | None:
        """n / nu, exactly, nu taken as the decimal that was asked for; None without noise."""
        if self.noise_multiplier is None:
            return None
        return Fraction(self.n) / Fraction(repr(self.noise_multiplier))

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "MechanismInputs":
        """What `as_dict` gave. Raises TypeError for a missing or unknown field."""
        return cls(**fields)
