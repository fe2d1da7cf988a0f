"""The database's clock in SQL: leases are judged by one clock, whatever the machines say."""

from datetime import datetime
from typing import Any

from sqlalchemy import Float, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from models.tables.base import UtcDateTime


class DatabaseTime(FunctionElement[datetime]):
    """The database's clock as a row is examined, plus seconds. Not the transaction's start: a
    statement that waited for a lock would take an expired lease for a running one."""

    name = "database_time"
    inherit_cache = True
    type = UtcDateTime()


def seconds_from_now(seconds: float = 0.0) -> DatabaseTime:
    """`seconds` after the database's present; negative for the past."""
    return DatabaseTime(bindparam(None, float(seconds), type_=Float()))


@compiles(DatabaseTime, "postgresql")
def _on_postgresql(element: DatabaseTime, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(clock_timestamp() + make_interval(secs => {seconds}))"


@compiles(DatabaseTime, "sqlite")
def _on_sqlite(element: DatabaseTime, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    # Milliseconds padded to the six digits in which SQLAlchemy stores times: text then compares
    # as time does.
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', {seconds} || ' seconds')"
