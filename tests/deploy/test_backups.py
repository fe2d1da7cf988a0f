"""Backups as docs/operations.md says to make them: restored, every chain and signature holds.

That of Postgres is part of the drill of operations."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.servers import postgres_programs
from tests.api.service import KEY, finish, running_api, settings_for, spec
from tests.house import ROOT
from tests.preloaded import programs

PAGE = (ROOT / "docs/operations.md").read_text()


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


def test_sqlite(sqlite_url: str, tmp_path: Path) -> None:
    """A service on the restored database shows the same bundles, and each verifies by itself."""
    [backup] = commands("SQLite")
    key = tmp_path / "signing-key.pem.pub"
    key.write_text(KEY.public.pem)
    bundles = {}
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        for seed in (7, 8):
            id_ = api.submit(spec(seed=seed))["id"]
            finish(api, id_)
            bundles[id_] = api.get(f"/v1/experiments/{id_}/bundle").content
        for nowhere in ("", str(tmp_path / "nowhere")):
            with pytest.raises(subprocess.CalledProcessError):
                run(tmp_path, backup, FEDAUDIT_DATA_DIR=nowhere)
        assert not (tmp_path / "fedaudit.backup.db").exists()
        run(tmp_path, backup, FEDAUDIT_DATA_DIR=str(tmp_path))
        # Not in the copy: it was taken before.
        api.submit(spec(seed=9))
    restored = settings_for(f"sqlite:///{tmp_path / 'fedaudit.backup.db'}", tmp_path)
    with running_api(restored) as api:
        api.key = api.key_with("ledger:read", "reports:read", project="hospital")
        for id_, bundle in bundles.items():
            assert api.get(f"/v1/experiments/{id_}/bundle").content == bundle
            path = tmp_path / f"{id_}.zip"
            path.write_bytes(bundle)
            asked = ("verify", str(path), "--public-key", str(key))
            said = programs().run(*asked, env=os.environ, cwd=tmp_path, timeout=120)
            assert said.returncode == 0, said.stdout + said.stderr
