"""Signs of life: locked files, whoever wrote them and whoever has their number now."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infrastructure.settings import Settings
from workers.health import Heartbeat, unwell

_NOBODY = "no worker of this machine has given a sign of life"
_BEAT_AND_DIE = """
import os, sys
from pathlib import Path
from infrastructure.settings import Settings
from workers.health import Heartbeat
Heartbeat(Settings(data_dir=Path(sys.argv[1]))).beat()
os._exit(1)
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


@pytest.fixture
def heartbeat(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Heartbeat:
    """Of this process, without a pause between two signs."""
    monkeypatch.setattr("workers.health._PAUSE_SECONDS", 0.0)
    return Heartbeat(settings)


def files(settings: Settings) -> list[Path]:
    return list((settings.data_dir / "workers").glob("*"))


def test_a_beating_worker_is_well_until_it_ends(settings: Settings, heartbeat: Heartbeat) -> None:
    assert unwell(settings) == _NOBODY
    heartbeat.beat()
    assert unwell(settings) is None
    heartbeat.end()
    assert files(settings) == []
    assert unwell(settings) == _NOBODY


def test_a_silent_worker_is_unwell(settings: Settings, heartbeat: Heartbeat) -> None:
    heartbeat.beat()
    [sign] = files(settings)
    age = 3 * settings.lease_seconds + 5
    os.utime(sign, (sign.stat().st_mtime - age,) * 2)
    assert f"worker {os.getpid()} has given no sign of life" in (unwell(settings) or "")
    heartbeat.beat()
    assert unwell(settings) is None


def test_the_file_of_a_dead_worker_is_removed(settings: Settings) -> None:
    subprocess.run([sys.executable, "-c", _BEAT_AND_DIE, settings.data_dir], check=False)
    assert len(files(settings)) == 1
    assert unwell(settings) == _NOBODY
    assert files(settings) == []


def test_a_process_that_has_the_number_of_a_dead_worker_is_no_worker(settings, heartbeat):
    heartbeat.beat()
    [mine] = files(settings)
    # This process runs, and never wrote this file.
    dead = mine.with_name(mine.name.replace(str(os.getpid()), str(os.getppid())))
    dead.touch()
    os.utime(dead, (0, 0))
    assert unwell(settings) is None
    assert files(settings) == [mine]
