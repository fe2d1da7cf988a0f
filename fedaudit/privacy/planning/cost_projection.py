"""What a run is projected to cost, and whether its noise drowns what is learnt.

The theorem's own sum over a run (Galli et al., Theorem 4.2) says how far apart the transcripts of
any two datasets of a client may be, however large the radius was chosen. n/nu does not: it holds
between uploads within a radius that is free, and the same noise has any n/nu.

Whether noise will likely drown what a run learns is judged from numbers that are public or in the
profile: the noise summed over all rounds beside the sum of the updates. A round moves a hypothesis
by the average of about m updates, m being the cohort over the number of hypotheses. Root mean
squares of the noise on that average, for n parameters:

- `laplace-l2`: a release's noise has the norm of a gamma variable, of shape n and scale nu r / n,
  so nu r sqrt((n + 1) / n); of m independent ones, over sqrt(m). With noise for each layer, their
  squares add up.
- `gaussian-local`: nu clip sqrt(n) of a release, over sqrt(m).
- `gaussian-central`: nu clip sqrt(n) on the sum, over m.
- `record-personalised`: nu clip sqrt(n) over the batch size, of each local step, over sqrt(m).

Over T rounds the noise grows with sqrt(T) and the updates with T. An update is as long as its clip
lets it be, or shorter where its steps are short (`expected_update`); the average of clipped
gradients of records, which point in different directions, is taken for a third of the clip. With
an adaptive radius the noise is as long as the updates whatever these are. Noise as long as the sum
of the updates is taken to drown it. That is a rule of thumb, compared with experiments in
docs/usefulness.md. No warning is no promise.

The smallest noise multiplier with which a run stays within a budget that was asked for.

Noise multipliers of four significant digits are tried, so that what is found reads well and was
itself projected. A figure falls as the noise grows, about as a power of it, which says where to try
next; bisection of their order, which is one of the logarithm, ends the search in any case.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

import numpy as np

from fedaudit.arrays import Floats
from fedaudit.number_text import at_most
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.privacy.leakage import worst_log_ratio
from fedaudit.spec.errors import error_at
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianDistance,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.spec.training import (
    AllocationCohort,
    Cohort,
    FixedCohort,
    PoissonCohort,
    RotationCohort,
)

Figure = Callable[[float], float]
"""What a run is projected to spend, by its noise multiplier."""

_DIGITS = 4
_FIRST: int = 10 ** (_DIGITS - 1)
_OF_A_DECADE = 9 * _FIRST
_GUESSES = 12


@dataclass(frozen=True, kw_only=True)
class TargetedFigure:
    """The projected figure that a target bounds."""

    name: Literal["epsilon", "leakage"]
    """Also the target's field below `privacy.target`."""
    terms: str
    """What the figure measures, in words."""
    figures: tuple[Figure, ...]
    """The last one counts. Each is a quicker approximation of the next: its result is where the
    search for the next begins."""
    decades: tuple[int, int]
    """Noise multipliers may be from 10 to the one to 10 to the other."""

    def projected(self, noise_multiplier: float) -> float:
        """The figure, by the accountant of the run."""
        return self.figures[-1](noise_multiplier)

    def least_noise(self, target: float) -> float:
        """The smallest noise multiplier, of four significant digits, at which the figure is at
        most `target`. Raises InvalidInputError where no multiplier in the range is enough."""
        lowest, highest = (decade * _OF_A_DECADE for decade in self.decades)
        found: int | None = 0
        for figure in self.figures:
            start = highest if found is None else found
            found = _smallest_place(figure, target, lowest=lowest, highest=highest, start=start)
        if found is not None:
            return _multiplier(found)
        most = _multiplier(highest)
        least = at_most(self.projected(most), digits=3)
        message = (
            f"cannot be met: with the largest noise multiplier, {most:g}, {self.terms} come to "
            f"{self.name} {least}; ask for at least that, or for fewer rounds"
        )
        if self.name == "epsilon":
            message += ", a larger delta, or `accountant: pld` where it applies"
        raise error_at(f"/privacy/target/{self.name}", message, of_spec=True)


