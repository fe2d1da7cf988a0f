"""Standardise columns to mean 0 and deviation 1, by statistics of the data themselves."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.levels import Levels
from fedaudit.federations.split import held_out_rows, split_clients
from fedaudit.spec.sources import Source
from fedaudit.spec.table import Standardise


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Which rows give a column's mean and deviation, and to which rows these are applied."""

    groups: NDArray[np.int64]
    """[rows]: rows of one group share mean and deviation."""
    counted: NDArray[np.bool_]
    """[rows]: whether a row contributes to the statistics of its group."""
    note: str

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """A column [rows] standardised; 0 where its group does not vary.

        The deviation is that of the rows themselves (divided by their number). Sums run row by
        row, so that they are the same on every machine.
        """
        groups, own = self.groups[self.counted], values[self.counted]
        total = int(self.groups.max(initial=-1)) + 1
        # A group may have no row that counts: it does not vary.
        rows = np.maximum(np.bincount(groups, minlength=total), 1)
        mean = np.bincount(groups, own, minlength=total) / rows
        centred = values - mean[self.groups]
        squares = np.square(centred[self.counted])
        variance = np.bincount(groups, squares, minlength=total) / rows
        # A mean of equal numbers may differ from them in its last bit.
        low, high = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
        np.minimum.at(low, groups, own)
        np.maximum.at(high, groups, own)
        varies = (low < high) & (variance > 0)
        deviation = np.sqrt(np.where(varies, variance, 1.0))
        return np.where(varies[self.groups], centred / deviation[self.groups], 0.0)


def standardiser(
    how: Standardise,
    clients: Levels,
    *,
    source: Source,
    seed: int,
    keys: NDArray[np.uint64] | None = None,
) -> Standardiser:
    """Standardisation over the rows of all training clients, or within each client.

    Held-out clients or rows depend on the experiment's seed. If rows are held out, only training
    rows are counted, which follow from the rows' `keys` [rows]. There must be at least two clients.
    Raises ValueError where keys are needed and missing.
    """
    codes = clients.codes
    match how:
        case "client":
            counted, whose = np.ones(len(codes), dtype=np.bool_), "its own rows"
        case "global":
            split = split_clients(
                len(clients.values), validation_fraction=source.validation_fraction, seed=seed
            )
            counted, whose = np.isin(codes, split.training), "all training clients' rows"
        case _:
            assert_never(how)
    if source.holds_out_rows:
        if keys is None:
            raise ValueError("which rows are held out follows from their keys")
        held_out = held_out_rows(keys, fraction=source.validation_fraction, seed=seed)
        counted, whose = ~held_out, "the rows that train"
    return _standardiser(how, codes, counted, whose)


def _standardiser(
    how: Standardise, codes: NDArray[np.int64], counted: NDArray[np.bool_], whose: str
) -> Standardiser:
    match how:
        case "client":
            return Standardiser(
                codes,
                counted,
                f"features standardised within each client, by the mean and deviation of {whose}, "
                "taken without noise",
            )
        case "global":
            return Standardiser(
                np.zeros(len(codes), dtype=np.int64),
                counted,
                f"features standardised by the mean and deviation of {whose}, taken without noise",
            )
        case _:
            assert_never(how)
