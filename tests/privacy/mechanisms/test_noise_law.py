"""What is said of noise, and what it is tested by, follows from its law and from nothing else."""

import ast
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fedaudit.privacy.mechanisms.base import PrivacyMechanism
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.sections.guarantee import floating_point_limits
from tests.house import ROOT
from tests.privacy.mechanisms.specs import SPECS

OF_OTHER_THINGS = {
    "attacks/membership/member_scores.py": "which trainer has the hypotheses of a shadow run",
    "attacks/canaries/canary_pool.py": "who can be a canary",
    "attacks/replay/accounting_replay.py": "who is charged, and how often",
    "attacks/replay/neighbours.py": "whether a client or a record is another, and what is examined",
    "attacks/replay/watched_run.py": "which of a run's steps are looked at",
    "reports/declared/declared_sections.py": "terms of a training elsewhere",
    "reports/verdict/release.py": "that a server is trusted",
    "reports/verification/declared_checks.py": "terms of a training elsewhere",
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
