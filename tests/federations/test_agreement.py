"""What a spec and its data must agree on: cohorts, splits, and what a network takes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.federations.load import load_federation
from fedaudit.federations.split import (
    held_out_rows,
    scored_rows,
    split_clients,
    training_clients,
    validation_clients,
)
from fedaudit.spec.federation import SyntheticLinear
from fedaudit.spec.parse import parse_spec
from tests.federations.conftest import Load, Refuse
from tests.federations.image_files import arrays, npz
from tests.refusals import refused_by
from tests.spec.documents import IMAGES, changed

DATA = "hospital,x,sex,cost\n" + "".join(
    f"h{index % 10},1,{'FM'[index % 2]},2\n" for index in range(11)
)
SEX: dict[str, Any] = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 0}}
PLAIN: dict[str, Any] = {"federation.drop": ["sex"]}
CNN = {"kind": "cnn-femnist"}
FEW = {"training.cohort.clients": 1, "privacy": {"mechanism": "none"}}


def test_a_cohort_may_take_every_training_client(load: Load, refuse: Refuse) -> None:
    changes = {**PLAIN, "federation.validation_fraction": 0.3}
    assert load({**changes, "training.cohort": {"clients": 7}}, data=DATA).clients == 10
    faults = refuse({**changes, "training.cohort": {"clients": 8}}, data=DATA)
    assert list(faults) == ["/training/cohort/clients"]
    assert "7 training clients" in faults["/training/cohort/clients"]
    # More validation clients than there are is no fault.
    changes = {**PLAIN, "training.stopping": {"validation_clients": 200, "patience": 3}}
    assert load(changes, data=DATA).clients == 10


def test_the_reference_group_exists(load: Load, refuse: Refuse) -> None:
    assert load({"fairness": {**SEX, "reference_group": "F"}}, data=DATA).clients == 10
    faults = refuse({"fairness": {**SEX, "reference_group": "X"}}, data=DATA)
    assert "'F', 'M'" in faults["/fairness/reference_group"]
    changes = {**PLAIN, "fairness": {"reference_group": "F"}}
    assert "there are none" in refuse(changes, data=DATA)["/fairness/reference_group"]


def test_a_threshold_decides_between_two_classes(load: Load, refuse: Refuse) -> None:
    changes = {
        "model": {"kind": "logistic"},
        "training.loss": "cross-entropy",
        "federation.target": "x",
        "federation.drop": ["sex"],
        "decision": {"threshold": 0.2},
    }
    rows = [f"h{index % 10},{index % 3},F,2\n" for index in range(12)]
    data = DATA.splitlines()[0] + "\n" + "".join(rows)
    assert "has 3 classes" in refuse(changes, data=data)["/decision/threshold"]
    assert load(changes, data=data.replace(",2,F", ",1,F")).classes == ("0", "1")


@pytest.mark.parametrize("clients", [1, 9])
def test_faults_of_several_parts_come_together(refuse: Refuse, clients: int) -> None:
    changes = {"fairness": {**SEX, "reference_group": "X"}, "training.cohort": {"clients": clients}}
    faults = refuse(changes, data=DATA)
    assert ("/training/cohort/clients" in faults) == (clients == 9)
    assert "/fairness/reference_group" in faults


@given(
    clients=st.integers(2, 3000),
    fraction=st.floats(0, 1, exclude_min=True, exclude_max=True),
    seed=st.integers(0, 2**53 - 1),
)
def test_every_client_is_on_one_side(clients: int, fraction: float, seed: int) -> None:
    split = split_clients(clients, validation_fraction=fraction, seed=seed)
    both = np.concatenate([split.training, split.validation])
    assert np.array_equal(np.sort(both), np.arange(clients))
    for side in (split.training, split.validation):
        assert len(side) >= 1
        assert side.dtype == np.int32
        assert (np.diff(side) > 0).all()
    assert len(split.validation) == validation_clients(clients, validation_fraction=fraction)
    asked = clients * fraction
    assert abs(len(split.validation) - asked) <= 0.5 or len(split.validation) in (1, clients - 1)


def test_one_client_cannot_be_split() -> None:
    with pytest.raises(ValueError, match="fewer than two"):
        split_clients(1, validation_fraction=0.5, seed=0)


def test_seeds_split_differently_and_every_client_alike_often() -> None:
    held_out = np.zeros(20)
    for seed in range(400):
        split = split_clients(20, validation_fraction=0.3, seed=seed)
        again = split_clients(20, validation_fraction=0.3, seed=seed)
        assert np.array_equal(split.validation, again.validation)
        held_out[split.validation] += 1
    # 400 draws with probability 0.3: 120 +- 9.2 each; 5 deviations, 20 times one in 1.7 million.
    assert np.abs(held_out - 120).max() < 46


@given(
    rows=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    fraction=st.floats(0, 1, exclude_min=True, exclude_max=True),
    seed=st.integers(0, 2**53 - 1),
)
def test_some_rows_are_scored_and_some_choose(rows: list[int], fraction: float, seed: int) -> None:
    counts, clients = np.array(rows), np.arange(len(rows)) + 3
    scored = scored_rows(counts, clients=clients, fraction=fraction, seed=seed)
    assert scored.shape == (sum(rows),)
    for count, own in zip(rows, np.split(scored, np.cumsum(rows)[:-1]), strict=True):
        if count == 1:
            assert own[0]
            continue
        assert 1 <= own.sum() <= count - 1
        asked = count * fraction
        assert abs(own.sum() - asked) <= 0.5 or own.sum() in (1, count - 1)
    # The other clients have no say.
    alone = scored_rows(counts[:1], clients=clients[:1], fraction=fraction, seed=seed)
    assert np.array_equal(alone, scored[: rows[0]])


def test_every_row_is_scored_alike_often() -> None:
    counts, clients = np.full(2000, 5), np.arange(2000)
    scored = scored_rows(counts, clients=clients, fraction=0.4, seed=1).reshape(2000, 5)
    assert (scored.sum(1) == 2).all()
    # 2000 draws with probability 0.4: 800 +- 21.9; 5 deviations, 5 times one in 1.7 million.
    assert np.abs(scored.sum(0) - 800).max() < 110
    other = scored_rows(counts, clients=clients, fraction=0.4, seed=2)
    assert not np.array_equal(scored.ravel(), other)


KEYS = st.lists(st.integers(0, 2**64 - 1), max_size=40)


@given(keys=KEYS, others=KEYS, fraction=st.floats(0.01, 0.99), seed=st.integers(0, 2**53 - 1))
def test_a_record_is_held_out_whatever_the_others_are(keys, others, fraction, seed):
    alone = held_out_rows(np.array(keys, dtype=np.uint64), fraction=fraction, seed=seed)
    among = held_out_rows(np.array(others + keys, dtype=np.uint64), fraction=fraction, seed=seed)
    assert np.array_equal(among[len(others) :], alone)


def test_records_are_held_out_with_the_chance_that_was_asked_for() -> None:
    keys = np.arange(40_000, dtype=np.uint64).reshape(400, 100)
    found = np.array([held_out_rows(keys, fraction=0.3, seed=seed) for seed in range(5)])
    assert found.shape == (5, 400, 100)
    # 200,000 coins: 60,000 +- 205, five deviations, one in 1.7 million; seeds do not agree.
    assert abs(int(found.sum()) - 60_000) < 1025
    # Both of two seeds: 3,600 +- 57.2 of 40,000; five deviations for ten pairs, one in 170,000.
    pairs = [(found[i] & found[j]).sum() for i in range(5) for j in range(i)]
    assert np.abs(np.array(pairs) - 3600).max() < 286


def test_all_clients_train_where_rows_are_held_out() -> None:
    units = [
        SyntheticLinear(source="synthetic-linear", validation_fraction=0.25, validation_unit=unit)
        for unit in ("client", "record")
    ]
    assert [training_clients(8, source) for source in units] == [6, 8]


@pytest.mark.parametrize(
    ("shape", "model", "found"),
    [
        ((28, 28), CNN, None),
        ((28, 28, 1), CNN, None),
        ((784,), CNN, None),
        ((3, 5, 2), {"kind": "mlp", "hidden": [4]}, None),
        ((27, 28), CNN, "27 by 28 with 1 channel"),
        ((28, 28, 3), CNN, "28 by 28 with 3 channels"),
        ((785,), CNN, "no images"),
    ],
)
def test_images_are_taken_or_refused_with_what_they_are(tmp_path, shape, model, found):
    data = arrays(8, x=np.ones((8, *shape), dtype=np.uint8))
    (tmp_path / "images.npz").write_bytes(npz(**data))
    spec = parse_spec(changed(IMAGES, {"federation.path": "images.npz", **FEW, "model": model}))
    if found is None:
        assert load_federation(spec, sources_dir=tmp_path).rows == 8
        return
    (fault,) = refused_by(load_federation, spec, sources_dir=tmp_path)
    assert fault.pointer == "/model/kind"
    assert found in fault.message
    assert "28 by 28 with 1 channel" in fault.message
