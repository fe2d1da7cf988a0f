"""A record that comes or goes changes nothing but itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedaudit.federations.federation import Federation
from fedaudit.federations.load import load_federation
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_admitted
from fedaudit.training.base.records import record_use_of, training_records, validation_rows
from tests.training.federations import TABLE, federation, one_by_one, padded
from tests.training.personalised import records_spec


def a_spec(seed: int, *, distribution: str = "bounded-pareto", **table: Any) -> ExperimentSpec:
    return parse_admitted(
        records_spec(
            seed=seed,
            federation={**TABLE, "validation_fraction": 1 / 3, "validation_unit": "record"} | table,
            fairness={},
            privacy__budgets={"distribution": distribution},
            privacy__epsilon_min=0.01,
        )
    )


def fates(spec: ExperimentSpec, data: Federation) -> list[float]:
    """The budget of each record that trains, and 0 of one that is held out."""
    place, use = training_records(spec, data).place, record_use_of(spec, data)
    assert use is not None
    found = np.zeros(data.rows)
    found[place] = use.budgets
    try:
        others = validation_rows(spec, data).place
    except InvalidInputError:
        others = np.empty(0, np.int64)  # coins may hold out none of a few rows
    assert np.flatnonzero(found == 0).tolist() == others.tolist()
    return found.tolist()


@pytest.fixture(scope="module")
def silo() -> list[str]:
    """131 lines of a silo, with repeated ones among them, beside a silo that stays."""
    random = np.random.default_rng(1)
    return [f"a,{x},{y}" for x, y in random.integers(0, 12, (131, 2)).tolist()]


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)), max_size=25)
FIXED = [(client, 9, y) for client in range(3) for y in range(6)]


def by_client(rows: list[tuple[int, int, int]]) -> list[int]:
    """Where the rows of `of_rows` are in the list."""
    return sorted(range(len(rows)), key=lambda place: rows[place][0])


def of_rows(rows: list[tuple[int, int, int]]) -> Federation:
    clients = [[row for row in rows if row[0] == client] for client in range(3)]
    return federation(
        [np.array([[x] for _, x, _ in own], dtype=float) for own in clients],
        [np.array([y for _, _, y in own], dtype=float) for own in clients],
    )


@settings(max_examples=30, deadline=None)
@given(
    rows=ROWS,
    new=st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)),
    place=st.integers(0, 25),
    seed=st.integers(0, 2**53 - 1),
    distribution=st.sampled_from(["three-levels", "bounded-pareto", "bounded-mix-gauss"]),
)
@example(rows=[(0, 1, 1)] * 20, new=(0, 1, 1), place=0, seed=1, distribution="bounded-pareto")
def test_any_record_that_comes_or_goes_changes_nothing_but_itself(
    rows: list[tuple[int, int, int]],
    new: tuple[int, int, int],
    place: int,
    seed: int,
    distribution: str,
) -> None:
    spec = a_spec(seed, distribution=distribution)
    fewer = [*rows, *FIXED]
    more = [*rows[:place], new, *rows[place:], *FIXED]
    # Each by its place, since those that training sees alike may be different people.
    found = fates(spec, of_rows(more))
    del found[by_client(more).index(min(place, len(rows)))]
    assert found == fates(spec, of_rows(fewer))


def test_the_order_of_the_rows_has_no_say() -> None:
    random = np.random.default_rng(4)
    rows = [(int(c), int(x), int(y)) for c, x, y in random.integers(0, [3, 50, 2], (80, 3))]
    shuffled = [rows[place] for place in random.permutation(80)]
    spec, data = a_spec(7), of_rows(rows)
    found = [
        sorted(
            zip(map(rows_.__getitem__, by_client(rows_)), fates(spec, of_rows(rows_)), strict=True)
        )
        for rows_ in (rows, shuffled)
    ]
    assert found[0] == found[1]
    flat = one_by_one(data)
    assert training_records(spec, flat).row.tolist() == training_records(spec, data).row.tolist()


def test_what_a_spec_makes_of_a_table_changes_no_coin(tmp_path: Path, silo: list[str]) -> None:
    lines = [f"{line},{'uvw'[place % 3]}" for place, line in enumerate(silo)]
    (tmp_path / "a.csv").write_text("\n".join(["who,x,y,z", *lines, "b,1,1,u", "b,2,2,v"]))
    ordinal = {"name": "z", "kind": "categorical", "categories": ["u", "v", "w"]}
    found = [
        training_records(spec, load_federation(spec, sources_dir=tmp_path)).place
        for spec in (
            a_spec(3, features=["x", ordinal]),
            a_spec(3, features=["x", ordinal], scale={"x": 100}),
            a_spec(3, features=[ordinal, "x"], standardise="global"),
            a_spec(3, features=["x", {**ordinal, "categories": ["w", "v", "u", "t"]}]),
        )
    ]
    for place in found[1:]:
        assert place.tolist() == found[0].tolist()
    other = a_spec(3, features=["x"])
    assert len(training_records(other, load_federation(other, sources_dir=tmp_path)).row)


def test_records_that_are_alike_share_a_coin_and_a_budget() -> None:
    alike = of_rows([(0, 1, 1)] * 40 + FIXED)
    found = [set(fates(a_spec(seed), alike)[:40]) for seed in range(20)]
    assert {len(one) for one in found} == {1}
    # 20 coins of 2/3: all alike with a chance of 3e-4, by seeds that are fixed.
    assert {0.0 in one for one in found} == {False, True}
    assert len({one.pop() for one in found}) > 2


def test_a_table_and_its_partitions_are_read_alike(tmp_path: Path, silo: list[str]) -> None:
    # More rows than are joined at once.
    lines = [f"{'ab'[row % 2]},{row},{row % 5}" for row in range(20_000)]
    (tmp_path / "a.csv").write_text("\n".join(["who,x,y", *lines]))
    data = load_federation(a_spec(0), sources_dir=tmp_path)
    assert data.record_keys is not None
    assert len(np.unique(data.record_keys)) == 20_000
    short = "\n".join(["who,x,y", *lines[-400:]])
    (tmp_path / "a.csv").write_text(short)
    part = load_federation(a_spec(0), sources_dir=tmp_path)
    assert part.record_keys is not None
    assert part.record_keys.tolist() == padded(data, data.record_keys)[:, -200:].ravel().tolist()
