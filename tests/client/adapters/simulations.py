"""Trainings in the simulators of other frameworks, each in a process of its own."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dp_accounting
from dp_accounting.rdp import RdpAccountant

from fedaudit.privacy.accounting.accountant import RDP_ORDERS
from tests.api.ledgers import trainings
from tests.api.service import Api
from tests.cli.service import clean_environment
from tests.house import ROOT
from tests.processes import completed

LOCAL = {**trainings.LOCAL, "population": 4}
CENTRAL = {**LOCAL, "mechanism": "gaussian-central", "observer": "final_model"}
EVENT = {"kind": "gaussian", "noise_multiplier": 3.0}


Training = Callable[..., tuple[dict[str, Any], dict[int, list[str]]]]


def run_training(
    framework: str, there: tuple[Api, str], place: Path, terms: Any = CENTRAL, **asked: Any
) -> tuple[dict[str, Any], dict[int, list[str]]]:
    """What came of a training, and who trained in which round: each client leaves a file for each
    round in which it trained."""
    api, url = there
    work = place / f"run-{len(list(place.iterdir()))}"
    folder = work / "trained"
    folder.mkdir(parents=True)
    whole = {"work": str(work), "folder": str(folder), "terms": terms, **asked}
    variables = {"FEDAUDIT_URL": url, "FEDAUDIT_API_KEY": api.key, "FLWR_TELEMETRY_ENABLED": "0"}
    done = completed(
        [sys.executable, "-m", f"tests.client.adapters.{framework}_training", json.dumps(whole)],
        env=clean_environment(**variables),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    trained: dict[int, list[str]] = {}
    for path in sorted(folder.iterdir()):
        round_, _, name = path.name.partition("-")
        trained.setdefault(int(round_), []).append(name)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result, trained


def manual_snippet(framework: str) -> str:
    """The lines that the manual tells a user of a framework to add."""
    [found] = re.findall(
        rf"```python\n(from fedaudit_client import Client\nfrom \S+{framework} .*?)```",
        (ROOT / "docs" / "elsewhere.md").read_text(),
        re.DOTALL,
    )
    assert len([line for line in found.splitlines() if line]) <= 6
    return str(found)


def library(multipliers: list[float]) -> float:
    """By dp-accounting alone, for a client that is replaced: both ends move."""
    accountant = RdpAccountant(list(RDP_ORDERS), dp_accounting.NeighboringRelation.REPLACE_ONE)
    for one in multipliers:
        accountant.compose(dp_accounting.GaussianDpEvent(one / 2))
    return float(accountant.get_epsilon(1e-5))


def entries(api: Api, ledger: str) -> Any:
    """The lines of a ledger."""
    return api.get(f"/v1/ledgers/{ledger}/privacy-ledger").json()["items"]
