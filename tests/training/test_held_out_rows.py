"""Where rows of every client are held out, no held-out row reaches what is released."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.load import load_federation
from fedaudit.federations.split import share_of_rows
from fedaudit.training.base.cell import Cell, is_by_length, stacks
from fedaudit.training.base.records import split_of, training_records, validation_rows
from fedaudit.training.base.rounds import FinalResult
from fedaudit.training.stack import Stack
from tests.refusals import refused_by
from tests.training.bits import assert_repeats, fingerprint
from tests.training.federations import (
    RECORD_SPLIT,
    RULE,
    one_by_one,
    random_federation,
    table_cell,
    uneven,
)
from tests.training.gaussian import MECHANISMS, SERVER
from tests.training.round_records import records_of
from tests.training.specs import train
from tests.training.test_stack import run_stacked

NONE = {"privacy": {"mechanism": "none"}}
ENGINES: dict[str, Callable[[], Federation]] = {
    "side by side": random_federation,
    "one by one": lambda: one_by_one(random_federation()),
    "by length": lambda: uneven([1, 2, 9, 200, 3, 300, *[5] * 12]),
}
EVERY = [(engine, name) for engine in ENGINES for name in ("laplace", "server", "local")]
EVERY += [("side by side", name) for name in MECHANISMS if name not in ("laplace", "server")]


def rows_cell(data: Federation, **changes: Any) -> Cell:
    given = {"privacy": {"mechanism": "laplace-l2", "noise_multiplier": 1.0}, "fairness": RULE}
    return table_cell(
        data, **{**given, "training__rounds": 5, **changes, "federation": RECORD_SPLIT}
    )


def with_other_held_out(cell: Cell, value: float) -> Cell:
    """The cell, its held-out rows replaced by others."""
    place, own = cell.validation_rows.place, cell.federation.features
    features = (own.values if isinstance(own, ClientRows) else own).copy()
    features[place] = value
    kept = replace(own, values=features) if isinstance(own, ClientRows) else features
    other = replace(cell, federation=replace(cell.federation, features=kept))
    return with_targets(other, place, np.full(len(place), -value))


def with_targets(cell: Cell, place: NDArray[np.int64], values: NDArray[np.floating]) -> Cell:
    """The cell with these targets at these places."""
    target = cell.federation.target.copy()
    target[place] = values
    raw = target.astype(np.float64)
    return replace(cell, federation=replace(cell.federation, target=target, raw_target=raw))


def played(cell: Cell) -> tuple[list[bytes], FinalResult]:
    """What each round leaves behind, without figures of held-out rows, and the end."""
    stack, left = Stack([cell]), []
    while stack.active:
        for record in records_of(stack.advance(1)[0]):
            figures = {"selection_loss": 0.0, "validation_loss": 0.0, "fairness": {}}
            left.append(repr(fingerprint([replace(record, **figures)])).encode())
    return left, stack.result(0)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(("engine", "name"), EVERY)
def test_what_is_released_does_not_depend_on_them(engine: str, name: str) -> None:
    cell = rows_cell(ENGINES[engine](), **MECHANISMS[name])
    assert is_by_length(cell) == (engine == "by length")
    rounds, result = played(cell)
    # Not even losses that are not finite end a run: whether there is a model would follow them.
    for value in (3.0, np.inf):
        others, other = played(with_other_held_out(cell, value))
        assert others == rounds
        assert other.hypotheses.tobytes() == result.hypotheses.tobytes()
        assert (other.best_round, other.stopped_by) == (5, "rounds")
    assert result.best_round == 5
    assert other.validation_loss != result.validation_loss


@pytest.mark.parametrize("engine", ENGINES)
def test_the_held_out_rows_are_scored_and_no_other(engine: str) -> None:
    data = ENGINES[engine]()
    cell = rows_cell(data, **NONE)
    _, result = train(cell)
    trains, scored = split_of(cell.spec, data)
    held_out = validation_rows(cell.spec, data)
    assert trains.tolist() == list(range(data.clients))
    assert scored.tolist() == np.flatnonzero(data.counts > 1).tolist()
    assert result.by_client is not None
    assert result.by_client.clients.tolist() == scored.tolist()
    assert result.by_client.rows.tolist() == np.bincount(held_out.client_of).tolist()
    grouped = data.attribute("group").codes[held_out.place] >= 0
    assert result.scores["group"].rows.sum() == grouped.sum()
    both = [held_out.place, training_records(cell.spec, data).place]
    assert np.sort(np.concatenate(both)).tolist() == list(range(data.rows))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", ["fine-tuning", "local-only"])
def test_clients_make_models_of_what_trains(engine, method):
    """And of no held-out row: other outcomes of these change no prediction."""
    last = {"training__stopping": {"validate_every": 5}}  # no loss chooses another round
    changes = {**NONE, **last, "training__method": method, "training__hypotheses": 1}
    cell = rows_cell(ENGINES[engine](), **changes)
    place = np.setdiff1d(
        validation_rows(cell.spec, cell.federation).place,
        training_records(cell.spec, cell.federation).place,
    )
    other = with_targets(cell, place, cell.federation.target[place] + 7)
    (_, found), (_, again) = train(cell), train(other)
    assert found.by_client is not None
    assert found.by_client.rows.sum() == len(place)
    predicted, others = found.predicted["group"], again.predicted["group"]
    np.testing.assert_array_equal(predicted.predicted, others.predicted)
    assert (predicted.truth != others.truth).any()


@pytest.mark.parametrize("name", ["laplace", "coins"])
def test_stacked_and_resumed_they_are_the_same(name: str) -> None:
    data = random_federation()
    cells = [rows_cell(data, **MECHANISMS[name], seed=seed) for seed in (1, 2, 3)]
    assert stacks(cells) == [[0, 1, 2]]
    together = run_stacked(cells, 2)
    for position, cell in enumerate(cells):
        assert fingerprint(assert_repeats(cell, stops=(2,))) == fingerprint(together[position])


def test_the_share_follows_from_how_many_rows_a_client_has() -> None:
    counts = np.array([1, 2, 3, 10, 100])
    found = share_of_rows(counts, fraction=0.3, seed=4)
    per_client = np.add.reduceat(found, np.cumsum(counts) - counts)
    assert per_client.tolist() == [0, 1, 1, 3, 30]
    # A client's draw does not follow how many rows the others have.
    other = share_of_rows(np.array([7, 9, 3, 10, 100]), fraction=0.3, seed=4)
    assert other[-113:].tolist() == found[-113:].tolist()


NOISED_COUNTS = {"mechanism": "discrete-laplace", "epsilon": 1, "unit": "record"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"training__stopping": {"patience": 3}}, "/training/stopping/patience"),
        ({"fairness": {**RULE, "noise": NOISED_COUNTS}}, "/fairness/noise/unit"),
    ],
)
def test_what_would_follow_them_is_refused(changes: dict[str, Any], field: str) -> None:
    assert field in [one.pointer for one in refused_by(rows_cell, random_federation(), **changes)]
    rows_cell(random_federation(), **NONE, training__stopping={"patience": 3})


def test_a_cohort_may_be_everybody() -> None:
    _, result = train(rows_cell(random_federation(), **SERVER, training__cohort={"clients": 30}))
    assert result.rounds == 5


def test_features_are_standardised_by_the_rows_that_train(tmp_path: Path) -> None:
    draw = np.random.default_rng(2)
    lines = [f"{'abc'[row % 3]},{draw.normal():.4f},{row % 2}" for row in range(90)]
    (tmp_path / "a.csv").write_text("\n".join(["who,x,y", *lines]))
    spec = rows_cell(random_federation(), fairness={}, training__cohort={"clients": 3}).spec
    source = spec.federation.model_copy(update={"standardise": "client"})
    spec = spec.model_copy(update={"federation": source})
    data = load_federation(spec, sources_dir=tmp_path)
    trains = data.of_rows(training_records(spec, data).place)
    means = np.bincount(trains.client_of, weights=trains.side_by_side[:, 0]) / trains.counts
    np.testing.assert_allclose(means, 0, atol=1e-6)
    assert np.abs(data.side_by_side[validation_rows(spec, data).place].mean()) > 1e-3