def _smallest_place(
    figure: Figure, target: float, *, lowest: int, highest: int, start: int
) -> int | None:
    """The first of the multipliers' places at which the figure fits the target; None where none
    does."""
    too_low, fitting, place, tried = lowest - 1, highest + 1, start, 0
    noise, spent, power = 0.0, 0.0, 1.0
    while True:
        tried, last = tried + 1, (noise, spent)
        noise = _multiplier(place)
        spent = figure(noise)
        if spent <= target:
            fitting = place
        else:
            too_low = place
        if fitting - too_low == 1:
            return fitting if fitting <= highest else None
        place = (too_low + fitting) // 2
        if tried < _GUESSES and 0 < spent < math.inf:
            # Between two places a figure is about a power of the noise.
            if 0 < last[1] < math.inf and last[1] != spent:
                power = max(0.5, math.log(last[1] / spent) / math.log(noise / last[0]))
            place = _place(noise * min(spent / target, 1e9) ** (1 / power))
        place = max(too_low + 1, min(fitting - 1, place))


def _place(noise_multiplier: float) -> int:
    """The nearest place."""
    decade = math.floor(math.log10(noise_multiplier))
    beyond = round(noise_multiplier / math.pow(10, decade) * _FIRST) - _FIRST
    return decade * _OF_A_DECADE + beyond


def _multiplier(place: int) -> float:
    """The number at a place, 1 at 0: exactly as its four digits are written."""
    decade, beyond = divmod(place, _OF_A_DECADE)
    return float(f"{_FIRST + beyond}e{decade - _DIGITS + 1}")


NO_MECHANISM = "there is no mechanism, so nothing bounds what a release reveals"
NO_EPSILON = (
    "metric privacy is counted as leakage; it has no (epsilon, delta) guarantee to add it to"
)
NO_LEAKAGE = (
    "the mechanism is counted as an epsilon with a delta; leakage, of metric privacy, is another "
    "figure"
)
NO_NOISE = "the baseline `privacy-free` trains without noise, so nothing bounds what it reveals"

LEAKAGE_FIGURES = ("leakage_worst_case", "leakage_expected", "log_ratio_worst_case")
_ALL_COSTS = (*LEAKAGE_FIGURES, "epsilon", "budget_ends_in_round")


@dataclass(frozen=True)
class Projection:
    """The cost if every round runs. A None has its reason under the same name in `reasons`."""

    leakage_worst_case: float | None
    """Leakage of a client drawn in every round, as far as its budget lets it take part."""
    leakage_expected: float | None
    """Mean leakage of a training client."""
    log_ratio_worst_case: float | None
    """The theorem's own sum of the same client, between any two datasets that choose alike."""
    epsilon: list[dict[str, object]]
    """Per observer, delta and adjacency: the worst case of the whole run, as `value`; with
    `expected`, the mean over clients, where that is less. Empty for metric privacy."""
    budget_ends_in_round: int | None
    """The earliest round in which a budget could refuse a client, or that a run would not play."""
    noise_multiplier: float | None
    """The noise multiplier of the mechanism: as the spec sets it, or calibrated from public
    numbers."""
    fairness_epsilon: dict[str, object] | None = None
    """What the fairness figures may reveal of the people held out, in the form of an entry of
    `epsilon` with its `unit`; known before the run."""
    reasons: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, **figures: Any) -> "Projection":
        """The projection of these figures, of which a text says why one is missing. Each has to be
        given: a cost that was left out would be null without a reason."""
        reasons = {name: one for name, one in figures.items() if isinstance(one, str)}
        missing: dict[str, Any] = {**dict.fromkeys(reasons), "epsilon": []}
        found = {name: missing[name] if name in reasons else figures[name] for name in figures}
        return cls(**found, reasons=reasons)


def unbounded_projection(reason: str, *, noise_multiplier: float | None = None) -> Projection:
    """No figure of the cost, for one reason; nor a noise multiplier where there is no noise."""
    figures = dict.fromkeys(_ALL_COSTS, reason)
    return Projection.of(**figures, noise_multiplier=noise_multiplier or reason)


def fixed_cohort(spec: ExperimentSpec, training_clients: int) -> int:
    """Clients drawn in a round.

    Raises ValueError for a cohort of coins, which the spec's rules leave to other mechanisms.
    """
    asked = spec.training.asked_clients
    if asked is None:
        raise ValueError(f"{spec.privacy.mechanism} draws a fixed number of clients")
    return min(asked, training_clients)


def mean_participations(rounds: int, cohort: int, clients: int, *, most: int) -> float:
    """Mean releases of a client that is drawn with chance cohort / clients in every round.

    That is rounds * cohort / clients, and with a budget the mean of min(X, most), X binomial.
    """
    if most >= rounds:
        return rounds * cohort / clients
    shares = participations(rounds, cohort, clients, most=most)
    return float(np.arange(most + 1) @ shares)


