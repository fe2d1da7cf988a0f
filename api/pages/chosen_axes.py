"""What a page draws of several runs, as its reader chose by a form without a script."""

import base64
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from fedaudit.reports.charts.chosen_chart import Point, chosen, chosen_chart, offers
from fedaudit.reports.page.style_sheets import chart_file

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
        """The chart, what was chosen and offered for it, and the chart as a file; None where
        nothing can be drawn. `preferred`: how the name of the usual x ends."""
        offered = offers(points, figures)
        choice = chosen(points, offered, self.model_dump(), preferred=preferred)
        if choice is None:
            return None
        chart = chosen_chart(points, choice)
        file = None
        if chart is not None:
            encoded = base64.b64encode(chart_file(chart).encode()).decode()
            file = f"data:image/svg+xml;base64,{encoded}"
        return {"offered": offered, "choice": choice, "chart": chart, "file": file}


class ComparedAxes(ChosenAxes):
    """With the experiments that are compared."""

    experiment_id: list[str] = []
