"""Small tables of kinds that people bring, and what a person corrects of their registration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

CLIENTS, ROWS = 30, 14
_RANDOM_SEED = 12


@dataclass(frozen=True)
class OwnTable:
    """A table, and what is corrected of what is proposed for it."""

    name: str
    columns: str
    row: Callable[[np.random.Generator, float, float], str]
    """Of a person with two features, without the town."""
    registration: Callable[[dict[str, Any]], None] = lambda _: None
    """What a person corrects of what is proposed."""
    sensitive: tuple[str, ...] = ("sex",)
    said: tuple[str, ...] = ()
    """What the report says."""
    without_key: int = 0
    """Every how many rows one has no town."""
    degenerate: bool = False
    number: bool = False
    """Whether the target is a number."""

    def content(self, *, seed: int = 0) -> bytes:
        """The CSV file; another seed is other content of the same kind."""
        random, lines = np.random.default_rng(_RANDOM_SEED + seed), [f"town,{self.columns}"]
        for place in range(CLIENTS * ROWS):
            has_key = not self.without_key or place % self.without_key
            town = f"t{place // ROWS}" if has_key else ""
            lines.append(f"{town},{self.row(random, *map(float, random.normal(size=2)))}")
        return "\n".join([*lines, ""]).encode()


def _sex(random: np.random.Generator) -> str:
    return "a" if random.random() < 0.4 else "b"


def _useless(random: np.random.Generator, x: float, z: float) -> str:
    """Nothing about a person says what becomes of them; only one of four passes."""
    return f"{_sex(random)},{x:.3f},{z:.3f},{'yes' if random.random() < 0.25 else 'no'}"


def _learnt(x: float, z: float) -> str:
    return f"{x:.3f},{z:.3f},{'yes' if x + z > 0 else 'no'}"


def _one_hot(random: np.random.Generator, x: float, z: float) -> str:
    race = random.integers(3)
    return f"{int(race == 0)},{int(race == 1)},{_learnt(x, z)}"


def _skewed(random: np.random.Generator, x: float, z: float) -> str:
    sex, income = _sex(random), 20_000 * np.exp(0.8 * x + 0.4 * random.normal())
    return f"{sex},{x:.3f},{z:.3f},{income:.2f}"


def _with_labels(registration: dict[str, Any]) -> None:
    registration["federation"]["labels"] = {"sex": {"1": "men", "2": "women"}}


def _joined(registration: dict[str, Any]) -> None:
    columns = {"race_black": "black", "race_asian": "asian"}
    registration["federation"]["join"] = {"race": {"columns": columns, "none": "other"}}
    registration["fairness"]["sensitive"] = ["race"]


def _good_income(registration: dict[str, Any]) -> None:
    registration["fairness"]["favourable"] = {"op": "ge", "value": 20000}


_PASSED = "sex,x,z,passed"
OWN_TABLES = {
    one.name: one
    for one in (
        OwnTable("useless", _PASSED, _useless, degenerate=True),
        OwnTable(
            "coded",
            _PASSED,
            lambda random, x, z: f"{random.integers(1, 3)},{_learnt(x, z)}",
            registration=_with_labels,
            said=("men", "women"),
        ),
        OwnTable(
            "one-hot",
            "race_black,race_asian,x,z,passed",
            _one_hot,
            registration=_joined,
            sensitive=("race",),
            said=("black", "asian", "other"),
        ),
        OwnTable(
            "keyless",
            _PASSED,
            lambda random, x, z: f"{_sex(random)},{_learnt(x, z)}",
            without_key=11,
        ),
        OwnTable("skewed", "sex,x,z,income", _skewed, registration=_good_income, number=True),
    )
}