def participations(rounds: int, cohort: int, clients: int, *, most: int) -> Floats:
    """The chances of min(X, most) = 0 .. most, X binomial: float64 [most + 1].

    X counts the draws of a client that is drawn with chance cohort / clients in every round.
    """
    shares = np.zeros(most + 1)
    if cohort == clients:
        shares[most] = 1.0
        return shares
    draws = np.arange(most)
    steps = np.log(rounds - draws) - np.log1p(draws) + np.log(cohort) - np.log(clients - cohort)
    logs = rounds * np.log1p(-cohort / clients) + np.concatenate(([0.0], np.cumsum(steps)))
    shares[:most] = np.exp(logs[:most])
    shares[most] = max(0.0, 1.0 - float(shares[:most].sum()))
    return shares


SECRET_RATES = (
    "the radius is adaptive, so the rates are secret, and the theorem needs public ones; leakage "
    "adds up by the paper's convention instead"
)
NO_CLIP = "updates are not clipped, so nothing bounds how far a client's uploads may lie apart"


def theorem_sum(inputs: MechanismParameters, releases: int) -> float | str:
    """The sum over `releases` rounds between datasets that choose alike in every round, or the
    reason why there is none.

    Raises ValueError where the cost is not counted as leakage.
    """
    nu = inputs.nu
    if inputs.radius is None:
        return SECRET_RATES
    if inputs.clip is None:
        return NO_CLIP
    return worst_log_ratio(
        releases,
        sizes=inputs.noised_sizes,
        noise_multiplier=nu,
        radius=inputs.radius,
        clip=inputs.clip,
    )


DROWNED = 0.8
"""The ratio from which on noise is said to drown what is learnt (docs/usefulness.md): runs below it
beat a constant wherever a run without noise does, and most runs above 1.5 do not."""
_FEW = 16
"""Parameters of a small regression. Of more, noise is spread over directions that move predictions
little: it may be longer by the fourth root of their number."""
_GRADIENT = 0.4
"""Length of the first gradients of such a regression over features of order 1, as measured; with
more parameters it is longer by the eighth root of their number."""
LONGEST_UPDATE = 1.5
"""Length of an update of many steps: it ends where the client's own loss is smallest."""
_OF_RECORDS = 1 / 3


def enough(ratio: Figure) -> float | None:
    """The least cost, rounded up to two digits, with which noise does not drown what is learnt, by
    the ratio of noise at each cost; None where none up to 1,000 is enough."""
    three = 3 * _OF_A_DECADE
    place = _smallest_place(ratio, DROWNED * (1 - 1e-9), lowest=-three, highest=three, start=0)
    return None if place is None else float(at_most(_multiplier(place), digits=2))


def expected_update(spec: ExperimentSpec, *, n: int, rows: float) -> float:
    """About how long an update of n parameters is before its clip, of a client with so many
    rows."""
    local = spec.training.local
    batches = 1 if local.batch_size is None else max(1.0, rows / local.batch_size)
    steps = local.steps or (local.epochs or 1) * batches
    # Steps of Adam and its like are as long in each parameter as the step size.
    plain = _GRADIENT * math.pow(max(1.0, n / _FEW), 0.125)
    each = plain if local.optimiser == "sgd" else math.sqrt(n)
    if isinstance(spec.privacy, RecordPersonalised) and local.batch_size is not None:
        each *= min(1.0, rows / local.batch_size)  # it divides sums over all rows
    return min(LONGEST_UPDATE, each * local.step_size * steps)


def bearable_noise(n: int) -> float:
    """How much longer noise on n parameters may be than on those of a small regression."""
    return math.pow(max(1.0, n / _FEW), 0.25)


