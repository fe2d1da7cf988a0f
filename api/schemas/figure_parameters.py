"""Parameters about figures: an epsilon means something only with its delta."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.spec.errors import refuse_at
from models.repositories.report_lists import EPSILON

Delta = Annotated[
    float | None,
    Field(gt=0, lt=1, description="Only epsilons at this delta; needed to bound or sort by one."),
]
AdjacencyName = Annotated[
    Adjacency | None, Field(description="Only epsilons that are counted under it.")
]


def needs_delta(figures: Iterable[str], delta: float | None) -> None:
    """Raises PydanticCustomError where an epsilon is bounded or sorted by without a delta."""
    if delta is None and EPSILON in figures:
        raise refuse_at(
            "/query/delta", "an epsilon means something only with its delta; give `delta` too"
        )
