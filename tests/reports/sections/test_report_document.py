"""The report document: every path, a reason beside every null, and no NaN."""

import json
from dataclasses import replace
from typing import Annotated

import jsonschema
import numpy as np
import pytest
from pydantic import create_model

import fedaudit.reports.report as report_module
from fedaudit.cli.summary import _sections
from fedaudit.fairness.noised_counts import EVERYBODY, GroupRows, Rounder
from fedaudit.reports.audit_report import AuditReport
from fedaudit.reports.page.html import render
from fedaudit.reports.report import RUN, Report, assemble, report_hash, schema
from fedaudit.reports.sections.part import Part, Reasons, Shown, figure_rows
from fedaudit.reports.sections.predictions import AUDIT
from fedaudit.reports.sections.provenance import disclosure_limits
from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.metrics import METRICS, SCORE_METRICS
from fedaudit.spec.parse import parse_spec
from tests.reports.conftest import SPEC
from tests.reports.reading_documents import gaussian
from tests.reports.sections.test_epsilon_report import SPECS as EPSILONS
from tests.reports.sections.test_epsilon_report import with_plan
from tests.spec.documents import HOSPITAL, changed

SECTIONS = ("experiment", "guarantee", "privacy", "utility", "provenance", "integrity")
NONE = {"privacy": {"mechanism": "none"}, "gates": []}
FIXED = {"privacy": {"mechanism": "laplace-l2", "noise_multiplier": 5, "radius": 1.0, "clip": 0.5}}
HIDDEN = {"fairness": {**SPEC["fairness"], "minimum_group_size": 150}}
VARIANTS = {"adaptive": {}, "none": NONE, "fixed": FIXED, "hidden": HIDDEN}


@pytest.mark.parametrize("name", [*VARIANTS, *EPSILONS])
def test_a_report_follows_its_schema_and_every_null_has_its_reason(material, name):
    made = with_plan(material, name)[0] if name in EPSILONS else material(VARIANTS[name])
    report = assemble(made)
    jsonschema.validate(json.loads(json.dumps(report, allow_nan=False)), schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**report, "another": 1}, schema())
    assert Report.model_validate(report).model_dump(mode="json") == report
    for section in SECTIONS:
        nulls = {field for field, value in report[section].items() if value is None}
        reasons = report[section].get("reasons", {})
        assert nulls == {field for field, reason in reasons.items() if reason}
    for section in report["fairness"]:
        assert list(section["metrics"]) == [*METRICS, *SCORE_METRICS]
        assert list(nulls_without_reason([section["metrics"], section["groups"]])) == []


def nulls_without_reason(part, place=""):
    """Fields that are None with nothing beside them that says why."""
    if isinstance(part, list):
        for one in part:
            yield from nulls_without_reason(one, place)
    elif isinstance(part, dict):
        for name, value in part.items():
            if value is None and not name.endswith("reason"):
                said = part.get("reasons", {}).get(name) or part.get(f"{name}_reason")
                if not (said or (name == "value" and part.get("reason"))):
                    yield f"{place}.{name}"
            yield from nulls_without_reason(value, f"{place}.{name}")


def test_the_figures_are_those_of_the_material(material):
    found = material()
    report = assemble(found)
    # 30 training clients with 0, 1, 2, 3 and 4 releases, six of each, at n / nu = 3 / 5.
    privacy = report["privacy"]
    assert privacy["leakage_max"] == 4 * 3 / 5
    assert privacy["leakage_median"] == pytest.approx(2 * 3 / 5)
    assert (privacy["participations_max"], privacy["refusals"], privacy["withheld"]) == (4, 2, 1)
    assert report["provenance"]["spec_hash"] == spec_hash(found.spec)
    assert report["data"]["validation_clients"] == 30
    # Group g1: 20 clients of 10 rows, 3 + client % 3 true positives and 2 false positives.
    selected = sum(5 + client % 3 for client in range(20)) / 200
    assert report["fairness"][0]["groups"][0]["selection_rate"] == selected
    # Their counts are confidential.
    text = json.dumps(report)
    assert "true_positives" not in text
    assert '"count"' not in text


