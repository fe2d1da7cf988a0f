"""What a key may be allowed."""

from typing import Literal, get_args

ProjectScope = Literal[
    "experiments:read",
    "experiments:write",
    "reports:read",
    "reports:sign",
    "ledger:read",
    "federations:read",
    "federations:write",
    "admin",
]
"""What an administrator may allow within a project."""
Scope = Literal[ProjectScope, "metrics:read"]
"""The figures of the whole service are for those who run it: only who reaches its database makes
a key that reads them (`fedaudit keys create`)."""
PROJECT_SCOPES: tuple[str, ...] = get_args(ProjectScope)
SCOPES: tuple[str, ...] = get_args(Scope)
