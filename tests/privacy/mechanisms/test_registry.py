"""Every mechanism of a spec is one object, and no name is taken for another's.

Which trained models may leave: those that a proof covers, with noise that is secret.
"""

from typing import Any, get_args

import pytest

from fedaudit.privacy.accounting.privacy_events import MechanismParameters, unbounded_inputs
from fedaudit.privacy.mechanisms.registry import (
    MECHANISMS,
    known_facts,
    mechanism_facts,
    mechanism_of,
    unbounded_release,
    why_model_stays,
    why_unbounded,
)
from fedaudit.privacy.planning.cost_projection import NO_MECHANISM, NO_NOISE
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.privacy import PrivacySpec
from tests.privacy.mechanisms.specs import SPECS


def test_the_names_are_the_literals_of_the_spec() -> None:
    literals = [
        name
        for part in get_args(get_args(PrivacySpec)[0])
        for name in get_args(part.model_fields["mechanism"].annotation)
    ]
    assert sorted(mechanism.facts.name for mechanism in MECHANISMS) == sorted(literals)
    assert {spec.privacy.mechanism for spec in SPECS.values()} == set(literals)


@pytest.mark.parametrize("name", ["gaussian-fixed", "", "None", "LAPLACE-L2"])
def test_an_unknown_name_is_refused_and_never_worded_as_no_mechanism(name: str) -> None:
    with pytest.raises(ValueError, match="known are laplace-l2"):
        mechanism_facts(name)
    assert known_facts(name) is None
    why = why_unbounded(unbounded_inputs(name, n=3, noise="release"))
    assert why not in {NO_MECHANISM, NO_NOISE}
    assert "does not know" in why
    lost = unbounded_inputs("laplace-l2", n=3, noise="release")
    assert why_unbounded(lost) not in {NO_MECHANISM, NO_NOISE}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "without noise"),
        ("record-personalised", "without noise"),
        ("laplace-l2", "without any known bound"),
        ("of-another-version", "without any known bound"),
        (None, "without any known bound"),
    ],
)
def test_a_stored_name_tells_how_uploads_left(name: str | None, words: str) -> None:
    assert unbounded_release(name) == words


def test_inputs_tell_how_their_cost_is_counted() -> None:
    fields = unbounded_inputs("none", n=3, noise="release").as_dict()
    assert MechanismParameters.from_dict(fields).cost_kind == "unbounded"
    fields |= {"mechanism": "laplace-l2", "noise_multiplier": 2.0}
    assert MechanismParameters.from_dict(fields).cost_kind == "leakage"
    fields |= {"mechanism": "gaussian-local", "event": "{}"}
    assert MechanismParameters.from_dict(fields).cost_kind == "epsilon"


def with_noise(name: str, noise: str, *, clustering: str | None = None, **privacy: Any) -> Any:
    """The mechanism of a spec with other settings."""
    document = SPECS[name].model_dump(mode="json")
    document["privacy"] |= {"noise": noise, **privacy}
    document["training"]["stopping"]["patience"] = None
    if clustering is not None:
        document["training"]["clustering"] = {"method": clustering}
    return mechanism_of(parse_spec(document))


@pytest.mark.parametrize("name", SPECS)
def test_simulated_noise_never_lets_a_model_leave(name: str) -> None:
    mechanism = with_noise(name, "simulation")
    without_noise = mechanism.guarantee_kind == "none"
    remedy = "nothing bounds what the model discloses" if without_noise else "noise to release"
    assert remedy in str(why_model_stays(mechanism))


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
        ("laplace-fixed", {"clustering": "reported"}, "clustering.method"),
        ("distance", {}, "use the mechanism gaussian-central"),
        ("records", {"inversion": "curve-fit"}, "set privacy.inversion to exact"),
        ("records-free", {}, "leave privacy.baseline out"),
        ("records-uniform", {}, "leave privacy.baseline out"),
    ],
)
def test_a_refusal_says_what_to_change(name: str, privacy: dict[str, Any], remedy: str) -> None:
    assert remedy in str(why_model_stays(with_noise(name, "release", **privacy)))
