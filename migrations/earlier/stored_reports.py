"""What stored reports are found by, read from their documents as revision 0008 found them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

_AT_ONCE = 200
_PRIVACY = (
    "leakage_median",
    "leakage_max",
    "leakage_per_release",
    "epsilon_max",
    "participations_max",
    "refusals",
    "withheld",
)
_UTILITY = (
    "validation_loss",
    "selection_loss",
    "accuracy",
    "baseline_accuracy",
    "baseline_loss",
    "accuracy_over_baseline",
    "loss_under_baseline",
    "prediction_share",
    "rounds",
    "collapsed_rounds",
)
_GUARANTEE = ("kind", "mechanism", "unit", "adjacency", "delta", "observers", "reasons")

_OWNER = ("experiment_id", "project_id")

_reports = sa.table("reports", *map(sa.column, (*_OWNER, "report_hash")))
_summaries = sa.table(
    "report_summaries",
    *map(sa.column, (*_OWNER, "report_hash", "guarantee_kind", "unit")),
    sa.column("summary", sa.JSON(none_as_null=True)),
)
# As text: a document that somebody has changed need not be JSON.
_text = sa.cast(sa.literal_column("document"), sa.Text()).label("text")
_figures = sa.table(
    "report_figures",
    *map(
        sa.column,
        (*_OWNER, "figure", "attribute", "observer", "delta", "adjacency", "value", "reason"),
    ),
)


def index_stored_reports(connection: Connection) -> None:
    """Fill the tables; of a report that cannot be read there is a summary without content."""
    last = ""
    while rows := connection.execute(
        sa.select(*_reports.c, _text)
        .where(_reports.c.experiment_id > last)
        .order_by(_reports.c.experiment_id)
        .limit(_AT_ONCE)
    ).all():
        found = [(dict(zip(_OWNER, row[:2], strict=True)), row, _read(row.text)) for row in rows]
        connection.execute(
            sa.insert(_summaries),
            [
                {**owner, "report_hash": row.report_hash, **summary}
                for owner, row, (summary, _) in found
            ],
        )
        figures = [{**owner, **figure} for owner, _, (_, of) in found for figure in of]
        if figures:
            connection.execute(sa.insert(_figures), figures)
        last = rows[-1].experiment_id


def _read(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a list shows of a report, and its figures; nothing of what is none."""
    try:
        document = json.loads(text)
        guarantee = document["guarantee"]
        summary = {
            "guarantee_kind": guarantee["kind"],
            "unit": guarantee["unit"],
            "summary": {
                "verdict": document["verdict"],
                "degenerate": document["utility"].get("degenerate"),
                "guarantee": {name: guarantee[name] for name in _GUARANTEE},
            },
        }
        return summary, list(_figures_of(document))
    except (ValueError, KeyError, TypeError, AttributeError):
        return dict.fromkeys(("guarantee_kind", "unit", "summary")), []


def _figures_of(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    privacy, utility = document["privacy"], document["utility"]
    for name in _PRIVACY:
        counted = document["guarantee"] if name == "epsilon_max" else {}
        if privacy.get(name) is None:
            counted = {}
        yield _row(
            name,
            privacy.get(name),
            privacy["reasons"].get(name),
            delta=counted.get("delta"),
            adjacency=counted.get("adjacency"),
        )
    for one in privacy.get("epsilon", ()):
        yield _row(
            "epsilon_max",
            one["value"],
            None,
            observer=one["observer"],
            delta=one["delta"],
            adjacency=one["adjacency"],
        )
    for name in _UTILITY:
        yield _row(name, utility.get(name), utility["reasons"].get(name))
    for section in document["fairness"]:
        for name, metric in section["metrics"].items():
            yield _row(name, metric["value"], metric["reason"], attribute=section["attribute"])


def _row(
    figure: str,
    value: float | None,
    reason: str | None,
    *,
    attribute: str = "",
    observer: str = "",
    delta: float | None = None,
    adjacency: str | None = None,
) -> dict[str, Any]:
    return {
        "figure": figure,
        "attribute": attribute,
        "observer": observer,
        "delta": delta,
        "adjacency": adjacency,
        "value": None if value is None else float(value),
        "reason": reason,
    }
