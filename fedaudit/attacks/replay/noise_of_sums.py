"""Stage noise, of a trusted server and of local steps on records."""

import math
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from fedaudit.attacks.replay.bounded_contributions import wide
from fedaudit.attacks.replay.passed_through import Floats, SumPassed
from fedaudit.attacks.replay.probed_noise import drawn_noise
from fedaudit.attacks.replay.replay_finding import Findings
from fedaudit.attacks.replay.replayed import Replayed
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.spec.privacy import GaussianCentral
from fedaudit.spec.training import FixedCohort, PoissonCohort
from fedaudit.training.base.cell import split_cells
from fedaudit.training.base.records import training_records

_FLOAT32 = 2.0**-23
_GRID = 2.0**-11
_CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class _Added:
    """What came out of a round, times the public divisor, less the hypotheses sent out; the sum;
    and the noise that was drawn for it at the scale charged: [k, n]."""

    round: int
    moved: Floats
    sums: Floats
    noise: Floats
    slack: float

    def away(self, factor: float) -> float:
        """How far it is from the sum and its noise, times a factor."""
        return float(np.linalg.norm(self.moved - factor * (self.sums + self.noise)))

    @property
    def factor(self) -> float:
        """The factor with which it is nearest to these."""
        whole = self.sums + self.noise
        return float((self.moved * whole).sum() / max(float(np.square(whole).sum()), 1e-300))


def check_noise_of_server(replayed: Replayed, findings: Findings) -> None:
    """Every round and every hypothesis has noise of its own, at the scale charged."""
    privacy = replayed.spec.privacy
    assert isinstance(privacy, GaussianCentral)
    multiplier = _of_updates(privacy)
    added: list[_Added] = []
    for round_ in range(1, replayed.base.rounds + 1):
        own = replayed.base.passed.sums[round_]
        drawn = drawn_noise(replayed, round_)
        if own.released is None or own.sums is None or own.theta is None or own.noise is None:
            findings.add(
                "noise",
                "noise of a round",
                round_=round_,
                allowed="noise in every round, whoever came",
                measured="none",
            )
            continue
        findings.expect(
            "noise",
            "noise drawn for this round",
            holds=np.array_equal(own.noise, drawn),
            round_=round_,
            allowed="what was drawn for this round",
            measured="other noise",
        )
        clip = replayed.clip(round_)
        assert clip is not None
        divisor = public_divisor(replayed)
        moved = (wide(own.released) - wide(own.theta)) * divisor
        largest = float(np.abs(wide(own.released)).max())
        slack = math.sqrt(drawn.size) * (_FLOAT32 * largest * divisor + _GRID * multiplier * clip)
        passed = _Added(round_, moved, wide(own.sums), drawn * multiplier * clip, slack)
        added.append(passed)
        if privacy.adaptive_clip is not None:
            _check_count(replayed, findings, round_, own)
    _check_added(added, findings)


def _check_added(rounds: list[_Added], findings: Findings) -> None:
    """What came out is the sum and its noise over the public divisor.

    Where it is a multiple of both alike, in every round, it is the divisor that is another.
    """
    off = [one for one in rounds if one.away(1.0) > one.slack]
    multiples = off and all(one.away(one.factor) <= one.slack for one in off)
    if multiples and any(np.linalg.norm(one.sums) > 10 * one.slack for one in off):
        for one in off:
            findings.add(
                "release",
                "divisor of sums",
                round_=one.round,
                allowed="the public number",
                measured=f"{1 / one.factor:.6g} times it",
            )
        off = []
    findings.looked("noise added", len(rounds))
    for one in off:
        unit = float(np.linalg.norm(one.noise))
        along = float(((one.moved - one.sums) * one.noise).sum()) / max(unit**2, 1e-300)
        findings.add(
            "noise",
            "noise added",
            round_=one.round,
            allowed="what was drawn, at the scale charged",
            measured=f"{along:.6g} times it",
        )


def public_divisor(replayed: Replayed) -> float:
    """What the sum for a hypothesis is divided by: clients of a round on average over k."""
    training = replayed.spec.training
    cohort = training.cohort
    match cohort:
        case FixedCohort():
            expected = float(cohort.clients)
        case PoissonCohort():
            expected = cohort.rate * split_cells([replayed.base.cell]).training.shape[1]
        case _:
            assert_never(cohort)
    return expected / training.hypotheses