def noise_ratio(
    spec: ExperimentSpec,
    *,
    sizes: Sequence[int],
    training_clients: int,
    rows: float,
    noise_multiplier: float | None = None,
) -> float:
    """Expected length of the noise of all rounds over that of the sum of all updates, and over what
    so many parameters can bear (`_FEW`): from DROWNED on it drowns what is learnt.

    `sizes`: how many parameters get noise together, for each layer or all in one. `rows`: of a
    client. `noise_multiplier`: of records, where it follows from their budgets. 0 where nothing
    bounds the signal, or there is no noise.
    """
    m, n = _updates_averaged(spec, training_clients), sum(sizes)
    privacy, rounds = spec.privacy, spec.training.rounds
    length, bearable = expected_update(spec, n=n, rows=rows), bearable_noise(n)
    match privacy:
        case NoMechanism() | GaussianDistance():
            return 0.0
        case RecordPersonalised():
            if noise_multiplier is None:
                return 0.0
            steps = rounds * (spec.training.local.steps or 1)
            batch = spec.training.local.batch_size or max(1.0, noise_multiplier)
            of_step = noise_multiplier * math.sqrt(n / m) / batch
            used = _OF_RECORDS * min(1.0, rows / batch)
            return of_step / (used * bearable * math.sqrt(steps))
        case LaplaceL2():
            ratio = _laplace_ratio(privacy, sizes) / math.sqrt(m)
            used = 1.0 if privacy.radius == "adaptive" else _used(length, privacy.clip)
        case GaussianLocal():
            ratio = privacy.noise_multiplier * math.sqrt(n / m)
            used = _used(length, privacy.clip)
        case GaussianCentral():
            ratio = privacy.noise_multiplier * math.sqrt(n) / m
            used = _used(length, None if privacy.adaptive_clip else privacy.initial_clip)
        case _:
            assert_never(privacy)
    return ratio / (used * bearable * math.sqrt(rounds))


def _used(length: float, clip: float | None) -> float:
    """The share of the clip that updates of a length use; all of one that follows them."""
    return 1.0 if clip is None else min(1.0, length / clip)


def drowning_words(
    spec: ExperimentSpec,
    *,
    sizes: Sequence[int],
    training_clients: int,
    rows: float,
    noise_multiplier: float | None = None,
) -> str | None:
    """A warning where noise will likely drown the signal, with a remedy; None where it need not."""
    ratio = noise_ratio(
        spec,
        sizes=sizes,
        training_clients=training_clients,
        rows=rows,
        noise_multiplier=noise_multiplier,
    )
    if ratio < DROWNED:
        return None
    m = _updates_averaged(spec, training_clients)
    remedy = (
        "Draw more clients, ask for fewer hypotheses or parameters, or lower the noise "
        "multiplier, which costs privacy"
    )
    clip = getattr(spec.privacy, "clip", None)
    length = expected_update(spec, n=sum(sizes), rows=rows)
    if isinstance(clip, float) and length < clip / 2 and spec.privacy.mechanism in _OF_UPDATES:
        remedy = (
            f"Updates are likely about {length:.2g} long, and the noise is scaled to the clip, "
            f"{clip:g}: lower the clip to that, which costs nothing, or take larger or more local "
            "steps"
        )
    return (
        "noise will likely drown what is learnt: summed over all rounds, on averages of about "
        f"{m:.3g} updates, it is about {ratio:.2g} times what the updates can bear. This is a rule "
        "of thumb from the noise multiplier, the cohort, the number of hypotheses, the local steps "
        f"and {sum(sizes):,} parameters. {remedy}"
    )


_OF_UPDATES = ("laplace-l2", "gaussian-local", "gaussian-central")


def _updates_averaged(spec: ExperimentSpec, training_clients: int) -> float:
    """Updates that make one hypothesis in a round, were all chosen alike; at least 1."""
    drawn = mean_cohort(spec.training.cohort, training_clients)
    return max(1.0, drawn / spec.training.hypotheses)


def mean_cohort(cohort: Cohort, training_clients: int) -> float:
    """How many clients take part in a round on average, which is public; it may be below 1."""
    match cohort:
        case FixedCohort():
            return float(min(cohort.clients, training_clients))
        case PoissonCohort():
            return cohort.rate * training_clients
        case AllocationCohort() | RotationCohort():
            return training_clients / cohort.every
        case _:
            assert_never(cohort)


def _laplace_ratio(privacy: LaplaceL2, sizes: Sequence[int]) -> float:
    """Ratio of one release; 0 where nothing bounds an update. An adaptive radius is the norm of
    the update, or of each layer's part of it, whose squares add up to that of the whole, so that
    the smallest layer's factor bounds it; a fixed one holds for every layer."""
    nu = float(privacy.noise_multiplier)
    if privacy.radius == "adaptive":
        return nu * math.sqrt((min(sizes) + 1) / min(sizes))
    if privacy.clip is None:
        return 0.0
    norm = math.sqrt(sum((size + 1) / size for size in sizes))
    return nu * privacy.radius * norm / privacy.clip
