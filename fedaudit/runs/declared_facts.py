"""What a proposal sees of a federation: what is declared, and what its profile shows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fedaudit.spec.disclosure import DisclosureFloor, DisclosurePolicy


@dataclass(frozen=True, kw_only=True)
class DeclaredFacts:
    """What is declared of a federation, or its profile shows already."""

    federation_id: str
    name: str
    registration: Mapping[str, Any]
    clients: int
    rows: int
    median_rows: float | None = None
    """Median rows of a client; None where the seed decides it; the mean is then used."""
    most_rows: int | None = None
    """Most rows of a client, likewise."""
    features: int
    """Numbers that a row has for the model."""
    classes: int
    """0 of a target that is a number."""
    positive_share: float | None = None
    """The share of rows with the positive one of two classes; None where it is not shown."""
    policy: DisclosurePolicy = field(default_factory=DisclosurePolicy)
    floor: DisclosureFloor = field(default_factory=DisclosureFloor)
    may_simulate: bool = True
    epsilon_left: float | None = None
    """The smallest remainder of an epsilon's totals; None where none is set."""
    epsilon_delta: float | None = None
    """The smallest delta of such a total."""
    leakage_left: float | None = None
    bounds_reports: bool = False
    """Whether a total bounds what reports of such runs reveal of the people held out."""

    @property
    def source(self) -> Mapping[str, Any]:
        """How the rows are read, as registered."""
        found: Mapping[str, Any] = self.registration["federation"]
        return found

    @property
    def target(self) -> Literal["class", "number"]:
        """What is predicted."""
        return "class" if self.classes else "number"

    @property
    def rarer_share(self) -> float | None:
        """The rarer class's share, to the nearest power of two; None where it is not known."""
        if self.positive_share is None:
            return None
        return 1 / nearest_power_of_two(1 / min(self.positive_share, 1 - self.positive_share))

    @property
    def mean_rows(self) -> float:
        """Mean rows of a client."""
        return self.rows / self.clients

    @property
    def evenness(self) -> float:
        """Rows of a client on average over those of the largest; at most 1."""
        return min(1.0, self.mean_rows / (self.most_rows or self.mean_rows))

    @property
    def largest_share(self) -> float:
        """The largest client's share of all rows."""
        return min(1.0, (self.most_rows or self.mean_rows) / self.rows)


def shown_facts(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the facts that a federation's profile shows."""
    sizes, classes = profile.get("rows_per_client", {}), profile.get("classes") or ()
    balance = profile.get("class_balance") or {}
    rows = [balance.get(name) or 0 for name in classes]
    return {
        "clients": profile["clients"],
        "rows": profile["rows"],
        "median_rows": sizes.get("median"),
        "most_rows": sizes.get("maximum"),
        "features": len(profile["features"]),
        "classes": len(classes),
        "positive_share": rows[1] / sum(rows) if len(rows) == 2 and all(rows) else None,
    }


def nearest_power_of_two(rows: float) -> int:
    """The nearest power of two, at least 1; one row more or less hardly ever changes it."""
    return int(2 ** max(0, round(math.log2(max(1.0, rows)))))
