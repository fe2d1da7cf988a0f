"""The attack `cluster-membership`: named hypotheses, over the noise multiplier."""

import csv
import io
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.attack import Attack, AttackedRun, AttackOutcome, Progress
from fedaudit.attacks.binomial_intervals import clopper_pearson
from fedaudit.attacks.cluster_membership.cluster_membership_words import CAPABILITIES, statement
from fedaudit.attacks.cluster_membership.companion_round import Companion, Uploads, joined_uploads
from fedaudit.fairness.disclosure import Disclosure, size_rule
from fedaudit.federations.federation import Federation
from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.leakage import MIN_RELEASES, part_distances
from fedaudit.randomness import CounterSource, EntropySource, Purpose, Source
from fedaudit.reports.sections.attacks import (
    ClusterMembershipResult,
    ClusterMembershipSection,
    ConfidenceLimits,
    HypothesisNamed,
    NamedShare,
)
from fedaudit.reports.sections.between_hypotheses import pair_figures, rates_of
from fedaudit.spec.attacks.cluster_membership_spec import ClusterMembershipSpec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.spreadsheet import plain_text
from fedaudit.training.base.cell import draws_in_secret
from fedaudit.training.base.records import training_records

CONFIDENCE = 0.95
"""Of intervals."""
MAX_CLIENTS = 20_000
MAX_UPLOADED = 1 << 30
"""Numbers that the clients of one noise multiplier upload at most."""
_SUPPRESSED = "suppressed: few clients chose this hypothesis, or others that would follow from it"
_NEAR_ALL = "suppressed: few clients chose another hypothesis than the most frequent one"
_NO_EXPONENT = f"fewer than {MIN_RELEASES} uploads: it would nearly state the norm of an update"
_NOTHING_SENT = "no client's update was finite, so nothing was sent"
_SAME = "two hypotheses are equal"


@dataclass(frozen=True)
class ClusterMembershipAttack(Attack):
    """Hypothesis membership by one upload of each training client."""

    spec: ClusterMembershipSpec

    def execute(self, attacked: AttackedRun, *, progress: Progress) -> AttackOutcome:
        """See `Attack`. Raises ValueError for a mechanism other than `laplace-l2`."""
        cell, hypotheses = attacked.run.cell, attacked.result.hypotheses
        privacy = cell.spec.privacy
        if not isinstance(privacy, LaplaceL2):
            raise ValueError(f"{privacy.mechanism} has no noise multiplier nu")
        source = EntropySource() if draws_in_secret(cell) else CounterSource(cell.spec.seed)
        clients = _clients(attacked, source, n=hypotheses.shape[1])
        tried = self.spec.tried(privacy.noise_multiplier)
        seen: dict[float, Uploads] = {}
        for place, nu in enumerate(tried):
            companion = Companion(
                cell,
                hypotheses,
                noise_multiplier=nu,
                seed=_seed(source, place),
                device=attacked.device,
            )
            parts: list[Uploads] = []
            for first in range(0, len(clients), companion.cohort_size):
                cohort = np.sort(clients[first : first + companion.cohort_size])
                parts.append(companion.play(cohort, round_=len(parts) + 1))
                progress((place + (first + len(cohort)) / len(clients)) / len(tried))
            seen[nu] = joined_uploads(parts)
        return AttackOutcome(
            _section(attacked, privacy, seen), {"uploads.csv": _csv(attacked.run.federation, seen)}
        )


