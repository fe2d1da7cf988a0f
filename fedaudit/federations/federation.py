"""The rows of all clients end to end, used by training, auditing and reporting."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Floats32, Ints, Ints16, Number
from fedaudit.spec.experiment import ExperimentSpec

Made = TypeVar("Made")

_SIDE_BY_SIDE_CELLS = 2**26
CELLS_BESIDE_FEATURES = 5
"""A row's target, raw target, mask and attribute codes, in cells of four bytes."""


def is_large(*, rows: int, features: int) -> bool:
    """Whether rows [rows, features] are left on disk, and a round reads those of its clients: from
    256 MiB on. It follows from the data alone, so a run is the same on every machine."""
    return rows * (features + CELLS_BESIDE_FEATURES) > _SIDE_BY_SIDE_CELLS


def no_cells(*, rows: int, features: int) -> Floats32:
    """Zeros in place of features [rows, features] that are left out; they take no memory."""
    return np.broadcast_to(np.float32(0), (rows, features))


@dataclass(frozen=True, eq=False)
class Attribute:
    """A sensitive attribute of the rows."""

    name: str
    values: tuple[str, ...]
    codes: Ints16
    """[rows] positions in `values`; -1 where the value is missing."""
    numbers: Floats | None = None
    """[rows] what was cut at edges, NaN where it is missing; None where nothing was cut."""
    data: "Attribute | None" = None
    """The attribute of the data, where values were joined or left out."""

    def of_rows(self, place: Ints | Bools) -> "Attribute":
        """The attribute of some of the rows."""
        numbers = None if self.numbers is None else self.numbers[place]
        data = None if self.data is None else self.data.of_rows(place)
        return replace(self, codes=self.codes[place], numbers=numbers, data=data)


@dataclass(frozen=True, eq=False)
class ClientRows:
    """Rows that are computed client by client, because they are wide, such as images."""

    values: NDArray[np.uint8] | Floats32
    """[rows, features], client after client; an image is stored row by row, channels innermost."""
    divisor: float
    """The divisor of a value: 255 where bytes encode numbers from 0 to 1."""
    image: tuple[int, int, int] | None
    """Height, width, channels of a row; None where rows are not images."""


RowFeatures = Floats32
Features = RowFeatures | ClientRows
"""Features of rows that are computed side by side, or client by client."""


