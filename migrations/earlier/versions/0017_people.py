"""Keys have a person, and what people did is on record.

What was done before has no actor. Keys that administer may sign reports off, once they name a
person, and no other key that exists may.

Revision ID: 0017
"""

import sqlalchemy as sa
from alembic import op

from migrations.earlier.tables import create_table
from models.tables.base import UtcDateTime

revision = "0017"
down_revision = "0016"

_SIGN = "reports:sign"
_keys = sa.table("api_keys", sa.column("id"), sa.column("scopes", sa.JSON()))


def upgrade() -> None:
    """Adds the columns and the tables, and the scope to keys with `admin`."""
    for name in ("person", "created_by"):
        op.add_column("api_keys", sa.Column(name, sa.JSON(none_as_null=True), nullable=True))
    for name in ("created_by", "cancelled_by"):
        op.add_column("experiments", sa.Column(name, sa.JSON(none_as_null=True), nullable=True))
    for name in ("created_by", "updated_by"):
        op.add_column("gate_policies", sa.Column(name, sa.JSON(none_as_null=True), nullable=True))
    create_table(
        "setting_changes",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("subject_kind", sa.String(64), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("setting", sa.String(64), nullable=False),
        sa.Column("value", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("changed_by", sa.JSON(), nullable=False),
        sa.Column("changed_at", UtcDateTime(), nullable=False),
        key=("id",),
        references={"project_id": "projects.id"},
    )
    op.create_index(
        "ix_setting_changes_subject",
        "setting_changes",
        ["project_id", "subject_kind", "subject", "id"],
    )
    create_table(
        "sign_offs",
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("report_hash", sa.String(64), nullable=False),
        sa.Column("decision", sa.String(64), nullable=False),
        sa.Column("statement", sa.JSON(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("envelope", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("signed_at", UtcDateTime(), nullable=True),
        key=("experiment_id", "number"),
        references={"experiment_id": "experiments.id", "project_id": "projects.id"},
    )
    op.create_index("ix_sign_offs_signed_at", "sign_offs", ["signed_at", "created_at"])
    _change_scopes(add=True)


def _change_scopes(*, add: bool) -> None:
    """The scope is added to keys with `admin`, or taken from every key."""
    connection = op.get_bind()
    for key_id, stored in connection.execute(sa.select(_keys.c.id, _keys.c.scopes)).all():
        scopes = [scope for scope in stored if scope != _SIGN]
        if add and "admin" in scopes:
            scopes.append(_SIGN)
        if scopes != stored:
            changed = sa.update(_keys).where(_keys.c.id == key_id).values(scopes=scopes)
            connection.execute(changed)
