"""Federations."""

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel

from api.http.problems import ProblemFault
from api.schemas.base import Body, PageParameters
from fedaudit.spec.disclosure.disclosure_departures import registration_faults
from fedaudit.spec.disclosure.disclosure_policy import parse_disclosure_policy
from fedaudit.spec.registration import parse_registration
from models.tables.federations import Federation
from models.values import FederationStatus, Simulation


class FederationBody(BaseModel):
    """One federation: the clients' data, known by its fingerprint."""

    id: str
    name: str
    source: str
    status: FederationStatus
    fingerprint: str
    """SHA-256 of the file's content, gzip undone."""
    file_name: str | None
    size_bytes: int | None
    """Of the file as it was sent, perhaps compressed."""
    registration: dict[str, Any] | None
    """Null where nobody registered it, and experiments named the file by its path."""
    reasons: list[ProblemFault]
    """Why it was rejected: what `errors` has, under its earlier name."""
    errors: list[ProblemFault]
    """Why it was rejected, as the problem of a submission has it: each fault of the data with its
    field in the registration."""
    clients: int | None
    rows: int | None
    profile: dict[str, Any] | None
    """Null unless it is ready, and for keys without the scope federations:read."""
    created_at: datetime
    profiled_at: datetime | None
    simulation: Simulation
    """Whether experiments are admitted whose noise anyone can draw again from the seed."""
    disclosure: dict[str, Any] | None
    """The fields of its disclosure policy that bind; null where everything is left to whoever
    asks."""
    deleted_at: datetime | None
    warnings: list[str]
    """What is known of its rows: that most of them are those of other registered content, whose
    budget is separate. Empty for keys without the scope federations:read."""

    @classmethod
    def of(
        cls, row: Federation, *, reasons: list[dict[str, Any]], profile: bool, warnings: list[str]
    ) -> Self:
        """The body of a stored federation.

        `reasons`, `profile` and `warnings`: what its reader may see of why it was rejected, whether
        of what its data look like, and of what is like it.
        """
        same = {name: getattr(row, name) for name in cls.model_fields if hasattr(row, name)}
        return cls(
            **{
                **same,
                "reasons": reasons,
                "errors": reasons,
                "clients": row.profile.get("clients"),
                "rows": row.profile.get("rows"),
                "profile": shown_profile(row) if profile else None,
                "warnings": warnings,
            }
        )


def shown_profile(row: Federation) -> dict[str, Any] | None:
    """A federation's profile for whoever may read federations; None where it has none.

    Of data that nobody registered the groups are left out: they are those of the experiment that
    came first, and earlier versions stored their sizes however small. So are those of data that
    were registered before their disclosure policy, and otherwise than it demands.
    """
    if not row.profile:
        return None
    if row.profiled_at is None:
        return _without(row.profile, "attributes")
    if not _departs(row):
        return row.profile
    warnings = [*row.profile.get("warnings", []), {"pointer": "", "message": _DEPARTS}]
    # The rows of each class are suppressed by the same size.
    return {**_without(row.profile, "attributes", "class_balance"), "warnings": warnings}


def _without(profile: dict[str, Any], *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in profile.items() if name not in left_out}


def _departs(row: Federation) -> bool:
    """Whether the profile shows groups that the present policy would not."""
    if row.disclosure is None or row.registration is None:
        return False
    policy, registration = (
        parse_disclosure_policy(row.disclosure),
        parse_registration(row.registration),
    )
    return bool(registration_faults(policy, registration, registration=None))


_DEPARTS = (
    "the profile was made before the federation's disclosure policy, and otherwise than it "
    "demands, so its groups are left out; register the file again as the policy demands"
)


class SimulationSetting(Body):
    """Whether experiments on a federation may simulate their noise."""

    simulation: Simulation


class FederationParameters(PageParameters):
    """Which page of which federations."""

    status: FederationStatus | None = None


class FederationPage(BaseModel):
    """Some federations."""

    items: list[FederationBody]
    next_cursor: str | None
