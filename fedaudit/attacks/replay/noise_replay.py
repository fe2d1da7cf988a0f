"""Stage noise: what was drawn for a round is what was added, at the scale charged, and has the law
that was charged for.

Drawing costs little beside training: the rounds that a run has left, and rounds that no run
reaches, are drawn in blocks as an engine draws them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import cdist

from fedaudit.arrays import Floats, Ints
from fedaudit.attacks.replay.neighbours import Replayed
from fedaudit.attacks.replay.noise_laws import (
    Tests,
    as_normal,
    dependence_law,
    gaussian_law,
    laplace_law,
)
from fedaudit.attacks.replay.replay_finding import Checks, Findings
from fedaudit.attacks.replay.round_replay import FLOAT32, GRID, public_divisor, upload_slack
from fedaudit.attacks.replay.watched_run import SumPassed, UploadsPassed, wide
from fedaudit.ledger.rows import Outcome
from fedaudit.networks.shape import layer_sizes
from fedaudit.privacy.noise.laplace import layer_slices
from fedaudit.spec.privacy import GaussianCentral, GaussianDistance
from fedaudit.training.base.records import training_records
from fedaudit.training.stacked.stack_round import build_draws

_CLOSE = 1e-6
_TINY = 1e-300
_PROBED_NUMBERS = 1 << 17
_MOST_ROUNDS = 4000
_BEYOND = 1 << 20
"""The first of the rounds that no run reaches."""
_BLOCK = 64


def check_noise(replayed: Replayed, findings: Findings) -> None:
    """Every round and every hypothesis, upload or step has separate noise, at the scale charged."""
    if replayed.role == "server":
        _check_noise_of_server(replayed, findings)
    elif replayed.role == "local-steps":
        _check_noise_of_steps(replayed, findings)
    elif replayed.charged.noise_multiplier is not None:
        _check_noise_of_uploads(replayed, findings)


# -- clients that protect their uploads -----------------------------------------------------------


def _check_noise_of_uploads(replayed: Replayed, findings: Findings) -> None:
    for round_ in replayed.rounds:
        at, columns = findings.at("noise", round_), replayed.base.columns[round_ - 1]
        # For each client, the radii of its release by the ledger, [layers]; NaN without a release.
        subjects = columns.subjects[0].tolist()
        rows = columns.radii[0].reshape(len(subjects), -1)
        released = (columns.outcomes[0] == Outcome.RELEASED)[:, None]
        charged = dict(zip(subjects, np.where(released, rows, np.nan), strict=True))
        for clients, part in replayed.uploads(round_):
            drawn = drawn_noise(replayed, round_, clients)
            at.expect(
                "noise drawn for this round",
                part.noise is not None and np.array_equal(part.noise, drawn),
                allowed="what was drawn for this round and its clients",
                measured="other noise",
            )
            radii = np.array([charged[client] for client in clients.tolist()])
            _check_radii(replayed, at, part, radii)
            _check_added_to_uploads(replayed, at, part, drawn=drawn, radii=radii)


def _check_radii(replayed: Replayed, at: Checks, part: UploadsPassed, radii: Floats) -> None:
    """A radius is the public one, or the norm of the client's update, clipped."""
    charged, sizes = replayed.charged, replayed.laplace_sizes
    if part.radii is None or sizes is None:
        return
    update = wide(part.updated - part.start)
    lengths = np.stack(
        [np.linalg.norm(update[:, own], axis=-1) for own in layer_slices(sizes)], axis=-1
    )
    if charged.clip is not None:
        whole = np.linalg.norm(lengths, axis=-1, keepdims=True)
        lengths = lengths * np.minimum(1.0, charged.clip / np.maximum(whole, _TINY))
    expected = np.maximum(lengths, charged.radius_floor or 0.0)
    if charged.radius is not None:
        expected = np.full_like(lengths, charged.radius)
    for own, allowed in zip(radii, expected, strict=True):
        if np.isfinite(own).all():
            close = bool(np.allclose(own, allowed, rtol=_CLOSE, atol=0))
            at.expect("radius", close, allowed=allowed.tolist(), measured=own.tolist())


