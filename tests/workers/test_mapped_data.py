"""Data that are laid out on disk while they are used."""

import os

import pytest
from sqlalchemy import update

from fedaudit.federations.load import RegisteredData
from infrastructure.queue import Queue
from models.tables.experiments import Unit
from tests.api.service import Api
from tests.workers.serving import worker_of
from tests.workers.test_erasure import erase, register
from workers.sweeper import Sweeper


def test_what_earlier_versions_and_killed_processes_left_goes(api: Api) -> None:
    scratch = api.settings.scratch_dir
    for name in ("used", "left"):
        (scratch / name).mkdir(parents=True)
        (scratch / name / "features.npy").write_bytes(b"half")
    os.utime(scratch / "left", (0, 0))
    Sweeper(api.settings, api.database, Queue(api.settings)).tick()
    assert [path.name for path in scratch.iterdir()] == ["used"]


class KilledError(BaseException):
    """What no worker survives to handle."""


def test_no_receipt_is_signed_while_a_worker_reads_the_data(api, monkeypatch):
    context = worker_of(api)
    sweeper, erased = Sweeper(api.settings, api.database, context.queue), list[str]()

    def erased_meanwhile(data: RegisteredData, fingerprint: str) -> None:
        id_ = str(data.registration.federation.id)
        assert erase(api, id_).is_success
        erased.append(id_)
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(RegisteredData, "profile", erased_meanwhile)
        with pytest.raises(KilledError):
            register(api, context)
    erasure = f"/v1/federations/{erased[0]}/erasure"
    sweeper.tick()
    assert api.get(erasure).json()["status"] == "erasing"
    with api.database.write() as session:
        session.execute(update(Unit).values(lease_until=Unit.created_at))
    sweeper.tick()
    assert api.get(erasure).json()["status"] == "erased"
