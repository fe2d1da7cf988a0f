"""Clients whose images are turned: who, in which direction, and what stays."""

from pathlib import Path

import numpy as np
import pytest

from fedaudit.federations.federation import ClientRows
from fedaudit.federations.images.client_rows import rotate, rotated_clients
from fedaudit.spec.fairness import Fairness
from tests.federations.image_files import arrays, load_npz, npz, pixels_of


def test_a_turn_is_counter_clockwise() -> None:
    picture = np.array([[1, 2], [3, 4]], dtype=np.uint8)
    rows = ClientRows(np.stack([picture.ravel()] * 3), 255.0, image=(2, 2, 1))
    rotate(rows, np.array([False, True]), first=np.array([0, 1, 3]))
    assert rows.values.tolist() == [[1, 2, 3, 4], [2, 4, 1, 3], [2, 4, 1, 3]]


def test_channels_turn_together() -> None:
    rng = np.random.default_rng(1)
    images = rng.random((5, 3, 3, 2), dtype=np.float32)
    rows = ClientRows(images.reshape(5, 18).copy(), 1.0, image=(3, 3, 2))
    rotate(rows, np.array([True]), first=np.array([0, 5]))
    for image, turned in zip(images, rows.values.reshape(5, 3, 3, 2), strict=True):
        assert np.array_equal(turned, np.rot90(image))


def test_four_turns_change_nothing() -> None:
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (4, 49), dtype=np.uint8)
    rows = ClientRows(images.copy(), 255.0, image=(7, 7, 1))
    for _ in range(4):
        rotate(rows, np.array([True]), first=np.array([0, 4]))
    assert np.array_equal(rows.values, images)


def test_the_draw_follows_the_probability() -> None:
    """False alarm below 1e-6: five standard deviations of a binomial of 10,000."""
    share = rotated_clients(10_000, probability=0.2, seed=5).mean()
    assert abs(share - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 10_000)
    assert not rotated_clients(1000, probability=0.0, seed=5).any()
    assert rotated_clients(1000, probability=1.0, seed=5).all()


def test_the_draw_depends_on_seed_and_index_alone() -> None:
    some = rotated_clients(100, probability=0.5, seed=5)
    assert np.array_equal(some, rotated_clients(1000, probability=0.5, seed=5)[:100])
    assert not np.array_equal(some, rotated_clients(100, probability=0.5, seed=6))


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_all_of_a_clients_images_turn_and_nothing_else_changes(tmp_path: Path, kind: type) -> None:
    data = arrays(40, writer=np.arange(40) % 8)
    data["x"] = (data["x"] % 2).astype(kind) if kind is np.float32 else data["x"]
    fairness = Fairness(sensitive=["rotated"])
    plain = load_npz(tmp_path, npz(**data))
    turned = load_npz(tmp_path, npz(**data), rotate={"probability": 0.5}, fairness=fairness, seed=3)

    drawn = rotated_clients(8, probability=0.5, seed=3)
    assert 0 < drawn.sum() < 8
    attribute = turned.attribute("rotated")
    assert attribute.values == ("no", "yes")
    assert np.array_equal(attribute.codes, np.repeat(drawn, 5))
    for client in range(8):
        before = pixels_of(plain, client).reshape(-1, 4, 4)
        after = pixels_of(turned, client).reshape(-1, 4, 4)
        expected = np.rot90(before, axes=(1, 2)) if drawn[client] else before
        assert np.array_equal(after, expected)
    assert np.array_equal(turned.raw_target, plain.raw_target)
    assert turned.fingerprint == plain.fingerprint, "of the data, not of what a run does to it"
