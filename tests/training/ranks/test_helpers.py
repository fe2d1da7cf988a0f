"""Helper processes that die, fail or hang, and what the first rank hears of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fedaudit.training.base.cell import Cell
from fedaudit.training.ranks import helpers as ranks
from fedaudit.training.ranks.helpers import HelperLostError, Helpers, bound_waiting
from fedaudit.training.ranks.orders import Choose
from fedaudit.training.ranks.rank_group import RankGroup
from fedaudit.training.stack import Stack
from tests.training import other_device
from tests.training.federations import one_by_one, random_federation, table_cell
from tests.training.gaussian import SERVER
from tests.training.one_by_one.test_client_by_client import assert_alike, classifying

ROUNDS = 4


def made() -> Cell:
    data = one_by_one(random_federation(clients=24, classes=3))
    return table_cell(data, **classifying(training__rounds=ROUNDS, **SERVER))


def is_running(pid: int) -> bool:
    """Whether it computes; what its parent has not been told of yet has ended as well."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_on_another_device_until_a_helper_is_killed_and_with_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a device whose memory gloo does not know, vectors go by way of the processor's."""
    monkeypatch.setattr(torch, "tensor", other_device.tensor)
    cell = made()
    expected = Stack([cell]).advance(ROUNDS)[0]
    with Helpers(["cpu"], seconds=60.0) as helpers:
        stack = Stack([cell], device=other_device.DEVICE, helpers=helpers)
        for pair in zip(stack.advance(ROUNDS)[0], expected, strict=True):
            assert_alike(*pair)
        os.kill(helpers.pids[0], signal.SIGKILL)
        with pytest.raises(HelperLostError, match="helper 1 ended with exit code -9"):
            stack.result(0)
        helpers.close()
        assert Stack([cell], helpers=helpers).advance(1)[0][0].round == 1
        (pid,) = helpers.pids
    assert not is_running(pid)


def test_a_helper_that_fails_says_why_and_one_that_hangs_is_given_up() -> None:
    cell = made()
    with Helpers(["cpu", "cpu"], seconds=60.0) as helpers:
        stack = Stack([cell], helpers=helpers)
        stack.advance(1)
        for one in helpers._processes:
            one._seconds = 0.5
            bound_waiting(one._pipe, 0.5)
        os.kill(helpers.pids[0], signal.SIGSTOP)
        with pytest.raises(HelperLostError, match=r"helper 1 has not answered for 0\.5 seconds"):
            helpers.answer(1, list)
        with pytest.raises(HelperLostError, match="helper 1 is out of reach"):
            helpers.ask(1, Choose(list(range(2_000_000))))
        helpers.ask(2, None)  # type: ignore[arg-type]
        with pytest.raises(HelperLostError, match="helper 2 failed: AssertionError"):
            helpers.answer(2, list)
        pids = helpers.pids
    assert not any(map(is_running, pids))


def test_a_helper_has_no_secrets_and_goes_on_where_the_worker_is_asked_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {"FEDAUDIT_NATIVE": "off", "OMP_NUM_THREADS": "1"}
    secrets = ("FEDAUDIT_DATABASE_URL", "FEDAUDIT_SIGNING_KEY_FILE", "AWS_SECRET_ACCESS_KEY")
    for name, value in (kept | dict.fromkeys(secrets, "x")).items():
        monkeypatch.setenv(name, value)
    with Helpers(["cpu"], seconds=60.0) as helpers:
        stack = Stack([made()], helpers=helpers)
        stack.advance(1)
        (pid,) = helpers.pids
        found = dict(
            one.decode().split("=", 1)
            for one in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if one
        )
        assert not found.keys() & set(secrets)
        assert found.items() >= kept.items()
        assert os.getpgid(pid) == pid
        for asked in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, asked)
        assert len(stack.advance(ROUNDS - 1)[0]) == ROUNDS - 1


def test_a_stranger_in_place_of_a_rank_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user of the machine may connect to a port of the loopback address."""

    def stranger(*arguments: Any, **options: Any) -> RankGroup:
        return RankGroup(*arguments, **options | {"secret": b"a guess"})

    with Helpers(["cpu"], seconds=60.0) as helpers:
        with monkeypatch.context() as connecting:
            connecting.setattr(ranks, "RankGroup", stranger)
            with pytest.raises(HelperLostError, match="somebody else has connected in place of"):
                helpers.take(made(), torch.device("cpu"))
        helpers.close()
        helpers.take(made(), torch.device("cpu"))
        assert len(helpers.pids) == 1


HELD = """
from fedaudit.training.ranks import helpers as module
from tests.training.ranks.test_helpers import made
import torch, time
helpers = module.Helpers(["cpu", "cpu"])
def wait(*arguments, **options):
    print(*helpers.pids, flush=True)
    time.sleep(60)
module.RankGroup = wait
helpers.take(made(), torch.device("cpu"))
"""


def test_helpers_end_with_the_process_that_started_them_whatever_they_wait_for(
    tmp_path: Path,
) -> None:
    """They have been told to join a first rank that does not come: for a day."""
    command, own = [sys.executable, "-c", HELD], os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as first:
        assert first.stdout is not None
        pids = [int(pid) for pid in first.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_running, pids))
        first.kill()
    deadline = time.monotonic() + 30
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, "a helper has outlived its parent"
        time.sleep(0.02)
