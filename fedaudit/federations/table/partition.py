"""Assign rows that name no client to clients, by the experiment's seed.

Everything is drawn by counter from (seed, PARTITION), so the same seed assigns the same rows to the
same clients on any machine, except for the last bit of logarithms in Dirichlet shares.
"""

from typing import assert_never

import numpy as np

from fedaudit.arrays import Floats, Ints
from fedaudit.federations.levels import Levels
from fedaudit.randomness import CounterSource, Purpose, normals, permutation, uniforms
from fedaudit.spec.errors import error_at
from fedaudit.spec.table import Dealt, Dirichlet, Iid, Shards

WHERE = "/federation/partition"
MAX_SHARES = 2**24
"""Classes times clients of a Dirichlet partition."""
_NAME_DIGITS = 4
_ATTEMPT_WORDS = 4


def deal_rows(
    partition: Dealt, target: Floats, *, classes: int, seed: int
) -> tuple[Levels, tuple[str, ...]]:
    """A client for each row, and notes on how they were made.

    `target` [rows] holds class indices below `classes`, or numbers where `classes` is 0. Clients
    are called client-0001, client-0002, ...; one that gets no row is left out. Raises
    InvalidInputError below /federation/partition where the rows are too few or the method does
    not fit the target.
    """
    _check_enough_rows(partition, len(target))
    match partition:
        case Iid():
            dealt = _evenly(len(target), partition.clients, seed=seed)
        case Shards():
            dealt = _by_shards(target, partition, seed=seed)
        case Dirichlet():
            dealt = _by_shares(target, partition, classes=classes, seed=seed)
        case _:
            assert_never(partition)
    clients = _named(dealt, partition.clients)
    notes = [dealt_note(partition)]
    if empty := partition.clients - len(clients.values):
        notes.append(f"clients without a row, left out: {empty}")
    return clients, tuple(notes)


def dealt_note(partition: Dealt) -> str:
    """How clients were made."""
    return f"rows dealt to {partition.clients} clients by the seed ({partition.method})"


def _check_enough_rows(partition: Dealt, rows: int) -> None:
    match partition:
        case Shards():
            parts, what = partition.clients * partition.shards_per_client, "shards"
        case Iid() | Dirichlet():
            parts, what = partition.clients, "clients"
        case _:
            assert_never(partition)
    if parts > rows:
        raise error_at(
            f"{WHERE}/clients", f"{parts} {what} are more than the {rows} rows; ask for fewer"
        )


def _evenly(rows: int, clients: int, *, seed: int) -> Ints:
    """Rows in random order, dealt in turn, so that client sizes differ by at most one row."""
    dealt = np.empty(rows, dtype=np.int64)
    dealt[permutation(rows, seed=seed, purpose=Purpose.PARTITION)] = np.arange(rows) % clients
    return dealt


def _by_shards(target: Floats, partition: Shards, *, seed: int) -> Ints:
    """Rows sorted by target (then by row) in shards of equal size, dealt at random."""
    rows, shards = len(target), partition.clients * partition.shards_per_client
    owner = permutation(shards, seed=seed, purpose=Purpose.PARTITION) // partition.shards_per_client
    dealt = np.empty(rows, dtype=np.int64)
    dealt[np.argsort(target, kind="stable")] = owner[np.arange(rows) * shards // rows]
    return dealt


def _by_shares(target: Floats, partition: Dirichlet, *, classes: int, seed: int) -> Ints:
    """Each class separately: its rows in random order, cut by shares from a Dirichlet distribution.

    Cuts are rounded from one random offset per class, so that a client's expected share is exact,
    however few rows a class has.
    """
    if not classes:
        raise error_at(
            f"{WHERE}/method",
            "`dirichlet` deals out classes, and the target is a number; use `iid` or `shards`, or "
            "train with `cross-entropy`",
        )
    clients = partition.clients
    if classes * clients > MAX_SHARES:
        raise error_at(
            f"{WHERE}/clients",
            f"{clients} clients with a share in each of {classes} classes are {classes * clients} "
            f"shares, and {MAX_SHARES} are allowed; ask for fewer clients",
        )
    source = CounterSource(seed)
    order = permutation(len(target), seed=seed, purpose=Purpose.PARTITION)
    order = order[np.argsort(target[order], kind="stable")]
    counts = np.bincount(target.astype(np.int64), minlength=classes)
    words = source.words(purpose=Purpose.PARTITION, round_=1, counters=np.arange(classes), count=1)
    offsets = uniforms(words)[:, 0]
    dealt = np.empty(len(target), dtype=np.int64)
    first = 0
    for index, count in enumerate(counts.tolist()):
        logs = _log_gammas(source, partition.alpha, first=index * clients, count=clients)
        cumulated = np.cumsum(np.exp(logs - logs.max()))
        cuts = np.floor(cumulated / cumulated[-1] * count + offsets[index])
        positions = np.arange(count)
        dealt[order[first : first + count]] = np.searchsorted(cuts, positions, side="right")
        first += count
    return dealt


def _log_gammas(source: CounterSource, alpha: float, *, first: int, count: int) -> Floats:
    """Logarithms of `count` Gamma(alpha, 1) numbers, by rejection (Marsaglia and Tsang 2000).

    Logarithms, because for a small alpha the numbers themselves are too small for a float:
    Gamma(alpha) is Gamma(alpha + 1) * U ** (1 / alpha). Each attempt reads words of its own.
    """
    d = alpha + 1 - 1 / 3
    c = 1 / np.sqrt(9 * d)
    found = np.full(count, np.nan)
    waiting = np.arange(count)
    attempt = 0
    while len(waiting):
        words = source.words(
            purpose=Purpose.PARTITION,
            round_=2 + attempt,
            counters=first + waiting,
            count=_ATTEMPT_WORDS,
        )
        x = normals(words[:, :2], np.float64)[:, 0]
        accept, power = uniforms(words[:, 2:]).T
        v = np.maximum((1 + c * x) ** 3, np.finfo(np.float64).tiny)
        taken = np.log(accept) < 0.5 * x * x + d - d * v + d * np.log(v)
        found[waiting[taken]] = (np.log(d * v) + np.log(power) / alpha)[taken]
        waiting = waiting[~taken]
        attempt += 1
    return found


def _named(dealt: Ints, clients: int) -> Levels:
    """Clients by name, without those that have no rows; names sort in numerical order."""
    digits = max(_NAME_DIGITS, len(str(clients)))
    present, codes = np.unique(dealt, return_inverse=True)
    names = tuple(f"client-{number + 1:0{digits}}" for number in present.tolist())
    return Levels(names, codes.astype(np.int64))
