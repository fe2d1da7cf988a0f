"""Who applies a mechanism, which decides how a run is computed and who is charged. No torch."""

from typing import Literal, assert_never

from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    PrivacySpec,
    RecordPersonalised,
)

AppliedBy = Literal["clients", "server", "local-steps"]
"""`clients` protect their own uploads, or send them as they are; a trusted `server` protects the
sum of what it receives; `local-steps` are private record by record."""


def applied_by(privacy: PrivacySpec) -> AppliedBy:
    """Who applies the mechanism of a spec."""
    match privacy:
        case NoMechanism() | LaplaceL2() | GaussianLocal():
            return "clients"
        case GaussianCentral():
            return "server"
        case RecordPersonalised():
            return "local-steps"
        case _:
            assert_never(privacy)
