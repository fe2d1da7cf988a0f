"""An alarm is rung by members who are found, and hardly ever by chance."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.membership.member_rates import Claim, contradiction_of
from fedaudit.attacks.membership.shadow_design import AttackedRows
from fedaudit.privacy.lower_bounds.e_values import EValue, is_alarm, run_evidence
from fedaudit.privacy.planning.plan import ObserverEpsilon


def claim(epsilon: float, *, delta: float) -> Claim:
    claimed = ObserverEpsilon(
        observer="final_model", delta=delta, adjacency="replace-one", value=epsilon
    )
    return Claim(claimed=claimed, unit="client", steps=1)


def attacked(
    *, clients: int, rows: int, held_out: int, generator: np.random.Generator
) -> AttackedRows:
    member = np.ones(clients, dtype=np.bool_)
    member[generator.choice(clients, held_out, replace=False)] = False
    client = np.repeat(np.arange(clients), rows)
    return AttackedRows(place=np.arange(len(client)), client=client, member=member[client])


def alarms(claimed: Claim, scores: NDArray[np.float64], rows: AttackedRows) -> bool:
    """As the first attack on a run."""
    e_value = contradiction_of(claimed, scores, rows).e_value
    return is_alarm(run_evidence([EValue(e_value, "run")]), e_value)


def test_members_who_stand_out_ring_it() -> None:
    generator = np.random.default_rng(1)
    rows = attacked(clients=600, rows=2, held_out=300, generator=generator)
    scores = generator.normal(size=len(rows)) + 3 * rows.member
    assert alarms(claim(0.5, delta=1e-6), scores, rows)
    found = contradiction_of(claim(0.5, delta=1e-6), scores, rows)
    assert "one row of each of 600 clients" in found.evidence
    assert "epsilon 0.5" in found.claim
    assert not alarms(claim(8.0, delta=1e-6), scores, rows)
    # So many rows may each fail with a chance of delta.
    assert not alarms(claim(0.5, delta=1e-4), scores, rows)


def test_clients_whose_rows_are_alike_ring_no_false_alarm() -> None:
    """Nothing is learnt; a few clients of another kind train or are held out by chance.

    Each of 400 runs alarms with a chance of at most 1 in 400, so more than 5 alarms come with one
    below 0.001; and e-values are 1 at most on average.
    """
    generator, found = np.random.default_rng(7), []
    for _ in range(400):
        rows = attacked(clients=100, rows=20, held_out=10, generator=generator)
        unlike = generator.random(100) < 0.1
        scores = generator.normal(size=len(rows)) + 5.0 * unlike[rows.client]
        found.append(contradiction_of(claim(0.1, delta=1e-6), scores, rows).e_value)
    assert sum(one >= 200 for one in found) <= 5
    assert np.mean(found) <= 1
