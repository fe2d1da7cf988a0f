"""What each site of a federation paid, and how it fares: for those who may read the ledger."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from zlib import crc32

import httpx
import numpy as np
import pytest
import yaml

from fedaudit.federations.split import split_clients
from fedaudit.reports.clients import shared_reasons
from tests.spec.documents import gaussian

SITES = {"Aachen": 300, "Bonn": 250, "Celle": 200, "Dachau": 90, "Emden": 22, "Fulda": 210}
SPEC: dict[str, Any] = {
    "name": "six sites",
    "seed": 4,
    "federation": {
        "source": "table",
        "client_key": "site",
        "target": "ill",
        "positive": "yes",
        "features": ["x"],
        "validation_fraction": 0.67,
    },
    "model": {"kind": "logistic"},
    "training": {
        "loss": "cross-entropy",
        "rounds": 8,
        "cohort": {"clients": 1},
        "local": {"epochs": 1, "step_size": 0.2},
    },
    "privacy": {
        "mechanism": "laplace-l2",
        "noise_multiplier": 2,
        "radius": 4,
        "clip": 1,
        "client_budget": 1.5,
    },
    "fairness": {"sensitive": ["sex"]},
}

WITHOUT_PATIENCE = {**SPEC["training"], "stopping": {"patience": None}}
SAMPLED = {**SPEC["training"], "stopping": {"validation_clients": 2}}
NOISE = {
    **{"mechanism": "discrete-laplace", "epsilon": 1, "unit": "client"},
    "max_rows_per_client": 20,
}
NOISED = {"fairness": {**SPEC["fairness"], "noise": NOISE}, "training": WITHOUT_PATIENCE}


def table(seed: int) -> str:
    draw, lines = np.random.default_rng(seed), ["site,x,sex,ill"]
    for site, rows in SITES.items():
        for x, sex in zip(draw.normal(size=rows), draw.choice(["f", "m"], rows), strict=True):
            ill = "yes" if x + draw.normal(scale=0.5) > 0.4 else "no"
            lines.append(f"{site},{x:.3f},{sex},{ill}")
    return "\n".join([*lines, ""])


@pytest.fixture
def submit(json_of, tmp_path, request) -> Any:
    # Data for each test: reports on the same data hide what two of them together would disclose.
    (tmp_path / "sites.csv").write_text(table(crc32(request.node.name.encode())))
    registration = {
        "name": "sites",
        "federation": {k: v for k, v in SPEC["federation"].items() if k != "validation_fraction"},
        "fairness": SPEC["fairness"],
    }
    (tmp_path / "sites.yaml").write_text(yaml.safe_dump(registration))
    add = ("federations", "add", tmp_path / "sites.csv", "--spec", tmp_path / "sites.yaml")
    federation = json_of(*add, "--wait", "--json")["id"]

    def submitted(*, federation_changes: dict[str, Any] | None = None, **changes: Any) -> str:
        source = {**SPEC["federation"], "id": federation, **(federation_changes or {})}
        spec = {**SPEC, "federation": source, **changes}
        return str(json_of("submit", "-", "--wait", "--json", stdin=yaml.safe_dump(spec))["id"])

    submitted.federation = federation  # type: ignore[attr-defined]
    return submitted


@pytest.fixture
def clients_of(json_of) -> Callable[[str], list[dict[str, Any]]]:
    """What is said of each client of an experiment."""
    return lambda id_: json_of("api", "GET", f"experiments/{id_}/clients")["items"]


def test_what_each_site_paid_and_how_it_fares(said, json_of, service, submit, clients_of):
    id_ = submit()
    found = {one["client"]: one for one in clients_of(id_)}
    assert list(found) == list(SITES)

    ledger = said("export", id_, "--what", "ledger").splitlines()
    lines = [json.loads(line) for line in ledger]
    released = Counter(one["subject"] for one in lines if one["outcome"] == "released")
    refused = Counter(one["subject"] for one in lines if one["outcome"] == "refused")
    total: Counter[str] = Counter()
    for one in lines:
        total[one["subject"]] += one["leakage"] or 0
    for site, one in found.items():
        assert (one["participations"], one["refused"]) == (released[site], refused[site])
        if "did not train" in (one["reason"] or ""):
            assert (one["spent"], one["remaining"], total[site]) == (None, None, 0)
            continue
        assert one["spent"] == pytest.approx(total[site])
        assert one["remaining"] == pytest.approx(1.5 - total[site])
    assert sum(refused.values()) > 0, "the budget stopped somebody"

    trained = {site for site, one in found.items() if one["reason"] == "trained, not scored"}
    assert len(trained) == 2
    assert all(found[site]["accuracy"] is None for site in trained)
    scored = found.keys() - trained
    report = said("report", id_)
    assert "Aachen" not in report, "sites are named nowhere in the signed report"
    known = {
        site: found[site]["accuracy"] for site in scored if found[site]["accuracy"] is not None
    }
    if "Emden" in scored:
        assert "fewer than 30" in found["Emden"]["reason"]
        hidden = scored - known.keys()
        assert len(hidden) == 2, "another one, from which it would follow"
    assert known

    url = f"{service.url}/v1/experiments/{id_}/clients"
    bearer = service.bearer
    first = httpx.get(url, params={"limit": 4}, headers=bearer).json()
    assert (len(first["items"]), first["figure"]) == (4, "leakage")
    rest = httpx.get(url, params={"limit": 4, "cursor": first["next_cursor"]}, headers=bearer)
    assert [*first["items"], *rest.json()["items"]] == list(found.values())
    assert rest.json()["next_cursor"] is None

    # Only readers of the ledger see it.
    few = service.key_with("experiments:read", "reports:read")
    assert httpx.get(url, headers={"Authorization": f"Bearer {few}"}).status_code == 403
    for key, may in ((service.api_key, True), (few, False)):
        with httpx.Client(base_url=service.url, headers={"Origin": service.url}) as pages:
            pages.post("/sign-in", data={"key": key, "next": "/"})
            for path in (f"/experiments/{id_}", f"/experiments/{id_}/report"):
                page = pages.get(path, follow_redirects=True)
                assert page.status_code == 200
                assert ("Aachen" in page.text) is may, path
                assert ("What each client paid" in page.text) is may


def test_all_six_train_and_are_measured_where_rows_are_held_out(service, submit):
    """With the whole way of a signed report: trained, attacked, verified."""
    rows = {"validation_fraction": 0.3, "validation_unit": "record"}
    fairness = {"sensitive": ["site", "sex"], "minimum_group_clients": 1}
    training = {**SPEC["training"], "rounds": 6, "cohort": {"clients": 6}}
    privacy = {**SPEC["privacy"], "client_budget": None}
    id_ = submit(
        federation_changes=rows,
        fairness=fairness,
        training=training,
        privacy=privacy,
        attacks=[{"kind": "membership"}],
    )
    url, bearer = f"{service.url}/v1/experiments/{id_}/report", service.bearer
    found = httpx.get(f"{url}/with-clients", headers=bearer).json()
    report = found["report"]
    assert report == httpx.get(f"{url}.json", headers=bearer).json(), "signed, and as it was"
    assert httpx.get(f"{url}/verification", headers=bearer).json()["valid"]
    clients = {one["client"]: one for one in found["clients"]}
    assert list(clients) == list(SITES)
    assert {one["participations"] for one in clients.values()} == {6}
    # Emden has 7 held-out rows, and the next larger site hides them.
    known = {site for site, one in clients.items() if one["accuracy"] is not None}
    assert known == {"Aachen", "Bonn", "Celle", "Fulda"}
    for one in clients.values():
        if one["accuracy"] is not None:
            interval = one["accuracy_interval"]
            assert interval["low"] < one["accuracy"] < interval["high"]
            assert interval["high"] - interval["low"] < 0.3
        else:
            assert one["accuracy_interval"] is None
    assert (report["data"]["training_clients"], report["utility"]["best_round"]) == (6, 6)
    assert "the very clients that train" in report["guarantee"]["statement"]
    assert any("These clients train" in limit for limit in report["limits"])
    assert report["attacks"][0]["members"] + report["attacks"][0]["non_members"] == 1072
    site, sex = report["fairness"]
    assert {one["value"] for one in site["groups"]} > {"Aachen", "Bonn", "other sites"}
    assert all(one["metrics"]["accuracy_difference"]["value"] is not None for one in (site, sex))

    few = {"Authorization": f"Bearer {service.key_with('reports:read')}"}
    assert httpx.get(f"{url}/with-clients", headers=few).status_code == 403
    assert httpx.get(url, headers=few).json() == report


@pytest.mark.parametrize("few", ["left out", "to choose by"])
def test_a_client_has_no_accuracy_where_few_of_its_rows_are_not_scored(
    said, submit, clients_of, few
):
    """Less that of a report that scores them all, it would be that of these rows."""
    changes: dict[str, Any] = {}
    disclosure = ("api", "PUT", f"federations/{submit.federation}/disclosure", "--body", "-")
    fairness: dict[str, Any] = {"sensitive": ["sex"]}
    if few == "left out":
        fairness = {"sensitive": ["site", "sex"], "exclude": {"site": ["Celle"]}}
        said(*disclosure, stdin=json.dumps({"exclude": fairness["exclude"]}))
    else:
        changes = {"scoring": {"method": "split", "fraction": 0.9}}
    found = clients_of(submit(name=few, seed=11, fairness=fairness, federation_changes=changes))
    assert all(one["accuracy"] is None for one in found)
    assert any("not all rows of the client are scored" in one["reason"] for one in found)


def test_sites_are_compared_and_small_ones_pooled(json_of, submit):
    fairness = {"sensitive": ["site"], "minimum_group_clients": 1}
    seed = next(one for one in range(20) if {"Emden"} < _held_out(one) and len(_held_out(one)) == 4)
    found = _held_out(seed)
    gates = [{"figure": "accuracy_difference", "attribute": "site", "op": "le", "value": 1,
              "allow_degenerate": True, "allow_simulation": True}]  # fmt: skip
    id_ = submit(seed=seed, fairness=fairness, training=WITHOUT_PATIENCE, gates=gates)
    report = json_of("report", id_)
    [section] = report["fairness"]
    groups = {one["value"]: one for one in section["groups"]}
    assert "Emden" not in groups
    assert not groups["other sites"]["suppressed"]
    trained = [one for one in groups.values() if one["suppressed"]]
    assert len(trained) == 2
    assert {one["reasons"]["accuracy"] for one in trained} == {"trained, not scored"}
    gap = section["metrics"]["accuracy_difference"]
    assert gap["value"] is not None
    assert "trained and not scored" in gap["reason"]
    assert report["gates"][0]["value"] == gap["value"]

    # Others are held out, and pooled: what was read before for the first is not used for it.
    other = next(one for one in range(20) if not {"Emden", "Dachau"} <= _held_out(one)
                 and _held_out(one) != found and "Emden" not in _held_out(one))  # fmt: skip
    id_ = submit(seed=other, fairness=fairness, training=WITHOUT_PATIENCE)
    [section] = json_of("report", id_)["fairness"]
    assert {one["value"] for one in section["groups"]} == set(SITES)


def _held_out(seed: int) -> set[str]:
    split = split_clients(len(SITES), validation_fraction=0.67, seed=seed)
    return {sorted(SITES)[place] for place in split.validation.tolist()}


CENTRAL = gaussian("central", 2, delta=1e-3)


@pytest.mark.parametrize(
    ("privacy", "reason", "pays"),
    [
        ({"mechanism": "none"}, "no mechanism", False),
        (CENTRAL, "who takes part in a round is secret", True),
    ],
)
def test_what_is_not_known_has_its_reason(submit, clients_of, privacy, reason, pays):
    found = clients_of(submit(privacy=privacy))
    assert [one["client"] for one in found] == sorted(SITES)
    trained = [one for one in found if "did not train" not in one["reason"]]
    assert len(trained) == 2
    for one in trained:
        assert reason in one["reason"]
        assert (one["spent"] is not None) is pays
        assert (one["participations"] is None) is pays
    assert shared_reasons(found) == ["trained, not scored", *trained[0]["reason"].split("; ")[1:]]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"training": SAMPLED}, "rounds score samples of the held-out clients"),
        (NOISED, "fairness.noise protects the people held out"),
    ],
)
def test_no_accuracy_is_shown_that_would_escape_what_the_report_hides(
    submit, clients_of, changes, reason
):
    found = clients_of(submit(**changes))
    assert [one["accuracy"] for one in found] == [None] * len(SITES)
    assert Counter(reason in one["reason"] for one in found) == {True: 4, False: 2}
    assert Counter(one["spent"] is not None for one in found) == {True: 2, False: 4}
