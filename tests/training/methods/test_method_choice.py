"""Every method that a spec may name is found."""

import pytest

from fedaudit.spec.parse import parse_spec
from fedaudit.training.methods import training_method
from tests.training.methods.names import method_names
from tests.training.specs import groups_spec

SPLIT = {"source": "synthetic-groups", "scoring": {"method": "split"}}


@pytest.mark.parametrize("name", sorted(method_names()))
def test_a_method_makes_personal_models_as_its_spec_says(name: str) -> None:
    spec = parse_spec(
        groups_spec(
            federation=SPLIT,
            privacy={"mechanism": "none"},
            training__hypotheses=1,
            training__method=name,
        )
    )
    found = training_method(spec.training)
    assert (found.personal_steps is not None) == spec.training.method.personalises
