"""Backups as docs/operations.md says to make them: restored, every chain and signature holds.

That of Postgres is part of the drill of operations."""

import os
import re
import subprocess
from pathlib import Path

from benchmarks.servers import postgres_programs
from tests.api.service import KEY, Api, finish, running_api, settings_for, spec
from tests.cli.service import SCRIPT
from tests.processes import completed

PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text()


def commands(heading: str) -> list[str]:
    """The shell commands below a heading of the page."""
    section = PAGE.split(f"\n### {heading}\n")[1].split("\n### ")[0]
    return re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)


def run(folder: Path, command: str, **environment: str) -> None:
    path = f"{postgres_programs()}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        check=True,
        timeout=120,
    )


def two_reports(api: Api) -> dict[str, bytes]:
    """The bundles of two finished experiments by id."""
    found = {}
    for seed in (7, 8):
        id_ = api.submit(spec(seed=seed))["id"]
        finish(api, id_)
        found[id_] = api.get(f"/v1/experiments/{id_}/bundle").content
    return found


def assert_verified(url: str, before: dict[str, bytes], folder: Path) -> None:
    """A service on the restored database shows the same bundles, and each verifies by itself."""
    key = folder / "signing-key.pem.pub"
    key.write_text(KEY.public.pem)
    with running_api(settings_for(url, folder)) as api:
        api.key = api.key_with("ledger:read", "reports:read", project="hospital")
        for id_, bundle in before.items():
            again = api.get(f"/v1/experiments/{id_}/bundle").content
            assert again == bundle
            path = folder / f"{id_}.zip"
            path.write_bytes(again)
            said = completed([SCRIPT, "verify", path, "--public-key", key])
            assert said.returncode == 0, said.stdout + said.stderr


def test_sqlite(sqlite_url: str, tmp_path: Path) -> None:
    [backup] = commands("SQLite")
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        before = two_reports(api)
        run(tmp_path, backup, FEDAUDIT_DATA_DIR=str(tmp_path))
        # Not in the copy: it was taken before.
        api.submit(spec(seed=9))
    assert_verified(f"sqlite:///{tmp_path / 'fedaudit.backup.db'}", before, tmp_path)
