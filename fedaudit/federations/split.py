"""Which clients train, which are held out, and which of their rows are scored."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Ints, Ints32
from fedaudit.federations.federation import Federation
from fedaudit.federations.record_keys import record_keys
from fedaudit.randomness import CounterSource, Purpose, keyed_words, permutation, wide_uniforms
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.sources import Source


@dataclass(frozen=True, eq=False)
class Split:
    """Client indices, each ascending; together they are every client once."""

    training: Ints32
    validation: Ints32


def validation_clients(clients: int, *, validation_fraction: float) -> int:
    """How many of the clients are held out: the nearest whole number, at least 1, never all.

    Raises ValueError below two clients.
    """
    if clients < 2:
        raise ValueError("a federation of fewer than two clients cannot be split")
    return min(clients - 1, max(1, int(clients * validation_fraction + 0.5)))


def training_clients(clients: int, source: Source) -> int:
    """How many of the clients train: all of them where rows instead of clients are held out."""
    if source.holds_out_rows:
        return clients
    return clients - validation_clients(clients, validation_fraction=source.validation_fraction)


def split_clients(federation_clients: int, *, validation_fraction: float, seed: int) -> Split:
    """Split the clients at random by the experiment's seed. Raises ValueError below two clients."""
    held_out = validation_clients(federation_clients, validation_fraction=validation_fraction)
    order = permutation(federation_clients, seed=seed, purpose=Purpose.SPLIT).astype(np.int32)
    return Split(training=np.sort(order[held_out:]), validation=np.sort(order[:held_out]))


def scored_rows(rows: Ints, *, clients: Ints, fraction: float, seed: int) -> Bools:
    """Which rows of these clients are scored, client after client: bool [their rows]; the others
    choose.

    `rows` [clients]: how many rows each has. The nearest whole number of them is drawn at random by
    the experiment's seed, but at least one, and one is left to choose by. The only row of a client
    is scored. A client's draw depends on its own rows alone.
    """
    nearest = (rows * fraction + 0.5).astype(np.int64)
    count = np.maximum(1, np.minimum(nearest, rows - 1))
    ends = np.cumsum(rows)
    scored = np.zeros(ends[-1] if len(ends) else 0, dtype=np.bool_)
    for length in np.unique(rows):
        # Clients with as many rows together; how they are grouped changes no draw.
        own = np.flatnonzero(rows == length)
        words = CounterSource(seed).words(
            purpose=Purpose.ROWS, round_=0, counters=clients[own], count=int(length)
        )
        rank = words.argsort(-1, kind="stable").argsort(-1)
        first = ends[own] - length
        scored[first[:, None] + np.arange(length)] = rank < count[own, None]
    return scored


def share_of_rows(rows: Ints, *, fraction: float, seed: int) -> Bools:
    """Which rows of clients validate and do not train, client after client: bool [their rows].

    `rows` [clients]: how many rows each client has, ascending by client. The nearest whole number
    of them is held out, at least one and never all; the only row of a client trains. So which
    clients train does not depend on the data, and a client's draw on nothing but how many rows it
    has.
    """
    held_out = scored_rows(rows, clients=np.arange(len(rows)), fraction=fraction, seed=seed)
    return held_out & np.repeat(rows > 1, rows)


def held_out(spec: ExperimentSpec, federation: Federation) -> Bools:
    """Which rows are held out where rows of every client are, by a coin for each record if the
    unit of privacy is a record, or else by `share_of_rows`: bool [rows]."""
    fraction, seed = spec.federation.validation_fraction, spec.seed
    if spec.privacy.draws_by_record:
        return held_out_rows(record_keys(federation), fraction=fraction, seed=seed)
    return share_of_rows(federation.counts, fraction=fraction, seed=seed)


def held_out_rows(keys: NDArray[np.uint64], *, fraction: float, seed: int) -> Bools:
    """Which records validate and do not train, by a coin for each: bool, of the shape of `keys`.

    Each is held out with chance `fraction`, whatever other records there are, and together with
    those of the same key. The seed is public, so knowing it and a record is knowing the record's
    coin. A client may be left with no row that trains, or with none that validates.
    """
    coins = keyed_words(seed, purpose=Purpose.HELD_OUT_RECORDS, keys=keys, count=1)[..., 0]
    held_out: Bools = wide_uniforms(coins) < fraction
    return held_out
