"""How far the interval of a figure over seeds may go."""

import pytest

from fedaudit.sweeps.sweep_table import spread

VALUES = [0.99, 0.97, 1.0, 0.9]


@pytest.mark.parametrize("name", ["accuracy", "equalized_odds_difference[sex]"])
def test_a_share_goes_no_further_than_it_can(name: str) -> None:
    found, loss = spread(name, VALUES), spread("validation_loss", VALUES)
    assert loss["high"] is not None
    assert loss["high"] > 1
    assert found["high"] == 1.0
    assert found["low"] == loss["low"]
    assert spread(name, [0.0, 0.01])["low"] == 0.0
