"""What is published of a report: nothing more than it shows, and no evidence that it is not."""

import json
import sys
from types import SimpleNamespace

import pytest

from fedaudit.cli.publish import _publication
from fedaudit.publishing.mlflow_runs import (
    LONGEST_NAME,
    LONGEST_PARAMETER,
    LONGEST_TAG,
    MOST_METRICS,
    MOST_PARAMETERS,
    MOST_TAGS,
    _write_entities,
    allowed,
    allowed_name,
    publish_to_mlflow,
    spec_parameters,
)
from fedaudit.publishing.publication import (
    PublishingError,
    declared_figures,
    from_file,
    publication,
)
from fedaudit.reports.report import assemble, report_hash
from tests.api.ledgers.trainings import CENTRAL, declared, group, opened, post
from tests.api.service import running_api, settings_for
from tests.reports.conftest import SPEC
from tests.reports.reading_documents import FIXED, NOTHING, contradicted, gaussian


@pytest.fixture
def published(tmp_path):
    """The publication of a report document."""

    def make(document):
        return publication(document, page="<html>", folder=tmp_path, origin="file")

    return make


def test_a_figure_is_named_by_what_it_is_worth(material, published):
    """Sorting by `privacy/...` ranks proven costs of secret noise with one another alone."""
    fixed = {**FIXED["privacy"], "noise": "release"}
    whole = gaussian(material)
    whole = {**whole, "privacy": {**whole["privacy"], "epsilon_planned": None}}
    adaptive = assemble(material({"privacy": {**fixed, "radius": "adaptive"}}))
    simulated = gaussian(material, noise="simulation")
    for document, section, figure in (
        (assemble(material()), "privacy_not_in_force", "leakage_max"),
        (adaptive, "privacy_heuristic", "leakage_max"),
        (assemble(material({"privacy": fixed})), "privacy_conditional", "leakage_max"),
        (whole, "privacy", "epsilon_max"),
        (gaussian(material), "privacy_conditional", "epsilon_max"),  # losses ended it early
        (
            {**whole, "guarantee": {**whole["guarantee"], "delta": 0.3}},
            "privacy_conditional",
            "epsilon_max",
        ),
        (simulated, "privacy_not_in_force", "epsilon_max"),
        (contradicted(gaussian(material)), "privacy_contradicted", "epsilon_max"),
    ):
        found = published(document)
        names = {name for name in found.figures if name.endswith(figure)}
        assert names == {f"{section}/{figure}"}

    # No protection is a cost without bound, and not a blank.
    found = published(assemble(material(NOTHING)))
    assert found.facts()["privacy_cost"] == "unbounded: nothing protects the clients"
    assert not any(name.startswith("privacy") for name in found.figures)


def test_what_an_attack_contradicts_has_not_passed(material, published):
    gate = {"figure": "participations_max", "op": "le", "value": 100}
    document = assemble(material({"gates": [gate]}))
    assert [published(one).passed for one in (document, contradicted(document))] == [True, False]


def test_gaps_of_a_model_that_decides_nothing_have_another_name(material, published):
    document = assemble(material())
    document["utility"] |= {"degenerate": True}
    document["utility"]["reasons"]["degenerate"] = "one outcome for nearly all rows"
    found = published(document)
    gaps = {name.split("/")[0] for name in found.figures if "/group/" in name}
    assert gaps == {"fairness_no_evidence"}
    assert found.facts()["model_decides"] == "not shown: one outcome for nearly all rows"


def test_what_the_report_withholds_is_not_published_round_by_round(material, tmp_path):
    document = assemble(material({"fairness": {**SPEC["fairness"], "minimum_group_size": 150}}))
    gap = {"attribute": "group", "metric": "equalized_odds_difference", "value": 0.25}
    rounds = [
        {"round": 1, "validation_loss": 3.0, "accuracy": 0.5},
        {"round": 2, "validation_loss": None},
        {"round": 3, "validation_loss": float("inf"), "leakage_max": 2.0},
    ]
    gaps = [{**gap, "round": number} for number in (1, 2)]
    service = {"page": "<html>", "folder": tmp_path, "origin": "http://service"}
    found = publication(document, **service, rounds=rounds, gaps=gaps).by_round
    # The report's target is a number, so that it has no accuracy; its groups are too small.
    assert found == [
        ("rounds/utility/validation_loss", 3.0, 1),
        ("rounds/privacy_not_in_force/leakage_max", 2.0, 3),
    ]


def test_a_report_file_is_published_as_it_is(material, tmp_path):
    document = assemble(material())
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    with from_file(path) as found:
        names = [one.relative_to(found.files[0].parent).as_posix() for one in found.files]
        assert json.loads(found.files[0].read_text()) == document
    assert names == [
        *("report.json", "report.html", "readings/registry.json", "readings/nist-800-226.json"),
        *("readings/impact-ratio.json", "readings/model-card.md", "readings/annex-iv.json"),
        "readings/edpb-28-2024.json",
    ]
    assert found.facts()["report_hash"] == report_hash(document)
    assert found.model_reason == document["model_reason"]


