"""Gradient leakage from the spec to the section: every method, with and without noise."""

import csv
import io
from typing import Any

import numpy as np
import pytest

from fedaudit.attacks.feasibility import faults
from fedaudit.attacks.gradient_leakage.gradient_leakage_attack import (
    attack_gradient_leakage,
    draw_images,
)
from fedaudit.randomness import CounterSource
from fedaudit.spec.attacks import GradientLeakageSpec
from fedaudit.training.base.records import split_of
from tests.attacks.attacked_runs import untrained
from tests.attacks.gradient_leakage.small_images import (
    CONVOLUTIONAL,
    SMOOTH,
    attack,
    section_of,
    small_cell,
)

METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dlg": (SMOOTH, {"label": "optimised", "iterations": 100, "restarts": 2}),
    "idlg": (SMOOTH, {"iterations": 60}),
    "idlg, layers": (SMOOTH, {"iterations": 60, "per_layer": True}),
    "idlg, convolutions": (CONVOLUTIONAL, {"iterations": 100}),
    "cosine, relu": ({"kind": "mlp", "hidden": [24]}, {"method": "adam-cosine", "iterations": 250}),
    "first layer": (SMOOTH, {"method": "first-layer"}),
    "first layer, logistic": ({"kind": "logistic"}, {"method": "first-layer"}),
    "features": (CONVOLUTIONAL, {"method": "features"}),
}


@pytest.mark.parametrize("name", METHODS)
def test_images_are_recovered_from_bare_updates_and_not_through_much_noise(name: str) -> None:
    model, asked = METHODS[name]
    section = section_of(small_cell(model=model), **asked)
    bare, noised = section.results
    assert bare.recovered_share == 1.0
    assert section.recovered_share == 1.0
    assert bare.recovered_interval.high == 1.0
    assert bare.ssim > 0.9
    assert noised.recovered_share == 0.0
    assert noised.mse > 20 * bare.mse
    if section.label is not None:
        assert bare.label_share == 1.0


def test_labels_of_two_classes_are_read_off_their_one_output() -> None:
    section = section_of(small_cell(classes=2), images=8, noise_multipliers=[0.0], iterations=5)
    assert section.results[0].label_share == 1.0


def test_channels_come_back_in_their_places() -> None:
    model = {**SMOOTH, "input": [8, 8, 3], "layers": [{"kind": "flatten"}, *SMOOTH["layers"]]}
    section = section_of(
        small_cell(model=model, channels=3), method="first-layer", noise_multipliers=[0.0]
    )
    assert section.results[0].mse < 1e-6


def test_what_is_attacked_belongs_to_training_clients() -> None:
    cell = small_cell()
    images = draw_images(cell, GradientLeakageSpec(images=12), CounterSource(3))
    owners = cell.federation.client_of[images.rows]
    assert set(owners) == set(split_of(cell.spec, cell.federation)[0])
    assert len(set(images.rows)) == 12
    assert np.bincount(owners).max() == 3
    place = cell.federation.target[images.rows]
    assert (images.labels == place).all()


def test_the_noise_that_protects_is_the_smallest_from_which_on_nothing_was_better() -> None:
    section = section_of(small_cell(), method="first-layer", noise_multipliers=[1000.0, 0.0, 300.0])
    better = {result.noise_multiplier: result.better_share for result in section.results}
    assert better == {0.0: 1.0, 300.0: 0.0, 1000.0: 0.0}
    assert section.nu_protecting == 300.0
    assert section.nu_protecting_interval.high == pytest.approx(1 - 0.025 ** (1 / 4))
    # Where every noise lets images through there is a reason.
    section = section_of(small_cell(), method="first-layer", noise_multipliers=[0.0, 0.001])
    assert section.nu_protecting is None
    assert "0.001, the largest tried" in (section.nu_protecting_reason or "")


def test_one_image_has_nothing_to_be_compared_with() -> None:
    section = section_of(small_cell(), method="first-layer", images=1)
    assert section.baseline.reason is not None
    assert section.recovered_share is None
    assert section.recovered_share_reason == section.baseline.reason


def test_confidential_files_hold_a_line_and_a_picture_of_every_image() -> None:
    outcome = attack(small_cell(), method="first-layer")
    lines = list(csv.DictReader(io.StringIO(outcome.files["images.csv"].decode())))
    assert len(lines) == 8
    bare = [float(line["mse"]) for line in lines if line["noise_multiplier"] == "0.0"]
    assert np.median(bare) == outcome.section.model_dump()["results"][0]["mse"]
    assert outcome.files["reconstructions.png"].startswith(b"\x89PNG")


@pytest.mark.parametrize("asked", [{"method": "first-layer"}, {"iterations": 10}], ids=str)
def test_the_same_seed_gives_the_same_attack(asked: dict[str, Any]) -> None:
    first, second = (attack(small_cell(), noise_multipliers=[0.1], **asked) for _ in range(2))
    assert first == second


def test_the_statement_says_what_failing_does_not_show() -> None:
    secret = {"mechanism": "laplace-l2", "noise_multiplier": 2.0, "noise": "release"}
    section = section_of(small_cell(privacy=secret), method="first-layer")
    assert "A failed attack is no guarantee" in section.statement
    assert "nu = 2, which was not tried" in section.statement
    assert "covered by no guarantee" in section.statement


def test_progress_goes_up_to_one_and_stops_the_attack() -> None:
    shares: list[float] = []
    spec = GradientLeakageSpec(images=4, noise_multipliers=[0.0, 1.0], iterations=5)
    attack_gradient_leakage(spec, untrained(small_cell()), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert len(shares) > 8

    def cancel(_: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        attack_gradient_leakage(spec, untrained(small_cell()), progress=cancel)


def test_data_with_too_few_images_are_refused_at_the_field() -> None:
    cell = small_cell()
    assert faults(GradientLeakageSpec(images=12), cell, at="/attacks/0") == []
    (fault,) = faults(GradientLeakageSpec(images=13), cell, at="/attacks/0")
    assert fault.pointer == "/attacks/0/images"
