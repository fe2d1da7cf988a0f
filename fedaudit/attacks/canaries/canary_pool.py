"""Who can be a canary: clients that train, or records that are sampled. No torch."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np

from fedaudit.arrays import Floats, Ints
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.randomness import Purpose, Source, uniforms
from fedaudit.spec.attacks import CanariesSpec
from fedaudit.spec.errors import FieldError
from fedaudit.spec.privacy import NoMechanism
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.records import record_use_of, split_of, training_records

COLLIDING = 100
"""Parameters below which random directions collide: cosines spread by 1 / sqrt(n), a tenth here."""


@dataclass(frozen=True, eq=False)
class CanaryPool:
    """Canaries, ordered by their client; arrays [canaries]."""

    clients: Ints
    """Each canary, or the client that holds it, as an index of the federation."""
    release: Ints
    """Canaries with the same number share releases."""
    rows: Ints | None
    """The place among the client's training records; None if clients are canaries."""
    rates: Floats
    """The chance of a record in a step of its client; 1 if clients are canaries."""


def draw_pool(cell: Cell, count: int, source: Source) -> CanaryPool:
    """`count` possible canaries at random; of records those that are sampled most often.

    In a small model no client holds more canary records than the model has parameters. Raises
    ValueError if there are too few (`faults` refuses that before).
    """
    role = mechanism_of(cell.spec).facts.applied_by
    match role:
        case "clients" | "server":
            training, _ = split_of(cell.spec, cell.federation)
            chosen = np.sort(training[_shuffled(len(training), source)[:count]])
            shared = np.zeros(len(chosen), dtype=np.int64)
            release = shared if role == "server" else np.arange(len(chosen))
            pool = CanaryPool(chosen, release, None, np.ones(len(chosen)))
        case "local-steps":
            pool = _draw_records(cell, count, source)
        case _:
            assert_never(role)
    if len(pool.clients) < count:
        raise ValueError(f"{count} canaries were asked for, and there are {len(pool.clients)}")
    return pool


def faults(spec: CanariesSpec, cell: Cell, *, pointer: str) -> list[FieldError]:
    """Why the data cannot hold these canaries; `pointer` is that of the attack."""
    if isinstance(cell.spec.privacy, NoMechanism):
        why = "`none` claims nothing that canaries could test; use `membership`, or a mechanism"
        return [FieldError(f"{pointer}/kind", why, of_spec=True)]
    role, n = mechanism_of(cell.spec).facts.applied_by, cell.shape.n
    match role:
        case "clients" | "server":
            there, room = len(split_of(cell.spec, cell.federation)[0]), n
            words = "clients that train"
        case "local-steps":
            use = record_use_of(cell.spec, cell.federation)
            if use is None:
                raise ValueError(f"{cell.spec.privacy.mechanism} samples no records")
            sizes = np.bincount(use.client_of[~use.left_out])
            there = int(sizes.sum())
            room = there if n >= COLLIDING else int(np.minimum(sizes, n).sum())
            words = "records that train and are ever sampled"
        case _:
            assert_never(role)
    most = there if role == "clients" or n >= COLLIDING else min(there, room)
    if spec.count <= most:
        return []
    # No number of records: over many seeds it would give the sizes of clients.
    enough = "" if role == "local-steps" else f" to {most}"
    message = f"{spec.count} canaries are more than the {words}; lower `count`{enough}"
    if most < there:
        message = (
            f"canaries that share a release need orthogonal directions, and a model of {n} "
            f"parameters has {n}: beyond that, random directions collide (their cosines spread by "
            f"{n**-0.5:.2f}, and by 0.1 or less only from {COLLIDING} parameters on); lower "
            f"`count`{enough} or use a larger model"
        )
    return [FieldError(f"{pointer}/count", message)]


def _draw_records(cell: Cell, count: int, source: Source) -> CanaryPool:
    """Records by descending rate, those of one rate at random."""
    use = record_use_of(cell.spec, cell.federation)
    if use is None or use.runs is None:
        raise ValueError(f"{cell.spec.privacy.mechanism} has no noise that canaries could test")
    records = training_records(cell.spec, cell.federation)
    usable = np.flatnonzero(~use.left_out)
    usable = usable[_shuffled(len(usable), source)]
    usable = usable[np.argsort(-use.rates[usable], kind="stable")]
    if cell.shape.n < COLLIDING:
        usable = usable[rank_within(records.client_of[usable]) < cell.shape.n]
    chosen = np.sort(usable[:count])
    place = records.client_of[chosen]
    first = np.cumsum(records.counts) - records.counts
    return CanaryPool(records.clients[place], place, chosen - first[place], use.rates[chosen])


def rank_within(groups: Ints) -> Ints:
    """How many of the same group come before each, [members]."""
    order = np.argsort(groups, kind="stable")
    _, first, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - np.repeat(first, sizes)
    return rank


def _shuffled(size: int, source: Source) -> Ints:
    words = source.words(purpose=Purpose.ATTACK, round_=1, counters=np.arange(size), count=1)
    return np.argsort(uniforms(words[:, 0]), kind="stable")
