"""Whether the radii of entries are consistent with their mechanism."""

import numpy as np

from fedaudit.ledger.entry_columns import EntryColumns

_ROUNDING = 1e-9
"""The tolerance by which a layer's share of a clipped norm may exceed the clip."""


def misfits(entries: EntryColumns) -> list[int]:
    """Which entries have a release without the public radius, or without one between the floor and
    the clip.

    An upload that was not released, or whose round was lost, has no radius. None of entries counted
    as an epsilon, which have no radii.
    """
    inputs, radii = entries.inputs, entries.radii
    if inputs.counts_epsilon:
        return []
    bound = entries.released & ~np.array(entries.interrupted, bool)[entries.places]
    if inputs.cost_kind == "unbounded":
        bound = np.zeros_like(bound)
    if inputs.radius is not None:
        fit = radii == inputs.radius
    else:
        floor = 0.0 if inputs.radius_floor is None else inputs.radius_floor
        most = np.inf if inputs.clip is None else inputs.clip * (1 + _ROUNDING)
        fit = np.isfinite(radii) & (radii >= floor) & (radii <= most)
    if not bound.all():
        fit = np.where(bound if radii.ndim == 1 else bound[:, None], fit, np.isnan(radii))
    if fit.all():
        return []
    return entries.with_any(~(fit if radii.ndim == 1 else fit.all(axis=1)))
