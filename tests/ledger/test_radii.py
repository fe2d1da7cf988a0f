"""Radii that a mechanism cannot give, whole and layer by layer."""

import numpy as np
import pytest

from fedaudit.ledger.columns import EntryColumns, misfits
from fedaudit.ledger.entries import LedgerEntry
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters, layer_components

NAN = np.nan


def entry(radii, *, outcomes=(0, 1), interrupted=False, **settings):
    """Of two clients, the second refused, with noise for each of two layers."""
    inputs = {
        "mechanism": "laplace-l2",
        "n": 3,
        "noise_multiplier": 5.0,
        "radius": None,
        "radius_floor": 0.1,
        "clip": 2.0,
        "noise": "release",
        "guarantee": "heuristic",
        "components": layer_components((2, 1)),
        **settings,
    }
    return LedgerEntry(
        round=1,
        release=0,
        subject_kind="client",
        observer="server",
        inputs=MechanismParameters(**inputs),
        subjects=np.array([0, 1], np.int32),
        outcomes=np.array(outcomes, np.uint8),
        radii=np.array(radii, np.float64),
        releases=np.array([1, 0], np.int32),
        clusters=np.array([0, -1], np.int16),
        interrupted=interrupted,
    )


FIXED = {"radius": 0.5, "radius_floor": None, "guarantee": "formal"}
NONE = {
    "mechanism": "none",
    "noise_multiplier": None,
    "radius_floor": None,
    "clip": None,
    "guarantee": "none",
    "components": None,
}


@pytest.mark.parametrize(
    ("radii", "settings"),
    [
        ([[0.1, 2.0], [NAN, NAN]], {}),
        ([[0.1, 99.0], [NAN, NAN]], {"clip": None}),
        ([[1e-7 * (1 + 5e-10), 0.0], [NAN, NAN]], {"clip": 1e-7, "radius_floor": None}),
        ([[0.5, 0.5], [NAN, NAN]], FIXED),
        ([[NAN, NAN], [NAN, NAN]], {"interrupted": True}),
        ([0.7, NAN], {"components": None}),
        ([NAN, NAN], NONE),
    ],
)
def test_what_a_mechanism_gives_fits(radii, settings):
    assert not misfits(EntryColumns.of_entries([entry(radii, **settings)]))


@pytest.mark.parametrize(
    ("radii", "settings"),
    [
        ([[0.1, 0.09], [NAN, NAN]], {}),
        ([[0.1, 2.1], [NAN, NAN]], {}),
        ([[0.1, 2 + 4e-9], [NAN, NAN]], {}),
        ([[0.1, NAN], [NAN, NAN]], {}),
        ([[0.1, np.inf], [NAN, NAN]], {"clip": None}),
        ([[0.1, 0.1], [NAN, 0.1]], {}),
        ([[0.5, 0.4], [NAN, NAN]], FIXED),
        ([[0.1, 0.1], [NAN, NAN]], {"interrupted": True}),
        ([NAN, NAN], {"components": None}),
        ([0.5, NAN], NONE),
    ],
)
def test_what_it_cannot_give_does_not(radii, settings):
    assert misfits(EntryColumns.of_entries([entry(radii, **settings)])) == [0]
