"""Rows dealt to clients: each once, by the seed, as evenly or unevenly as was asked for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.federations.levels import Levels
from fedaudit.federations.table import table_federation
from fedaudit.federations.table.table_federation import deal_rows
from fedaudit.spec.table import Dirichlet, Iid, Shards
from tests.federations.conftest import CLASSIFIER, Load, Refuse

CLASSES = 7
PARTITIONS = st.one_of(
    st.builds(Iid, method=st.just("iid"), clients=st.integers(2, 20)),
    st.builds(
        Shards,
        method=st.just("shards"),
        clients=st.integers(2, 10),
        shards_per_client=st.integers(1, 3),
    ),
    st.builds(
        Dirichlet,
        method=st.just("dirichlet"),
        clients=st.integers(2, 20),
        alpha=st.sampled_from([1e-6, 1e-3, 0.1, 1.0, 50.0, 1e6]),
    ),
)


def targets(rows: int, *, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Class indices, some classes rare."""
    drawn = np.random.default_rng(seed).exponential(1.5, rows).astype(np.int64)
    return np.minimum(drawn, CLASSES - 1).astype(np.float64)


def deal(
    asked: Iid | Dirichlet | Shards, rows: int, *, seed: int = 1
) -> tuple[Levels, tuple[str, ...]]:
    return deal_rows(asked, targets(rows), classes=CLASSES, seed=seed)


def dirichlet(clients: int, alpha: float) -> Dirichlet:
    return Dirichlet(method="dirichlet", clients=clients, alpha=alpha)


@settings(max_examples=60, deadline=None)
@given(asked=PARTITIONS, rows=st.integers(30, 400), seed=st.integers(0, 2**53 - 1))
def test_every_row_goes_to_one_client_that_has_a_row(asked, rows, seed):
    clients, notes = deal(asked, rows, seed=seed)
    again, _ = deal(asked, rows, seed=seed)

    assert clients.codes.shape == (rows,)
    assert np.array_equal(clients.codes, again.codes)
    counts = np.bincount(clients.codes, minlength=len(clients.values))
    assert counts.sum() == rows
    assert counts.min() >= 1
    assert list(clients.values) == sorted(set(clients.values))
    left_out = asked.clients - len(clients.values)
    assert (f"clients without a row, left out: {left_out}" in notes) == (left_out > 0)
    if not isinstance(asked, Dirichlet):
        assert left_out == 0
    if isinstance(asked, Iid):
        assert np.ptp(counts) <= 1


def test_iid_does_not_follow_the_order_of_the_file() -> None:
    """Rows beside each other meet at a client as often as any two: 1 in 10, within 5 deviations
    (a false alarm in about 1 of 2,000,000 seeds, and the seed is fixed)."""
    dealt, _ = deal(Iid(method="iid", clients=10), 20_000)
    together = np.mean(dealt.codes[1:] == dealt.codes[:-1])
    assert abs(together - 0.1) < 5 * np.sqrt(0.1 * 0.9 / 20_000)


@given(clients=st.integers(2, 12), per_client=st.integers(1, 4), rows=st.integers(60, 300))
def test_shards_are_runs_of_sorted_rows_and_every_client_has_its_number(clients, per_client, rows):
    asked = Shards(method="shards", clients=clients, shards_per_client=per_client)
    target = np.random.default_rng(3).normal(size=rows)
    dealt, _ = deal_rows(asked, target, classes=0, seed=5)

    runs = 1 + np.count_nonzero(np.diff(dealt.codes[np.argsort(target, kind="stable")]))
    assert runs <= clients * per_client
    counts = np.bincount(dealt.codes)
    assert counts.max() - counts.min() <= per_client
    assert len(counts) == clients


@pytest.mark.parametrize("alpha", [1e-3, 0.5, 1e6])
def test_shares_have_the_moments_of_the_distribution(alpha: float) -> None:
    """Of 4 clients a share has mean 1/4 and variance 1/4 * 3/4 / (4 * alpha + 1).

    400 seeds; five standard errors (false alarm in 1 of 500,000 choices of seeds, which are
    fixed)."""
    target = np.zeros(1000)
    drawn = np.empty(400)
    for seed in range(len(drawn)):
        dealt, _ = deal_rows(dirichlet(4, alpha), target, classes=1, seed=seed)
        first = [code for code, name in enumerate(dealt.values) if name == "client-0001"]
        drawn[seed] = np.mean(np.isin(dealt.codes, first))
    variance = 0.25 * 0.75 / (4 * alpha + 1)
    assert abs(drawn.mean() - 0.25) < 5 * np.sqrt(variance / len(drawn)) + 1e-4
    squares = (drawn - 0.25) ** 2
    assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(len(drawn)) + 1e-6


