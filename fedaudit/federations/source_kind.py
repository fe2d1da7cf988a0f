"""The behaviour of each kind of source: one subclass per kind, defined beside its loader."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fedaudit.arrays import Ints
from fedaudit.federations.federation import Federation
from fedaudit.federations.profiles.profile import profile
from fedaudit.federations.reading.source_files import Files
from fedaudit.spec.errors import error_at
from fedaudit.spec.fairness import Groups
from fedaudit.spec.sources import Source


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """What an experiment requires of its data, apart from the source itself."""

    fairness: Groups
    files: Files
    classification: bool = False
    """Whether the target is a class."""
    seed: int = 0
    """Seed of the experiment; profiles are those of seed 0."""
    budgets: str | None = None
    """The column with every row's privacy budget."""
    keyed: bool = False
    """Whether something is drawn for each record by its key."""
    progress: Callable[[], None] = lambda: None
    """Called now and then while a file is read."""


Of = TypeVar("Of", bound=Source)


class SourceKind(ABC, Generic[Of]):
    """A source of clients' data."""

    def __init__(self, source: Of) -> None:
        self._source = source

    @abstractmethod
    def load(self, asked: LoadRequest) -> Federation:
        """The clients' data. Raises InvalidInputError naming field, column and row."""

    def outline(self, asked: LoadRequest) -> Federation:
        """What a plan needs of the data, with the errors of `load`: perhaps without features."""
        return self.load(asked)

    def profile(self, asked: LoadRequest, fingerprint: str | None) -> dict[str, Any]:
        """Sizes and names as JSON; the data are loaded as for an experiment with seed 0.

        `fingerprint` is the expected one of the data. Raises InvalidInputError with the same
        message as loading the data.
        """
        federation = self.load(asked)
        check_fingerprint(federation.fingerprint, fingerprint)
        asked.progress()
        return profile(federation, asked.fairness)

    def row_hashes(self, asked: LoadRequest, *, keep: int) -> Ints | None:
        """The `keep` smallest hashes of the rows, by which near-copies are found; None for what is
        no table. Raises InvalidInputError."""
        return None


def check_fingerprint(found: str, expected: str | None) -> None:
    """Raises InvalidInputError where a file is not the one that was registered."""
    if expected not in (None, found):
        raise error_at(
            "/federation/path",
            "the file is not what it was when it was registered; register it anew",
        )
