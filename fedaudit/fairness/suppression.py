"""Which groups may be shown: small cells are hidden, and what would give them away with them."""

import numpy as np
from numpy.typing import NDArray


def shown_groups(rows: NDArray[np.int64], *, minimum_group_size: int) -> NDArray[np.bool_]:
    """Which groups may be shown, [..., groups], from their scored rows.

    A group with fewer than `minimum_group_size` rows is hidden. Where exactly one group that has
    rows is hidden, the smallest of the others is hidden too: otherwise the total less what is
    shown would give the hidden group away (complementary suppression). A group without rows is
    not shown, and hides nothing.
    """
    shown = rows >= max(1, minimum_group_size)
    alone = ((rows > 0) & ~shown).sum(axis=-1) == 1
    if alone.any():
        beyond = np.iinfo(np.int64).max
        smallest = np.where(shown, rows, beyond).argmin(axis=-1)[..., np.newaxis]
        kept = np.take_along_axis(shown, smallest, axis=-1) & ~alone[..., np.newaxis]
        np.put_along_axis(shown, smallest, kept, axis=-1)
    return shown
