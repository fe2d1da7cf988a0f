"""What other cohorts cost with the same noise: said where one costs less, figure by figure."""

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant as Library

from fedaudit.privacy.accounting.accountant import RDP_ORDERS
from fedaudit.privacy.mechanisms.gaussian import cheaper_cohort_words, cohort_costs
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from tests.training.specs import groups_spec

CENTRAL = {"mechanism": "gaussian-central", "noise_multiplier": 2.0, "clip": 1.0, "delta": 1e-5}


def spec_with(cohort: dict[str, object], **privacy: object) -> ExperimentSpec:
    return parse_spec(
        groups_spec(training__hypotheses=1, training__cohort=cohort, privacy={**CENTRAL, **privacy})
    )


def test_each_cohort_of_the_same_size_has_its_own_figure() -> None:
    costs = cohort_costs(spec_with({"clients": 200}), training_clients=2000)
    assert [one.cohort.model_dump() for one in costs] == [
        {"sampling": "fixed", "clients": 200},
        {"sampling": "poisson", "rate": 0.1},
        {"sampling": "allocation", "every": 10},
    ]
    assert [one.adjacency for one in costs] == ["replace-one"] + ["add-or-remove-one"] * 2
    library = Library(list(RDP_ORDERS), dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    gaussian = dp_accounting.GaussianDpEvent(2.0)
    library.compose(dp_accounting.PoissonSampledDpEvent(0.1, gaussian), 30)
    assert costs[1].epsilon == pytest.approx(library.get_epsilon(1e-5))
    assert costs[0].epsilon > 3 * costs[1].epsilon > 3 * costs[2].epsilon


def test_it_is_said_where_another_costs_less() -> None:
    said = cheaper_cohort_words(spec_with({"clients": 200}), training_clients=2000)
    assert said is not None
    assert "{sampling: allocation, every: 10} over 30 rounds, epsilon 1.23 under zero-out" in said
    blocks = spec_with({"sampling": "allocation", "every": 10})
    assert cheaper_cohort_words(blocks, training_clients=2000) is None
    local = spec_with({"clients": 200}, mechanism="gaussian-local")
    assert cheaper_cohort_words(local, training_clients=2000) is None
