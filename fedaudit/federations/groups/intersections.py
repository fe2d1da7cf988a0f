"""Attributes whose groups are the combinations of other attributes' groups."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

from fedaudit.federations.errors import error_at, pointer
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.groups.sensitive import MAX_GROUPS

_BETWEEN = ", "


def with_intersections(
    federation: Federation, combinations: Mapping[str, Sequence[str]]
) -> Federation:
    """The federation with one more attribute for each of the combinations, in their order.

    `combinations`: the name of each and the attributes that it combines. A row that lacks a value
    of one of them belongs to no combination; a note counts such rows. Raises InvalidInputError at
    /fairness/intersections/i where there would be too many groups.
    """
    if not combinations:
        return federation
    added, notes = [], []
    for place, (name, parts) in enumerate(combinations.items()):
        where = pointer("fairness", "intersections", place)
        added.append(_combined(name, [federation.attribute(part) for part in parts], where))
        missing = int(np.count_nonzero(added[-1].codes < 0))
        if missing:
            notes.append(f"rows without a value of {name!r}, in no group: {missing}")
    return replace(
        federation,
        attributes=(*federation.attributes, *added),
        notes=(*federation.notes, *notes),
    )


def _combined(name: str, parts: Sequence[Attribute], where: str) -> Attribute:
    """Groups in the order of the parts' values; the last part changes fastest."""
    sizes = [len(part.values) for part in parts]
    if prod(sizes) > MAX_GROUPS:
        raise error_at(
            where,
            f"{' x '.join(map(str, sizes))} combinations are {prod(sizes)} groups, and "
            f"{MAX_GROUPS} are allowed; combine fewer attributes, or bring them into fewer groups",
        )
    values = tuple(_BETWEEN.join(one) for one in product(*(part.values for part in parts)))
    if len(set(values)) < len(values):
        raise error_at(
            where,
            "two combinations would have the same name, since values contain commas; rename the "
            "values",
        )
    codes = np.zeros(parts[0].codes.shape, dtype=np.int64)
    missing = np.zeros(codes.shape, dtype=np.bool_)
    for part in parts:
        codes = codes * len(part.values) + part.codes
        missing |= part.codes < 0
    return Attribute(name, values, np.where(missing, -1, codes).astype(np.int16))
