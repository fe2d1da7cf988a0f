"""Rounds in which each layer has its own noise."""

import numpy as np

from fedaudit.ledger.rows import Outcome
from fedaudit.networks.shape import layer_sizes
from fedaudit.training.stack import Stack
from tests.training.federations import image_cell, image_federation, random_federation, table_cell
from tests.training.gaussian import LAYERS
from tests.training.round_records import records_of
from tests.training.specs import cell, groups_spec, train


def test_a_model_of_one_layer_is_trained_as_without_layers() -> None:
    whole, result = train(groups_spec())
    records, layered = train(groups_spec(privacy__per_layer=True))
    for one, other in zip(records, whole, strict=True):
        assert one.radii.shape == (len(one.subjects), 1)
        assert one.radii.tobytes() == other.radii.tobytes()
        assert one.releases.tobytes() == other.releases.tobytes()
    assert layered.hypotheses.tobytes() == result.hypotheses.tobytes()


def test_each_layer_has_a_radius_of_its_own() -> None:
    records, _ = train(groups_spec(**LAYERS))
    radii = np.concatenate([record.radii for record in records])
    assert radii.shape[1] == 2
    assert (radii > 0).all()
    assert np.unique(radii).size == radii.size
    fixed, _ = train(groups_spec(**LAYERS, privacy__radius=0.5))
    assert np.unique(np.concatenate([record.radii for record in fixed])).tolist() == [0.5]


def test_a_layer_that_learns_nothing_gets_the_floor_alone() -> None:
    data, floor = random_federation(clients=30), 0.125
    # Inputs of zero through layers without a bias: no gradient anywhere.
    data.side_by_side[:] = 0.0
    model = {"kind": "mlp", "hidden": [3], "intercept": False}
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 1.0, "radius_floor": floor}
    one = table_cell(data, model=model, privacy={**privacy, "per_layer": True}, training__rounds=1)
    [record] = train(one)[0]
    assert record.radii.tolist() == [[floor, floor]] * len(record.subjects)


def test_refused_clients_have_no_radii() -> None:
    # 13 parameters at a noise multiplier of 1: room for two releases.
    refusing = {"privacy__client_budget": 26.0, "training__cohort": {"clients": 50}}
    stack = Stack([cell(groups_spec(**LAYERS, **refusing))])
    records = records_of(stack.advance(3)[0])
    assert stack.n == 13
    assert np.isfinite([record.radii for record in records[:2]]).all()
    assert (records[2].outcomes == Outcome.REFUSED).all()
    assert records[2].radii.shape == (50, 2)
    assert np.isnan(records[2].radii).all()


def test_the_convolutional_network_is_sanitised_in_four_layers() -> None:
    one = image_cell(image_federation(clients=9, max_rows=4), privacy__per_layer=True)
    assert len(layer_sizes(one.shape)) == 4
    [record] = records_of(Stack([one]).advance(1)[0])
    assert record.radii.shape == (3, 4)
    assert (record.radii > 0).all()
