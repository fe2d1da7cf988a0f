"""Canaries: their coins and directions, how they take part in a training, and what is seen of them.

Directions of canaries that share a release are axes of the parameters' space where there are enough
of them, and so orthogonal. Otherwise they are drawn uniformly from the sphere.
"""

from collections import defaultdict
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Floats32, Ints
from fedaudit.attacks.attack import AttackOutcome, Progress
from fedaudit.attacks.attack_files import csv_table
from fedaudit.attacks.canaries.canary_pool import CanaryPool, rank_within
from fedaudit.privacy.accounting.privacy_events import Adjacency, Observer
from fedaudit.privacy.lower_bounds.epsilon_bounds import (
    MOST_RELEASES,
    QuietSum,
    SignalFit,
    releases_in_sum,
    summed_epsilon,
)
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, evidence
from fedaudit.randomness import Purpose, Source, normals, uniforms
from fedaudit.reports.sections.attacks import CanariesSection
from fedaudit.spec.attacks import CanariesSpec
from fedaudit.spreadsheet import plain_text
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.planted import (
    NoisedSteps,
    PlantedRecords,
    PlantedUpdates,
    SentUploads,
    SummedRound,
)
from fedaudit.training.stack import Stack

_HALF = 1 << 31
_SIGNS = 64
_PAIRS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Directions:
    """A unit vector of n numbers for each canary: axes with signs, or the rows of a matrix."""

    n: int
    axis: Ints
    """[canaries]; empty with a matrix."""
    sign: Floats
    """[canaries]; empty with a matrix."""
    matrix: Floats32 | None = None
    """[canaries, n]; None with axes."""

    def vectors(self, numbers: Ints) -> Floats32:
        """The vectors of the canaries of these numbers: [numbers, n]."""
        if self.matrix is not None:
            return self.matrix[numbers]
        found = np.zeros((len(numbers), self.n), dtype=np.float32)
        found[np.arange(len(numbers)), self.axis[numbers]] = self.sign[numbers]
        return found

    def reached(self, numbers: Ints) -> Ints:
        """The coordinates in which these directions are not zero."""
        return self.axis[numbers] if self.matrix is None else np.arange(self.n)

    def along(self, releases: Floats, which: Ints, numbers: Ints) -> Floats:
        """[numbers]: how far release `which` of [releases, n] reaches along each direction."""
        if self.matrix is None:
            return releases[which, self.axis[numbers]] * self.sign[numbers]
        found = np.empty(len(numbers))
        for one in np.unique(which):
            own = which == one
            found[own] = self.matrix[numbers[own]] @ releases[one].astype(np.float32)
        return found

    def summed(self, weights: Floats, which: Ints, numbers: Ints, *, releases: int) -> Floats:
        """[releases, n]: the sum of the weighted directions in the release `which` of each."""
        found = np.zeros((releases, self.n))
        if self.matrix is None:
            np.add.at(found, (which, self.axis[numbers]), weights * self.sign[numbers])
            return found
        for one in np.unique(which):
            own = which == one
            found[one] = weights[own].astype(np.float32) @ self.matrix[numbers[own]]
        return found


@dataclass(frozen=True, eq=False)
class CanarySet:
    """Arrays [canaries], in the order of clients."""

    coins: Bools
    """Whether it is present."""
    sent: Floats
    """1 if present; otherwise 0, as it sends nothing, or -1, as another replaces it."""
    directions: Directions
    release: Ints
    """Canaries with the same number share releases."""
    signs: Floats
    """[canaries, 64]: the sign of what it sends in each release, in turn; by it noise is found that
    cancels in some sums of releases."""

    def turns(self, numbers: Ints, seen: Ints) -> Floats:
        """[numbers]: the signs of these canaries after so many releases that they might be in."""
        found: Floats = self.signs[numbers, seen[numbers] % self.signs.shape[1]]
        return found

    def correlation(self) -> float:
        """The largest absolute cosine of two directions that share a release."""
        matrix, largest = self.directions.matrix, 0.0
        if matrix is None:
            return largest
        for one in np.unique(self.release):
            own = matrix[self.release == one]
            for start in range(0, len(own), _PAIRS_AT_ONCE):
                cosines = np.abs(own[start : start + _PAIRS_AT_ONCE] @ own.T)
                place = np.arange(len(cosines))
                cosines[place, start + place] = 0.0
                largest = max(largest, float(cosines.max()))
        return min(1.0, largest)


