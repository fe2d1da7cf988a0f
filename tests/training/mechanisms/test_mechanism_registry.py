"""Every mechanism that a spec may name is found, and only among its own cells."""

from typing import Any, get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.randomness import CounterSource, Purpose, Source, wide_uniforms
from fedaudit.spec.privacy import PrivacySpec
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.cohort import Draws
from fedaudit.training.mechanisms.base import (
    ClientMechanism,
    ClientProtection,
    RecordMechanism,
    ServerMechanism,
    TrustedServer,
    Unprotected,
    drawn,
)
from fedaudit.training.mechanisms.registry import build_protection, training_mechanism
from fedaudit.training.stack import Stack, open_stack
from tests.training.gaussian import CENTRAL, LOCAL, REPORTED
from tests.training.personalised import records_spec
from tests.training.specs import cell, groups_spec

CPU = torch.device("cpu")
SPECS: dict[str, dict[str, Any]] = {
    "none": groups_spec(privacy={"mechanism": "none"}),
    "laplace-l2": groups_spec(),
    "gaussian-local": groups_spec(privacy=LOCAL, training__hypotheses=1),
    "gaussian-central": groups_spec(privacy=CENTRAL, **REPORTED),
    "record-personalised": records_spec(),
}
CELLS: dict[str, Cell] = {name: cell(spec) for name, spec in SPECS.items()}
KINDS = {"clients": ClientMechanism, "server": ServerMechanism, "local-steps": RecordMechanism}


def literals() -> set[str]:
    """What a spec may give as its mechanism."""
    union, _ = get_args(PrivacySpec)
    return {get_args(part.model_fields["mechanism"].annotation)[0] for part in get_args(union)}


def test_the_names_are_those_of_the_spec() -> None:
    assert literals() == set(SPECS)
    for name, one in CELLS.items():
        assert training_mechanism(one.spec.privacy).name == name


@pytest.mark.parametrize("name", SPECS)
def test_who_applies_it_is_known_without_its_tensors(name: str) -> None:
    spec = CELLS[name].spec
    kind = KINDS[mechanism_of(spec).facts.applied_by]
    assert isinstance(training_mechanism(spec.privacy), kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", ClientProtection),
        ("laplace-l2", ClientProtection),
        ("gaussian-local", ClientProtection),
        ("gaussian-central", TrustedServer),
    ],
)
def test_cells_of_another_mechanism_are_not_protected_along(name: str, kind: type) -> None:
    one = CELLS[name]
    assert isinstance(build_protection([one, one], CPU), kind)
    for other in set(SPECS) - {name}:
        with pytest.raises(ValueError, match=f"cells of {other} are not protected"):
            build_protection([one, CELLS[other]], CPU)


class _FirstWords(Unprotected):
    """Draws without regard for axes, rounds or clients: as little as the interface lets it."""

    def draw_cell(
        self, source: Source, rounds: NDArray[np.int64], clients: NDArray[np.int64]
    ) -> NDArray[np.float64] | None:
        words = source.wide_words(purpose=Purpose.GAUSSIAN, round_=1, counters=0, count=4)
        return np.broadcast_to(wide_uniforms(words.ravel()[:4]), (*clients.shape, 4))


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("name", ["careless", "laplace-l2", "gaussian-local", "gaussian-central"])
def test_no_two_cells_side_by_side_share_noise(name: str, secret: bool) -> None:
    seeds, one = np.array([7, 8, 9], dtype=np.uint64), np.ones((1, 3), dtype=np.int64)
    careless = name == "careless"
    protection = _FirstWords() if careless else build_protection([CELLS[name]] * 3, CPU)
    if isinstance(protection, TrustedServer):
        noise = protection.draw(Draws(seeds, secret), one).sums
        alone = protection.draw_cell(CounterSource(seeds[1]), one[:, 1]).sums
    else:
        clients = np.zeros((1, 3, 2), dtype=np.int64)
        noise = drawn(protection.draw(Draws(seeds, secret), one, clients))
        alone = drawn(protection.draw_cell(CounterSource(seeds[1]), one[:, 1], clients[:, 1]))
    assert len(np.unique(noise[0, :, 0], axis=0)) == 3
    assert np.array_equal(noise[:, 1], alone) == (not secret)


def test_records_are_not_protected_update_by_update() -> None:
    one = CELLS["record-personalised"]
    with pytest.raises(ValueError, match="updates are not protected"):
        build_protection([one], CPU)
    with pytest.raises(ValueError, match="record-personalised"):
        Stack([one])


@pytest.mark.parametrize("first", ["none", "record-personalised"])
def test_mechanisms_of_different_trainers_are_not_mixed(first: str) -> None:
    (second,) = {"none", "record-personalised"} - {first}
    with pytest.raises(ValueError, match=r"one shape|is trained alone"):
        open_stack([CELLS[first], CELLS[second]])