def test_suppressed_groups_show_no_rates(material):
    section = assemble(material(HIDDEN))["fairness"][0]
    # g2 has 100 rows; g1 is hidden beside it, or the total would give g2 away.
    assert [group["suppressed"] for group in section["groups"]] == [True, True]
    assert all(group["selection_rate"] is None for group in section["groups"])
    assert section["metrics"]["demographic_parity_difference"]["value"] is None


def test_leakage_by_cluster_where_the_clusters_are_known(material):
    clusters = np.full(60, -1, dtype=np.int16)
    clusters[:10], clusters[10:30] = 0, 1
    found = assemble(material(clusters=clusters))["privacy"]["leakage_by_cluster"]
    assert [one["clients"] for one in found] == [10, 20]
    assert [one["leakage_max"] for one in found] == [4 * 3 / 5, 4 * 3 / 5]


@pytest.mark.parametrize(
    ("stopped_by", "stated"),
    [
        ("rounds", "ended with round 41, the last one"),
        ("patience", "ended with round 41, when its patience ran out"),
        ("diverged", "diverged in round 41"),
    ],
)
def test_the_verdict_says_in_words_how_training_ended(material, stopped_by, stated):
    result = replace(material().result, stopped_by=stopped_by)
    report = assemble(material(result=result))
    said = f"Training {stated}. The best hypotheses are those of round 11, with"
    assert said in report["verdict"]
    assert any("diverged" in limit for limit in report["limits"]) == (stopped_by == "diverged")


def test_a_loss_that_is_not_finite_is_not_reported(material):
    losses = {"validation_loss": float("inf"), "selection_loss": float("nan")}
    utility = assemble(material(result=replace(material().result, **losses)))["utility"]
    for name in losses:
        assert utility[name] is None
        assert utility["reasons"][name]


def test_the_limits_are_those_of_the_run(material):
    stated = " ".join(assemble(material())["limits"])
    for part in ("Mironov 2012", "64 random bits", "adaptive and the grid", "simulated",
                 "heuristic", "||theta_i - theta_j||",
                 "5 of 41", "4 validation clients have one row", "1 updates were withheld",
                 "real rows", "No attack"):  # fmt: skip
        assert part in stated
    released = {"privacy": {**FIXED["privacy"], "noise": "release"}}
    stated = " ".join(assemble(material(released))["limits"])
    assert "simulated" not in stated
    assert "heuristic" not in stated
    assert "no privacy mechanism" in " ".join(assemble(material(NONE))["limits"])
    table = {"source": "table", "path": "a.csv", "client_key": "a", "target": "b"}
    said = "Features were standardised by means and deviations of the data, taken without noise"
    for how in (None, "global", "client"):
        stated = assemble(material({"federation": {**table, "standardise": how}}))["limits"]
        assert (said in " ".join(stated)) == (how is not None)


@pytest.mark.parametrize("name", VARIANTS)
def test_exact_facts_of_rows_are_a_limit_where_people_are_protected(material, name):
    """A value that one training row alone has is in the report: a pair that differs by this row is
    distinguished for certain, whatever the epsilon."""
    least = material(VARIANTS[name]).spec.fairness.minimum_group_size
    counts = [f"rows without a client, left out: {rows}" for rows in (least - 1, least)]
    other = "some empty cells of 'age' were taken as the declared value"
    facts = replace(material().federation, notes=(*counts, other))
    report = assemble(material(VARIANTS[name], federation=facts))
    protects = name != "none"
    limits = [one for one in report["limits"] if "which values the sensitive attributes" in one]
    assert len(limits) == protects
    few = f"rows without a client, left out: fewer than {least}"
    assert report["data"]["notes"] == [few if protects else counts[0], counts[1], other]
    assert not protects or "notes on the data" in limits[0]


