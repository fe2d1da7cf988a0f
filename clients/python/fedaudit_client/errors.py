"""What can go wrong between a client and the service."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldError:
    """One fault of what was sent."""

    pointer: str
    """The field, as a JSON pointer (RFC 6901); empty for the body as a whole."""
    message: str
    """What is wrong, and the remedy."""


class ClientError(Exception):
    """Anything that a call to the service may raise."""

    is_temporary: bool = False
    """Whether the same call may succeed later."""


class NotConfiguredError(ClientError):
    """The service's address or the key is not given, or is none."""


class UnreachableError(ClientError):
    """Nobody answered, or what answered is not this service."""

    def __init__(self, message: str, *, is_temporary: bool = True) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary


class ProblemError(ClientError):
    """The service refused (RFC 9457). Kinds that are worth telling apart have classes."""

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
        # The detail of invalid input is the first fault once more, or names the places of all.
        repeated = any(error.message in detail for error in errors[:1]) or (
            bool(errors) and all(error.pointer and error.pointer in detail for error in errors)
        )
        said = "what was sent cannot be used" if repeated else detail
        super().__init__(f"{said} ({status} {type.rpartition('/')[2]}){faults}")
        self.status = status
        self.type = type
        """A URI whose last part names the kind of problem, as `budget-exhausted`."""
        self.detail = detail
        self.errors = tuple(errors)
        """For invalid input: each field and its fault."""
        self.retry_after_seconds = retry_after_seconds
        """When the service asks to be called again; None where it does not say."""
        self.request_id = request_id
        """By which the service's log has the request; None where the answer has none."""
        self.is_temporary = status in (429, 503)

    @property
    def slug(self) -> str:
        """The last part of `type`."""
        return self.type.rpartition("/")[2]


class ValidationError(ProblemError):
    """What was sent cannot be used; `errors` has every fault."""


class UnauthorisedError(ProblemError):
    """The key is unknown or revoked."""


class ForbiddenError(ProblemError):
    """The key lacks the scope."""


class NotFoundError(ProblemError):
    """The key's project has no such thing."""


class GoneError(ProblemError):
    """It was there, and expired or was erased; `members` say which, and when."""


class ConflictError(ProblemError):
    """It does not fit the present state."""


class BudgetExhaustedError(ConflictError):
    """The worst case does not fit what is left of a budget."""


class SimulationForbiddenError(ConflictError):
    """The owner of the data admits no simulated noise."""


class IdempotencyMismatchError(ConflictError):
    """The idempotency key was used with another body."""


class PreconditionFailedError(ProblemError):
    """It is no longer as it was."""


class PayloadTooLargeError(ProblemError):
    """The body or the file is larger than the service takes."""


class RateLimitedError(ProblemError):
    """Too many requests or event streams at once."""


class UnavailableError(ProblemError):
    """The service cannot answer just now."""


class GatesNotPassedError(ClientError):
    """Gates that had to pass did not, or there are none."""

    def __init__(self, experiment_id: str, outcome: str | None, told: Sequence[str]) -> None:
        said = "has no gates" if outcome is None else f"did not pass its gates: {outcome}"
        super().__init__("".join((f"experiment {experiment_id} {said}", *told)))
        self.experiment_id = experiment_id
        self.outcome = outcome
        """`fail` or `insufficient_evidence`; None where there are no gates."""


PROBLEMS: dict[str, type[ProblemError]] = {
    "validation-error": ValidationError,
    "unauthorised": UnauthorisedError,
    "forbidden": ForbiddenError,
    "not-found": NotFoundError,
    "method-not-allowed": ProblemError,
    "gone": GoneError,
    "conflict": ConflictError,
    "budget-exhausted": BudgetExhaustedError,
    "simulation-forbidden": SimulationForbiddenError,
    "idempotency-mismatch": IdempotencyMismatchError,
    "precondition-failed": PreconditionFailedError,
    "payload-too-large": PayloadTooLargeError,
    "unsupported-media-type": ProblemError,
    "request-timeout": ProblemError,
    "rate-limited": RateLimitedError,
    "too-many-streams": RateLimitedError,
    "unavailable": UnavailableError,
    "internal-error": ProblemError,
}
"""The class of each kind of problem, by the last part of its type; others are ProblemErrors."""
