"""The form for an experiment: from what was typed to a spec, and faults back to the fields."""

from typing import Any

import pytest

from api.pages import spec_sheet as sheet
from api.pages.spec_fields import Field, choice_rules
from api.pages.spec_sheet import MISSING, build, value_of
from fedaudit.spec.errors import FieldError
from fedaudit.spec.models import DEFAULT_SERVER, ServerAdam
from fedaudit.spec.parse import parse_spec
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


def built(**typed: str) -> dict[str, Any]:
    """The value of a blank form with these fields typed over; `__` stands for `/`."""
    changes = {f"/{name.replace('__', '/')}": text for name, text in typed.items()}
    return build({**sheet.blank(), **changes}, {FEDERATION: REGISTRATION}).value


def faults(**typed: str) -> dict[str | None, str]:
    """The faults of such a form, by field."""
    changes = {f"/{name.replace('__', '/')}": text for name, text in typed.items()}
    whole = {**sheet.blank(), **changes}
    made = build(whole, {FEDERATION: REGISTRATION})
    found = sheet.faults_of(refused_by(parse_spec, made.value), made, whole)
    return {fault.place: fault.message for fault in found}


def test_the_blank_form_is_a_spec_that_can_run() -> None:
    spec = parse_spec(built())
    assert spec.federation.source == "synthetic-groups"
    assert spec.fairness.sensitive == ["group"]
    assert spec.model.intercept  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "mechanism", ["none", "laplace-l2", "gaussian-local", "gaussian-central", "gaussian-distance"]
)
def test_every_mechanism_needs_no_more_than_one_choice(mechanism: str) -> None:
    spec = parse_spec(
        built(
            privacy__mechanism=mechanism,
            training__hypotheses="1",
            training__clustering__method="reported",
        )
    )
    assert spec.privacy.mechanism == mechanism


@pytest.mark.parametrize("kind", ["hypotheses", "fine-tuning", "ditto", "q-ffl", "local-only"])
def test_every_method_needs_one_choice_and_rows_that_it_is_not_scored_on(kind: str) -> None:
    spec = parse_spec(
        built(
            training__method__kind=kind,
            training__hypotheses="1",
            privacy__mechanism="none",
            federation__scoring__method="split",
        )
    )
    assert spec.training.method.kind == kind
    assert spec.training.method == type(spec.training.method)(
        kind=kind, **({"steps": 10} if kind == "local-only" else {})
    )
    assert f'value="{kind}"' in choice_rules() or kind in ("hypotheses",)


def test_fields_that_do_not_count_are_left_out() -> None:
    value = built(privacy__mechanism="none", privacy__clip="nonsense", model__hidden="x")
    assert value["privacy"] == {"mechanism": "none", "noise": "simulation"}
    assert value["model"] == {"kind": "linear", "intercept": True}


def test_a_registered_federation_brings_its_columns_and_groups() -> None:
    value = built(federation__source=FEDERATION)
    assert value["federation"] == {
        "source": "table",
        "id": FEDERATION,
        "client_key": "town",
        "target": "income",
        "features": ["age"],
        "validation_fraction": 0.3,
    }
    assert value["fairness"]["sensitive"] == ["sex"]
    assert value["fairness"]["minimum_group_size"] == 30
    # What is typed goes before what was registered.
    assert (
        built(federation__source=FEDERATION, federation__validation_fraction="0.5")["federation"][
            "validation_fraction"
        ]
        == 0.5
    )


def test_a_federation_that_is_not_offered_is_refused_at_its_field() -> None:
    found = faults(federation__source="01890a5d-ac96-774b-bcce-000000000000")
    assert "is not offered" in found["/federation/source"]


def test_a_threshold_is_a_number_or_the_base_rate() -> None:
    assert "decision" not in built()
    assert built(decision__threshold="0.2")["decision"] == {"threshold": 0.2}
    assert built(decision__threshold="base-rate")["decision"] == {"threshold": "base-rate"}
    assert "/decision/threshold" in faults(decision__threshold="2")


