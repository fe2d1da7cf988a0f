"""What a page draws of several runs, as its reader chose by a form without a script."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import urlencode

from pydantic import BaseModel, Field

from fedaudit.reports.charts.report_charts import Point, chosen, chosen_chart, offers

_Name = Annotated[str | None, Field(max_length=400)]


class ChosenAxes(BaseModel):
    """The query of such a page; what is not offered is as if it were not given."""

    x: _Name = None
    y: _Name = None
    lines: _Name = None
    only: _Name = None
    refresh: _Name = None

    def picture(
        self, points: Sequence[Point], figures: Sequence[str], *, preferred: str
    ) -> dict[str, Any] | None:
        """The chart, what was chosen and offered for it, and the query that asks for the same; None
        where nothing can be drawn. `preferred`: how the name of the usual x ends."""
        offered = offers(points, figures)
        choice = chosen(points, offered, self.model_dump(), preferred=preferred)
        if choice is None:
            return None
        query = urlencode({**self.model_dump(exclude_none=True), **asdict(choice)}, doseq=True)
        chart = chosen_chart(points, choice)
        return {"offered": offered, "choice": choice, "chart": chart, "query": query}


class ComparedAxes(ChosenAxes):
    """Axes with the experiments that are compared."""

    experiment_id: list[str] = []