def draw_canaries(release: Ints, *, n: int, adjacency: Adjacency, source: Source) -> CanarySet:
    """Coins, signs and directions; `release` [canaries]: those of one number share releases."""
    canaries = np.arange(len(release))
    coins = source.words(purpose=Purpose.CANARY_COINS, round_=0, counters=canaries, count=1)[:, 0]
    drawn = source.words(purpose=Purpose.CANARY_COINS, round_=1, counters=canaries, count=_SIGNS)
    signs = np.where(drawn < _HALF, 1.0, -1.0)
    present, absent = coins < _HALF, -1.0 if adjacency == "replace-one" else 0.0
    return CanarySet(
        present,
        np.where(present, 1.0, absent),
        _draw_directions(release, n=n, source=source),
        release,
        signs * signs[:, :1],
    )


def _draw_directions(release: Ints, *, n: int, source: Source) -> Directions:
    purpose, canaries = Purpose.CANARY_DIRECTIONS, np.arange(len(release))
    if np.unique(release, return_counts=True)[1].max() > n:
        words = source.words(purpose=purpose, round_=0, counters=canaries, count=n + n % 2)
        drawn = normals(words)[:, :n].astype(np.float32)
        unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        return Directions(n, canaries[:0], np.zeros(0), unit)
    words = source.words(purpose=purpose, round_=0, counters=canaries, count=1)
    sign = np.where(words[:, 0] < _HALF, 1.0, -1.0)
    axes = source.words(purpose=purpose, round_=1, counters=0, count=n)
    return Directions(n, np.argsort(uniforms(axes), kind="stable")[rank_within(release)], sign)


_OTHERS = 2048
"""Numbers beside those that canaries reach, in all releases of one time together."""
_LEAST_OTHERS = 4


class ReleaseEvidence:
    """Scores of canaries, and the fit of their signal to the noise. Releases are given in clips,
    less all that is known of them."""

    def __init__(self, canaries: CanarySet, law: ReleaseLaw) -> None:
        """`law`: the claimed one of one release, by which scores weigh what they see."""
        self._canaries, self._law = canaries, law
        self.fit = SignalFit()
        self.kept = KeptNumbers(canaries)
        self.seen = np.zeros(len(canaries.coins), dtype=np.int64)
        """[canaries]: releases that it might have been in."""
        self.scores = np.zeros(len(canaries.coins))
        """[canaries]: the logarithm of the likelihood ratio, of all releases."""
        self.participations = np.zeros(len(canaries.coins), dtype=np.int64)
        """[canaries]: releases that it entered; its scores do not use this."""

    def see(self, releases: Floats, *, which: Ints, numbers: Ints, took_part: Bools) -> Floats:
        """Adds releases [releases, n], and returns what canaries added to each: `numbers` are the
        canaries that might be in them, in the release `which` of each, and `took_part` those that
        are."""
        canaries = self._canaries
        turns = canaries.turns(numbers, self.seen)
        along = turns * canaries.directions.along(releases, which, numbers)
        np.add.at(self.scores, numbers, evidence(along, self._law))
        inside = numbers[took_part]
        self.seen[numbers] += 1
        self.participations[inside] += 1
        sent = (canaries.sent[numbers] * turns)[took_part]
        signal = canaries.directions.summed(sent, which[took_part], inside, releases=len(releases))
        held, first = np.unique(which, return_index=True)
        self.kept.see(releases[held], signal[held], canaries.release[numbers[first]])
        self.fit.add(
            product=float((releases * signal).sum()),
            weight=float(np.square(signal).sum()),
            squares=float(np.square(releases).sum()),
            numbers=releases.size,
        )
        return signal


def most_kept(canaries: int) -> int:
    """Numbers kept of all releases of one time, at most, if canaries send along axes."""
    return canaries + max(_LEAST_OTHERS * canaries, _OTHERS)