def test_a_store_that_mlflow_refuses_is_named(material, published, monkeypatch):
    """MLflow does so as its client is made, as for `file:///FOLDER` and for `nonsense`."""

    def refuse(tracking_uri: str) -> None:
        raise TypeError(f"{tracking_uri} has no store")

    mlflow = SimpleNamespace(MlflowClient=refuse, MlflowException=TypeError)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    with pytest.raises(PublishingError, match="nonsense has no store"):
        publish_to_mlflow(published(assemble(material())), tracking_uri="nonsense", experiment="x")


def test_what_is_no_report_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "report.json"
    for content, stated in (
        ("", "not JSON"),
        ("[]", "audit report"),
        ('{"report_version": 1}', "audit report"),
        ('{"report_version": 1, "utility": {"validation_loss": NaN}}', "audit report|be read"),
    ):
        path.write_text(content)
        with pytest.raises(PublishingError, match=stated), from_file(path):
            pass
    # Whatever its name is, a file is no id.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.yaml").touch()
    with (
        pytest.raises(PublishingError, match="not JSON"),
        _publication("empty.yaml", with_ledger=False),
    ):
        pass


def test_what_a_trainer_declares_is_named_as_its_word(sqlite_url, tmp_path):
    path, counts = tmp_path / "report.json", group(20, 5, 40, 10)
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        ledger = opened(api, {**CENTRAL, "subjects": ["c1", "c2"]}, population=2)
        post(api, ledger, declared(1, ["c1"], groups={"sex": {"f": counts, "m": counts}}))
        path.write_text(api.get(f"/v1/ledgers/{ledger}/report.json").text)
    with from_file(path) as found:
        figures, facts = found.figures, found.facts()
        assert [one.name for one in found.files] == ["report.json", "report.html"]
    assert all("_declared/" in name for name in figures)
    assert figures["privacy_declared/epsilon_max"] > 0
    assert figures["fairness_declared/sex/demographic_parity_difference"] == 0
    assert (facts["kind"], facts["ledger_id"]) == ("declared-ledger", ledger)
    assert facts["privacy_cost"].startswith(
        "as declared, and not observed: A client spent at most an epsilon of "
    )
    assert (min(facts), found.passed, "subjects" in found.settings) == ("answer", False, False)
    tests = {"status": "contradicted"}
    for refuted in ({"contradictions": ["c1 came too often"]}, {"tests": tests}):
        names = declared_figures({**found.document, **refuted})
        assert all("_declared_contradicted/" in name for name in names)


# -- requests within MLflow's limits, whatever a spec holds ---------------------------------------


def test_names_are_mended_and_stay_different():
    kept = "rounds/fairness/sex/equalized_odds_difference"
    assert allowed_name(kept) == kept
    odd = ["a/b?", "a/b!", "a//b", "a/../b", "x" * 251, "x" * 252, "größe", "a/./b", ""]
    mended = [allowed_name(one) for one in odd]
    assert len(set(mended)) == len(odd)
    assert all(len(one) <= LONGEST_NAME for one in mended)
    assert not any({"", ".", ".."} & set(one.split("/")) for one in mended)


def test_long_values_end_with_the_hash_of_all_of_them():
    one, other = ("x" * LONGEST_PARAMETER + end for end in "ab")
    spec = {"privacy": {"noise": "release", "clip": None}, "features": [one], "drop": [other]}
    made = allowed(spec_parameters(spec), LONGEST_PARAMETER)
    assert made["privacy.noise"] == "release"
    assert made["privacy.clip"] == "null"
    assert len(made["features"]) == LONGEST_PARAMETER
    assert "... sha256:" in made["features"]
    assert made["features"] != made["drop"]


def test_the_largest_request_is_within_the_limit():
    value = {"value": 1 / 3, "timestamp": 1_900_000_000_000, "step": 12345, "model_id": "m" * 34}
    metrics = [{"key": "n" * LONGEST_NAME, "run_id": "r" * 32, **value}]
    parameters = [{"key": "n" * LONGEST_NAME, "value": "𝄞" * LONGEST_PARAMETER}]
    tags = [{"key": "n" * LONGEST_NAME, "value": "𝄞" * LONGEST_TAG}]
    for sent, most in ((metrics, MOST_METRICS), (parameters, MOST_PARAMETERS), (tags, MOST_TAGS)):
        assert len(json.dumps({"run_id": "r" * 32, "tags": sent * most})) < 10**6


def test_a_request_holds_no_more_and_nothing_is_lost(material, published):
    found, sent = published(assemble(material())), []
    found.by_round += [("rounds/x", float(step), step) for step in range(2 * MOST_METRICS)]
    kinds = dict.fromkeys(("Metric", "Param", "RunTag"), lambda *fields: fields)
    mlflow = SimpleNamespace(entities=SimpleNamespace(**kinds))
    client = SimpleNamespace(log_batch=lambda _run_id, **some: sent.append(some))
    info = SimpleNamespace(run_id="r", start_time=0)
    run = SimpleNamespace(info=info, data=SimpleNamespace(metrics={}))
    written = _write_entities(mlflow, client, run, found)
    metrics = [some["metrics"] for some in sent if "metrics" in some]
    rest = len(found.figures)
    assert (written, [*map(len, metrics)]) == (2000 + rest, [1000, 1000, rest])
    assert len({(one[0], one[3]) for some in metrics for one in some}) == written
    assert max(len(some.get("tags", ())) for some in sent) == MOST_TAGS
    assert max(len(some.get("params", ())) for some in sent) == MOST_PARAMETERS
