"""Migrations: they give exactly the tables of the code, and all at once."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select, text

import migrations
import models.keys
from migrations.__main__ import main as migrate
from models.database import HEAD, Database, schema_fault
from models.repositories import LedgerRepository
from models.tables.accounts import ApiKey
from models.tables.base import Base
from tests.models.rows import at_once, ledger_row, queued
from tests.processes import completed


def test_upgrade_gives_exactly_the_metadata(database: Database) -> None:
    with database.engine.connect() as connection:
        options = {"compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []
        assert inspect(connection).get_view_names() == ["privacy_ledger"]
    assert schema_fault(database) is None


def test_only_keys_that_administer_may_sign_reports_off_afterwards(empty_database_url: str) -> None:
    migrations.upgrade(empty_database_url, "0016")
    database = Database(empty_database_url)
    time = "'2026-01-01 00:00:00.000000+00'" if database.dialect != "sqlite" else "'2026-01-01'"
    columns = "id, project_id, name, prefix, hash, scopes, created_at"
    with database.write() as session:
        session.execute(text(f"INSERT INTO projects VALUES ('p', 'hospital', {time})"))
        for name, scopes in (("a", '["admin", "reports:read"]'), ("b", '["reports:read"]')):
            values = f"'{name}', 'p', 'k', 'fa_', '{name}', :scopes, {time}"
            insert = text(f"INSERT INTO api_keys ({columns}) VALUES ({values})")
            session.execute(insert, {"scopes": scopes})
    migrations.upgrade(empty_database_url)
    with database.read() as session:
        found = dict(session.execute(select(ApiKey.id, ApiKey.scopes)).all())
    assert found == {"a": ["admin", "reports:read", "reports:sign"], "b": ["reports:read"]}
    database.close()


def test_held_out_people_are_named(database: Database) -> None:
    project_id, new = queued(database)
    charged = replace(ledger_row(3), subject_kind="validation_client", observer="report")
    with database.write() as session:
        LedgerRepository(session, project_id).insert(new.id, [ledger_row(1), charged])
    lines = "SELECT subject, subject_index FROM privacy_ledger WHERE observer = 'report'"
    with database.read() as session:
        assert {tuple(line) for line in session.execute(text(lines))} == {
            ("every validation client", None)
        }


def test_simultaneous_upgrades_all_succeed(empty_database_url: str) -> None:
    at_once(lambda _: migrations.upgrade(empty_database_url), 4)
    assert migrations.current(empty_database_url) == HEAD


def test_a_failing_upgrade_changes_nothing(tmp_path: Path) -> None:
    """A table in the way stops it; what it made before is then not there either."""
    url = f"sqlite:///{tmp_path / 'other.db'}"
    (tmp_path / "other.db").touch()
    database = Database(url)
    with database.write() as session:
        session.execute(text("CREATE TABLE rounds (id INTEGER)"))
    with pytest.raises(Exception, match="rounds"):
        migrations.upgrade(url)
    with database.engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["rounds"]
    database.close()


def test_the_commands_migrate_and_make_a_key(tmp_path, monkeypatch, capsys):
    url = f"sqlite:///{tmp_path / '50% off.db'}"
    monkeypatch.delenv("FEDAUDIT_DATABASE_URL", raising=False)

    def said(code: int, expected: int) -> tuple[str, str]:
        assert code == expected
        out, err = capsys.readouterr()
        return out, err

    def make_key(*scopes: str) -> int:
        asked = {"action": "create", "url": url, "project": "p", "name": "n", "scopes": scopes}
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(asked)))
        return models.keys.main()

    at_url = ["--database-url", url]
    assert said(migrate(["current", *at_url]), 1)[0] == "None\n"
    assert f"no service keeps its data in {tmp_path}" in said(make_key("reports:read"), 2)[1]
    assert list(tmp_path.iterdir()) == []
    # The command itself, as services start it.
    command = [sys.executable, "-P", "-m", "migrations", "upgrade", *at_url]
    assert completed(command, cwd=tmp_path, check=True).stdout == f"{HEAD}  {url[10:]}, made now\n"
    with pytest.raises(SystemExit):
        migrate(["upgrade"])
    assert "--database-url" in capsys.readouterr().err
    out, err = said(make_key("reports:sign"), 1)
    assert (out, "add reports:read" in err) == ("", True)
    answer = json.loads(said(make_key("experiments:read", "ledger:read"), 0)[0])
    assert (answer["project"], answer["key"][:3]) == ("p", "fa_")
    assert answer["scopes"] == ["experiments:read", "ledger:read"]
