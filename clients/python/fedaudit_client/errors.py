"""Errors of calls to the service."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldError:
    """One invalid field of a request."""

    pointer: str
    """The field, as a JSON pointer (RFC 6901); empty for the whole body."""
    message: str
    """The fault and its remedy."""


class ClientError(Exception):
    """Base class of the errors of calls."""

    is_temporary: bool = False
    """Whether the same call may succeed later."""


class NotConfiguredError(ClientError):
    """The service's address or the key is missing or invalid."""


class UnreachableError(ClientError):
    """There was no answer, or it does not come from this service."""

    def __init__(self, message: str, *, is_temporary: bool = True) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary


class ProblemError(ClientError):
    """The service refused (RFC 9457); the subclasses are kinds of refusal."""

    def __init__(
        self,
        status: int,
        type: str,  # noqa: A002 the standard's name
        detail: str,
        errors: Sequence[FieldError] = (),
        *,
        retry_after_seconds: float | None = None,
        request_id: str | None = None,
    ) -> None:
        faults = "".join(f"\n  {error.pointer or '(body)'}: {error.message}" for error in errors)
        # The detail of invalid input repeats the first fault, or names the fields of all.
        repeated = any(error.message in detail for error in errors[:1]) or (
            bool(errors) and all(error.pointer and error.pointer in detail for error in errors)
        )
        said = "invalid request" if repeated else detail
        super().__init__(f"{said} ({status} {type.rpartition('/')[2]}){faults}")
        self.status = status
        self.type = type
        """A URI; its last part names the kind of problem, as `budget-exhausted`."""
        self.detail = detail
        self.errors = tuple(errors)
        """Each field and its fault, for invalid input."""
        self.retry_after_seconds = retry_after_seconds
        """The pause that the service asks for; None if it asks for none."""
        self.request_id = request_id
        """The id of the request in the service's log; None if the answer has none."""
        self.is_temporary = status in (429, 503)

    @property
    def slug(self) -> str:
        """The last part of `type`."""
        return self.type.rpartition("/")[2]


class ValidationError(ProblemError):
    """The request is invalid; `errors` has every fault."""


class UnauthorisedError(ProblemError):
    """The key is unknown or revoked."""


class ForbiddenError(ProblemError):
    """The key lacks the scope."""


class NotFoundError(ProblemError):
    """The key's project has no such thing."""


class ConflictError(ProblemError):
    """The present state does not allow it."""


class BudgetExhaustedError(ConflictError):
    """The worst case exceeds what remains of a budget."""


class GatesNotPassedError(ClientError):
    """Required gates did not pass, or there are none."""

    def __init__(self, experiment_id: str, outcome: str | None, lines: Sequence[str]) -> None:
        said = "has no gates" if outcome is None else f"did not pass its gates: {outcome}"
        super().__init__("".join((f"experiment {experiment_id} {said}", *lines)))
        self.experiment_id = experiment_id
        self.outcome = outcome
        """`fail` or `insufficient_evidence`; None if there are no gates."""


PROBLEMS: dict[str, type[ProblemError]] = {
    "validation-error": ValidationError,
    "unauthorised": UnauthorisedError,
    "forbidden": ForbiddenError,
    "not-found": NotFoundError,
    "conflict": ConflictError,
    "budget-exhausted": BudgetExhaustedError,
    "simulation-forbidden": ConflictError,
    "idempotency-mismatch": ConflictError,
}
"""The class of each kind of problem, by the last part of its type; others are ProblemErrors."""
