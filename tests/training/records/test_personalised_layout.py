"""The same numbers whatever the threads, the cuts, the interruptions and the padding."""

from typing import Any

import numpy as np
import pytest
import torch

from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import RoundRecord
from fedaudit.training.personalised import PersonalisedRun
from tests.training.federations import TABLE, one_by_one, random_federation
from tests.training.personalised import play, played, records_spec
from tests.training.specs import cell

Fingerprint = list[tuple[object, ...]]


def fingerprint(records: list[RoundRecord]) -> Fingerprint:
    """Everything in the records, bit for bit."""
    return [
        (
            record.round,
            record.subjects.tobytes(),
            record.outcomes.tobytes(),
            record.releases.tobytes(),
            {observer: counts.tobytes() for observer, counts in record.compositions.items()},
            record.cluster_sizes,
            record.selection_loss,
            record.validation_loss,
            record.accuracy,
            {name: counts.tobytes() for name, counts in record.fairness.items()},
        )
        for record in records
    ]


KINDS: dict[str, dict[str, Any]] = {
    "personalised": {},
    "curve-fit": {"privacy__inversion": "curve-fit"},
    "sgd": {"training__local": {"steps": 5, "step_size": 0.05}},
    "rmsprop": {
        "training__local": {"steps": 5, "batch_size": 4, "step_size": 0.05, "optimiser": "rmsprop"}
    },
    "privacy-free": {"privacy__baseline": "privacy-free"},
    "uniform": {"privacy__baseline": "uniform"},
    "strong-for-all": {"privacy__baseline": "strong-for-all"},
    "dropout": {"privacy__baseline": "dropout"},
    "filter": {"privacy__baseline": "filter", "privacy__epsilon_min": 3.0},
    "wide": {"model": {"kind": "mlp", "hidden": [40]}},
    "clients": {"federation__validation_unit": "client"},
    "stopping": {
        "training__stopping": {"patience": 2, "validate_every": 2, "validation_clients": 3}
    },
}


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
def test_threads_and_cuts_do_not_matter(changes: dict[str, Any]) -> None:
    one = cell(records_spec(**changes))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        whole = fingerprint(played(one))
        torch.set_num_threads(2)
        cut = fingerprint(play(PersonalisedRun([one]), cuts=(1, 2)))
    finally:
        torch.set_num_threads(before)
    assert whole == cut
    assert all(np.isfinite(record[6]) for record in whole if record[6] is not None)


@pytest.mark.parametrize("changes", [KINDS["personalised"], KINDS["filter"], KINDS["stopping"]])
@pytest.mark.parametrize("interruptions", [(1,), (2, 5)])
def test_a_resumed_run_equals_an_undisturbed_one(
    changes: dict[str, Any], interruptions: tuple[int, ...]
) -> None:
    one = cell(records_spec(**changes))
    undisturbed = PersonalisedRun([one])
    whole = play(undisturbed)
    records: list[RoundRecord] = []
    checkpoint = None
    for stop in [*interruptions, 100]:
        stack = PersonalisedRun([one], checkpoints=[checkpoint])
        if stack.active:
            records += stack.advance(stop - len(records))[0]
        checkpoint = stack.checkpoint(0)
    assert fingerprint(records) == fingerprint(whole)
    assert checkpoint == undisturbed.checkpoint(0)
    resumed = PersonalisedRun([one], checkpoints=[checkpoint])
    assert resumed.active == []
    result, expected = resumed.result(0), undisturbed.result(0)
    assert result.hypotheses.tobytes() == expected.hypotheses.tobytes()
    assert (result.best_round, result.stopped_by) == (expected.best_round, expected.stopped_by)
    assert result.records is not None
    assert expected.records is not None
    for observer, spent in expected.records.spent.items():
        assert result.records.spent[observer].tolist() == spent.tolist()


def test_several_cells_are_refused() -> None:
    with pytest.raises(ValueError, match="alone"):
        PersonalisedRun([cell(records_spec()), cell(records_spec(seed=1))])


def test_rows_that_are_not_padded_give_the_same() -> None:
    data = random_federation(clients=9, max_rows=15, classes=3)
    spec = parse_spec(
        records_spec(
            federation={**TABLE, "validation_fraction": 0.3, "validation_unit": "record"},
            model={"kind": "logistic"},
            training__loss="cross-entropy",
            fairness={"sensitive": ["group"], "favourable": {"op": "in", "value": ["class-1"]}},
        )
    )
    plain = fingerprint(played(Cell(spec, data)))
    assert fingerprint(played(Cell(spec, one_by_one(data)))) == plain
