"""The form for an experiment: from what was typed to a spec, and faults back to the fields."""

from typing import Annotated, Any, Literal

import pytest

from api.pages import spec_fields as fields
from api.pages import spec_sheet as sheet
from api.pages.spec_fields import Field, choice_rules, union_fields
from api.pages.spec_sheet import MISSING, build, placed, value_of
from fedaudit.spec.base import InForm, SpecPart
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.privacy import mechanism_parts

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
    with pytest.raises(InvalidInputError) as raised:
        parse_spec(made.value)
    found = sheet.faults_of(raised.value.errors, made, whole)
    return {fault.place: fault.message for fault in found}


def test_the_blank_form_is_a_spec_that_can_run() -> None:
    spec = parse_spec(built())
    assert spec.federation.source == "synthetic-groups"
    assert spec.fairness.sensitive == ["group"]
    assert spec.model.intercept  # type: ignore[union-attr]


@pytest.mark.parametrize("mechanism", ["none", "laplace-l2", "gaussian-local", "gaussian-central"])
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


def test_a_method_without_its_rows_says_so_at_a_field() -> None:
    found = faults(training__method__kind="ditto", training__hypotheses="1")
    assert "{method: split" in found["/federation/scoring/method"]


def test_records_with_budgets_of_their_own() -> None:
    spec = parse_spec(
        built(
            privacy__mechanism="record-personalised",
            training__hypotheses="1",
            training__loss="mse",
            training__local__steps="5",
            training__cohort__sampling="poisson",
            training__cohort__rate="1",
            privacy__delta="1e-3",
        )
    )
    assert spec.privacy.delta == 1e-3  # type: ignore[union-attr]
    assert spec.training.cohort.rate == 1  # type: ignore[union-attr]


def test_fields_that_do_not_count_are_left_out() -> None:
    value = built(privacy__mechanism="none", privacy__clip="nonsense", model__hidden="x")
    assert value["privacy"] == {"mechanism": "none", "noise": "simulation"}
    assert value["model"] == {"kind": "linear", "intercept": True}


def test_a_switch_that_is_off_is_false() -> None:
    typed = sheet.blank()
    del typed["/model/intercept"]
    assert build(typed, {}).value["model"]["intercept"] is False


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


def test_one_rule_for_everyone_is_no_list() -> None:
    typed = {
        **sheet.blank(),
        "groups": "own",
        "/fairness/sensitive": "group",
        "/fairness/favourable/2/op": "le",
        "/fairness/favourable/2/value": "7000",
    }
    made = build(typed, {})
    assert made.value["fairness"]["favourable"] == {"op": "le", "value": 7000}
    fault = FieldError("/fairness/favourable/value", "wrong")
    assert sheet.faults_of([fault], made, typed)[0].place == "/fairness/favourable/2/value"


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


def test_faults_stand_beside_their_fields() -> None:
    found = faults(name="", training__rounds="nine", privacy__noise_multiplier="0")
    assert found == {
        "/name": "is required",
        "/training/rounds": "must be a whole number, written without a decimal point or quotes",
        "/privacy/noise_multiplier": "must be greater than 0; for no noise ask for "
        "`mechanism: none`",
    }


def test_faults_between_fields_stand_beside_one_of_them() -> None:
    both = faults(training__local__epochs="1", training__local__steps="5")
    assert list(both) == ["/training/local/epochs"]


@pytest.mark.parametrize(
    ("pointer", "place"),
    [
        ("/federation/clients_per_group/1", "/federation/clients_per_group"),
        ("/federation/id", "/federation/source"),
        ("/federation/target", "/federation/source"),
        ("/training/cohort", "/training/cohort/sampling"),
        ("/privacy", "/privacy/noise_multiplier"),
        ("/spec_version", None),
        ("", None),
    ],
)
def test_where_a_fault_belongs(pointer: str, place: str | None) -> None:
    names = [
        "/federation/source",
        "/federation/clients_per_group",
        "/training/cohort/sampling",
        "/training/cohort/clients",
        "/privacy/noise_multiplier",
    ]
    assert placed([FieldError(pointer, "x")], names, {})[0].place == place


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


def test_fields_of_a_mechanism_come_from_its_part_of_a_spec() -> None:
    found = {
        one.pointer: one
        for one in union_fields(mechanism_parts(), where="/privacy", tag="mechanism")
    }
    assert found["/privacy/radius"].only == ("laplace-l2",)
    assert found["/privacy/per_layer"].kind == "switch"
    assert found["/privacy/accountant"].choices == (("rdp", "rdp"), ("pld", "pld"))
    assert found["/privacy/budgets/distribution"].only == ("record-personalised",)
    assert found["/privacy/clip"].only == (
        "laplace-l2",
        "gaussian-central",
        "gaussian-local",
        "record-personalised",
    )
    assert list(found)[-1] == "/privacy/noise", "what every mechanism has comes last"
    assert found["/privacy/noise"].only == ()


def test_one_field_is_described_in_one_way() -> None:
    class Other(SpecPart):
        mechanism: Literal["other"]
        clip: Annotated[float, InForm("Bound", "2")]

    with pytest.raises(ValueError, match="/privacy/clip is described in two ways"):
        union_fields((*mechanism_parts(), Other), where="/privacy", tag="mechanism")


def test_every_choice_that_fields_depend_on_has_a_rule() -> None:
    rules = choice_rules()
    shown = {name for one in fields.SECTIONS[4].fields for name in one.only}
    assert shown == {name for name, *_ in fields.MECHANISMS} - {"none"}
    for section in fields.SECTIONS:
        for one in section.fields:
            for choice in one.only:
                assert f".for-{choice}" in rules
    assert '.spec-form:has(input[value="laplace-l2"]:checked) .for-laplace-l2' in rules
    assert '.spec-form:has(option[value="mlp"]:checked) .for-mlp' in rules
    assert '.spec-form:has(option[data-kind="uploaded"]:checked) .for-uploaded' in rules


@pytest.mark.parametrize(("typed", "seeds"), [("", 1), ("5", 5)])
def test_seeds_to_train(typed: str, seeds: int) -> None:
    assert parse_spec(built(repeats=typed)).repeats == seeds


def test_an_optimiser_counts_only_where_records_are_personalised() -> None:
    """A hidden field of the form must not make a spec of another mechanism invalid."""
    assert parse_spec(built(training__local__optimiser="adam")).training.local.optimiser == "sgd"


def test_too_few_seeds_are_refused_at_their_field() -> None:
    assert list(faults(repeats="0")) == ["/repeats"]
