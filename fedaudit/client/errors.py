"""What can go wrong between a client and the service."""

from collections.abc import Sequence

from fedaudit.spec.errors import FieldError


class ClientError(Exception):
    """Anything that a call to the service may raise."""


class NotConfiguredError(ClientError):
    """The service's address or the key is not given."""


class UnreachableError(ClientError):
    """Nobody answered, or what answered is not this service."""


class ProblemError(ClientError):
    """The service refused (RFC 9457)."""

    def __init__(
        self,
        status: int,
        type: str,  # noqa: A002 the standard's name
        detail: str,
        errors: Sequence[FieldError] = (),
        *,
        retry_after_seconds: float | None = None,
    ) -> None:
        faults = "".join(f"\n  {error.pointer or '(body)'}: {error.message}" for error in errors)
        super().__init__(f"{detail} ({status} {type.rpartition('/')[2]}){faults}")
        self.status = status
        self.type = type
        """A URI whose last part names the kind of problem, as `budget-exhausted`."""
        self.detail = detail
        self.errors = tuple(errors)
        """For invalid input: each field and its fault."""
        self.retry_after_seconds = retry_after_seconds
        """When the service asks to be called again; None where it does not say."""

    @property
    def is_temporary(self) -> bool:
        """Whether the same call may succeed later: too many calls, or a service that cannot answer
        just now."""
        return self.status in (429, 503)

    @property
    def slug(self) -> str:
        """The last part of `type`."""
        return self.type.rpartition("/")[2]