def _of_updates(privacy: GaussianCentral) -> float:
    """What the count of updates within the clip leaves of the noise multiplier charged (Andrew et
    al. 2021, theorem 1)."""
    moving, multiplier = privacy.adaptive_clip, float(privacy.noise_multiplier)
    if moving is None:
        return multiplier
    left: float = (multiplier**-2 - (2 * moving.count_noise) ** -2) ** -0.5
    return left


def _check_count(replayed: Replayed, findings: Findings, round_: int, own: SumPassed) -> None:
    """The clip moved by the count of updates within it, and by the noise drawn for that."""
    privacy, clip = replayed.spec.privacy, replayed.clip(round_)
    assert isinstance(privacy, GaussianCentral)
    rule = privacy.adaptive_clip
    assert rule is not None
    assert clip is not None
    if own.next_clip is None or own.count_noise is None or own.within is None:
        findings.add(
            "noise",
            "noise on the count",
            round_=round_,
            allowed="noise in every round",
            measured="none",
        )
        return
    share = rule.quantile - math.log(own.next_clip / clip) / rule.step_size
    if not -0.99 < share < 1.99:  # beyond, a share is cut
        return
    expected_clients = public_divisor(replayed) * replayed.spec.training.hypotheses
    counted = own.within - (own.taking_part or 0) / 2
    added = (share - 0.5) * expected_clients - counted
    expected = own.count_noise * rule.count_noise
    slack = _GRID * rule.count_noise + _CLOSE * (abs(counted) + expected_clients)
    findings.expect(
        "noise",
        "noise on the count",
        holds=abs(added - expected) <= slack,
        round_=round_,
        allowed=expected,
        measured=added,
    )


def check_noise_of_steps(replayed: Replayed, findings: Findings) -> None:
    """Every step of every client has noise of its own, at the scale charged."""
    records = replayed.base.ledger_context.plan
    if records is None or records.records is None:
        return
    plan, clip = records.records.use.plan, replayed.charged.clip
    multipliers = _multipliers(replayed, plan)
    assert clip is not None
    for round_ in range(1, replayed.base.rounds + 1):
        for part in replayed.base.passed.steps[round_]:
            scale = np.array([multipliers[silo] for silo in part.silos.tolist()])[:, None] * clip
            findings.expect(
                "noise",
                "noise of a step",
                holds=len(part.unit_noise) == len(part.gradients) == len(part.sums),
                round_=round_,
                allowed=f"{len(part.sums)} draws for {len(part.sums)} steps",
                measured=f"{len(part.unit_noise)} draws",
            )
            for total, gradient, unit in zip(
                part.sums, part.gradients, part.unit_noise, strict=False
            ):
                given = wide(gradient) * part.normaliser
                added, expected = given - wide(total), unit * scale
                largest = np.abs(given).max(axis=-1)
                slack = math.sqrt(replayed.charged.n) * (
                    4 * _FLOAT32 * largest + _GRID * scale[:, 0]
                )
                away = np.linalg.norm(added - expected, axis=-1)
                findings.expect(
                    "noise",
                    "noise added",
                    holds=bool((away <= slack + _CLOSE * np.linalg.norm(expected, axis=-1)).all()),
                    round_=round_,
                    allowed=f"what was drawn, times {float(scale[away.argmax(), 0]):.6g}",
                    measured=f"what was drawn, times {_ratio(added, unit):.6g}",
                )


def _multipliers(replayed: Replayed, plan: RecordPlan) -> dict[int, float]:
    """By client of the federation, its noise over the clip, as its records are charged."""
    assert plan.runs is not None
    clients = training_records(replayed.spec, replayed.base.cell.federation).clients
    return {
        int(client): run.noise_multiplier for client, run in zip(clients, plan.runs, strict=True)
    }


def _ratio(added: Floats, unit: Floats) -> float:
    """By how much noise of length one was multiplied, by least squares."""
    return float((added * unit).sum() / max(float(np.square(unit).sum()), 1e-300))
