"""NVFlare's own simulator against a real service: who trains, what is declared, what it costs."""

from functools import partial
from pathlib import Path

import pytest

from tests.api.ledgers.trainings import declared, epsilon, opened, post
from tests.api.service import Api
from tests.client.adapters.simulations import (
    CENTRAL,
    EVENT,
    LOCAL,
    Training,
    entries,
    library,
    manual_snippet,
    run_training,
)

pytest.importorskip("nvflare", reason="needs the extra `integrations`: NVFlare")

pytestmark = pytest.mark.integrations

SILOS = [f"silo-{place}" for place in range(3)]


@pytest.fixture
def training(service: tuple[Api, str], tmp_path: Path) -> Training:
    """Runs NVFlare; gives what came of it, and who trained in which round."""
    return partial(run_training, "nvflare", service, tmp_path, event=EVENT)


def test_the_round_that_would_pass_the_budget_trains_no_one(service, training):
    api, _ = service
    budget = {"epsilon": library([3.0] * 2) * (1 + 1e-9)}
    snippet = manual_snippet("nvflare").replace("=event)", "=event, group_counts=True)")
    ended, trained = training({**CENTRAL, "budget": budget}, snippet=snippet)
    assert ended["error"]
    assert trained == {0: SILOS, 1: SILOS}
    shown = api.get(f"/v1/ledgers/{ended['ledger']}").json()
    assert (shown["rounds"], shown["over_budget"]) == (2, 0)
    assert epsilon(api, ended["ledger"]) == pytest.approx(library([3.0] * 2), rel=1e-12)
    report = api.get(f"/v1/ledgers/{ended['ledger']}/report").json()
    gap = report["fairness"][0]["metrics"]["demographic_parity_difference"]["value"]
    assert gap == pytest.approx(165 / 285 - 78 / 228)
    assert "round 3 is refused: no client has enough budget" in ended["log"]
    assert api.key not in ended["configuration"]


def test_only_sites_with_room_are_asked_and_failures_are_charged(service, training):
    api, _ = service
    ledger = opened(api, {**LOCAL, "budget": {"epsilon": library([3.0] * 3) * (1 + 1e-9)}})
    post(api, ledger, *(declared(one, ["silo-1"], EVENT) for one in (1, 2)))
    more = {"group_counts": True}
    ended, trained = training(ledger=ledger, scattered=True, failing=["silo-2"], least=1, more=more)
    assert ended["error"] is None
    assert [trained[one] for one in range(3)] == [SILOS, ["silo-0"], ["silo-0"]], ended["log"]
    assert api.get(f"/v1/ledgers/{ledger}").json()["over_budget"] == 0
    # The site that failed stays connected, and is asked again.
    lines = entries(api, ledger)
    charged = {name: [one["round"] for one in lines if one["subject"] == name] for name in SILOS}
    report = api.get(f"/v1/ledgers/{ledger}/report").json()
    gap = report["fairness"][0]["metrics"]["demographic_parity_difference"]["value"]
    assert gap == pytest.approx(55 / 95 - 25 / 75)
    assert charged == {"silo-0": [3, 4, 5], "silo-1": [1, 2, 3], "silo-2": [3, 4, 5]}
