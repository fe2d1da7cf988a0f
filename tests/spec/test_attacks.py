"""What the attacks of a spec ask, and what contradicts them."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from fedaudit.attacks.feasibility import check_attacks
from fedaudit.spec.attacks import AttackKind, GradientLeakageSpec, attack_titles
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted, parse_spec
from tests.attacks.gradient_leakage.small_images import CONVOLUTIONAL, LAPLACE, small_cell
from tests.spec.documents import IMAGES, changed, fault, gaussian, refusals
from tests.training.specs import groups_spec


def test_every_kind_asks_a_question_of_its_own() -> None:
    titles = attack_titles()
    assert set(titles) == set(get_args(AttackKind))
    assert len(set(titles.values())) == len(titles)
    assert all(title.endswith("?") for title in titles.values())


MLP = {"kind": "mlp", "hidden": [4]}


def refused(spec: ExperimentSpec, **asked: Any) -> dict[str, str]:
    return refusals(GradientLeakageSpec(**asked), spec, pointer="/attacks/2")


@pytest.mark.parametrize(
    ("asked", "steps"),
    [
        ({}, 300),
        ({"label": "optimised"}, 1_200),
        ({"method": "adam-cosine"}, 24_000),
        ({"method": "first-layer"}, 0),
        ({"iterations": 7}, 7),
    ],
)
def test_searches_take_the_steps_of_the_papers(asked: dict[str, Any], steps: int) -> None:
    assert GradientLeakageSpec(**asked).searched_for == steps


def test_what_fits_is_not_refused() -> None:
    assert refused(small_cell().spec) == {}
    assert refused(small_cell(privacy={"mechanism": "none"}).spec) == {}
    assert refused(small_cell(model=MLP).spec, method="adam-cosine") == {}
    assert refused(small_cell(model=MLP).spec, method="first-layer") == {}


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"method": "first-layer", "iterations": 3}, "iterations"),
        ({"method": "first-layer", "restarts": 3}, "restarts"),
        ({"noise_multipliers": [1.0, 1.0]}, "noise_multipliers"),
        ({"noise_multipliers": [1e-13]}, "noise_multipliers"),
    ],
)
def test_an_attack_that_contradicts_itself_is_refused(asked: dict[str, Any], field: str) -> None:
    assert list(refused(small_cell().spec, **asked)) == [f"/attacks/2/{field}"]


IMAGE = {"kind": "gradient-leakage", "method": "adam-cosine"}
MEMBER = {"kind": "membership", "method": "likelihood-ratio", "shadows": 64}


@pytest.mark.parametrize(
    ("attack", "field", "value"),
    [
        (IMAGE, "images_per_update", 2),
        (IMAGE, "local_steps", 3),
        (IMAGE, "hypothesis", "trained"),
        (IMAGE, "layer_weights", "by-noise"),
        (IMAGE, "label", "known"),
        (MEMBER, "method", "relative"),
        (MEMBER, "variant", "offline"),
        (MEMBER, "variance", "global"),
    ],
)
def test_what_is_retired_is_read_and_not_attacked_with(attack, field, value):
    document = changed(IMAGES, {"attacks": [{**attack, field: value}]})
    assert fault(document)[0] == f"/attacks/0/{field}"
    stored = parse_admitted(document)
    assert parse_admitted(stored.model_dump(mode="json")) == stored
    cell = small_cell()
    later = replace(cell, spec=cell.spec.model_copy(update={"attacks": stored.attacks}))
    with pytest.raises(InvalidInputError, match=f"/attacks/0/{field}: .*retired"):
        check_attacks(later)


def test_other_rows_losses_and_mechanisms_are_refused() -> None:
    found = refused(parse_spec(groups_spec()))
    assert "rows of synthetic-groups are no images" in found["/attacks/2/kind"]
    found = refused(parse_spec(changed(IMAGES, {"training.loss": "rmse"})))
    assert "`cross-entropy` alone" in found["/training/loss"]
    found = refused(small_cell(privacy=gaussian("local", 1.0)).spec)
    assert "which gaussian-local is not" in found["/attacks/2/kind"]


@pytest.mark.parametrize("method", ["q-ffl", "local-only"])
def test_methods_whose_clients_send_no_plain_updates_are_refused(method: str) -> None:
    plain = small_cell(privacy={"mechanism": "none"}).spec
    training = plain.training.model_dump() | {"method": {"kind": method}}
    other = plain.model_copy(update={"training": type(plain.training).model_validate(training)})
    assert "`training.method`" in refused(other)["/attacks/2/kind"]


def test_networks_that_a_method_cannot_take_are_refused_with_the_reason() -> None:
    rough = refused(small_cell(model=MLP).spec)
    assert "`relu` has jumps" in rough["/attacks/2/method"]
    pooling = {"kind": "max-pooling", "size": 2}
    pooled = {**CONVOLUTIONAL, "layers": [pooling, *CONVOLUTIONAL["layers"]]}
    assert "`max-pooling` has jumps" in refused(small_cell(model=pooled).spec)["/attacks/2/method"]
    found = refused(small_cell(model=CONVOLUTIONAL).spec, method="first-layer")
    assert "begins with another" in found["/attacks/2/method"]
    assert "use `first-layer`" in refused(small_cell().spec, method="features")["/attacks/2/method"]
    assert refused(small_cell(model=CONVOLUTIONAL).spec, method="features") == {}
    bare = small_cell(model={"kind": "logistic", "intercept": False}, privacy=LAPLACE)
    assert "`model.intercept`" in refused(bare.spec)["/attacks/2/kind"]
