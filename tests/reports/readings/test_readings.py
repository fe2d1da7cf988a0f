"""What all readings have in common: no report is refused, and none is changed; impact ratios."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.number_text import at_most, plain
from fedaudit.publishing.publication import report_facts
from fedaudit.reports.claims import ML_BOM, claims_of
from fedaudit.reports.readings.readings import (
    READINGS,
    ImpactRatioTable,
    NistReading,
    impact_ratio,
    model_card,
    reading,
    registry,
)
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.guarantee import is_unbounded
from tests.reports.conftest import SPEC
from tests.reports.reading_documents import (
    FIXED,
    NAMES,
    NOTHING,
    WITHOUT_NOISE,
    by_distance,
    contradicted,
    documents,
    gaussian,
)


@pytest.mark.parametrize("name", NAMES)
def test_a_reading_is_json_or_text_and_leaves_the_report_alone(material, name):
    for document in documents(material).values():
        before = copy.deepcopy(document)
        found = reading(document, name)
        assert document == before
        assert isinstance(found, str) == (READINGS[name].schema is None)
        json.dumps(found, allow_nan=False)
        assert reading(document, name) == found


@given(st.text(alphabet=st.sampled_from("ab_*`<>[](){}|$#~&\\ \n")))
def test_escaped_text_marks_nothing_up(text):
    found = plain(text)
    assert "\n" not in found
    bare = found.replace("\\\\", "")
    for mark in "*`<>[]{}|$#~&":
        assert bare.count(mark) == bare.count(f"\\{mark}")
    assert found.replace("\\", "") == " ".join(text.split()).replace("\\", "")


TOPICS = [
    *("privacy parameters and unit", "guarantee and adjacency", "algorithm and utility", "bias"),
    *("security", "side channels", "trust model", "data collection"),
]


def nist_800_226(document: dict[str, Any]) -> NistReading:
    return NistReading.model_validate(reading(document, "nist-800-226"))


def _statements(found: NistReading, topic: str) -> dict[str, tuple[str, str]]:
    [one] = [part for part in found.topics if part.topic == topic]
    return {stated.question: (stated.status, stated.statement) for stated in one.statements}


def test_topics_go_down_the_pyramid_and_each_has_a_status(material):
    for document in documents(material).values():
        found = nist_800_226(document)
        assert [part.topic for part in found.topics] == TOPICS
        assert [part.layer for part in found.topics] == ["top"] * 2 + ["middle"] * 4 + ["base"] * 2
        for part in found.topics:
            stated = {one.status for one in part.statements}
            assert part.status == (stated.pop() if len(stated) == 1 else "answered in part")
            assert all(one.statement for one in part.statements)


@pytest.mark.parametrize(("spec", "status"), [({}, "answered in part"), (FIXED, "answered")])
def test_heuristic_is_never_a_whole_answer_and_rounding_is_told_of(material, spec, status):
    document = assemble(material(spec))
    found = nist_800_226(document)
    stated = _statements(found, TOPICS[1])["Which guarantee is claimed, and is it proven?"]
    assert stated == (status, document["guarantee"]["statement"])
    [limit] = [one for one in document["limits"] if "grid of 2^-12" in one]
    asked = "Does floating point give anything away?"
    said = [_statements(found, topic).get(asked) for topic in TOPICS]
    assert ("answered in part", limit) in said
    assert limit in registry(document)["deployment"]["implementation"]["mechanisms"]


@pytest.mark.parametrize(
    ("spec", "who"),
    [
        ({}, "Each client adds noise before anything leaves it."),
        (NOTHING, "No noise is added."),
        (WITHOUT_NOISE, "No noise is added."),
    ],
)
def test_who_adds_noise_follows_from_the_guarantee(material, spec, who):
    stated = _statements(nist_800_226(assemble(material(spec))), "trust model")
    assert stated["Against whom does the guarantee hold, and who is trusted?"][1].endswith(who)


def test_what_lies_outside_the_run_is_not_shown(material):
    found = nist_800_226(gaussian(material))
    collected = "How was it collected: with which consent, how little of it, how long kept?"
    for topic, question in (
        ("privacy parameters and unit", "What else was spent on the same data?"),
        ("security", "Who can read the data and the updates, and how is that kept?"),
        ("security", "Was the model attacked?"),
        ("trust model", "Do the parties deserve that trust?"),
        ("data collection", collected),
    ):
        assert _statements(found, topic)[question][0] == "not shown by this run"


SECTIONS = [
    *("Verdict", "Model details", "Intended use", "Factors", "Metrics", "Evaluation data"),
    *("Training data", "Quantitative analyses", "Privacy", "Ethical considerations", "Caveats"),
    "Evidence",
]


KEYS = {"library_name", "model_name", "tags", "metrics", "fedaudit"}
"""Of these `ModelCardData` (huggingface_hub 2.4) names all but our own, which it takes as it is."""


def test_every_card_has_its_sections_and_the_keys_of_the_hub(material):
    for name, document in documents(material).items():
        values, card = in_front(model_card(document))
        assert set(values) <= KEYS
        assert values["library_name"] == "fedaudit"
        assert all(isinstance(one, str) for one in values["fedaudit"].values())
        # A leakage is no differential privacy.
        assert ("differential-privacy" in values["tags"]) == (name == "gaussian")
        assert card.startswith("\n\n# Model card: ")
        parts = re.split(r"^## (.+)$", card, flags=re.MULTILINE)
        assert parts[1::2] == SECTIONS
        assert all(part.strip() for part in parts[2::2])


def test_texts_of_the_caller_are_escaped(material):
    document = assemble(material())
    document["fairness"][0]["groups"][0]["value"] = "a|b\n# c"
    text = model_card(document)
    assert "\n---\n\n# Model card: \\<script\\>" in text
    assert "| a\\|b \\# c | " in text
    record = registry(document)
    assert record["deployment"]["basic"]["name"] == "\\<script\\>alert(1)\\</script\\>"
    assert record["url_slug"] == "script-alert-1-script-0190-1"
    notes = record["deployment"]["administrative"]["notes"]
    assert "epsilon \\* \\|\\|theta_i - theta_j\\|\\|" in notes
    name = '---\n"a: <b> & `c` \\ \x00\x85\u2028 ä 😀'
    document["experiment"]["name"] = name
    text = model_card(document)
    assert in_front(text)[0]["model_name"] == name
    assert "<b>" not in text


def test_tables_are_regular_and_suppressed_groups_show_no_rate(material):
    hidden = {"fairness": {**SPEC["fairness"], "minimum_group_size": 150}}
    text = model_card(assemble(material(hidden)))
    assert "| g1 | suppressed | suppressed | suppressed |" in text
    widths = [
        {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    ]
    assert len(widths) >= 3
    assert all(len(width) == 1 for width in widths)


def in_front(text):
    """The YAML in front of a card, and what follows."""
    before, matter, after = re.split(r"^---$", text, maxsplit=2, flags=re.MULTILINE)
    assert before == ""
    return yaml.safe_load(matter), after


@pytest.mark.integrations
def test_hugging_face_reads_the_card(material):
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra `integrations`")
    document = gaussian(material)
    card = hub.ModelCard(model_card(document), ignore_metadata_errors=False)
    assert card.data.library_name == "fedaudit"
    assert card.data.model_name == document["experiment"]["name"]
    assert card.data.to_dict()["fedaudit"]["experiment_id"] == document["experiment"]["id"]
    assert "# Model card" in card.text


SCHEMA = Path(__file__).parents[4] / "shared/data/dp_registry/deployments-schema.yaml"
TIER_3 = {
    "basic": "name data_curators description intended_use data_product_type data_product_region"
    " publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters"
    " privacy_parameters_details",
    "deployment_model": "model_name actors release_type data_source_type data_source_type_details"
    " access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors",
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
        in_force = name != "nothing" and document["spec"]["privacy"]["noise"] == "release"
        for part, fields in TIER_3.items():
            expected = set(fields.split()) - (set() if in_force else {"variant_name"})
            assert expected <= set(record["deployment"][part]), part
        assert all(leaf not in ("", []) for leaf in _leaves(record).values())


def test_records_are_valid_by_the_registrys_own_schema(material):
    if not SCHEMA.is_file():
        pytest.skip(f"the registry's schema is not at {SCHEMA}")
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    kind = jsonschema.Draft202012Validator
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    for document in documents(material).values():
        validator.validate(registry(document))


def test_metric_privacy_is_custom_and_has_no_epsilon(material):
    privacy = {**SPEC["privacy"], "noise": "release"}
    deployment = registry(assemble(material({"privacy": privacy})))["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Custom"
    assert "Privacy relation: " in deployment["dp_variant"]["data_domain"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {}
    details = deployment["privacy_loss"]["privacy_parameters_details"]
    assert "it was charged a leakage of 0.6 for each and 2.4 in all" in details
    assert deployment["deployment_model"]["model_name"] == "Local"


def test_an_epsilon_with_a_delta_is_approximate_dp(material):
    document = gaussian(material)
    deployment = registry(document)["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    # Losses ended the run early.
    planned = document["privacy"]["epsilon_planned"]
    assert planned > document["privacy"]["epsilon_max"]
    loss = deployment["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": planned, "delta": 1e-3}
    asked = "How large is the privacy loss: which parameters, with which values?"
    _, said = _statements(nist_800_226(document), TOPICS[0])[asked]
    for text in (loss["privacy_parameters_details"], said, model_card(document)):
        assert f"all rounds that were planned, {at_most(planned, digits=4)}." in text
    assert loss["privacy_unit_details"] == "zero-out (add-or-remove-one)"
    assert "accountant rdp" in deployment["accounting"]["composition"]
    assert "trusted" in deployment["deployment_model"]["model_name_details"]


def test_the_record_says_which_rounds_models_are_kept(material):
    document = gaussian(material)
    document["spec"]["federation"]["validation_unit"] = "record"
    free = copy.deepcopy(document)
    free["guarantee"]["kind"] = "none"
    kept = "The models of the last round are kept"
    for read, is_last in ((document, True), (free, False)):
        accounting = registry(read)["deployment"]["accounting"]
        assert (kept in accounting["post_processing"]) == is_last


def _with(document, **parts):
    """A report with other fields in some of its parts."""
    return {**document, **{name: {**document[name], **part} for name, part in parts.items()}}


def test_what_speaks_against_a_proof_is_in_every_reading_that_states_it(material):
    document = gaussian(material)
    conditions = {"epsilon_max": "it counts what this run adds"}
    asked = "Does the guarantee hold for the model of this run?"
    adding = _with(document, guarantee={"conditions": conditions})
    adding["spec"] = _with(document["spec"], model={"start": {"artifact": "0" * 64}})
    for doubted, words in (
        (contradicted(document), "An attack contradicts that, so it bounds nothing."),
        (adding, "Of what this run adds alone, that is"),
        (_with(document, guarantee={"delta": 0.5}), "data to be handed over whole"),
        (_with(document, guarantee={"kind": "heuristic"}), "on no theorem as a whole"),
    ):
        loss = registry(doubted)["deployment"]["privacy_loss"]
        assert loss["privacy_parameters"] == {}
        assert in_front(model_card(doubted))[0]["tags"] == ["federated-learning"]
        status, held = _statements(nist_800_226(doubted), TOPICS[1])[asked]
        assert status == "not shown by this run"
        read = [json.dumps(reading(doubted, name)) for name in ("edpb-28-2024", "nist-800-226")]
        for text in (held, loss["privacy_parameters_details"], model_card(doubted), *read):
            assert words in text


def test_a_cost_is_rounded_up_in_the_card(material):
    document = gaussian(material)
    epsilon = {**document["privacy"]["epsilon"][0], "value": 2.00000049}
    text = model_card(_with(document, privacy={"epsilon": [epsilon], "epsilon_planned": None}))
    assert "an epsilon of 2.001 against" in text


@pytest.mark.parametrize(("noise", "simulated"), [("simulation", True), ("release", False)])
def test_only_secret_noise_protects_the_model_in_any_reading(material, noise, simulated):
    document = gaussian(material, noise=noise)
    deployment = registry(document)["deployment"]
    loss = deployment["privacy_loss"]
    for text in (deployment["basic"]["description"], loss["privacy_parameters_details"]):
        assert text.startswith("The noise was simulated") == simulated
        assert ("must not be released" in text) == simulated
    # Programs read these fields alone.
    assert ("variant_name" not in deployment["dp_variant"]) == simulated
    assert (loss["privacy_parameters"] == {}) == simulated
    notes = deployment["administrative"]["notes"]
    assert ("does not belong in the registry" in notes) == simulated
    asked = "Does the guarantee hold for the model of this run?"
    _, held = _statements(nist_800_226(document), TOPICS[1])[asked]
    assert held.startswith("No. " if simulated else "Noise was")
    assert ("It bounds how much" in json.dumps(reading(document, "edpb-28-2024"))) != simulated
    front = in_front(model_card(document))[0]
    assert ("differential-privacy" in front["tags"]) != simulated
    assert front["fedaudit"]["guarantee"].endswith("not in force") == simulated


def test_what_the_run_cannot_know_is_not_made_up_and_is_listed(material):
    record = registry(documents(material)["adaptive"])
    notes = record["deployment"]["administrative"]["notes"]
    unknown = [path for path, leaf in _leaves(record).items() if "Not stated by this" in str(leaf)]
    assert {path.rpartition("/")[2] for path in unknown} == {
        *("data_curators", "intended_use", "data_product_region"),
        *("justification", "registry_authors"),
    }
    for path in (*unknown, "/deployment/basic/publication_date"):
        assert f"`{path}`: " in notes
    assert "data_product_sector" not in record["deployment"]["basic"]
    assert "`/deployment/basic/data_product_sector`: left out" in notes


def bill_of_materials(document):
    """What the bill of materials claims first."""
    claims = claims_of(document, "f" * 64, verified=[], at="2030-01-02T03:04:05Z")
    [bom] = [one["predicate"] for one in claims if one["predicateType"] == ML_BOM]
    [claim] = bom["declarations"]["claims"]
    return claim["predicate"]


@pytest.mark.parametrize("noise", ["simulation", "release"])
def test_noise_by_distance_bounds_nothing_in_any_reading(material, noise):
    """It has noise and a heuristic guarantee, and no figure: no reading may state a bound."""
    document = by_distance(material, noise)
    read = {name: json.dumps(reading(document, name), indent=1) for name in NAMES}
    for name, text in read.items():
        for claimed in ("Metric privacy", "It bounds how much", "the bound is not in force"):
            assert claimed not in text, name
        for denied in ("There is no privacy mechanism", "There is no noise", "without a mechanism"):
            assert denied not in text, name
    assert "no theorem bounds" in read["edpb-28-2024"]
    assert "no theorem bounds" in read["nist-800-226"]
    assert "variant_name" not in registry(document)["deployment"]["dp_variant"]
    assert "no deployment of differential privacy" in read["registry"]
    # Simulated noise is not for release either.
    for name in ("registry", "nist-800-226"):
        assert ("must not be released" in read[name]) == (noise == "simulation")
    force = ", not in force" if noise == "simulation" else ""
    claimed = f"guarantee: heuristic{force}, which bounds nothing. Heuristic: "
    assert bill_of_materials(document).startswith(claimed)
    fixed = bill_of_materials(assemble(material(FIXED)))
    assert fixed.startswith("guarantee: formal within the radius, not in force. ")
    stated = report_facts(document)
    assert stated["privacy_cost"].startswith("unbounded")
    assert stated["guarantee_in_force"] == "false"
    if noise == "release":
        assert "nothing bounds what the model may disclose" in stated["answer"]
    assert "too large to protect" not in stated["answer"]
    assert is_unbounded("heuristic", "gaussian-distance", "epsilon_max")
    assert not is_unbounded("heuristic", "laplace-l2", "epsilon_max")


def test_only_laplace_noise_rests_on_the_logarithm_of_a_library(material):
    """Normal numbers have series with proven errors."""
    found = documents(material)
    for name, rests in (("gaussian", False), ("fixed", True)):
        [sentence] = [one for one in found[name]["limits"] if "proven for real numbers" in one]
        assert ("library's logarithm" in sentence) == rests


# -- impact ratios: equal to those computed by hand, silent where a group is suppressed -----------


def section(
    rates: dict[str, float | None],
    *,
    attribute: str = "sex",
    suppressed: tuple[str, ...] = (),
    of: list[str] | None = None,
) -> dict[str, Any]:
    """What a report says of an attribute whose groups have these selection rates."""
    groups = [
        {"value": value, "suppressed": value in suppressed, "selection_rate": rate}
        | {"reasons": {"selection_rate": "why not"} if rate is None else {}}
        for value, rate in rates.items()
    ]
    return {"attribute": attribute, "intersection_of": of, "groups": groups, "metrics": {}}


def table_of(rates: dict[str, float | None], *hidden: str, **more: Any) -> ImpactRatioTable:
    """The only table of a report on sex."""
    [table] = impact_ratio({"fairness": [section(rates, suppressed=hidden)], **more}).tables
    return table


def test_ratios_by_sex_and_race_are_those_computed_by_hand() -> None:
    sex, race = {"Female": 0.25, "Male": 0.5}, {"Black": 0.4, "White": 0.5, "Other": 0.9}
    both = {"Female, Black": 0.3, "Male, White": 0.4, "Male, Other": None}
    crossed = {"attribute": "sex_race", "of": ["sex", "race"], "suppressed": ("Male, Other",)}
    found = impact_ratio(
        {
            "spec": {"training": {"loss": "cross-entropy"}},
            "data": {"notes": ["rows without a value of 'race', in no group: 9", "36 rows"]},
            "fairness": [
                section(both, **crossed),
                section(sex),
                section(race, attribute="race", suppressed=("Other",)),
            ],
        }
    )
    assert [one.attribute for one in found.tables] == ["sex", "race", "sex_race"]
    assert [one.intersection_of for one in found.tables] == [None, None, ["sex", "race"]]
    assert [one.missing_rows for one in found.tables] == [0, 9, 0]
    few = {"notes": ["rows without a value of 'sex', in no group: fewer than 30"]}
    assert table_of({"Female": 0.25, "Male": 0.5}, data=few).missing_rows is None
    assert [one.highest_rate for one in found.tables] == [0.5, 0.5, 0.4]
    assert [one.suppressed_categories for one in found.tables] == [0, 1, 1]
    ratios = [[row.impact_ratio for row in one.categories] for one in found.tables]
    assert ratios == [[0.5, 1.0], [0.8, 1.0, None], [pytest.approx(0.75), 1.0, None]]
    assert [one.below_four_fifths for one in found.tables] == [1, 0, 1]
    assert found.rate == "selection"
    assert "not legal advice" in found.notice
    assert not [note for note in found.notes if "no table of intersections" in note]


@pytest.mark.parametrize(
    ("low", "high", "reading"),
    [
        (0.48, 0.6, "at least four fifths"),
        (0.56, 0.7, "at least four fifths"),
        (0.07 * 4, 0.07 * 5, "at least four fifths"),
        (0.799 * 0.5, 0.5, "below four fifths"),
        (0.0, 0.5, "below four fifths"),
    ],
)
def test_four_fifths_exactly_is_not_below(low, high, reading):
    table = table_of({"a": high, "b": low})
    assert [one.four_fifths for one in table.categories] == ["at least four fifths", reading]
    assert table.below_four_fifths == (reading == "below four fifths")


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        ({"a": 0.5}, "no other category shows a rate"),
        ({"a": 0.5, "b": None}, "no other category shows a rate"),
        ({"a": 0.0, "b": 0.0}, "no category has a favourable outcome"),
    ],
)
def test_a_ratio_without_a_comparison_is_null_with_a_reason(rates, reason):
    table = table_of(rates)
    assert all(one.impact_ratio is None for one in table.categories)
    assert reason in table.categories[0].reason
    assert table.below_four_fifths == 0


def test_a_rate_in_a_suppressed_group_is_never_shown():
    table = table_of({"a": 0.5, "b": 0.4, "c": 0.9}, "c")
    assert table.highest_rate == 0.5
    hidden = table.categories[2]
    assert (hidden.rate, hidden.reason) == (None, "the report has no rate")
    assert "0.9" not in table.model_dump_json()


def test_a_number_has_scoring_rates_and_says_how_they_differ(material):
    document = assemble(material())
    found = impact_ratio(document)
    assert found.rate == "scoring"
    assert "median" in found.rate_definition
    assert [note for note in found.notes if "no table of intersections" in note]
    rates = {one["value"]: one["selection_rate"] for one in document["fairness"][0]["groups"]}
    assert {one.category: one.rate for one in found.tables[0].categories} == rates
    assert table_of({"a": 0.5}, data={}).missing_rows is None
