"""The reasons beside figures of declared counts hold of counts that somebody else declares."""

import json

from fedaudit.reports.declared.ledger_material import declared_fairness


def test_no_reason_speaks_of_a_run_or_of_a_field_of_its_spec() -> None:
    counts = {
        "true_positives": 40,
        "false_positives": 20,
        "true_negatives": 60,
        "false_negatives": 30,
    }
    few = dict.fromkeys(counts, 5)
    [section] = declared_fairness(
        {"sex": {"F": counts, "M": counts, "X": few, "Y": few}}, minimum_group_size=30
    )
    shown, *_, suppressed = section.groups
    assert (shown.suppressed, suppressed.suppressed) == (False, True)
    assert shown.model_dump()["selection_rate"] == 0.4
    for group in (shown, suppressed):
        missing = {name for name, value in group.model_dump().items() if value is None}
        assert missing - {"label"} == set(group.reasons)
    words = json.dumps(section.model_dump(mode="json"))
    for foreign in ("the run", "fairness.", "held out", "held-out", "spec"):
        assert foreign not in words, foreign
