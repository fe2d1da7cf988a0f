"""A spec that asks for a budget: its noise multiplier is found, or what is given is checked."""

from typing import Any

import pytest

from fedaudit.federations.load import load_federation
from fedaudit.runs.experiment_plan import plan_experiment, with_solved_noise
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import parse_admitted, parse_spec
from fedaudit.training.base.cell import Cell
from tests.refusals import refused_by
from tests.training.specs import groups_spec, ran, table_spec

COINS = {"sampling": "poisson", "rate": 0.25}
TARGET = {"epsilon": 3.0, "delta": 1e-5}


def asking(mechanism: str = "gaussian-central", **privacy: Any) -> dict[str, Any]:
    target = {} if "target" in privacy else {"target": TARGET}
    return groups_spec(
        training__hypotheses=1,
        training__clustering={"method": "reported"},
        training__cohort=COINS if mechanism == "gaussian-central" else {"clients": 20},
        privacy={"mechanism": mechanism, "clip": 1.0, **target, **privacy},
    )


def solved(document: dict[str, Any]) -> Any:
    spec = parse_spec(document)
    return with_solved_noise(spec, load_federation(spec, sources_dir=None))


def refused(document: dict[str, Any]) -> dict[str, str]:
    return {one.pointer: one.message for one in refused_by(solved, document)}


@pytest.mark.parametrize(
    ("document", "figure"),
    [
        (asking(), "epsilon"),
        (asking("gaussian-local", accountant="pld"), "epsilon"),
        (asking("laplace-l2", target={"leakage": 3.0}, radius=2.0), "leakage"),
    ],
)
def test_the_plan_has_the_noise_and_the_target_and_projects_no_more(document, figure):
    spec = parse_spec(document)
    plan = plan_experiment(spec, load_federation(spec, sources_dir=None))
    projection, stored = plan.projection, plan.stored_fields()["spec"]["privacy"]
    [projected] = [one["value"] for one in projection.epsilon] or [projection.leakage_worst_case]
    assert 2.97 < projected <= 3.0
    assert stored["target"][figure] == 3.0
    assert stored["noise_multiplier"] == projection.noise_multiplier > 0
    # Submitted again, as it is downloaded.
    assert solved(plan.stored_fields()["spec"]) == plan.spec


def test_the_target_is_part_of_what_is_hashed_and_older_specs_keep_their_hash():
    found = solved(asking())
    document = found.model_dump(mode="json")
    without = {**document, "privacy": {**document["privacy"]}}
    del without["privacy"]["target"]
    assert "target" not in parse_spec(without).model_dump(mode="json")["privacy"]
    larger = asking(target={"epsilon": 4.0}, delta=1e-5, noise_multiplier=50.0)
    same_noise = asking(target={"epsilon": 5.0}, delta=1e-5, noise_multiplier=50.0)
    hashes = {spec_hash(solved(one)) for one in (document, without, larger, same_noise)}
    assert len(hashes) == 4


def test_delta_is_given_once_or_alike():
    expected = solved(asking())
    assert solved(asking(target={"epsilon": 3.0}, delta=1e-5)) == expected
    assert solved(asking(delta=1e-5)) == expected


def test_a_multiplier_that_does_not_meet_the_target_is_refused_with_what_to_do():
    noise = solved(asking()).privacy.noise_multiplier
    less = refused(asking(noise_multiplier=noise * 0.99))
    assert "leave it out" in less["/privacy/noise_multiplier"]
    assert solved(asking(noise_multiplier=noise * 1.5)).privacy.noise_multiplier == noise * 1.5


RECORDS = {
    "mechanism": "record-personalised",
    "budgets": {"distribution": "three-levels"},
    "target": TARGET,
}
LITTLE_COUNT = {"adaptive": {"initial": 1.0, "count_noise": 0.1}}


@pytest.mark.parametrize(
    ("document", "field", "says"),
    [
        (asking(delta=1e-5, target=None), "noise_multiplier", "or give `target`"),
        (asking(noise_multiplier=0), "noise_multiplier", "greater than 0"),
        (asking(target={"leakage": 3.0}, delta=1e-5), "target/leakage", ""),
        ({**asking(), "privacy": RECORDS}, "target", "epsilon_max"),
        *((asking("laplace-l2", radius=2.0), f"target/{one}", "") for one in ("leakage", *TARGET)),
        (asking(clip=LITTLE_COUNT), "clip/adaptive/count_noise", "must exceed"),
        (asking(target={**TARGET, "epsilon": 1e-4}), "target/epsilon", "ask for at least"),
        (asking(delta=1e-6), "target/delta", "is that of the mechanism"),
        (asking(target={"epsilon": 3.0}), "delta", "is required"),
    ],
)
def test_noise_and_target_are_refused_where_they_have_no_meaning(document, field, says):
    assert says in refused(document)[f"/privacy/{field}"]


def test_nothing_is_made_from_a_spec_whose_noise_was_not_found():
    spec = parse_spec(asking())
    with pytest.raises(ValueError, match="not found yet"):
        Cell(spec, load_federation(spec, sources_dir=None))
    with pytest.raises(InvalidInputError, match="was found when"):
        parse_admitted(spec.model_dump(mode="json"))


def test_the_noise_has_to_meet_the_target_for_every_seed(tmp_path):
    """Seeds deal other clients out of the same rows, and some have fewer: a cohort is then a larger
    share of them."""
    rows = [f"{place % 7},{'no' if place % 2 else 'yes'}" for place in range(120)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,passed", *rows]))
    document = table_spec(
        "rows.csv",
        ["x"],
        privacy=asking(target={"epsilon": 2.0, "delta": 1e-5})["privacy"],
        training__cohort={"clients": 3},
        training__rounds=3,
        federation__partition={"method": "dirichlet", "clients": 14, "alpha": 0.1},
        federation__client_key=None,
    )
    clients = {}
    for seed in range(1, 9):
        spec = parse_spec({**document, "seed": seed})
        clients[seed] = load_federation(spec, sources_dir=tmp_path).clients
    most = max(clients, key=clients.__getitem__)
    assert len(set(clients.values())) > 1
    [fault, *_] = refused_by(ran, {**document, "seed": most, "repeats": 8}, tmp_path)
    assert fault.pointer == "/privacy/noise_multiplier"
