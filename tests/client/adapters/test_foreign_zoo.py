"""Published faults of other libraries, as released, are found by replays from outside."""

import pytest

pytest.importorskip("flwr.serverapp", reason="needs the extra `integrations`: Flower")
pytest.importorskip("jax_privacy", reason="needs the extra `integrations`: jax_privacy")

from benchmarks.foreign_zoo import names, played

pytestmark = pytest.mark.integrations
STAGES = {
    "opacus-813": "sampling",
    "opacus-571": "normaliser",
    "opacus-819": "normaliser",
    "opacus-fixed-batches": "sampling",
    "opacus-seeded": "noise",
    "jax-privacy-272": "sampling",
    "torch-shuffled": "sampling",
    "torch-batch-clip": "sum",
    "flower-fewer-clients": "sum",
    "flower-weights": "sum",
    "flower-local-distance": "sum",
    "flower-local-sensitivity": "noise",
    "honest-opacus": None,
    "honest-flower": None,
}


@pytest.mark.parametrize("name", names())
def test_each_fault_is_found_at_its_stage(name: str) -> None:
    _, found, _ = played(name)
    assert found.broken == STAGES[name], found
