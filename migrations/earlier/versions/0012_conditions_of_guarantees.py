"""The theorem's sum of an experiment, and whether a report's guarantee is in force.

Both are filled in for what is stored: an experiment's noise was secret where its spec asks for
release noise, and the sum stands in the report.

Revision ID: 0012
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Connection

revision = "0012"
down_revision = "0011"

_AT_ONCE = 200
_SUM = "log_ratio_max"

_experiments = sa.table("experiments", *map(sa.column, ("id", "project_id", _SUM)))
_figures = sa.table(
    "report_figures",
    *map(
        sa.column,
        ("experiment_id", "project_id", "figure", "attribute", "observer", "value", "reason"),
    ),
)
_summaries = sa.table(
    "report_summaries",
    *map(sa.column, ("experiment_id", "in_force")),
    sa.column("summary", sa.JSON(none_as_null=True)),
)
_reports = sa.table("reports", *map(sa.column, ("experiment_id", "project_id")))
# As text: a document that somebody has changed need not be JSON.
_document = sa.cast(sa.literal_column("document"), sa.Text()).label("document")


def upgrade() -> None:
    """Adds the columns, with what stored reports say."""
    op.add_column("experiments", sa.Column(_SUM, sa.Double(), nullable=True))
    op.add_column("report_summaries", sa.Column("in_force", sa.Boolean(), nullable=True))
    fill_from_reports(op.get_bind())


def fill_from_reports(connection: Connection) -> None:
    """Fills the columns, and adds the figure."""
    last = ""
    while rows := connection.execute(
        sa.select(_reports.c.experiment_id, _reports.c.project_id, _document)
        .where(_reports.c.experiment_id > last)
        .order_by(_reports.c.experiment_id)
        .limit(_AT_ONCE)
    ).all():
        for experiment_id, project_id, document in rows:
            _fill(connection, experiment_id, project_id, document)
        last = rows[-1].experiment_id


def _fill(connection: Connection, experiment_id: str, project_id: str, document: str) -> None:
    """From a report that can be read; of any other nothing is claimed."""
    try:
        report = json.loads(document)
        privacy, facts = report["privacy"], _guarantee_facts(report)
    except (ValueError, KeyError, TypeError):
        return
    mine = _summaries.c.experiment_id == experiment_id
    summary = connection.scalar(sa.select(_summaries.c.summary).where(mine))
    if summary is not None:
        summary = {**summary, "guarantee": {**summary["guarantee"], **facts}}
    connection.execute(
        sa.update(_summaries).where(mine).values(in_force=facts["in_force"], summary=summary)
    )
    value = privacy.get(_SUM)
    if not isinstance(value, int | float):
        value = None
    connection.execute(
        sa.update(_experiments).where(_experiments.c.id == experiment_id).values({_SUM: value})
    )
    connection.execute(
        sa.insert(_figures).values(
            experiment_id=experiment_id,
            project_id=project_id,
            figure=_SUM,
            attribute="",
            observer="",
            value=value,
            reason=privacy.get("reasons", {}).get(_SUM),
        )
    )


def _guarantee_facts(report: dict[str, Any]) -> dict[str, Any]:
    """What lists show of the guarantee; where the report does not say, what its spec implies.

    Raises KeyError for a report that lacks what it follows from.
    """
    guarantee, privacy = report["guarantee"], report["spec"]["privacy"]
    kind = guarantee["kind"]
    unclipped = privacy["mechanism"] == "laplace-l2" and privacy.get("clip") is None
    within = kind == "formal" and unclipped
    in_force = kind in ("formal", "heuristic") and privacy["noise"] == "release"
    implied = {
        "label": "formal within the radius" if within else kind,
        "in_force": in_force,
        "conditions": None,
    }
    return {name: guarantee.get(name, value) for name, value in implied.items()}