def test_the_hash_is_of_the_canonical_form(material):
    report = assemble(material())
    again = json.loads(json.dumps(report, sort_keys=True))
    assert report_hash(again) == report_hash(report)
    assert len(report_hash(report)) == 64
    assert report_hash({**report, "verdict": "fine"}) != report_hash(report)
    assert assemble(material()) == report


JUDGED = {
    "gates",
    "gate_outcome",
    "gate_outcome_reason",
    "verdict",
    "verdict_parts",
    "limits",
    "spec",
}
"""What follows from the sections, or repeats what was asked for."""


@pytest.mark.parametrize(
    ("document", "sections", "fixed"),
    [(Report, RUN, {"report_version"}), (AuditReport, AUDIT, {"report_version", "subject"})],
    ids=["run", "audit"],
)
def test_the_sections_make_the_whole_document(document, sections, fixed) -> None:
    names = [one.name for one in sections]
    reasons = {f"{name}_reason" for name in names} & set(document.model_fields)
    left = set(document.model_fields) - set(names) - reasons - JUDGED - fixed
    assert len(set(names)) == len(names)
    assert left <= {"attacks", "advice", "answer"}  # an audit has none
    # What is not checked says why.
    assert all(callable(one.checked) or len(one.checked.split()) > 3 for one in sections)


def test_limits_say_what_the_owner_set_and_what_was_left() -> None:
    spec = parse_spec(HOSPITAL)
    policy = DisclosurePolicy(minimum_group_size=30, minimum_group_clients=2, edges={})
    [sentence] = disclosure_limits(policy, spec)
    assert "Set by the federation's owner: groups of 30 scored rows or more" in sentence
    assert "of 2 clients or more, edges." in sentence
    assert "Left to the submitters: the favourable outcome" in sentence
    assert "who is held out and scored" in sentence
    [sentence] = disclosure_limits(DisclosurePolicy(), spec)
    assert "no disclosure policy" in sentence
    # Of runs that no service admitted, or that look at no groups, nothing is said.
    bare = parse_spec(changed(HOSPITAL, {"fairness": {}}))
    assert disclosure_limits(None, spec) == disclosure_limits(DisclosurePolicy(), bare) == []


class Example(Part):
    """A section with a figure of each kind."""

    cost: Annotated[float | None, Shown("Cost", "bound", of_everyone="Cost of everyone")]
    other_cost: Annotated[float | None, Shown("Other cost", "bound")]
    loss: Annotated[float | None, Shown("Loss", beside="constant_loss")]
    share: Annotated[float | None, Shown("Share", where_given=True)]
    multiplier: Annotated[float | None, Shown("Multiplier", "exact")] = None
    constant_loss: float | None = None
    reasons: Reasons


VALUES = {
    **{"cost": 1.00001, "other_cost": 2.0, "loss": 0.12344, "share": 0.5},
    **{"multiplier": 1.23456, "constant_loss": 0.5, "reasons": {}},
}


def rows(**changes):
    found = figure_rows(Example, {**VALUES, **changes})
    return [(row.label, row.value, row.constant, row.note) for row in found]


def test_figures_are_in_the_order_of_the_fields_with_bounds_rounded_up_and_reasons_once():
    assert rows() == [
        ("Cost", "1.001", "", ""),
        ("Other cost", "2", "", ""),
        ("Loss", "0.1234", "0.5", ""),
        ("Share", "0.5", "", ""),
        ("Multiplier", "1.23456", "", ""),
    ]
    why = {"cost": "unbounded", "other_cost": "unbounded", "share": "no classes"}
    found = rows(cost=None, other_cost=None, share=None, reasons=why)
    assert found[0] == ("Cost", "–", "", "unbounded")
    assert [label for label, *_ in found[1:]] == ["Loss", "Multiplier"]
    # What an earlier report lacks is left out, and costs of everyone are labelled so.
    earlier = {name: one for name, one in VALUES.items() if name != "multiplier"}
    [first, *others] = figure_rows(Example, earlier, charges_everyone=True)
    assert first.label == "Cost of everyone"
    assert "multiplier" not in [row.name for row in others]


