"""Under which conditions figures of `laplace-l2` bound anything, and what limits say of them."""

import ast
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fedaudit.privacy.guarantees.guarantee import Guarantee
from fedaudit.privacy.mechanisms.base import PrivacyMechanism
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.sections.guarantee import floating_point_limits
from tests.house import ROOT
from tests.privacy.mechanisms.specs import SPECS
from tests.privacy.specs_of_privacy import laplace

COVERED = {"radius": 1.0, "clip": 0.5}
LEAKAGE = {"leakage_max", "leakage_median"}


def guarantee(**settings: Any) -> Guarantee:
    return mechanism_of(laplace(**settings)).guarantee(n=3, layers=(2, 1))


def limits(**settings: Any) -> str:
    return " ".join(mechanism_of(laplace(**settings)).limits())


def test_several_hypotheses_make_every_figure_conditional() -> None:
    found = guarantee(hypotheses=2, **COVERED).conditions
    assert found.keys() == LEAKAGE | {"log_ratio_max"}
    assert all("choose the same hypothesis" in words for words in found.values())


def test_a_clip_beyond_the_radius_leaves_the_theorems_sum_alone() -> None:
    found = guarantee(hypotheses=1, radius=1.0, clip=0.6).conditions
    assert found.keys() == LEAKAGE
    both = guarantee(hypotheses=2, radius=1.0, clip=0.6).conditions
    assert "; it bounds datasets that choose the same" in both["leakage_max"]
    assert "within the radius" not in both["log_ratio_max"]


@pytest.mark.parametrize("hypotheses", [1, 2])
def test_what_is_no_theorem_has_no_conditions_of_one(hypotheses: int) -> None:
    assert guarantee(hypotheses=hypotheses).conditions == {}
    assert guarantee(hypotheses=1, **COVERED).conditions == {}
    found = guarantee(hypotheses=2, clustering="reported", **COVERED)
    assert (found.kind, found.label, found.conditions) == ("heuristic", "heuristic", {})
    assert found.statement.startswith("Heuristic as a whole. ")


@pytest.mark.parametrize("privacy", [{"radius": 1.0}, {"radius": 1.0, "per_layer": True}])
def test_without_a_clip_the_label_and_the_statement_say_within_the_radius(privacy):
    found = guarantee(hypotheses=1, **privacy)
    assert (found.kind, found.label) == ("formal", "formal within the radius")
    assert found.statement.startswith("Formal within the radius. ")
    clipped = guarantee(hypotheses=1, clip=0.5, **privacy)
    assert (clipped.kind, clipped.label) == ("formal", "formal")
    assert clipped.statement.startswith("Formal. ")


def test_limits_name_the_theorem_and_the_hypotheses_where_there_are_any() -> None:
    one, several = (limits(hypotheses=number, **COVERED) for number in (1, 2))
    assert "The theorem bounds a release by epsilon" in one
    assert "the sum over layers" in limits(hypotheses=1, per_layer=True, **COVERED)
    assert "theorem bounds" not in limits(hypotheses=1)
    assert "theorem bounds" not in limits(hypotheses=2, clustering="reported", **COVERED)
    assert "hypothes" not in limits(hypotheses=1)
    distance = "||theta_i - theta_j||"
    assert f"about epsilon * {distance}, which can be large" in several
    layered = limits(hypotheses=2, per_layer=True, **COVERED)
    assert f"{distance}, added up over the layers, which can be large" in layered
    assert "smallest update of a round" not in several
    assert "smallest update of a round" in limits(hypotheses=2)


# -- what is said of noise, and what it is tested by, follows from its law and from nothing else --


OF_OTHER_THINGS = {
    "attacks/canaries/canary_pool.py": "who can be a canary",
    "attacks/replay/accounting_replay.py": "who is charged, and how often",
    "attacks/replay/neighbours.py": "whether a client or a record is another, and what is examined",
    "reports/declared/declared_sections.py": "terms of a training elsewhere",
    "reports/verdict/cost.py": "that a server is trusted",
    "reports/verification/entries.py": "terms of a training elsewhere",
}
"""Files that may ask where a mechanism is applied or how its cost is counted, and what for."""


def test_no_words_or_tests_of_noise_ask_where_it_is_applied_or_how_its_cost_is_counted() -> None:
    found = {
        str(path.relative_to(ROOT / "fedaudit"))
        for room in ("reports", "attacks")
        for path in (ROOT / "fedaudit" / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("applied_by", "counts_epsilon")
    }
    assert found <= OF_OTHER_THINGS.keys()


@pytest.mark.parametrize("name", SPECS)
def test_a_mechanism_that_draws_no_noise_has_no_sentence_about_its_digits(name: str) -> None:
    mechanism = mechanism_of(SPECS[name])
    sentences = _limits(mechanism)
    assert bool(sentences) == (mechanism.facts.noise_law != "none")
    if sentences:
        assert mechanism.facts.noise_origin.noised in sentences[0]
        assert f"{mechanism.noised_numbers(1000):,} numbers" in sentences[0]


def test_an_unknown_law_has_no_sentence_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = mechanism_of(SPECS["local"])
    other: Any = replace(mechanism.facts, noise_law="discrete-gaussian")
    monkeypatch.setattr(type(mechanism), "facts", other)
    with pytest.raises(AssertionError, match="discrete-gaussian"):
        _limits(mechanism)


def _limits(mechanism: PrivacyMechanism) -> list[str]:
    inputs = SimpleNamespace(n=1000, radius_floor=None)
    material: Any = SimpleNamespace(spec=mechanism.spec, inputs=inputs)
    return floating_point_limits(material)
