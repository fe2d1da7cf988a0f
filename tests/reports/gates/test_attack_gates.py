"""Gates on what attacks found, and how somebody who is judged would get past them."""

from typing import Any

import pytest

from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.spec.gates import Gate

LACKS = "insufficient_evidence"
REPORT: dict[str, Any] = {
    "fairness": [],
    "privacy": {"noise_multiplier": 1.0, "reasons": {}},
    "utility": {"stopped_by": "rounds"},
    "guarantee": {"kind": "formal"},
}
DONE = {"status": "done", "reason": None, "alarm": None}


def canaries(*bounds: tuple[float, float | None], all_clear: str | None = None) -> dict[str, Any]:
    """An audit with lower bounds on epsilon, each with its power."""
    found = [
        {"epsilon_lower_bound": bound, "power": power, "all_clear": all_clear}
        for bound, power in bounds
    ]
    return {**DONE, "kind": "canaries", "bounds": found}


def membership(
    tpr: float | None, *, high: float = 0.1, level: float = 0.95, method: str = "likelihood-ratio"
) -> dict[str, Any]:
    """An attack that finds this share of members at 1 % of false accusations."""
    rates = [
        {"fpr": 0.1, "tpr": 0.9, "interval": {"low": 0.8, "high": 1.0}, "reason": None},
        {"fpr": 0.01, "tpr": tpr, "interval": {"low": 0.0, "high": high}, "reason": "too few"},
    ]
    found = {"kind": "membership", "method": method, "confidence": level, "tpr_at_fpr": rates}
    return {**DONE, **found}


def interval(high: float) -> dict[str, float]:
    return {"level": 0.95, "low": 0.0, "high": high}


def leakage(*results: tuple[float, float, float], **found: Any) -> dict[str, Any]:
    """Noise multiplier, recovered share and the upper end of its interval."""
    by_noise = [
        {"noise_multiplier": noise, "recovered_share": share, "recovered_interval": interval(high)}
        for noise, share, high in results
    ]
    return {**DONE, "kind": "gradient-leakage", "results": by_noise, **found}


def protecting(noise: float | None, high: float = 0.2) -> dict[str, Any]:
    return {"nu_protecting": noise, "nu_protecting_interval": interval(high)}


PROTECTED = protecting(1.0)
NOT_DONE = {**DONE, "status": "not-done", "reason": "no images", "kind": "canaries"}


def judged(figure: str, value: float, *attacks: dict[str, Any], op: str = "le") -> dict[str, Any]:
    """The gate's outcome on a report with these attacks."""
    gate = Gate.model_validate({"figure": figure, "op": op, "value": value})
    [found] = evaluate([gate], {**REPORT, "attacks": list(attacks)})
    return found


