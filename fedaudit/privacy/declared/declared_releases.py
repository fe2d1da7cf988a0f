"""What a declared round charges, and to whom; or why its ledger cannot count it.

Sampling amplifies only where nobody who is guarded against knows who was drawn. Such a round is
therefore charged to the whole population, drawn or not: a client's epsilon by an amplified event
holds over all rounds, and not over those in which it happened to be drawn. Rounds without
amplification are charged to whoever was asked to take part.
"""

from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.pld import PldAccountant
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    PoissonSampled,
)
from fedaudit.privacy.accounting.rdp import RDP_ORDERS, RdpAccountant, event_curve
from fedaudit.spec.declared.declared_events import (
    AnyRelease,
    FixedSizeRelease,
    GaussianRelease,
    LaplaceRelease,
    PoissonRelease,
    UnprotectedRelease,
)
from fedaudit.spec.declared.ledger_terms import LedgerTerms


@dataclass(frozen=True)
class Charge:
    """One event, and whether the whole population pays for it."""

    event: Event
    everyone: bool
    clip: float | None = None
    """Of metric privacy."""
    _curves: dict[Adjacency, NDArray[np.float64]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def as_dict(self) -> dict[str, object]:
        """The charge as it is stored."""
        return {"event": self.event.as_dict(), "everyone": self.everyone, "clip": self.clip}

    def curve(self, adjacency: Adjacency) -> NDArray[np.float64]:
        """The event's Renyi divergence at RDP_ORDERS.

        Kept as long as the charge: a ledger of many distinct events computes each of them once,
        which no shared cache of a fixed size promises.
        """
        found = self._curves.get(adjacency)
        if found is None:
            found = self._curves[adjacency] = event_curve(self.event, RDP_ORDERS, adjacency)
        return found


def charge_of(terms: LedgerTerms, release: AnyRelease) -> Charge:
    """What one step of a release charges under these terms."""
    secret = terms.unit == "client"
    match release:
        case GaussianRelease():
            return Charge(Gaussian(release.noise_multiplier), everyone=False)
        case PoissonRelease():
            inner = Gaussian(release.noise_multiplier)
            return Charge(PoissonSampled(release.rate, inner), everyone=secret)
        case FixedSizeRelease():
            inner = Gaussian(release.noise_multiplier)
            drawn = FixedSizeSampled(release.population, release.clients, inner)
            return Charge(drawn, everyone=secret)
        case LaplaceRelease():
            event = LaplaceL2(release.n, release.noise_multiplier, release.radius)
            return Charge(event, everyone=False, clip=release.clip)
        case UnprotectedRelease():
            return Charge(NonPrivate(), everyone=False)
        case _:
            assert_never(release)


def steps_of(release: AnyRelease) -> int:
    """How often a round composes its event."""
    match release:
        case GaussianRelease() | PoissonRelease() | FixedSizeRelease():
            return release.steps
        case LaplaceRelease() | UnprotectedRelease():
            return 1
        case _:
            assert_never(release)


def refusal(terms: LedgerTerms, release: AnyRelease) -> tuple[str, str] | None:
    """The field of an event that its ledger cannot count, and why; None where it can."""
    match release:
        case UnprotectedRelease():
            return None
        case LaplaceRelease():
            if terms.mechanism == "laplace-l2":
                return None
            return "kind", f"the ledger's mechanism is {terms.mechanism}; open another ledger"
        case GaussianRelease():
            return _not_gaussian(terms)
        case PoissonRelease() | FixedSizeRelease():
            return (
                _not_gaussian(terms)
                or _not_secret(terms)
                or _population(terms, release)
                or _unsupported(terms, release)
            )
        case _:
            assert_never(release)


def _not_gaussian(terms: LedgerTerms) -> tuple[str, str] | None:
    if terms.counts_epsilon:
        return None
    return "kind", f"the ledger's mechanism is {terms.mechanism}; open another ledger"


def _not_secret(terms: LedgerTerms) -> tuple[str, str] | None:
    if terms.unit == "record" or terms.hides_participants:
        return None
    return (
        "kind",
        "the server sees who takes part, so sampling clients amplifies nothing; declare the kind "
        "gaussian, or a ledger against final_model",
    )


def _population(
    terms: LedgerTerms, release: PoissonRelease | FixedSizeRelease
) -> tuple[str, str] | None:
    if isinstance(release, PoissonRelease):
        return None
    if terms.unit == "client" and release.population != terms.population:
        return "population", f"the ledger's population is {terms.population}; state the same"
    if release.population > terms.population:
        return "population", f"exceeds the ledger's population of {terms.population}"
    return None


def _unsupported(
    terms: LedgerTerms, release: PoissonRelease | FixedSizeRelease
) -> tuple[str, str] | None:
    if terms.adjacency is None:
        return None
    make = PldAccountant if terms.accountant == "pld" else RdpAccountant
    why = make(adjacency=terms.adjacency).unsupported(charge_of(terms, release).event)
    return None if why is None else ("kind", why)
