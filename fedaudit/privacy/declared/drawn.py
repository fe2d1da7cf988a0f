"""Who was drawn in rounds that charge everyone, kept apart from the subjects of a ledger.

What such rounds cost rests on nobody knowing who was drawn, and a ledger's subjects are shown in
bundles. These names are shown to nobody; they are counted, to be compared with the sampling.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray


class Drawn:
    """In how many rounds that charge everyone each client was named."""

    def __init__(self, names: Sequence[str] | None = None, counts: Iterable[int] = ()) -> None:
        self.is_recorded = names is not None
        """Whether there was such a round since names are kept apart."""
        self._counts = dict(zip(names or (), map(int, counts), strict=True))

    def copy(self) -> "Drawn":
        """One to which rounds may be added without changing this one."""
        return Drawn(self.names if self.is_recorded else None, self._counts.values())

    def add(self, names: Iterable[str]) -> None:
        """One more round that named these."""
        self.is_recorded = True
        for name in names:
            self._counts[name] = self._counts.get(name, 0) + 1

    @property
    def names(self) -> list[str]:
        """In the order in which `counts` has them."""
        return list(self._counts)

    @property
    def counts(self) -> NDArray[np.int64]:
        """[names]: rounds that named each."""
        return np.fromiter(self._counts.values(), dtype=np.int64, count=len(self._counts))

    def __contains__(self, name: object) -> bool:
        return name in self._counts
