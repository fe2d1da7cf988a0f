"""The registry's record: valid, honest about what it is not, and nothing made up."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from fedaudit.reports.readings.readings import registry
from fedaudit.reports.report import assemble
from tests.reports.reading_documents import NOTHING, WITHOUT_NOISE, documents, gaussian

SCHEMA = Path(__file__).parents[4] / "shared/data/dp_registry/deployments-schema.yaml"
TIER_3 = {
    "basic": {
        "name",
        "data_curators",
        "description",
        "intended_use",
        "data_product_type",
        "data_product_region",
        "publication_date",
    },
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        "privacy_unit",
        "privacy_unit_details",
        "privacy_parameters",
        "privacy_parameters_details",
    },
    "deployment_model": {
        "model_name",
        "actors",
        "release_type",
        "data_source_type",
        "data_source_type_details",
        "access_type",
        "access_type_details",
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}
"""The fields up to tier 3, but for the sector, which has no value for unknown."""


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {
            name: leaf
            for step, part in value.items()
            for name, leaf in _leaves(part, f"{path}/{step}").items()
        }
    return {path: value}


def test_every_field_up_to_tier_3_is_filled(material):
    for name, document in documents(material).items():
        record = registry(document)
        assert set(record) == {"url_slug", "status", "tier", "deployment"}
        assert (record["status"], record["tier"]) == ("Draft", 3)
        for part, fields in TIER_3.items():
            expected = fields - ({"variant_name"} if name == "nothing" else set())
            assert expected <= set(record["deployment"][part]), part
        assert all(leaf not in ("", []) for leaf in _leaves(record).values())


def test_records_are_valid_by_the_registrys_own_schema(material):
    if not SCHEMA.is_file():
        pytest.skip(f"the registry's schema is not at {SCHEMA}")
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    for document in documents(material).values():
        validator.validate(registry(document))


def test_metric_privacy_is_custom_and_has_no_epsilon(material):
    deployment = registry(assemble(material()))["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Custom"
    assert "Privacy relation: " in deployment["dp_variant"]["data_domain"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {}
    details = deployment["privacy_loss"]["privacy_parameters_details"]
    assert "Leakage under metric privacy (a cost within a distance, no epsilon): 2.4" in details
    assert deployment["deployment_model"]["model_name"] == "Local"


def test_an_epsilon_with_a_delta_is_approximate_dp(material):
    document = gaussian(material)
    deployment = registry(document)["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {
        "epsilon": document["privacy"]["epsilon_max"],
        "delta": 1e-3,
    }
    assert deployment["privacy_loss"]["privacy_unit_details"] == "zero-out (add-or-remove-one)"
    assert "accountant rdp" in deployment["accounting"]["composition"]
    assert "trusted" in deployment["deployment_model"]["model_name_details"]


@pytest.mark.parametrize(("noise", "warned"), [("simulation", True), ("release", False)])
def test_a_simulated_run_says_first_that_it_protects_nothing(material, noise, warned):
    deployment = registry(gaussian(material, noise=noise))["deployment"]
    for text in (
        deployment["basic"]["description"],
        deployment["privacy_loss"]["privacy_parameters_details"],
    ):
        assert text.startswith("The noise was simulated") == warned
        assert ("not for release" in text) == warned


@pytest.mark.parametrize("spec", [NOTHING, WITHOUT_NOISE])
def test_without_a_guarantee_nobody_is_said_to_add_noise(material, spec):
    found = registry(assemble(material(spec)))["deployment"]["deployment_model"]
    assert found["model_name_details"] == "Data stay with the clients. Nobody adds noise."


def test_what_the_run_cannot_know_is_not_made_up_and_is_listed(material):
    record = registry(documents(material)["adaptive"])
    notes = record["deployment"]["administrative"]["notes"]
    unknown = [
        path
        for path, leaf in _leaves(record).items()
        if str(leaf[0] if isinstance(leaf, list) else leaf).startswith("Not stated by this run")
    ]
    assert {path.rpartition("/")[2] for path in unknown} == {
        "data_curators",
        "intended_use",
        "data_product_region",
        "justification",
        "registry_authors",
    }
    for path in (*unknown, "/deployment/basic/publication_date"):
        assert f"`{path}`: " in notes
    assert "data_product_sector" not in record["deployment"]["basic"]
    assert "`/deployment/basic/data_product_sector`: left out" in notes


def test_texts_of_the_caller_are_escaped(material):
    record = registry(assemble(material()))
    assert record["deployment"]["basic"]["name"] == "\\<script\\>alert(1)\\</script\\>"
    assert record["url_slug"] == "script-alert-1-script-0190-1"
    notes = record["deployment"]["administrative"]["notes"]
    assert "epsilon \\* \\|\\|theta_i - theta_j\\|\\|" in notes
