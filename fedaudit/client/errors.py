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
    ) -> None:
        faults = "".join(f"\n  {error.pointer or '(body)'}: {error.message}" for error in errors)
        super().__init__(f"{detail} ({status} {type.rpartition('/')[2]}){faults}")
        self.status = status
        self.type = type
        """A URI whose last part names the kind of problem, as `budget-exhausted`."""
        self.detail = detail
        self.errors = tuple(errors)
        """For invalid input: each field and its fault."""

    @property
    def slug(self) -> str:
        """The last part of `type`."""
        return self.type.rpartition("/")[2]
