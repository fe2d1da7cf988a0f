"""Who can be a canary: clients that train, or records that are sampled. No torch."""

from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.split import split_clients
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.randomness import Purpose, Source, uniforms
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.errors import FieldError
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.records import record_use_of, training_records

COLLIDING = 100
"""Parameters below which random directions collide: cosines spread by 1 / sqrt(n), a tenth here."""


@dataclass(frozen=True, eq=False)
class CanaryPool:
    """Canaries, ordered by their client; arrays [canaries]."""

    clients: NDArray[np.int64]
    """In the federation's numbers: who each is, or whose record."""
    release: NDArray[np.int64]
    """Canaries of one number share releases."""
    rows: NDArray[np.int64] | None
    """The place among the client's records that train; None where clients are canaries."""
    rates: NDArray[np.float64]
    """The chance of a record in a step of its client; 1 where clients are canaries."""
    noise_multipliers: NDArray[np.float64] | None
    """Of each record's client; None where clients are canaries."""


def draw_pool(cell: Cell, count: int, source: Source) -> CanaryPool:
    """`count` of those who can be canaries, at random; of records those sampled most often.

    Raises ValueError for more than there are (`pool_faults` says so before).
    """
    role = mechanism_of(cell.spec).facts.applied_by
    match role:
        case "clients" | "server":
            training = _training_clients(cell)
            chosen = np.sort(training[_shuffled(len(training), source)[:count]])
            _check_count(chosen, count)
            shared = np.zeros(count, dtype=np.int64)
            release = shared if role == "server" else np.arange(count)
            return CanaryPool(chosen, release, None, np.ones(count), None)
        case "local-steps":
            return _records(cell, count, source)
        case _:
            assert_never(role)


def pool_faults(spec: CanariesSpec, cell: Cell, *, pointer: str) -> list[FieldError]:
    """Why there are not so many canaries, or no room for their directions."""
    role, n = mechanism_of(cell.spec).facts.applied_by, cell.shape.n
    match role:
        case "clients" | "server":
            there, room = len(_training_clients(cell)), n
            words = "clients that train"
        case "local-steps":
            sizes = _sampled_records_by_client(cell)
            there = int(sizes.sum())
            room = there if n >= COLLIDING else int(np.minimum(sizes, n).sum())
            words = "records that train and are ever sampled"
        case _:
            assert_never(role)
    if spec.count > there:
        return [
            FieldError(
                f"{pointer}/count",
                f"{spec.count} canaries are more than the {words}; lower `count`",
            )
        ]
    if role == "clients" or n >= COLLIDING or spec.count <= room:
        return []
    return [
        FieldError(
            f"{pointer}/count",
            f"canaries that share a release need directions of their own, and a model of {n} "
            f"parameters has {n}: beyond, random directions collide (their cosines spread by "
            f"{n**-0.5:.2f}, and by 0.1 or less only from {COLLIDING} parameters on); lower "
            f"`count` to {room} or use a larger model",
        )
    ]


def _training_clients(cell: Cell) -> NDArray[np.int64]:
    split = split_clients(
        cell.federation.clients,
        validation_fraction=cell.spec.federation.validation_fraction,
        seed=cell.spec.seed,
    )
    return np.sort(split.training.astype(np.int64))


def _sampled_records_by_client(cell: Cell) -> NDArray[np.int64]:
    use = record_use_of(cell.spec, cell.federation)
    if use is None:
        raise ValueError(f"{cell.spec.privacy.mechanism} samples no records")
    return np.bincount(use.client_of[~use.plan.left_out])


def _records(cell: Cell, count: int, source: Source) -> CanaryPool:
    """Records by descending rate, those of one rate at random; in a small model no more of a client
    than it has parameters."""
    use, records = record_use_of(cell.spec, cell.federation), None
    if use is None or use.plan.runs is None:
        raise ValueError(f"{cell.spec.privacy.mechanism} has no noise that canaries could test")
    records = training_records(cell.spec, cell.federation)
    usable = np.flatnonzero(~use.plan.left_out)
    usable = usable[_shuffled(len(usable), source)]
    usable = usable[np.argsort(-use.plan.rates[usable], kind="stable")]
    if cell.shape.n < COLLIDING:
        usable = usable[_rank_within(records.client_of[usable]) < cell.shape.n]
    chosen = np.sort(usable[:count])
    _check_count(chosen, count)
    place = records.client_of[chosen]
    first = np.cumsum(records.counts) - records.counts
    noise = np.array([run.noise_multiplier for run in use.plan.runs])
    return CanaryPool(
        clients=records.clients[place],
        release=place,
        rows=chosen - first[place],
        rates=use.plan.rates[chosen],
        noise_multipliers=noise[place],
    )


def _rank_within(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the same group come before each."""
    order = np.argsort(groups, kind="stable")
    _, first, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - np.repeat(first, sizes)
    return rank


def _shuffled(size: int, source: Source) -> NDArray[np.int64]:
    words = source.words(purpose=Purpose.ATTACK, round_=1, counters=np.arange(size), count=1)
    return np.argsort(uniforms(words[:, 0]), kind="stable")


def _check_count(chosen: NDArray[np.int64], count: int) -> None:
    if len(chosen) < count:
        raise ValueError(f"{count} canaries were asked for, and there are {len(chosen)}")
