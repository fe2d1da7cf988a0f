"""Data are read while they are profiled, and mapped by whoever needs them until they are erased."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedaudit.federations.table import mapped_table, table_kind
from infrastructure.queue import Queue
from tests.api.service import Api, running_api, settings_for
from tests.workers import test_erasure
from tests.workers.epsilon_specs import local
from tests.workers.test_erasure import erase, ran, register, spec_on
from workers.context import WorkerContext
from workers.lifecycle.mapped_data import tidy_maps
from workers.sweeper import Sweeper


@pytest.fixture
def api(
    database_url: str, tmp_path: Path, signing_key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Api]:
    """One that lays out small files as well; the test runs once on each kind of database."""
    # Halves are no classes, so it is known beforehand that experiments regress them.
    header, _, rows = test_erasure.CONTENT.partition(b"\n")
    halves = header + b"\n" + rows.replace(b"\n", b".5\n")
    monkeypatch.setattr(test_erasure, "CONTENT", halves)
    for module in (mapped_table, table_kind):
        monkeypatch.setattr(module, "WORTH_A_MAP", 1)
    settings = settings_for(database_url, tmp_path, signing_key_file=signing_key_file)
    with running_api(settings) as api:
        yield api


def maps(api: Api) -> list[Path]:
    folder = api.settings.maps_dir
    return [] if folder is None else sorted(folder.glob("?" * 64 + "-*"))


def test_a_profiled_table_is_not_read_again_and_its_map_goes_with_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = WorkerContext(api.settings, api.database, Queue(api.settings), "cpu")
    federation = register(api, context)
    assert len(maps(api)) == 1

    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("the table was read")

    monkeypatch.setattr(mapped_table, "load_table", read)
    experiment = ran(api, context, spec_on(federation, local()))
    assert api.get(f"/v1/experiments/{experiment}/report.json").status_code == 200
    tidy_maps(api.settings, api.database)
    assert len(maps(api)) == 1
    assert erase(api, federation).status_code == 202
    sweeper = Sweeper(api.settings, api.database, context.queue)
    sweeper.tick()
    assert not maps(api)