class KeptNumbers:
    """Numbers of every release, kept until a training has ended, so that releases can be summed.

    Of each release, in clips: what is left of it, and the sum of the canaries in it, in the numbers
    that canaries reach and in some others.
    """

    def __init__(self, canaries: CanarySet) -> None:
        self._canaries = canaries
        self._series = defaultdict[int, list[Floats]](list)
        """For each group of canaries that share releases: [2, numbers] of each release, the rest of
        it and its signal."""
        self._columns: dict[int, Ints] = {}
        self._groups = len(np.unique(canaries.release))
        self._model: tuple[Floats, int] | None = None

    def see(self, released: Floats, signal: Floats, groups: Ints) -> None:
        """Keeps releases [releases, n], of the canaries that share each (`CanarySet.release`)."""
        for group, one, sent in zip(groups.tolist(), released, signal, strict=True):
            series, columns = self._series[group], self._columns_of(group, len(one))
            if len(series) < MOST_RELEASES:
                series.append(np.stack([one[columns], sent[columns]]))

    def see_model(self, released: Floats, signal: Floats, *, moment: int) -> None:
        """Keeps a second release [n] of what all canaries sent at a time, counted from 0."""
        columns = self._columns_of(0, len(released))
        self._model = np.stack([released[columns], signal[columns]]), moment

    def epsilon(self, law: ReleaseLaw, delta: float, *, significance: float) -> float | None:
        """The bound, wrong with a chance of at most `significance`; None where nothing is measured:
        for fewer than two releases, or for fewer numbers than their covariance needs."""
        together = self._together()
        if together is None:
            return None
        released, signal, moments = together
        # Coins and directions alone decide which numbers measure the noise.
        order = np.argsort(np.square(signal).sum(0), kind="stable")
        measuring, testing = np.split(order, [len(order) // 2])
        noise = _noise(released[:, measuring], signal[:, measuring])
        found = QuietSum.of_noise(noise, moments)
        ratio = found.least_ratio(
            released[:, testing], signal[:, testing], significance=significance
        )
        return summed_epsilon(law, ratio * found.lengths, delta)

    def _together(self) -> tuple[Floats, Floats, Ints] | None:
        """[releases, numbers], what was released and the signal in it, and the time of each; of the
        first releases, as many as half of the series have. None where they make no sum."""
        if not self._series:
            return None
        lengths = sorted(len(series) for series in self._series.values())
        middle = lengths[len(lengths) // 2]
        chosen = [series for series in self._series.values() if len(series) >= middle]
        count = releases_in_sum(middle, sum(series[0].shape[1] for series in chosen))
        if not count:
            return None
        # [releases, 2, numbers of all series]
        whole = np.concatenate([np.stack(series[:count]) for series in chosen], axis=2)
        moments = np.arange(count)
        if self._model is not None:
            again, moment = self._model
            whole, moments = np.concatenate([whole, again[None]]), np.append(moments, moment)
        return whole[:, 0], whole[:, 1], moments

    def _columns_of(self, group: int, n: int) -> Ints:
        if group not in self._columns:
            canaries = self._canaries
            own = canaries.directions.reached(np.flatnonzero(canaries.release == group))
            others = max(_LEAST_OTHERS, -(-_OTHERS // self._groups))
            spread = np.linspace(0, n - 1, min(n, len(own) + others)).astype(np.int64)
            self._columns[group] = np.union1d(own, np.setdiff1d(spread, own)[:others])
        return self._columns[group]


def _noise(released: Floats, signal: Floats) -> Floats:
    """What is left of releases [releases, numbers] without their signal, by least squares."""
    weight = float(np.square(signal).sum())
    length = float((released * signal).sum()) / weight if weight else 0.0
    return released - length * signal


_BEFORE_THE_CLIP = 16.0
"""Length of a canary before it is clipped, in clips, so that the clip is tested too."""
_ROWS_AT_ONCE = 256


def _unclipped(
    canaries: CanarySet, numbers: Ints, found: ReleaseEvidence, *, clip: float
) -> Floats32:
    """What these canaries contribute next, before it is clipped: [numbers, n]."""
    sent = canaries.sent[numbers] * canaries.turns(numbers, found.seen)
    lengths = (_BEFORE_THE_CLIP * clip * sent).astype(np.float32)
    return canaries.directions.vectors(numbers) * lengths[:, None]


@dataclass(eq=False)
class CanaryClients(PlantedUpdates):
    """Clients that send canaries, each clipped and noised like any other's update."""

    clients: Ints
    """[canaries], ascending."""
    canaries: CanarySet
    found: ReleaseEvidence
    _: KW_ONLY
    clip: float
    denominator: float
    """What a trusted server divides sums by."""
    _last: tuple[SummedRound, Floats] | None = None

    def updates(self, places: Ints) -> Floats32:
        return _unclipped(self.canaries, places, self.found, clip=self.clip)

    def see_sum(self, seen: SummedRound) -> None:
        every = np.arange(len(self.clients))
        signal = self.found.see(
            self._left(seen, seen.after)[None],
            which=np.zeros_like(every),
            numbers=every,
            took_part=np.isin(self.clients, seen.clients),
        )
        self._last = seen, signal[0]

    def see_model(self, kept: Floats32, *, round_: int) -> None:
        """Sees the model [n] that is kept of a round of a trusted server, counted from 1.

        If its numbers are those that the round released, they show nothing more. Others are a
        second release of the round, and are used if it is the last one.
        """
        if self._last is None:
            return
        seen, signal = self._last
        rounds = int(self.found.seen.max())
        if round_ == rounds and not np.array_equal(kept, seen.after):
            self.found.kept.see_model(self._left(seen, kept), signal, moment=rounds - 1)

    def _left(self, seen: SummedRound, after: Floats32) -> Floats:
        """[n], in clips: what is left of a round's sum without the other clients.

        The adversary knows what they sent. It is clipped here by the definition, and not by the
        code that is tested.
        """
        change = after.astype(np.float64) - seen.before
        known = np.zeros(len(change))
        rows = np.flatnonzero(~np.isin(seen.clients, self.clients))
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = seen.updates[rows[start : start + _ROWS_AT_ONCE]].astype(np.float64)
            norms = np.linalg.norm(part, axis=1)
            known += (self.clip / np.maximum(norms, self.clip)) @ part
        return (change * self.denominator - known) / self.clip

    def see_uploads(self, seen: SentUploads) -> None:
        # The server sees who sends, so a canary's scores are those of its own uploads alone.
        numbers = np.searchsorted(self.clients, seen.clients)
        self.found.see(
            (seen.uploads.astype(np.float64) - seen.start) / self.clip,
            which=np.arange(len(numbers)),
            numbers=numbers,
            took_part=np.ones(len(numbers), dtype=np.bool_),
        )


@dataclass(eq=False)
class CanaryRecords(PlantedRecords):
    """Records with chosen gradients; every step of their clients is seen (white box)."""

    silos: Ints
    """[canaries], ascending: the clients that hold them."""
    rows: Ints
    """[canaries]: the places among a client's records."""
    canaries: CanarySet
    found: ReleaseEvidence
    _: KW_ONLY
    clip: float

    def gradients(self, numbers: Ints) -> Floats32:
        return _unclipped(self.canaries, numbers, self.found, clip=self.clip)

    def see_step(self, seen: NoisedSteps) -> None:
        order = np.argsort(seen.silos)
        numbers = np.flatnonzero(np.isin(self.silos, seen.silos))
        which = order[np.searchsorted(seen.silos, self.silos[numbers], sorter=order)]
        self.found.see(
            (seen.released - seen.known) / self.clip,
            which=which,
            numbers=numbers,
            took_part=np.isin(numbers, seen.taking_part),
        )


class MetricClients(PlantedUpdates):
    """Canary clients of `laplace-l2`: each sends one of two inputs by its coin, `present` or
    `absent` lengths of its direction. Of each the first upload counts, as it has one coin."""

    def __init__(
        self, clients: Ints, canaries: CanarySet, *, present: float, absent: float
    ) -> None:
        self.clients, self._canaries = clients, canaries
        self._present, self._absent = present, absent
        self.distances = np.full((len(clients), 2), np.nan)
        """[canaries, 2]: of the first upload from the two inputs, `present` first; NaN for a canary
        that took no part."""

    def updates(self, places: Ints) -> Floats32:
        lengths = np.where(self._canaries.coins[places], self._present, self._absent)
        return self._canaries.directions.vectors(places) * lengths[:, None].astype(np.float32)

    def see_sum(self, seen: SummedRound) -> None:
        raise ValueError("no server sums under metric privacy")

    def see_uploads(self, seen: SentUploads) -> None:
        places = np.searchsorted(self.clients, seen.clients)
        fresh = np.isnan(self.distances[places, 0])
        sent = seen.uploads[fresh].astype(np.float64) - seen.start[fresh]
        vectors = self._canaries.directions.vectors(places[fresh])
        for side, length in enumerate((self._present, self._absent)):
            self.distances[places[fresh], side] = np.linalg.norm(sent - length * vectors, axis=1)


ROUNDS_AT_ONCE = 16
COMPANION = (
    "The canaries took part in a companion training of the same spec, with the same sampling, "
    "clip, sums and noise as all others. The run itself was not touched, nor any loss, count or "
    "figure of its utility: what is tested is the mechanism and its code with this spec, in a "
    "training beside the run, and not the releases of the run itself. Nothing is charged for it, "
    "and no guarantee covers its results: they are confidential."
)
_SEEN: dict[Observer, str] = {
    "final_model": "Sees the released hypotheses of every round, and not who took part.",
    "server": "Sees every upload, and who sent it.",
}


_WHITE_BOX = "Sees every local step of the canaries' clients (white box)."


@dataclass(frozen=True, eq=False)
class Companion:
    """A training beside the run, of the same spec, in which canaries take part."""

    spec: CanariesSpec
    cell: Cell
    pool: CanaryPool
    canaries: CanarySet
    device: str

    def train(self, planted: PlantedUpdates, *, progress: Progress) -> None:
        """Trains to the end with what is planted."""
        trainer = Stack([replace(self.cell, planted=planted)], device=self.device)
        rounds, played = self.cell.spec.training.rounds, 0
        progress(0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            while trainer.active:
                trainer.plan(ROUNDS_AT_ONCE)
                played += len(trainer.advance(ROUNDS_AT_ONCE)[0])
                progress(min(1.0, played / rounds))

    def outcome(
        self,
        statement: str,
        observer: Observer,
        *,
        releases: Ints,
        scores: Floats,
        guesses: NDArray[np.int8],
        fields: dict[str, Any],
    ) -> AttackOutcome:
        """What the canaries show: a section with `fields`, and the table of scores.

        `releases`, `scores` and `guesses` [canaries]; a guess is 1 for present, -1 for absent, 0
        for none.
        """
        pool, coins = self.pool, self.canaries.coins
        section = self.section(f"{statement} {COMPANION}", observer, **fields)
        lines = (
            {
                "canary": number,
                "client": plain_text(self.cell.federation.client_names[client]),
                "row": "" if pool.rows is None else pool.rows[number],
                "present": int(coins[number]),
                "releases": releases[number],
                "score": scores[number],
                "guess": guesses[number],
            }
            for number, client in enumerate(pool.clients)
        )
        return AttackOutcome(section, {"scores.csv": csv_table(lines)})

    def section(self, statement: str, observer: Observer, **fields: Any) -> CanariesSection:
        """A section of an attack that was carried out, unless the fields say otherwise."""
        done = {"status": "done", "reason": None, "included": int(self.canaries.coins.sum())}
        return CanariesSection(
            statement=statement,
            capabilities=[
                "Knows everything but the coins of the canaries, as the adversary of the "
                "definition does.",
                "Chooses what a canary sends before it is clipped.",
                _SEEN[observer],
                *[_WHITE_BOX] * (self.pool.rows is not None),
            ],
            unit=self.spec.unit,
            count=self.spec.count,
            observer=observer,
            **done | fields,
        )
