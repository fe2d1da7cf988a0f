"""Flower's own simulation against a real service: who trains, what is declared, what it costs."""

from functools import partial
from pathlib import Path

import pytest

from tests.api.ledgers.trainings import declared, epsilon, opened, post
from tests.api.service import Api
from tests.client.adapters.simulations import (
    EVENT,
    LOCAL,
    Training,
    entries,
    library,
    manual_snippet,
    run_training,
)

pytest.importorskip("flwr.serverapp", reason="needs the extra `integrations`: Flower")

pytestmark = pytest.mark.integrations

NOISE = 2.0
SILOS = [f"silo-{place}" for place in range(4)]


@pytest.fixture
def training(service: tuple[Api, str], tmp_path: Path) -> Training:
    """Runs Flower; gives what came of it, and who trained in which round."""
    return partial(run_training, "flower", service, tmp_path, event=None, asks=True)


def test_three_rounds_are_declared_with_the_wrappers_noise(service, training):
    api, _ = service
    result, trained = training()
    assert result["error"] is None
    assert trained == {1: SILOS, 2: SILOS, 3: SILOS}
    # The counts by group are declared, and do not reach the strategy's own metrics.
    assert result["metrics"] == {str(one): ["loss"] for one in (1, 2, 3)}
    assert epsilon(api, result["ledger"]) == pytest.approx(library([NOISE] * 3), rel=1e-12)
    report = api.get(f"/v1/ledgers/{result['ledger']}/report").json()
    gap = report["fairness"][0]["metrics"]["demographic_parity_difference"]["value"]
    assert gap == pytest.approx(55 / 95 - 25 / 75)
    # The same program once more releases anew: it is charged anew, behind the first.
    again, _ = training(ledger=result["ledger"])
    assert again["error"] is None
    assert api.get(f"/v1/ledgers/{result['ledger']}").json()["last_round"] == 6
    assert epsilon(api, result["ledger"]) == pytest.approx(library([NOISE] * 6), rel=1e-12)


def test_the_round_that_would_pass_the_budget_trains_no_one(service, training):
    api, _ = service
    budget = library([NOISE] * 2) * (1 + 1e-9)
    snippet = manual_snippet("flower").replace("budget=8.0", f"budget={budget!r}")
    result, trained = training(snippet=snippet)
    assert "round 3 is refused" in result["error"]
    assert "silo-0: would have spent" in result["error"]
    assert sorted(trained) == [1, 2]
    shown = api.get(f"/v1/ledgers/{result['ledger']}").json()
    assert (shown["rounds"], shown["over_budget"]) == (2, 0)


def test_only_clients_with_room_are_asked_and_failures_are_charged(service, training):
    api, _ = service
    ledger = opened(api, {**LOCAL, "budget": {"epsilon": library([3.0] * 3) * (1 + 1e-9)}})
    post(api, ledger, *(declared(one, ["silo-1"], EVENT) for one in (1, 2)))
    result, trained = training(ledger=ledger, event=EVENT, failing=[2])
    assert result["error"] is None
    others = [one for one in SILOS if one != "silo-1"]
    assert trained == {1: SILOS, 2: others, 3: others}
    assert api.get(f"/v1/ledgers/{ledger}").json()["over_budget"] == 0
    charged = [one["round"] for one in entries(api, ledger) if one["subject"] == "silo-2"]
    assert charged == [3, 4, 5]
    assert epsilon(api, ledger) == pytest.approx(library([3.0] * 3), rel=1e-12)


def test_only_the_noise_of_means_as_they_were_released_counts(service, training):
    api, _ = service
    # The wrapper was given eight clients, and the mean of four has half of its noise.
    result, _ = training(calibrated=8, asks=False)
    assert result["error"] is None
    assert epsilon(api, result["ledger"]) == pytest.approx(library([NOISE * 4 / 8] * 3), rel=1e-12)
    names = {one["subject"] for one in entries(api, result["ledger"])}
    assert all(one.isdigit() for one in names)
    # A wrapper releases nothing where a client failed, and a mean with weights is refused.
    result, _ = training(failing=[1])
    assert (result["error"], epsilon(api, result["ledger"])) == (None, 0.0)
    result, trained = training(weights=[1, 1, 1, 9])
    assert "'num-examples'" in result["error"]
    assert sorted(trained) == [1]
    assert api.get(f"/v1/ledgers/{result['ledger']}").json()["rounds"] == 0
