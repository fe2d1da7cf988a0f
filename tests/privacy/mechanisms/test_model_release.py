"""Which trained models may leave: those that a proof covers, with noise that is secret."""

from typing import Any

import pytest

from fedaudit.privacy.mechanisms.registry import mechanism_of, why_model_stays
from fedaudit.spec.parse import parse_spec
from tests.privacy.mechanisms.specs import SPECS


def with_noise(name: str, noise: str, **privacy: Any) -> Any:
    """The mechanism of a spec with other settings."""
    document = SPECS[name].model_dump(mode="json")
    document["privacy"] |= {"noise": noise, **privacy}
    document["training"]["stopping"]["patience"] = None
    return mechanism_of(parse_spec(document))


@pytest.mark.parametrize("name", SPECS)
def test_simulated_noise_never_lets_a_model_leave(name: str) -> None:
    assert "privacy.noise to release" in str(why_model_stays(with_noise(name, "simulation")))


@pytest.mark.parametrize("name", SPECS)
def test_a_model_leaves_where_the_guarantee_is_formal_for_all_datasets(name: str) -> None:
    mechanism = with_noise(name, "release")
    guarantee = mechanism.guarantee(n=2)
    assert (why_model_stays(mechanism) is None) == (guarantee.label == "formal")
    assert guarantee.in_force or guarantee.kind == "none"


@pytest.mark.parametrize(
    ("name", "privacy", "remedy"),
    [
        ("none", {}, "privacy.mechanism"),
        ("laplace-adaptive", {}, "set privacy.radius to a number"),
        ("laplace-fixed", {"clip": None}, "set privacy.clip"),
        ("records", {"inversion": "curve-fit"}, "set privacy.inversion to exact"),
        ("records-free", {}, "leave privacy.baseline out"),
        ("records-uniform", {}, "leave privacy.baseline out"),
    ],
)
def test_a_refusal_says_what_to_change(name: str, privacy: dict[str, Any], remedy: str) -> None:
    assert remedy in str(why_model_stays(with_noise(name, "release", **privacy)))


def test_choices_that_are_reported_keep_a_model_in() -> None:
    document = SPECS["laplace-fixed"].model_dump(mode="json")
    document["privacy"]["noise"] = "release"
    document["training"] |= {"hypotheses": 2, "clustering": {"method": "reported"}}
    assert "clustering.method" in str(why_model_stays(mechanism_of(parse_spec(document))))
