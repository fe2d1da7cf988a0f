"""What a run needs is tried before it: a missing library ends nothing halfway."""

import os
import sys
from pathlib import Path

import pytest

from fedaudit.cli.main import main
from fedaudit.cli.output import CommandError
from fedaudit.cli.run import run_locally
from fedaudit.cli.up import up
from fedaudit.runs.run import LIBRARIES
from tests.privacy.specs_of_privacy import a_spec
from tests.processes import completed

EXTRA = "pip install 'WHEEL[worker]'"


@pytest.mark.parametrize("missing", LIBRARIES)
def test_no_local_run_trains_without_them(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(CommandError, match=f"training needs {missing}") as raised:
        run_locally(a_spec(), sources_dir=None, device="cpu", progress=rounds.append)
    assert EXTRA in str(raised.value)
    assert rounds == []


@pytest.mark.parametrize("missing", LIBRARIES)
def test_no_service_starts_without_them(missing, monkeypatch, tmp_path, capsys) -> None:
    """Its worker would end again and again, below the words that it is ready."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit, match="2"):
        main(lambda: up(data_dir=tmp_path / "data"))
    assert f"this needs {missing}: {EXTRA}" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_no_worker_starts_without_them(sqlite_template: Path, tmp_path: Path) -> None:
    (tmp_path / "fedaudit.db").write_bytes(sqlite_template.read_bytes())
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "fairlearn.py").write_text("raise OSError('libgomp.so.1 is missing')\n")
    paths = os.pathsep.join(filter(None, [str(broken), os.environ.get("PYTHONPATH")]))
    done = completed(
        [sys.executable, "-P", "-m", "workers", "--device", "cpu"],
        env={**os.environ, "FEDAUDIT_DATA_DIR": str(tmp_path), "PYTHONPATH": paths},
    )
    assert done.returncode == 1
    assert "training needs fairlearn" in done.stderr
    assert "libgomp.so.1 is missing" in done.stderr
    assert EXTRA in done.stderr
