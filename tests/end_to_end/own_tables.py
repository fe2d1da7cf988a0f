"""Small tables of kinds that people bring, and what a person corrects of their registration."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

CLIENTS, ROWS = 30, 14
_RANDOM_SEED = 12


@dataclass(frozen=True)
class OwnTable:
    """A table, and what is corrected of what is proposed for it."""

    name: str
    lines: Callable[[np.random.Generator], Iterator[str]]
    registration: Callable[[dict[str, Any]], None] = lambda _: None
    """What a person corrects of what is proposed."""
    sensitive: tuple[str, ...] = ("sex",)
    said: tuple[str, ...] = ()
    """What the report says."""
    degenerate: bool = False
    number: bool = False
    """Whether the target is a number."""

    def content(self, *, seed: int = 0) -> bytes:
        """The CSV file; another seed is other content of the same kind."""
        random = np.random.default_rng(_RANDOM_SEED + seed)
        return "\n".join([*self.lines(random), ""]).encode()


def _people(random: np.random.Generator) -> Iterator[tuple[int, float, float]]:
    for client in range(CLIENTS):
        for _ in range(ROWS):
            yield client, *map(float, random.normal(size=2))


def _useless(random: np.random.Generator) -> Iterator[str]:
    """Nothing about a person says what becomes of them; only one of four passes."""
    yield "town,sex,x,z,passed"
    for client, x, z in _people(random):
        sex = "a" if random.random() < 0.4 else "b"
        yield f"t{client},{sex},{x:.3f},{z:.3f},{'yes' if random.random() < 0.25 else 'no'}"


def _coded(random: np.random.Generator) -> Iterator[str]:
    yield "town,sex,x,z,passed"
    for client, x, z in _people(random):
        yield f"t{client},{random.integers(1, 3)},{x:.3f},{z:.3f},{'yes' if x + z > 0 else 'no'}"


def _one_hot(random: np.random.Generator) -> Iterator[str]:
    yield "town,race_black,race_asian,x,z,passed"
    for client, x, z in _people(random):
        race = random.integers(3)
        ones = f"{int(race == 0)},{int(race == 1)}"
        yield f"t{client},{ones},{x:.3f},{z:.3f},{'yes' if x + z > 0 else 'no'}"


def _keyless(random: np.random.Generator) -> Iterator[str]:
    yield "town,sex,x,z,passed"
    for place, (client, x, z) in enumerate(_people(random)):
        sex = "a" if random.random() < 0.4 else "b"
        town = f"t{client}" if place % 11 else ""
        yield f"{town},{sex},{x:.3f},{z:.3f},{'yes' if x + z > 0 else 'no'}"


def _skewed(random: np.random.Generator) -> Iterator[str]:
    yield "town,sex,x,z,income"
    for client, x, z in _people(random):
        sex = "a" if random.random() < 0.4 else "b"
        income = 20_000 * np.exp(0.8 * x + 0.4 * random.normal())
        yield f"t{client},{sex},{x:.3f},{z:.3f},{income:.2f}"


def _with_labels(registration: dict[str, Any]) -> None:
    registration["federation"]["labels"] = {"sex": {"1": "men", "2": "women"}}


def _joined(registration: dict[str, Any]) -> None:
    columns = {"race_black": "black", "race_asian": "asian"}
    registration["federation"]["join"] = {"race": {"columns": columns, "none": "other"}}
    registration["fairness"]["sensitive"] = ["race"]


def _good_income(registration: dict[str, Any]) -> None:
    registration["fairness"]["favourable"] = {"op": "ge", "value": 20000}


OWN_TABLES = {
    one.name: one
    for one in (
        OwnTable("useless", _useless, degenerate=True),
        OwnTable("coded", _coded, registration=_with_labels, said=("men", "women")),
        OwnTable(
            "one-hot",
            _one_hot,
            registration=_joined,
            sensitive=("race",),
            said=("black", "asian", "other"),
        ),
        OwnTable("keyless", _keyless),
        OwnTable("skewed", _skewed, registration=_good_income, number=True),
    )
}
