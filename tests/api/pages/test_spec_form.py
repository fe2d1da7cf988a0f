"""The form for an experiment: from what was typed to a spec, and faults back to the fields."""

from typing import Any

import pytest

from api.pages import experiment_form as sheet
from api.pages.experiment_form import MISSING, Field, Sheet, build, choice_rules, text_of, value_of
from fedaudit.spec.models import DEFAULT_SERVER, ServerAdam
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import with_registration
from tests.refusals import refused_by

FEDERATION = "01890a5d-ac96-774b-bcce-b302099a8057"
REGISTRATION: dict[str, Any] = {
    "name": "people",
    "federation": {
        "source": "table",
        "path": "people.csv",
        "id": None,
        "client_key": "town",
        "target": "income",
        "features": ["age"],
        "validation_fraction": 0.3,
    },
    "fairness": {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 50}},
}


def typed_over(typed: dict[str, str]) -> dict[str, str]:
    """A blank form with these fields typed over; `__` stands for `/`."""
    changes = {f"/{name.replace('__', '/')}": text for name, text in typed.items()}
    return {**sheet.blank(), **changes}


def built(**typed: str) -> dict[str, Any]:
    return build(typed_over(typed))


def faults(**typed: str) -> dict[str | None, str]:
    form = Sheet(typed_over(typed), (), "once")
    found = form.placed(refused_by(parse_spec, build(form.typed)))
    return {fault.place: fault.message for fault in found}


def test_the_blank_form_is_a_spec_that_can_run_and_leaves_out_what_does_not_count() -> None:
    spec = parse_spec(built())
    assert spec.federation.source == "synthetic-groups"
    assert spec.fairness.sensitive == ["group"]
    assert spec.model.intercept  # type: ignore[union-attr]
    # Fields that do not count are left out; a threshold is a number or the base rate.
    value = built(privacy__mechanism="none", privacy__clip="nonsense", model__hidden="x")
    assert value["privacy"] == {"mechanism": "none", "noise": "simulation"}
    assert value["model"] == {"kind": "linear", "intercept": True}
    assert "decision" not in built()
    assert built(decision__threshold="0.2")["decision"] == {"threshold": 0.2}
    assert built(decision__threshold="base-rate")["decision"] == {"threshold": "base-rate"}


MECHANISMS = ("none", "laplace-l2", "gaussian-local", "gaussian-central", "gaussian-distance")
METHODS = ("hypotheses", "fine-tuning", "ditto", "q-ffl", "local-only")


def test_every_mechanism_and_method_needs_no_more_than_one_choice() -> None:
    """Methods need rows besides that they are not scored on."""
    one_model = {"training__hypotheses": "1"}
    reported = {**one_model, "training__clustering__method": "reported"}
    for mechanism in MECHANISMS:
        spec = parse_spec(built(privacy__mechanism=mechanism, **reported))
        assert spec.privacy.mechanism == mechanism
    unscored = {**one_model, "privacy__mechanism": "none", "federation__scoring__method": "split"}
    for kind in METHODS:
        method = parse_spec(built(training__method__kind=kind, **unscored)).training.method
        steps = {"steps": 10} if kind == "local-only" else {}
        assert method == type(method)(kind=kind, **steps)
        assert f'value="{kind}"' in choice_rules() or kind == "hypotheses"


def test_a_registered_federation_brings_its_columns_and_groups() -> None:
    value = with_registration(built(federation__source=FEDERATION), REGISTRATION)
    registered = {name: part for name, part in REGISTRATION["federation"].items() if name != "path"}
    assert value["federation"] == {**registered, "id": FEDERATION}
    assert value["fairness"]["sensitive"] == ["sex"]
    # What is typed goes before what was registered.
    typed = built(federation__source=FEDERATION, federation__validation_fraction="0.5")
    assert with_registration(typed, REGISTRATION)["federation"]["validation_fraction"] == 0.5


def test_groups_rules_and_gates_are_written_as_in_a_spec() -> None:
    own = {
        "fairness__sensitive": "sex, race",
        "fairness__intersections": "[sex, race]",
        "fairness__groups": "sex: {other: [divers, unknown]}, race: {rest: [B, C]}",
        "fairness__exclude": "sex: [unrecorded]",
        "fairness__favourable": "[{group: {sex: F}, op: ge, value: 0.5}]",
        "gates": "{figure: leakage_max, op: le, value: 40}",
    }
    value = built(**own)
    assert value["fairness"] == {
        "sensitive": ["sex", "race"],
        "intersections": [["sex", "race"]],
        "groups": {"sex": {"other": ["divers", "unknown"]}, "race": {"rest": ["B", "C"]}},
        "exclude": {"sex": ["unrecorded"]},
        "favourable": [{"op": "ge", "group": {"sex": "F"}, "value": 0.5}],
    }
    assert value["gates"] == [{"figure": "leakage_max", "op": "le", "value": 40}]
    for name, wrong in (("fairness__groups", "divers"), ("gates", "{op: le"), ("tags", "a: [b")):
        assert f"/{name.replace('__', '/')}" in faults(**{name: wrong})
    assert "/gates" in faults(gates="{figure: equalized_odds_difference, op: le, value: much}")


def test_faults_are_beside_their_fields() -> None:
    """What the page shows of them is in test_new_experiment.py."""
    unknown = "01890a5d-ac96-774b-bcce-000000000000"
    found = faults(name="", decision__threshold="2", federation__source=unknown)
    assert found.keys() >= {"/name", "/decision/threshold"}
    assert "is required" in found["/federation/source"]


@pytest.mark.parametrize(
    ("kind", "typed", "value"),
    [
        ("value", "3", 3),
        ("value", "1e-5", 1e-5),
        # What cannot be read is left to the spec to refuse.
        *(("value", typed, typed) for typed in ("three", "9" * 5000, "[1", "*a")),
        ("list", "1, 2", [1, 2]),
        ("list", "[5, 6], [4, -4.5]", [[5, 6], [4, -4.5]]),
        ("list", "a, b c", ["a", "b c"]),
        ("object", "a: {b: [c]}", {"a": {"b": ["c"]}}),
        ("text", "3: x", "3: x"),
        ("choice", "sgd", "sgd"),
        ("switch", "on", True),
    ],
)
def test_what_is_typed(kind: Any, typed: str, value: object) -> None:
    field = Field(label="x", pointer="/x", kind=kind)
    assert value_of(field, typed) == value
    assert value_of(field, text_of(field, value)) == value
    assert value_of(field, text_of(field, None)) is (False if kind == "switch" else MISSING)


def test_optimisers_of_clients_and_of_the_server_are_asked_for() -> None:
    training = parse_spec(
        built(
            training__local__momentum="0.9",
            training__server__optimiser="adam",
            training__server__step_size="0.2",
            training__server__beta2="0.98",
            training__server__tau="1e-4",
        )
    ).training
    assert training.local.momentum == 0.9
    assert training.server == ServerAdam(optimiser="adam", step_size=0.2, beta2=0.98, tau=1e-4)
    # Clients' optimiser may be called as the server's is, and shows none of its fields.
    assert 'select[name="/training/server/optimiser"] option[value="adam"]' in choice_rules()
    assert parse_spec(built()).training.server == DEFAULT_SERVER
