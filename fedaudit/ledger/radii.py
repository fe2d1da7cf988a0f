"""Whether the radii of an entry are such as its mechanism gives."""

import numpy as np

from fedaudit.ledger.entries import LedgerEntry, Outcome

_ROUNDING = 1e-9
"""How far a layer's share of a clipped norm may pass the clip."""


def radii_fit(entry: LedgerEntry) -> bool:
    """Whether every release has the public radius, or one between the floor and the clip.

    Where nothing was released, or the round was lost, there is none. True of entries that are
    counted as an epsilon: they have no radii.
    """
    inputs = entry.inputs
    if inputs.counts_epsilon:
        return True
    released = (entry.outcomes == Outcome.RELEASED) & (not entry.interrupted)
    if inputs.noise_multiplier is None:
        released = np.zeros_like(released)
    radii = entry.radii[released]
    if not np.isnan(entry.radii[~released]).all():
        return False
    if inputs.radius is not None:
        return bool((radii == inputs.radius).all())
    floor = 0.0 if inputs.radius_floor is None else inputs.radius_floor
    most = np.inf if inputs.clip is None else inputs.clip * (1 + _ROUNDING)
    return bool((np.isfinite(radii) & (radii >= floor) & (radii <= most)).all())