def test_rare_classes_go_to_everybody_alike() -> None:
    """One row, equal shares, 10 clients: over 1,000 seeds each client gets it about 100 times.

    Chi-squared with 9 degrees of freedom passes 33.7 in 1 of 10,000 choices of seeds (fixed)."""
    winners = [
        deal_rows(dirichlet(10, 1e6), np.repeat([0.0, 1.0], [1, 20]), classes=2, seed=seed)
        for seed in range(1000)
    ]
    counts = np.bincount([int(d.values[d.codes[0]][-4:]) - 1 for d, _ in winners], minlength=10)
    assert ((counts - 100) ** 2 / 100).sum() < 33.7


def test_the_dealing_is_the_same_for_ever() -> None:
    """Stored specs must give the federation that they gave."""
    target = np.arange(12.0) % 3
    iid, _ = deal_rows(Iid(method="iid", clients=3), target, classes=3, seed=7)
    shards, _ = deal_rows(Shards(method="shards", clients=3), target, classes=3, seed=7)
    uneven, _ = deal_rows(dirichlet(3, 0.5), target, classes=3, seed=7)
    assert "".join(map(str, iid.codes)) == "021121002120"
    assert "".join(map(str, shards.codes)) == "102102021021"
    assert "".join(map(str, uneven.codes)) == "111011011211"


def table(rows: int = 40) -> str:
    lines = "".join(f"{row},{row % 3},{row % 4}\n" for row in range(rows))
    return "x,place,cost\n" + lines


def dealt(method: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "federation.client_key": None,
        "federation.partition": method,
        "federation.features": ["x"],
        **changes,
    }


def test_rows_of_a_table_are_dealt_by_the_seed_and_the_fingerprint_is_not(load: Load) -> None:
    asked = dealt({"method": "iid", "clients": 12})
    one, other = load({**asked, "seed": 1}, data=table()), load({**asked, "seed": 2}, data=table())
    assert one.client_names == tuple(f"client-{number:04}" for number in range(1, 13))
    assert sorted(one.features[:, 0].tolist()) == list(range(40))
    assert "rows dealt to 12 clients by the seed (iid)" in one.notes
    assert not np.array_equal(one.features, other.features)
    assert one.fingerprint == other.fingerprint


def test_rows_are_left_out_before_they_are_dealt(load: Load) -> None:
    gap = {"name": "x", "missing": "drop-row"}
    data = table().replace("5,2,1\n", ",2,1\n", 1)
    asked = dealt({"method": "iid", "clients": 13}, **{"federation.features": [gap]})
    federation = load(asked, data=data)
    assert federation.rows == 39
    assert federation.counts.tolist() == [3] * 13


def iid(clients: int) -> dict[str, Any]:
    return {"method": "iid", "clients": clients}


def by_class(clients: int, alpha: float = 1.0) -> dict[str, Any]:
    return {"method": "dirichlet", "clients": clients, "alpha": alpha}


SHARDS = {"method": "shards", "clients": 20, "shards_per_client": 3}
ONLY_PLACE = {"federation.features": ["place"]}


@pytest.mark.parametrize(
    ("method", "changes", "pointer", "says"),
    [
        (iid(41), {}, "clients", "41 clients are more than the 40 rows"),
        (SHARDS, {}, "clients", "60 shards are more than the 40 rows"),
        (by_class(4), {}, "method", "use `iid` or `shar"),
        (by_class(41), CLASSIFIER, "clients", "more than the 40 rows"),
        (by_class(5), CLASSIFIER, "clients", "20 shares"),
        ({"method": "column", "column": "city"}, {}, "column", "no column 'city'"),
        ({"method": "column", "column": "x"}, ONLY_PLACE, "column", "'x' is different in every"),
    ],
)
def test_partitions_that_do_not_fit(refuse, monkeypatch, method, changes, pointer, says):
    monkeypatch.setattr(table_federation, "MAX_SHARES", 19)
    faults = refuse(dealt(method, **changes), data=table())
    assert list(faults) == [f"/federation/partition/{pointer}"]
    assert says in faults[f"/federation/partition/{pointer}"]


def test_everything_at_one_client_is_no_federation(load: Load, refuse: Refuse) -> None:
    """With alpha = 1e-6 one client takes all of a class, by some seeds of both."""
    asked = dealt(by_class(2, 1e-6), **CLASSIFIER)
    data = "x,place,cost\n1,1,1\n2,1,0\n3,1,0\n"
    assert load({**asked, "seed": 1}, data=data).clients == 2
    assert "one client" in refuse({**asked, "seed": 0}, data=data)["/federation/partition"]
