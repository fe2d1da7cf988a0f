"""What the rest of the project has to know of a source of data, whichever it is."""

from dataclasses import dataclass
from typing import Literal, assert_never

TargetKind = Literal["number", "class", "either"]
"""What the target of a source is; `either` where the loss decides."""
Statistics = Literal["none", "of each client", "of all clients"]
"""Over whose rows a source computes numbers, without noise, that change features."""


def moves_others(statistics: Statistics, *, by_record: bool) -> bool:
    """Whether one unit, a record or else a client, changes the features of other units."""
    match statistics:
        case "none":
            return False
        case "of each client":
            return by_record
        case "of all clients":
            return True
        case _:
            assert_never(statistics)


@dataclass(frozen=True, kw_only=True)
class SourceTraits:
    """The answers of one source.

    No field has a default: mypy names each source that does not answer a question added here.
    """

    draws_data: bool
    """Whether the loaded data depend on the experiment's seed."""
    client_key: str | None
    """The column or array that says whose a row is; None where the data name no client."""
    made_up: bool
    """Whether the data are drawn from a distribution, and so are nobody's."""
    target_name: str
    """What the target is called."""
    target: TargetKind
    images: bool
    """Whether rows are images."""
    attributes: frozenset[str] | None
    """The only sensitive attributes that it can have; None where the data name them."""
    cuts_attributes: bool
    """Whether a numeric attribute may be cut into groups by `fairness.edges`."""
    training_columns: frozenset[str] | None
    """The named features and the target; None where the data have no columns of the caller's, so
    that no further column can be named."""
    files: tuple[str, ...]
    """Every path below the sources folder that is read."""
    statistics: Statistics
    """Whose rows decide how features are scaled, beyond a row's own cells."""
    finds_classes: bool
    """Whether the classes of a classifier are the values that the data have, and not declared."""
    data_limits: tuple[str, ...]
    """Sentences for a report's limits: what loading reveals without protection."""
    fairness_limits: tuple[str, ...]
    """Sentences for a report's limits: what explains gaps between groups."""

    @property
    def deals_rows(self) -> bool:
        """Whether the seed deals rows to clients by their place, so that one more deals all
        anew."""
        return self.client_key is None and not self.made_up
