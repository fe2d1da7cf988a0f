"""Where a visitor may go: a page never links to one that the visitor's key does not open."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from models.vocabulary import Scope

if TYPE_CHECKING:
    from api.pages.session import Visitor


@dataclass(frozen=True)
class Place:
    """A page in the main navigation."""

    path: str
    name: str
    scope: Scope | None
    """What the key needs; None for everybody."""
    unless: Scope | None = None
    """With this scope another place leads here."""


PLACES = (
    Place("/", "Experiments", "experiments:read"),
    Place("/experiments/new", "New", "experiments:write"),
    Place("/sweeps", "Sweeps", "experiments:read"),
    Place("/reports", "Reports", "reports:read"),
    Place("/audits", "Audits", "experiments:read"),
    Place("/ledgers", "Ledgers", "experiments:read"),
    Place("/compare", "Compare", "reports:read"),
    Place("/federations", "Federations", "federations:read"),
    Place("/federations/new", "Bring a table", "federations:write", unless="federations:read"),
    Place("/webhooks", "Webhooks", "admin"),
    Place("/docs", "API", None),
)
_HOMES = ("/", "/reports", "/federations", "/experiments/new", "/federations/new")
"""In the order of preference."""


def places(visitor: "Visitor") -> list[Place]:
    """What the navigation shows this visitor."""
    return [
        one
        for one in PLACES
        if (one.scope is None or visitor.may(one.scope))
        and not (one.unless is not None and visitor.may(one.unless))
    ]


def home(visitor: "Visitor") -> Place | None:
    """The page that the visitor's key is best for; None where it opens none."""
    open_to = {one.path: one for one in places(visitor)}
    return next((open_to[path] for path in _HOMES if path in open_to), None)