def _check_added_to_uploads(
    replayed: Replayed, at: Checks, part: UploadsPassed, *, drawn: Floats, radii: Floats
) -> None:
    """What a release has beyond its bare update is what was drawn, at the scale charged."""
    charged, added = replayed.charged, wide(part.uploads) - replayed.bare(part)
    multiplier, sizes = charged.noise_multiplier or 0.0, replayed.laplace_sizes
    scale = np.full(added.shape, multiplier * (charged.clip or 0.0))
    for layer, own in enumerate(layer_slices(sizes) if sizes is not None else ()):
        scale[:, own] = multiplier / (sizes or ())[layer] * radii[:, [layer]]
    slack = upload_slack(replayed, part)
    for one, expected, finite in zip(added, scale * drawn, part.finite.tolist(), strict=True):
        size = float(np.linalg.norm(expected))
        if not finite or not np.isfinite(expected).all() or slack > size / 4:
            continue
        away = float(np.linalg.norm(one - expected))
        at.expect(
            "noise added",
            away <= slack + _CLOSE * size,
            allowed=f"a vector of length {size:.6g}, as it was drawn and charged",
            measured=f"one of length {np.linalg.norm(one):.6g}, {away:.3g} away",
        )


# -- a trusted server -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Added:
    """What came out of a round, times the public divisor, less the hypotheses sent out; the sum;
    and the noise that was drawn for it at the scale charged: [k, n]."""

    at: Checks
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
        return _least_squares(self.moved, self.sums + self.noise)


def _multiplier_of_server(replayed: Replayed, own: SumPassed) -> float:
    """The standard deviation of a round's noise over the clip, by the spec and what passed."""
    privacy = replayed.spec.privacy
    if isinstance(privacy, GaussianDistance):
        updates = wide(torch.cat(own.updates))
        updates = updates[np.isfinite(updates).all(-1)]
        within = layer_slices(layer_sizes(replayed.base.cell.shape))
        apart = np.mean([cdist(updates[:, one], updates[:, one]) for one in within], axis=0)
        distance = max(privacy.distance_floor, float(apart.max(initial=0.0)))
        return float(privacy.noise_multiplier) / distance
    assert isinstance(privacy, GaussianCentral)
    multiplier = float(privacy.noise_multiplier)
    if privacy.adaptive_clip is not None:
        # What the count of updates within the clip leaves (Andrew et al. 2021, theorem 1).
        multiplier = (multiplier**-2 - (2 * privacy.adaptive_clip.count_noise) ** -2) ** -0.5
    return multiplier


def _check_noise_of_server(replayed: Replayed, findings: Findings) -> None:
    added: list[_Added] = []
    for round_ in replayed.rounds:
        drawn = drawn_noise(replayed, round_)
        at, own = findings.at("noise", round_), replayed.base.passed.sums[round_]
        if own.released is None or own.sums is None or own.theta is None or own.noise is None:
            at.add("noise of a round", allowed="noise in every round", measured="none")
            continue
        at.expect(
            "noise drawn for this round",
            np.array_equal(own.noise, drawn),
            allowed="what was drawn for this round",
            measured="other noise",
        )
        clip, divisor = replayed.clip(round_), public_divisor(replayed)
        multiplier = _multiplier_of_server(replayed, own)
        assert clip is not None
        released = wide(own.released)
        largest = float(np.abs(released).max())
        slack = math.sqrt(drawn.size) * (FLOAT32 * largest * divisor + GRID * multiplier * clip)
        moved, noise = (released - wide(own.theta)) * divisor, drawn * multiplier * clip
        added.append(_Added(at, moved, wide(own.sums), noise, slack))
        privacy = replayed.spec.privacy
        if isinstance(privacy, GaussianCentral) and privacy.adaptive_clip is not None:
            _check_count(replayed, privacy, at, own, clip)
    _check_added_to_sums(added, findings)