@dataclass(frozen=True, eq=False)
class Federation:
    """Every client's rows, client after client: nothing is as large as the longest client times
    their number."""

    features: Features
    """[rows, features], divided by their public scales; for `ClientRows` by their divisor."""
    target: Floats32
    """[rows], less `target_mean` and divided by `target_scale`; the class index for
    classification."""
    raw_target: Floats
    """[rows] in the target's own units; the class index for classification."""
    first: Ints
    """[clients + 1]: where each client's rows begin; the last is the number of rows. Every client
    has a row."""
    client_names: tuple[str, ...]
    """Subject keys, distinct and sorted by code point; a position is a subject's index."""
    feature_names: tuple[str, ...]
    target_name: str
    target_scale: float
    """raw = target_mean + target_scale * scaled; 1 for classification."""
    classes: tuple[str, ...]
    """Empty for regression. With a given `positive` class: (negative, positive)."""
    attributes: tuple[Attribute, ...]
    """Those of `fairness.attributes`, in its order."""
    fingerprint: str
    """SHA-256 (hex) of the data itself, regardless of the columns, scales or split that a run uses:
    of the decompressed file, or of the parameters that determine synthetic data."""
    notes: tuple[str, ...]
    """Notes on what was left out while loading, for the report."""
    target_mean: float = 0.0
    record_budgets: Floats | None = None
    """[rows]: the privacy budget that a column of the data gives each row. None where the spec
    names no such column."""
    row_numbers: Ints | None = None
    """[rows]: the number of each row in the file; the same whichever rows and columns a spec uses.
    None where the data are generated."""
    record_keys: NDArray[np.uint64] | None = None
    """[rows]: see `fedaudit.federations.record_keys`. None where nothing is drawn for each
    record."""
    left_out: Bools | None = None
    """[rows]: those that `fairness.exclude` leaves out of every figure; None where it names none.
    They may train."""
    joined_table: str | None = None
    """SHA-256 (hex) of the public table that the rows were joined with; None without one."""
    rows_dropped: int = 0
    """How many more rows the data have, which loading left out for an empty cell."""
    rows_removed: int = 0
    """How many more rows there were, of held-out clients, that it leaves out. Confidential."""
    is_outline: bool = False
    """Whether the features were only checked: in their place are zeros that take no memory.
    Everything that a plan needs is there, and nothing can be trained."""

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.client_names)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.first[-1])

    @cached_property
    def counts(self) -> Ints:
        """How many rows each client has: [clients]."""
        return np.diff(self.first)

    @cached_property
    def client_of(self) -> Ints:
        """Each row's client: [rows]."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}

    def once(self, name: Hashable, made: Callable[[], Made]) -> Made:
        """What follows from the data, which never change: made where it is first asked for, and
        shared by all who ask for it by this name."""
        if name not in self._made:
            self._made[name] = made()
        found: Made = self._made[name]
        return found

    @property
    def width(self) -> int:
        """Number of features of a row."""
        features = self.features
        return int((features.values if isinstance(features, ClientRows) else features).shape[-1])

    @property
    def longest(self) -> int:
        """Rows of the client that has the most."""
        return int(self.counts.max())

    @property
    def is_large(self) -> bool:
        """See `is_large`; never of `ClientRows`, which are computed client by client anyway."""
        if isinstance(self.features, ClientRows):
            return False
        return is_large(rows=self.rows, features=self.width)

    @property
    def nbytes(self) -> int:
        """Size of the features, in bytes, in memory or in a mapped file; 0 of an outline."""
        if self.is_outline:
            return 0
        features = self.features
        return int((features.values if isinstance(features, ClientRows) else features).nbytes)

    @property
    def row_bytes(self) -> int:
        """Size of what there is of each row beside its features, in bytes."""
        of_attributes = [(one.codes, one.numbers) for one in self.attributes]
        of_rows = (self.record_budgets, self.row_numbers, self.record_keys)
        arrays = (self.target, self.raw_target, *of_rows, *chain(*of_attributes))
        return sum(one.nbytes for one in arrays if one is not None)

    @property
    def side_by_side(self) -> Floats32:
        """The features of rows that are computed side by side. Raises TypeError for others, and for
        an outline."""
        if isinstance(self.features, ClientRows):
            raise TypeError("these rows are computed client by client")
        if self.is_outline:
            raise TypeError("the features of an outline were not loaded")
        return self.features

    def own(self, client: int) -> slice:
        """Where a client's rows lie."""
        return slice(int(self.first[client]), int(self.first[client + 1]))

    def rows_of(self, clients: Ints) -> Ints:
        """Where the rows of these clients lie, client after client: [their rows]."""
        counts = self.counts[clients]
        ends = np.cumsum(counts)
        begin = np.repeat(self.first[clients] - (ends - counts), counts)
        return begin + np.arange(len(begin))

    def of_rows(self, kept: Ints) -> "Federation":
        """The rows at these places, ascending, and the clients that have any of them."""
        features = self.features
        own: Features
        if isinstance(features, ClientRows):
            own = replace(features, values=features.values[kept])
        elif self.is_outline:
            own = no_cells(rows=len(kept), features=self.width)
        else:
            own = features[kept]
        clients, counts = np.unique(self.client_of[kept], return_counts=True)
        return replace(
            self,
            features=own,
            target=self.target[kept],
            raw_target=self.raw_target[kept],
            first=np.concatenate([[0], np.cumsum(counts)]),
            client_names=tuple(self.client_names[client] for client in clients.tolist()),
            attributes=tuple(attribute.of_rows(kept) for attribute in self.attributes),
            record_budgets=taken(self.record_budgets, kept),
            row_numbers=taken(self.row_numbers, kept),
            record_keys=taken(self.record_keys, kept),
            left_out=taken(self.left_out, kept),
            rows_removed=self.rows_removed + self.rows - len(kept),
        )

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name. Raises KeyError."""
        return {one.name: one for one in self.attributes}[name]


def taken(values: NDArray[Number] | None, kept: Ints) -> NDArray[Number] | None:
    """The values of some rows, where there are any values."""
    return None if values is None else values[kept]


DataKey = tuple[object, ...]


def data_key(spec: ExperimentSpec) -> DataKey:
    """Hashable; the files themselves, and who may read them, are not in it."""
    # Which clients are pooled follows from the rows that are scored, and from what may be shown.
    of_clients = (
        spec.federation.traits.client_key in spec.fairness.sensitive
        and spec.fairness.minimum_group_clients == 1
    )
    by_seed = spec.federation.traits.draws_data or spec.fairness.exclude or of_clients
    return (
        spec.federation.model_dump_json(),
        spec.seed if by_seed else None,
        tuple(spec.fairness.sensitive),
        repr(spec.fairness.edges),
        repr(spec.fairness.intersections),
        repr((spec.fairness.groups, spec.fairness.exclude)),
        spec.fairness.model_dump_json() if of_clients else None,
        spec.training.loss,
        spec.model.kind,
        spec.privacy.budget_column,
        spec.privacy.draws_by_record,
    )


_OF_A_ROW = 160
"""Its client, number, target and places, while it is loaded, and then for counting groups."""
_OF_AN_ATTRIBUTE = 24
_OF_A_CELL = 16
"""Bytes of a cell of data computed side by side: as loaded, in the order of clients, and padded."""
_OF_BLOCKS = 512 * 2**20
"""What is read at a time of data that are not: columns as they are read, rows of a cohort."""


def run_bytes(*, rows: int, features: int, attributes: int) -> int:
    """Bytes of memory, beyond a process with its libraries, that a run needs for its data."""
    of_rows = rows * (_OF_A_ROW + attributes * _OF_AN_ATTRIBUTE)
    if is_large(rows=rows, features=features):
        return of_rows + _OF_BLOCKS
    return of_rows + rows * features * _OF_A_CELL
