"""Synthetic federations: the distributions of the papers, client by client."""

from typing import Any

import numpy as np
import pytest

from fedaudit.federations.federation import Federation
from fedaudit.federations.groups import outcome_rules
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import Load, Refuse, spec_value

LINEAR: dict[str, Any] = {"source": "synthetic-linear"}
GROUPS: dict[str, Any] = {"source": "synthetic-groups"}
FAIRNESS: dict[str, Any] = {
    "sensitive": ["group"],
    "favourable": [
        {"group": {"group": "g1"}, "op": "ge", "value": 0},
        {"group": {"group": "g2"}, "op": "le", "value": 15},
    ],
}


THETAS = np.array([[5, 6], [4, -4.5]])
GROUP_OF = np.repeat([0, 1], [800, 200])
"""The distribution of each client of `synthetic-groups`."""


def residual(
    federation: Federation, component: np.ndarray[Any, np.dtype[np.int64]]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """y - x . theta for every row: what is left is the intercept and u."""
    theta = THETAS[component[federation.client_of]]
    return federation.raw_target - np.einsum("rf,rf->r", federation.side_by_side, theta)


def test_linear_data_follow_the_paper(load: Load) -> None:
    federation = load({"federation": {**LINEAR, "clients": 2000}, "seed": 4})
    assert federation.side_by_side.shape == (20_000, 2)
    assert set(federation.counts.tolist()) == {10}
    assert np.array_equal(federation.target, federation.raw_target.astype(np.float32))
    u = residual(federation, np.arange(2000) % 2)
    assert u.min() > -1e-9
    assert u.max() < 1 + 1e-9
    # 20,000 draws: each bound is 5 standard errors, crossed by chance once in 1.7 million.
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / u.size)
    assert abs(u.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / u.size)
    x = federation.side_by_side.reshape(2000, 10, 2).astype(np.float64)
    assert abs(x.mean()) < 5 / np.sqrt(x.size)
    assert abs(x.var() - 1) < 5 * np.sqrt(2 / x.size)
    assert abs(np.mean(x[..., 0] * x[..., 1])) < 5 / np.sqrt(u.size)
    assert abs(np.mean(x[:, 0] * x[:, 1])) < 5 / np.sqrt(2 * len(x)), "rows are independent"
    assert abs(np.mean(x[..., 0].ravel() * (u - 0.5))) < 5 * np.sqrt(1 / 12 / u.size)


@pytest.mark.parametrize("source", [LINEAR, GROUPS])
def test_the_seed_decides_and_zero_is_a_seed(load: Load, source: dict[str, Any]) -> None:
    first, again, other = (load({"federation": source, "seed": seed}) for seed in (0, 0, 1))
    assert np.array_equal(first.features, again.features)
    assert np.array_equal(first.raw_target, again.raw_target)
    assert first.fingerprint == again.fingerprint
    assert np.mean(first.features == other.features) < 0.001
    assert first.fingerprint != other.fingerprint


def test_a_client_does_not_depend_on_how_many_there_are(load: Load) -> None:
    few = load({"federation": {**LINEAR, "clients": 3}})
    many = load({"federation": {**LINEAR, "clients": 70_000, "rows_per_client": 10}})
    assert np.array_equal(few.features, many.side_by_side[:30])
    assert np.array_equal(few.raw_target, many.raw_target[:30])
    assert few.client_names == many.client_names[:3]
    assert list(many.client_names) == sorted(set(many.client_names))
    assert few.fingerprint != many.fingerprint


def test_groups_follow_the_paper(load: Load) -> None:
    federation = load({"federation": GROUPS, "fairness": FAIRNESS})
    group = federation.attribute("group")
    assert group.values == ("g1", "g2")
    assert (group.codes == GROUP_OF[federation.client_of]).all()
    assert np.bincount(group.codes[federation.first[:-1]]).tolist() == [800, 200]
    beyond = residual(federation, GROUP_OF) - 15 * GROUP_OF[federation.client_of]
    assert beyond.min() > -1e-9
    assert beyond.max() < 1 + 1e-9


def test_base_rates_of_the_groups_differ_by_what_theory_says(load: Load) -> None:
    rates = []
    for seed in range(10):
        changes = {"federation": GROUPS, "fairness": FAIRNESS, "seed": seed}
        federation = load(changes)
        rules = outcome_rules(federation, parse_spec(spec_value(changes)).fairness)
        favourable = rules.label(federation.raw_target)
        codes = federation.attribute("group").codes
        rates.append([favourable[codes == code].mean() for code in (0, 1)])
    # 80,000 and 20,000 rows: 5 standard errors of the difference are 0.02.
    first, second = np.mean(rates, axis=0)
    assert abs((first - second) - 0.0586) < 5 * np.sqrt(0.25 / 80_000 + 0.25 / 20_000)


def test_the_control_deals_the_attribute_out(load: Load) -> None:
    control = load({"federation": {**GROUPS, "independent_attribute": True}, "fairness": FAIRNESS})
    usual = load({"federation": GROUPS, "fairness": FAIRNESS})
    codes = control.attribute("group").codes
    group = codes[control.first[:-1]]
    assert np.bincount(group).tolist() == [800, 200]
    assert (codes == group[control.client_of]).all(), "a client belongs to one group"
    assert np.array_equal(control.raw_target, usual.raw_target), "the data stay as they are"
    assert control.fingerprint != usual.fingerprint
    # Of 200 minority clients 40 +- 5.1 keep their group by chance (hypergeometric): 5 deviations.
    kept = np.count_nonzero((group == 1) & (GROUP_OF == 1))
    assert abs(kept - 40) < 25.3


def test_too_much_data_is_refused_before_it_is_drawn(refuse: Refuse) -> None:
    linear = {**LINEAR, "clients": 1_000_000, "rows_per_client": 100_000}
    faults = refuse({"federation": linear})
    assert "fewer clients or fewer rows_per_client" in faults["/federation/clients"]
    groups = {**GROUPS, "clients_per_group": [1_000_000, 1], "rows_per_client": 1000}
    assert list(refuse({"federation": groups})) == ["/federation/clients_per_group"]