def test_groups_and_rules_of_ones_own() -> None:
    own = {
        "fairness/sensitive": "sex, race",
        "fairness/intersections": "sex + race",
        "fairness/favourable/1/group": "sex: F",
        "fairness/favourable/1/op": "ge",
        "fairness/favourable/1/value": "0.5",
        "fairness/favourable/2/group": "sex:M",
        "fairness/favourable/2/op": "in",
        "fairness/favourable/2/value": "1, high",
    }
    typed = {**sheet.blank(), "groups": "own", **{f"/{name}": text for name, text in own.items()}}
    made = build(typed, {})
    assert made.value["fairness"] == {
        "minimum_group_size": 30,
        "minimum_group_clients": 2,
        "sensitive": ["sex", "race"],
        "intersections": [["sex", "race"]],
        "favourable": [
            {"op": "ge", "group": {"sex": "F"}, "value": 0.5},
            {"op": "in", "group": {"sex": "M"}, "value": [1, "high"]},
        ],
    }
    # The first row is empty: the value's first rule stands in the form's second row.
    fault = FieldError("/fairness/favourable/0/value", "wrong")
    assert sheet.faults_of([fault], made, typed)[0].place == "/fairness/favourable/1/value"


def test_values_are_joined_and_left_out_as_typed() -> None:
    typed = {
        "fairness__groups": "sex: other = divers, unknown; race: rest = B,C",
        "fairness__exclude": "sex: unrecorded",
    }
    assert built(**typed)["fairness"]["groups"] == {
        "sex": {"other": ["divers", "unknown"]},
        "race": {"rest": ["B", "C"]},
    }
    assert built(**typed)["fairness"]["exclude"] == {"sex": ["unrecorded"]}
    assert "/fairness/groups" in faults(fairness__groups="divers")


def test_gates_of_empty_rows_are_left_out_and_faults_find_the_row() -> None:
    rows = {
        "gates__1__figure": "leakage_max",
        "gates__1__op": "le",
        "gates__1__value": "40",
        "gates__1__allow_heuristic": "on",
        "gates__3__figure": "equalized_odds_difference",
        "gates__3__op": "le",
        "gates__3__value": "much",
    }
    assert built(**rows)["gates"][0] == {
        "figure": "leakage_max",
        "op": "le",
        "value": 40,
        "allow_heuristic": True,
        "allow_conditional": False,
        "allow_simulation": False,
        "allow_degenerate": False,
        "allow_personal_models": False,
    }
    assert set(faults(**rows)) == {"/gates/3/value"}


def test_faults_are_beside_their_fields() -> None:
    found = faults(name="", training__rounds="nine", privacy__noise_multiplier="0")
    assert found == {
        "/name": "is required",
        "/training/rounds": "must be a whole number, written without a decimal point or quotes",
        "/privacy/noise_multiplier": "must be greater than 0; for no noise ask for "
        "`mechanism: none`",
    }


@pytest.mark.parametrize(
    ("kind", "typed", "value"),
    [
        ("number", "3", 3),
        ("number", "3.5", 3.5),
        ("number", "1e-5", 1e-5),
        ("number", "three", "three"),
        ("number", "9" * 5000, float("inf")),
        ("numbers", "1, 2,", [1, 2]),
        ("vectors", "5, 6; 4, -4.5", [[5, 6], [4, -4.5]]),
        ("words", " a ,b", ["a", "b"]),
        ("sets", "a + b; c+d", [["a", "b"], ["c", "d"]]),
        ("text", "3", "3"),
        ("switch", "", False),
        ("number", "", MISSING),
    ],
)
def test_what_is_typed(kind: Any, typed: str, value: object) -> None:
    assert value_of(Field("/x", "x", kind), typed) == value


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
