"""The budget of every record: drawn from a distribution, or given in a column of the data.

The distributions are those of rPDP-FL (CCS 2024); a draw is clipped to a range. Each record has
random numbers of its own, by its key, so adding or removing a record changes no other budget.
"""

from typing import Literal, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.randomness import Purpose, keyed_words, wide_uniforms
from fedaudit.spec.errors import FieldError, InvalidInputError

Distribution = Literal["three-levels", "bounded-pareto", "bounded-mix-gauss"]

_SHARES = (0.7, 0.2, 0.1)
_LEVELS = (0.1, 1.0, 5.0)
_SPREADS = (0.05, 0.1, 0.5)
_PARETO_SHAPE = 4.0
_PARETO_SHIFT = 0.1
_NAMED_ROWS = 5


def draw_budgets(
    distribution: Distribution,
    *,
    seed: int,
    keys: NDArray[np.uint64],
    epsilon_min: float,
    epsilon_max: float,
) -> NDArray[np.float64]:
    """Budgets in [epsilon_min, epsilon_max]: float64 [records].

    `keys` [records]: a number for each that depends on no other record. `three-levels`: 0.1, 1 or 5
    with chances 0.7, 0.2, 0.1; `bounded-pareto`: 0.1 plus a Lomax (numpy's `pareto`) number of
    shape 4; `bounded-mix-gauss`: normal around the three levels with deviations 0.05, 0.1, 0.5, in
    the same shares.
    """
    check_range(epsilon_min=epsilon_min, epsilon_max=epsilon_max)
    unit = wide_uniforms(keyed_words(seed, purpose=Purpose.RECORD_BUDGETS, keys=keys, count=2))
    budgets = _budgets(distribution, unit[:, 0], unit[:, 1])
    return np.clip(budgets, epsilon_min, epsilon_max)


def _budgets(
    distribution: Distribution, first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A budget for every pair of uniform numbers, before clipping."""
    level = np.searchsorted(np.cumsum(_SHARES[:-1]), first, side="right")
    budgets = np.array(_LEVELS)[level]
    match distribution:
        case "bounded-pareto":
            pareto: NDArray[np.float64] = first ** (-1 / _PARETO_SHAPE) - 1 + _PARETO_SHIFT
            return pareto
        case "three-levels":
            return budgets
        case "bounded-mix-gauss":
            from scipy.special import ndtri

            mixed: NDArray[np.float64] = budgets + np.array(_SPREADS)[level] * ndtri(second)
            return mixed
        case _:
            assert_never(distribution)


def given_budgets(
    values: ArrayLike,
    *,
    rows: ArrayLike,
    epsilon_max: float,
    pointer: str = "/privacy/budgets/column",
) -> NDArray[np.float64]:
    """Budgets from a column, lowered to `epsilon_max` where they exceed it: float64 [records].

    A given budget is a promise to a data subject, so it is never raised: there is no lower end, and
    a budget too small to be sampled at all is left out later. `rows`: the names of records in
    messages. Raises InvalidInputError at `pointer`, naming rows, for a budget that is not a
    positive finite number.
    """
    check_range(epsilon_min=epsilon_max, epsilon_max=epsilon_max)
    budgets = np.asarray(values, dtype=np.float64)
    faults = [
        FieldError(pointer, f"{what} in {_named(np.asarray(rows)[wrong])}; {remedy}")
        for what, wrong, remedy in (
            ("no number", np.isnan(budgets), "give every record a budget, or drop it"),
            ("an infinite budget", np.isinf(budgets), "give a number; epsilon_max caps it"),
            ("a budget of zero", budgets == 0, "drop records that may not be used"),
            ("a negative budget", np.isfinite(budgets) & (budgets < 0), "budgets are positive"),
        )
        if wrong.any()
    ]
    if faults:
        raise InvalidInputError(faults)
    return np.minimum(budgets, epsilon_max)


def check_range(*, epsilon_min: float, epsilon_max: float) -> None:
    """Raises InvalidInputError unless 0 < epsilon_min <= epsilon_max, both finite."""
    if not (np.isfinite(epsilon_max) and epsilon_max > 0):
        raise InvalidInputError([FieldError("/privacy/epsilon_max", "must be positive and finite")])
    if not 0 < epsilon_min <= epsilon_max:
        raise InvalidInputError(
            [
                FieldError(
                    "/privacy/epsilon_min",
                    f"must be positive and not exceed epsilon_max = {epsilon_max:g}",
                )
            ]
        )


def _named(rows: NDArray[np.generic]) -> str:
    """The first few rows by name, and how many more there are."""
    names = ", ".join(str(row) for row in rows[:_NAMED_ROWS])
    more = len(rows) - _NAMED_ROWS
    return f"row{'s' if len(rows) > 1 else ''} {names}" + (f" and {more} more" if more > 0 else "")
