"""The figures of an attack on a page, whatever its kind names them."""

from typing import Any

from fedaudit.reports.page.attack_tables import attack_tables, false_alarm_chance

LONG = "the noise of the companion is drawn as the run draws its own"
SECTION: dict[str, Any] = {
    "kind": "membership",
    "status": "done",
    "reason": None,
    "statement": "Guesses.",
    "capabilities": [],
    "alarm": None,
    "method": "threshold",
    "auc": 0.5123456,
    "delta": 1e-5,
    "share": None,
    "share_reason": "too few rows",
    "claim": None,
    "shadows": None,
    "assumption": LONG,
    "interval": {"low": 0.25, "high": 0.5, "level": 0.95},
    "baseline": {"mse": 0.125, "ssim": None},
    "results": [
        {
            "noise_multiplier": 0.5,
            "nearest": {"value": 0.75, "interval": {"low": 0.5, "high": 1.0}, "reason": None},
            "groups": [{"value": "g1", "tpr": 0.25}, {"value": "g2", "tpr": None}],
        },
        {
            "noise_multiplier": 1,
            "nearest": {"value": None, "interval": None, "reason": "few"},
            "groups": [],
        },
    ],
    "reasons": {"shadows": "none are needed"},
}


def test_every_figure_is_shown_with_its_interval_or_its_reason() -> None:
    [shown] = attack_tables([SECTION])
    assert shown.title == "Membership: can a record be recognised as one of training? (threshold)"
    assert {one.label: (one.value, one.note) for one in shown.figures} == {
        "Method": ("threshold", ""),
        "Area under the ROC curve (0.5 is guessing)": ("0.5123", ""),
        "Delta": ("1e-05", ""),
        "Share": ("–", "too few rows"),
        "Shadows": ("–", "none are needed"),
        "Assumption": ("", LONG),
        "Interval": ("0.25 to 0.5 (95 %)", ""),
        "Baseline: mean squared error": ("0.125", ""),
    }
    results, groups = shown.tables
    labels = [column.label for column in results.columns]
    assert (results.caption, labels) == ("Results", ["Noise multiplier", "Nearest"])
    assert not any(column.is_text for column in results.columns)
    assert results.rows == [["0.5", "0.75 (0.5 to 1)"], ["1", "few"]]
    assert groups.caption == "Results: noise multiplier 0.5, groups"
    assert groups.rows == [["g1", "0.25"], ["g2", "–"]]


def test_chances_of_a_false_alarm_add_up_over_attacks() -> None:
    assert false_alarm_chance([SECTION, {**SECTION, "alarm_level": None}]) is None
    tested = [{**SECTION, "alarm_level": level} for level in (0.05, 0.01)]
    assert false_alarm_chance([SECTION, *tested]) == "0.06"
    assert false_alarm_chance([{"alarm_level": 0.05}] * 40) == "1"
    # Attacks with e-values share one level, beside which stand those of earlier versions.
    weighed = {**SECTION, "alarm_level": 0.01, "e_value": 0.5}
    assert false_alarm_chance([*tested, *[weighed] * 40]) == "0.07"