def _check_added_to_sums(rounds: list[_Added], findings: Findings) -> None:
    """What came out is the sum and its noise over the public divisor.

    If it is a multiple of both alike, in every round, the divisor is another.
    """
    off = [one for one in rounds if one.away(1.0) > one.slack]
    multiples = off and all(one.away(one.factor) <= one.slack for one in off)
    findings.looked("noise added", len(rounds))
    if multiples and any(np.linalg.norm(one.sums) > 10 * one.slack for one in off):
        for one in off:
            findings.at("release", one.at.round).add(
                "divisor of sums",
                allowed="the public number",
                measured=f"{1 / one.factor:.6g} times it",
            )
        return
    for one in off:
        along = _least_squares(one.moved - one.sums, one.noise)
        one.at.add(
            "noise added",
            allowed="what was drawn, at the scale charged",
            measured=f"{along:.6g} times it",
        )


def _check_count(
    replayed: Replayed, privacy: GaussianCentral, at: Checks, own: SumPassed, clip: float
) -> None:
    """The clip moved by the count of updates within it, and by the noise drawn for that."""
    rule = privacy.adaptive_clip
    assert rule is not None
    if own.next_clip is None or own.count_noise is None or own.within is None:
        at.add("noise on the count", allowed="noise in every round", measured="none")
        return
    share = rule.quantile - math.log(own.next_clip / clip) / rule.step_size
    if not -0.99 < share < 1.99:  # beyond, a share is cut
        return
    expected_clients = public_divisor(replayed) * replayed.spec.training.hypotheses
    counted = own.within - (own.taking_part or 0) / 2
    added = (share - 0.5) * expected_clients - counted
    expected = own.count_noise * rule.count_noise
    slack = GRID * rule.count_noise + _CLOSE * (abs(counted) + expected_clients)
    holds = abs(added - expected) <= slack
    at.expect("noise on the count", holds, allowed=expected, measured=added)


# -- local steps on records -----------------------------------------------------------------------


def _check_noise_of_steps(replayed: Replayed, findings: Findings) -> None:
    plan, clip = replayed.record_plan, replayed.charged.clip
    if plan.runs is None:
        return
    assert clip is not None
    # For each client of the federation, its noise over the clip, as its records are charged.
    clients = training_records(replayed.spec, replayed.base.cell.federation).clients.tolist()
    multipliers = dict(zip(clients, (run.noise_multiplier for run in plan.runs), strict=True))
    for round_ in replayed.rounds:
        at = findings.at("noise", round_)
        for part in replayed.base.passed.steps[round_]:
            scale = np.array([multipliers[silo] for silo in part.silos.tolist()])[:, None] * clip
            at.expect(
                "noise of a step",
                len(part.unit_noise) == len(part.gradients) == len(part.sums),
                allowed=f"{len(part.sums)} draws for {len(part.sums)} steps",
                measured=f"{len(part.unit_noise)} draws",
            )
            steps = zip(part.sums, part.gradients, part.unit_noise, strict=False)
            for total, gradient, unit in steps:
                given = wide(gradient) * part.normaliser
                added, expected = given - wide(total), unit * scale
                slack = math.sqrt(replayed.charged.n) * (
                    4 * FLOAT32 * np.abs(given).max(axis=-1) + GRID * scale[:, 0]
                )
                away = np.linalg.norm(added - expected, axis=-1)
                at.expect(
                    "noise added",
                    bool((away <= slack + _CLOSE * np.linalg.norm(expected, axis=-1)).all()),
                    allowed=f"what was drawn, times {float(scale[away.argmax(), 0]):.6g}",
                    measured=f"what was drawn, times {_least_squares(added, unit):.6g}",
                )


def _least_squares(values: Floats, of: Floats) -> float:
    """The factor by which `of` comes nearest to the values."""
    return float((values * of).sum() / max(float(np.square(of).sum()), _TINY))


# -- the law of what was drawn --------------------------------------------------------------------


def drawn_noise(replayed: Replayed, round_: int, clients: Ints | None = None) -> Floats:
    """What was drawn ahead for a round, or else what is drawn for it now: [vectors, n].

    `clients`: of a mechanism of clients, whose noise it is.
    """
    found = replayed.base.passed.drawn.get(round_)
    return _draw(replayed, np.array([round_]), clients)[0][0] if found is None else found