@pytest.mark.parametrize(
    ("figure", "attacks", "outcome"),
    [
        # An attack with power decides, by its worst bound.
        ("epsilon_lower_bound", [canaries((0.5, 0.9), (1.5, 0.1))], "pass"),
        ("epsilon_lower_bound", [canaries((0.5, 0.9), (2.5, 0.1))], "fail"),
        # One that could find nothing passes nothing, and what it finds all the same counts.
        ("epsilon_lower_bound", [canaries((0.0, 0.79))], LACKS),
        ("epsilon_lower_bound", [canaries((0.0, None))], LACKS),
        ("epsilon_lower_bound", [canaries((0.5, 0.9), all_clear="after others")], LACKS),
        ("epsilon_lower_bound", [canaries((3.0, 0.01))], "fail"),
        ("epsilon_lower_bound", [canaries()], LACKS),
        # Neither leaving the attack out nor one that was not done.
        ("epsilon_lower_bound", [], LACKS),
        ("epsilon_lower_bound", [NOT_DONE], LACKS),
        ("epsilon_lower_bound", [canaries((0.5, 0.9)), NOT_DONE], LACKS),
        ("epsilon_lower_bound", [canaries((3.0, 0.9)), NOT_DONE], "fail"),
        ("epsilon_lower_bound", [canaries((0.5, 0.9)), canaries((3.0, 0.9))], "fail"),
        ("membership_tpr_at_1pct", [membership(0.02)], "pass"),
        ("membership_tpr_at_1pct", [membership(3.0)], "fail"),
        ("membership_tpr_at_1pct", [membership(0.02, high=2.1)], LACKS),
        ("membership_tpr_at_1pct", [membership(0.02, level=0.5)], LACKS),
        ("membership_tpr_at_1pct", [membership(None)], LACKS),
        ("membership_tpr_at_1pct", [membership(0.0, method="threshold")], LACKS),
        ("membership_tpr_at_1pct", [canaries((0.0, 1.0))], LACKS),
        # At the run's own noise multiplier of 1, or a smaller one; larger ones say nothing of it.
        ("recovered_share", [leakage((0.0, 1.0, 1.0), (1.0, 0.5, 0.9))], "pass"),
        ("recovered_share", [leakage((0.0, 3.0, 3.0), (5.0, 0.0, 0.0))], "fail"),
        ("recovered_share", [leakage((5.0, 0.0, 0.1))], LACKS),
        ("recovered_share", [leakage((0.0, 1.0, 1.0), (1.0, 0.5, 2.1))], LACKS),
        # An attack that recovers nothing without noise says nothing of noise.
        ("recovered_share", [leakage((0.0, 0.1, 0.2), (1.0, 0.0, 0.1))], LACKS),
        ("recovered_share", [leakage((1.0, 0.0, 0.1))], LACKS),
        ("nu_protecting", [leakage((0.0, 1.0, 1.0), **PROTECTED)], "pass"),
        ("nu_protecting", [leakage((1.0, 0.0, 0.1), **PROTECTED)], LACKS),
        ("nu_protecting", [leakage((0.0, 1.0, 1.0), **protecting(None))], LACKS),
        ("nu_protecting", [leakage((0.0, 1.0, 1.0), **protecting(1.0, high=0.6))], LACKS),
    ],
)
def test_at_most_two(figure: str, attacks: list[dict[str, Any]], outcome: str) -> None:
    """Values above 1 are no shares: they only stand beyond the bound of 2 in one table."""
    found = judged(figure, 2.0, *attacks)
    assert found["outcome"] == outcome, found
    assert found["reason"]


def test_reasons_say_what_to_do() -> None:
    assert "no attack of the kind canaries" in judged("epsilon_lower_bound", 1)["reason"]
    weak = judged("epsilon_lower_bound", 1, canaries((0.0, 0.2)))
    assert "its power is 0.2, and 0.8 is needed; plant more canaries" in weak["reason"]
    few = judged("recovered_share", 0.1, leakage((0.0, 1.0, 1.0), (1.0, 0.0, 0.21)))
    assert "by its interval it may be 0.21" in few["reason"]
    assert few["value"] == 0.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"images_per_update": 4}, "one image"),
        ({"per_layer": True}, "other noise"),
        ({"local_steps": 5}, "one local step"),
        # Shorter updates beside the same noise, under a fixed radius.
        ({"hypothesis": "trained"}, "from the start"),
    ],
)
def test_other_updates_than_the_runs_first_ones_are_no_evidence(changes, says):
    attack = leakage((0.0, 1.0, 1.0), (1.0, 0.0, 0.1), **PROTECTED, hypothesis="initial")
    for figure in ("recovered_share", "nu_protecting"):
        assert judged(figure, 2.0, attack)["outcome"] == "pass"
        found = judged(figure, 2.0, {**attack, **changes})
        assert found["outcome"] == LACKS
        assert says in found["reason"]


def test_the_best_way_to_score_rows_counts_and_not_the_one_that_was_named() -> None:
    attack = {**membership(0.02), "others": [membership(0.3, high=0.5)]}
    for bound, outcome in ((0.1, "fail"), (0.4, LACKS), (0.6, "pass")):
        assert judged("membership_tpr_at_1pct", bound, attack)["outcome"] == outcome


def test_a_bound_from_below_needs_power_too() -> None:
    for power, outcome in ((0.2, LACKS), (0.9, "pass")):
        attack = canaries((1.0, power))
        assert judged("epsilon_lower_bound", 0.5, attack, op="ge")["outcome"] == outcome