def _clients(attacked: AttackedRun, source: Source, *, n: int) -> NDArray[np.int64]:
    """The training clients in a random order, a sample of them where their uploads are very
    long."""
    cell = attacked.run.cell
    clients = training_records(cell.spec, cell.federation).clients
    words = source.wide_words(purpose=Purpose.ATTACK, round_=3, counters=clients, count=1)
    order = np.argsort(words[..., 0].reshape(-1), kind="stable")
    return clients[order[: max(1, min(MAX_CLIENTS, MAX_UPLOADED // n))]]


def _seed(source: Source, place: int) -> int:
    words = source.wide_words(purpose=Purpose.ATTACK, round_=4, counters=place, count=1)
    return int(words.reshape(-1)[0] >> np.uint64(11))


def _section(
    attacked: AttackedRun, privacy: LaplaceL2, seen: dict[float, Uploads]
) -> ClusterMembershipSection:
    run, hypotheses = attacked.run, attacked.result.hypotheses
    inputs = run.ledger.inputs
    by_part = part_distances(hypotheses, parts=inputs.noised_sizes)
    between = np.linalg.norm(by_part, axis=-1)
    np.fill_diagonal(between, np.inf)
    nearest = np.unravel_index(between.argmin(), between.shape)
    results = [
        _result(
            one,
            _disclosure(attacked, one.chosen),
            by_part[nearest],
            replace(inputs, noise_multiplier=nu),
        )
        for nu, one in seen.items()
    ]
    chosen = next(iter(seen.values())).chosen
    shown = _disclosure(attacked, chosen)
    most = int(shown.rows.max())
    rest = len(chosen) - most
    chance = None if shown.rule.is_small(rest) or not len(chosen) else most / len(chosen)
    return ClusterMembershipSection(
        kind="cluster-membership",
        status="done",
        reason=None,
        statement=statement(
            run.spec, results, own=privacy.noise_multiplier, chance=chance, clients=len(chosen)
        ),
        capabilities=CAPABILITIES,
        unit="client",
        clients=len(chosen),
        hypotheses=len(hypotheses),
        smallest_distance=float(between.min()),
        chance=chance,
        confidence=CONFIDENCE,
        results=results,
        reasons={"chance": _NEAR_ALL} if chance is None else {},
    )


def _disclosure(attacked: AttackedRun, chosen: NDArray[np.int64]) -> Disclosure:
    """Of which hypotheses something is told, by how many clients chose each."""
    counts = np.bincount(chosen, minlength=len(attacked.result.hypotheses))
    return size_rule(attacked.run.spec.fairness).decide(counts, of="clients")


def _result(
    seen: Uploads, shown: Disclosure, by_part: NDArray[np.float64], inputs: MechanismParameters
) -> ClusterMembershipResult:
    """Of one noise multiplier, that of `inputs`; `by_part`: between the two nearest hypotheses."""
    reasons: dict[str, str] = {}
    rates = rates_of(inputs, radii=seen.radii)
    figures = pair_figures(by_part, rates, clip=None)
    median, largest = figures["indistinguishability_median"], figures["indistinguishability"]
    if rates is None:
        reasons |= dict.fromkeys(("exponent_median", "exponent_max"), _NO_EXPONENT)
    separation = float(np.median(seen.ratio)) if len(seen.ratio) else None
    if separation is None or not np.isfinite(separation):
        reasons["separation"] = _NOTHING_SENT if separation is None else _SAME
        separation = None
    assert inputs.noise_multiplier is not None
    return ClusterMembershipResult(
        noise_multiplier=inputs.noise_multiplier,
        nearest=_named(seen.nearest == seen.chosen, shown),
        assigned=_named(seen.assigned == seen.chosen, shown),
        separation=separation,
        exponent_median=median,
        exponent_max=largest,
        by_hypothesis=[_by_hypothesis(number, seen, shown) for number in range(len(shown.rows))],
        reasons=reasons,
    )


def _by_hypothesis(number: int, seen: Uploads, shown: Disclosure) -> HypothesisNamed:
    own = seen.chosen == number
    if not shown.shown[number]:
        hidden = NamedShare(value=None, interval=None, reason=_SUPPRESSED)
        return HypothesisNamed(hypothesis=number, suppressed=True, nearest=hidden)
    found = _named(seen.nearest[own] == number, shown)
    return HypothesisNamed(hypothesis=number, suppressed=False, nearest=found)


def _named(right: NDArray[np.bool_], shown: Disclosure) -> NamedShare:
    if not shown.rule.is_large(len(right)):
        return NamedShare(value=None, interval=None, reason=shown.rule.few("uploads"))
    limits = clopper_pearson(int(right.sum()), len(right), confidence=CONFIDENCE)
    interval = ConfidenceLimits(low=limits.low, high=limits.high)
    return NamedShare(value=float(right.mean()), interval=interval, reason=None)


def _csv(federation: Federation, seen: dict[float, Uploads]) -> bytes:
    """A line for each upload. Confidential."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["noise_multiplier", "client", "chosen", "nearest", "assigned"])
    for nu, one in seen.items():
        columns = (one.client, one.chosen, one.nearest, one.assigned)
        for client, *guesses in zip(*(column.tolist() for column in columns), strict=True):
            table.writerow([repr(nu), plain_text(federation.client_names[client]), *guesses])
    return text.getvalue().encode()