def _draw(replayed: Replayed, rounds: Ints, clients: Ints | None) -> tuple[Floats, Floats | None]:
    """The noise of some rounds, [rounds, vectors, n], and of their counts, [rounds]."""
    passed = replayed.base.passed
    draws, column = passed.draws or build_draws([replayed.base.cell]), rounds[:, None]
    if passed.protection is None:
        raise RuntimeError("no protection was observed")
    everyone = np.zeros(0, dtype=np.int64) if clients is None else clients
    together = np.broadcast_to(everyone, (len(rounds), 1, len(everyone)))
    noise = passed.protection.draw(draws, column, together)
    assert noise.vectors is not None
    return noise.vectors[:, 0], None if noise.counts is None else noise.counts[:, 0]


def check_law(replayed: Replayed, findings: Findings) -> None:
    """Tests the law of what was drawn, of the rounds that were played and of many more."""
    charged, sizes = replayed.charged, replayed.laplace_sizes
    played = [*_played(replayed)]
    many, counts = _many_more(replayed)
    if not played:
        return

    def test(law: Tests, suffix: str = "") -> None:
        for name, pvalue in law:
            findings.test("noise", name + suffix, pvalue)

    whole = np.concatenate([one.reshape(-1, charged.n) for one in (*many, *dict(played).values())])
    test(gaussian_law(whole) if sizes is None else laplace_law(whole, sizes))
    test(dependence_law(_in_place(played, sizes)))
    for series in many:
        test(dependence_law(as_normal(series, sizes)))
    if counts:
        of_count = np.concatenate(counts)[:, None]
        test(gaussian_law(of_count), ", of the count")
        test(dependence_law(of_count[:, None]), ", of the count")


def _many_more(replayed: Replayed) -> tuple[list[Floats], list[Floats]]:
    """The noise of all rounds of the run, and of rounds beyond, [rounds, vectors, n] each, and that
    of their counts."""
    clients = None
    if replayed.role == "local-steps":
        return [], []  # drawn step by step, and observed there
    if replayed.role == "clients":
        clients = np.unique(np.append(replayed.charged_clients(1), replayed.pair.client))
    vectors = replayed.spec.training.hypotheses if clients is None else len(clients)
    probes = min(_MOST_ROUNDS, _PROBED_NUMBERS // (replayed.charged.n * vectors))
    own = min(replayed.spec.training.rounds, probes)
    noise, counts = [], []
    for first, last in ((1, own + 1), (_BEYOND, _BEYOND + probes - own)):
        rounds = np.arange(first, last)
        blocks = [
            _draw(replayed, rounds[begin : begin + _BLOCK], clients)
            for begin in range(0, len(rounds), _BLOCK)
        ]
        if blocks:
            noise.append(np.concatenate([one for one, _ in blocks]))
        counts += [one for _, one in blocks if one is not None]
    return noise, counts


def _played(replayed: Replayed) -> Iterator[tuple[tuple[int, int], Floats]]:
    """The noise of what was played, each [n], by round (or step) and hypothesis, client or silo."""
    for round_ in replayed.rounds:
        for part in replayed.base.passed.steps.get(round_, []):
            for step, vectors in enumerate(part.unit_noise):
                first = (round_ - 1) * len(part.unit_noise)
                for silo, noise in zip(part.silos, vectors, strict=False):
                    yield (first + step, int(silo)), noise
        if replayed.role == "local-steps":
            continue
        if replayed.role == "server":
            whose = [np.arange(replayed.spec.training.hypotheses)]
        else:
            whose = [clients for clients, _ in replayed.uploads(round_)]
        for units in whose:
            for unit, noise in zip(units, drawn_noise(replayed, round_, units), strict=False):
                yield (round_ - 1, int(unit)), noise


def _in_place(
    played: Sequence[tuple[tuple[int, int], Floats]], sizes: Sequence[int] | None
) -> Floats:
    """Return normal numbers [rounds, units, n], every unit in the same place in all rounds."""
    rounds, units = (np.array([where[axis] for where, _ in played]) for axis in (0, 1))
    normal = [as_normal(noise, sizes) for _, noise in played]
    different, places = np.unique(units, return_inverse=True)
    found = np.full((int(rounds.max()) + 1, len(different), len(normal[0])), np.nan)
    found[rounds, places] = normal
    return found
