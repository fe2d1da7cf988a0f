"""What each client of an experiment paid and how it fares. Confidential."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy.orm import Session

from api.http.problems import conflict
from api.services.lookups import names_of
from api.shared.security import Caller
from fedaudit.reports.clients import client_line, shared_reasons
from models.repositories import ExperimentRepository
from models.tables.experiments import Report

MOST_SHOWN = 100
"""Clients of a table in a page; of more, quantiles are shown."""
_QUANTILES = (0, 0.25, 0.5, 0.75, 1)
_ROUNDED = (
    "Figures here are exact; the report's rates come from counts rounded at random to multiples of "
    "{}, so the two differ."
)


class ClientLines(NamedTuple):
    """Some clients in the order of their names."""

    lines: Sequence[dict[str, Any]]
    figure: str | None
    """What is spent: `leakage` or `epsilon`."""
    clients: int
    quantiles: dict[str, list[float]]
    """Least, quartiles and largest of what was spent, by those that trained, and of accuracies,
    where clients are many."""
    shared: Sequence[str]
    """Reasons that all lines of clients that trained have."""
    rounding: str
    """That the report's rates differ from these figures, where counts were rounded; else ''."""


def client_lines(
    session: Session, report: Report, *, start: int = 0, limit: int = MOST_SHOWN
) -> ClientLines:
    """The clients of a report's experiment. Raises ProblemError where nothing is kept of them."""
    experiment = ExperimentRepository(session, report.project_id).existing(report.experiment_id)
    columns = report.clients
    if columns is None:
        raise conflict(
            "nothing is kept of the clients of this experiment: they were erased, or an earlier "
            "version trained it; submit the spec again"
        )
    count, names = len(columns["reason"]), names_of(session, experiment)
    if found := columns.get("client"):
        names = tuple(found)
    elif len(names) != count:  # of a version that kept no names where all are charged together
        names = tuple(f"client {place}" for place in range(1, count + 1))
    places = range(start, min(start + limit, len(names)))
    quantiles: dict[str, list[float]] = {}
    if len(names) > MOST_SHOWN:
        for name in ("spent", "accuracy"):
            known = [one for one in columns[name] if one is not None]
            if known:
                quantiles[name] = np.quantile(known, _QUANTILES).tolist()
    base = (report.document["spec"]["fairness"].get("rounding") or {}).get("base", 1)
    lines = [client_line(columns, place, names[place]) for place in places]
    return ClientLines(
        lines,
        columns["figure"],
        len(names),
        quantiles,
        shared=shared_reasons(lines),
        rounding="" if base == 1 else _ROUNDED.format(base),
    )


def shown_clients(session: Session, caller: Caller, report: Report | None) -> ClientLines | None:
    """Those of a page; None for callers who may not read the ledger, without a report, and where
    nothing is kept."""
    if report is None or report.clients is None or not caller.may("ledger:read"):
        return None
    return client_lines(session, report)
