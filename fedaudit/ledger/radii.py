"""Whether the radii of an entry are consistent with its mechanism."""

import numpy as np

from fedaudit.ledger.entries import LedgerEntry

_ROUNDING = 1e-9
"""The tolerance by which a layer's share of a clipped norm may exceed the clip."""


def radii_fit(entry: LedgerEntry) -> bool:
    """Whether every release has the public radius, or one between the floor and the clip.

    An upload that was not released, or whose round was lost, has no radius. True for entries
    counted as an epsilon, which have no radii.
    """
    inputs = entry.inputs
    if inputs.counts_epsilon:
        return True
    released = entry.released & (not entry.interrupted)
    if inputs.cost_kind == "unbounded":
        released = np.zeros_like(released)
    radii = entry.radii[released]
    if not np.isnan(entry.radii[~released]).all():
        return False
    if inputs.radius is not None:
        return bool((radii == inputs.radius).all())
    floor = 0.0 if inputs.radius_floor is None else inputs.radius_floor
    most = np.inf if inputs.clip is None else inputs.clip * (1 + _ROUNDING)
    return bool((np.isfinite(radii) & (radii >= floor) & (radii <= most)).all())
