"""The data of all clients as padded arrays, used by training, auditing and reporting."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Attribute:
    """A sensitive attribute of the rows."""

    name: str
    values: tuple[str, ...]
    codes: NDArray[np.int16]
    """[clients, rows] positions in `values`; -1 where the value is missing and on padding."""


@dataclass(frozen=True, eq=False)
class Truth:
    """The parameters that generated a synthetic federation: y = x . theta + u, u uniform on [0,
    1)."""

    thetas: NDArray[np.float64]
    """[components, features] slopes."""
    intercepts: NDArray[np.float64]
    """[components] mean of the target at x = 0, E[u] = 0.5 included."""
    component: NDArray[np.int16]
    """[clients] the distribution from which a client's rows were drawn."""


@dataclass(frozen=True, eq=False)
class ClientRows:
    """Features of all clients end to end, for rows too wide to be padded, such as images."""

    values: NDArray[np.uint8] | NDArray[np.float32]
    """[rows, features], client after client; an image is stored row by row, channels innermost."""
    divisor: float
    """The divisor of a value: 255 where bytes encode numbers from 0 to 1."""
    first: NDArray[np.int64]
    """[clients + 1]: where each client's rows begin; the last is the number of rows."""
    image: tuple[int, int, int] | None
    """Height, width, channels of a row; None where rows are not images."""

    def of(self, client: int) -> NDArray[np.float32]:
        """A client's features: float32 [rows, features]."""
        own = self.values[self.first[client] : self.first[client + 1]]
        return np.divide(own, self.divisor, dtype=np.float32)


Padded = NDArray[np.float32]
Features = Padded | ClientRows
"""Of rows that are padded to the same number for each client, or of rows end to end."""


@dataclass(frozen=True, eq=False)
class Federation:
    """Every client's rows, padded to the longest client."""

    features: Features
    """[clients, rows, features], divided by their public scales; 0 on padding. Or without padding
    (`ClientRows`), in the same order."""
    target: NDArray[np.float32]
    """[clients, rows], divided by `target_scale`; the class index for classification."""
    raw_target: NDArray[np.float64]
    """[clients, rows] in the target's own units; the class index for classification."""
    mask: NDArray[np.bool_]
    """[clients, rows]: a client's rows come first, padding last; every client has a row."""
    client_names: tuple[str, ...]
    """Subject keys, distinct and sorted by code point; a position is a subject's index."""
    feature_names: tuple[str, ...]
    target_name: str
    target_scale: float
    """raw = scaled * target_scale; 1 for classification."""
    classes: tuple[str, ...]
    """Empty for regression. With a given `positive` class: (negative, positive)."""
    attributes: tuple[Attribute, ...]
    """Those of `fairness.attributes`, in its order."""
    fingerprint: str
    """SHA-256 (hex) of the data itself, regardless of the columns, scales or split that a run uses:
    of the decompressed file, or of the parameters that determine synthetic data."""
    truth: Truth | None
    """Known only for synthetic data."""
    notes: tuple[str, ...]
    """Notes on what was left out while loading, for the report."""
    record_budgets: NDArray[np.float64] | None = None
    """[clients, rows]: the privacy budget that a column of the data gives each row, NaN on padding.
    None where the spec names no such column."""
    row_numbers: NDArray[np.int64] | None = None
    """[clients, rows]: the number of each row in the file, -1 on padding; the same whichever rows
    and columns a spec uses. None where the data are no table."""
    record_keys: NDArray[np.uint64] | None = None
    """[clients, rows]: see `fedaudit.federations.record_keys`; 0 on padding. None where nothing is
    drawn for each record."""

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.client_names)

    @property
    def rows(self) -> int:
        """Number of rows, padding not counted."""
        return int(np.count_nonzero(self.mask))

    @property
    def width(self) -> int:
        """Number of features of a row."""
        features = self.features
        return int((features.values if isinstance(features, ClientRows) else features).shape[-1])

    @property
    def longest(self) -> int:
        """Rows of the client that has the most."""
        return int(self.mask.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory used by the features, in bytes."""
        features = self.features
        return int((features.values if isinstance(features, ClientRows) else features).nbytes)

    @property
    def padded(self) -> NDArray[np.float32]:
        """The features as one padded array. Raises TypeError where they are not padded."""
        if isinstance(self.features, ClientRows):
            raise TypeError("these features are not padded; take them client by client")
        return self.features

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name. Raises KeyError."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise KeyError(name)