def test_a_section_with_shown_figures_is_on_the_page_and_of_the_command_line(material, monkeypatch):
    fields = {"later_on": (Example | None, None)}
    monkeypatch.setattr(report_module, "Report", create_model("Report", __base__=Report, **fields))
    document = {**assemble(material()), "later_on": VALUES}
    assert '<h2>Later on</h2></summary>\n<div id="later-on">' in render(document)
    assert '<tr><th scope="row">Multiplier</th><td class="number">1.23456</td>' in render(document)
    assert dict(_sections(document))["later on"]["multiplier"] == "1.23456"


@pytest.mark.parametrize(
    ("privacy", "log_ratio", "why"),
    [
        # Four rounds of the busiest client, n = 3: each 2 * clip * 3 / (3 * 0.5).
        ({}, 4 * 0.8, None),
        # Updates that lie further apart than the radius cost more than the convention.
        ({"clip": 1.0}, 4 * 4.0, None),
        ({"radius": "adaptive"}, None, "rates are secret"),
        ({"clip": None}, None, "not clipped"),
    ],
    ids=str,
)
def test_public_rates_with_a_clip_have_the_theorems_sum(material, privacy, log_ratio, why):
    laplace = {"mechanism": "laplace-l2", "noise_multiplier": 3.0, "radius": 0.5, "clip": 0.2}
    found = assemble(material({"privacy": {**laplace, **privacy}}))["privacy"]
    assert (found["participations_max"], found["leakage_max"]) == (4, 4.0)
    if log_ratio is None:
        assert found["log_ratio_max"] is None
        assert why in found["reasons"]["log_ratio_max"]
    else:
        assert found["log_ratio_max"] == pytest.approx(log_ratio, rel=1e-15)
        assert "log_ratio_max" not in found["reasons"]


def test_beside_rounded_counts_no_interval_of_exact_ones_is_stated(material):
    made = material()
    compared = replace(made.result.against_constant, loss=0.9 + np.arange(30) % 3 * 0.09)
    made = replace(made, result=replace(made.result, against_constant=compared))
    ends = " (-0.0186 to 0.0386, by differences of clients)"
    one, other = (GroupRows(rows=rows, positives=rows, negatives=rows) for rows in (b"1", b"2"))
    groups = {"group": [one, other], EVERYBODY: [one]}
    rounder = Rounder(base=5, key=b"k", population=b"p", groups=groups)
    for published, stated in ((made.published, ends), (rounder, "")):
        found = assemble(replace(made, published=published))["utility"]["reasons"]["degenerate"]
        assert found.endswith(f"of its gain in loss reaches 0{stated}")


def test_the_command_line_says_of_a_guess_what_the_verdict_says(material):
    def guess(**parts):
        changed = {name: {**document[name], **part} for name, part in parts.items()}
        return dict(_sections({**document, **changed}))["privacy"]["a guess"]

    document = gaussian(material)
    # Losses ended it early: the epsilon of all planned rounds is proven.
    assert guess() == "a guess is right at most 94% of the time"
    assert guess().removeprefix("a guess is ") in document["verdict_parts"]["cost"]
    assert "at most 63%" in guess(privacy={"epsilon_max": 0.5, "epsilon_planned": None})
    assert "at most 99.4%" in guess(privacy={"epsilon_max": 0.5, "epsilon_planned": 5.0})
    assert "handed over whole" in guess(guarantee={"delta": 0.2})
    added = guess(guarantee={"conditions": {"epsilon_max": "it counts what this run adds"}})
    assert added.startswith("of what this run adds alone, a guess")
