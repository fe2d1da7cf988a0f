"""The sections of the report of a declared ledger, what they do not show, and how each is verified.

Sections that reports of runs have too have the same shape; a figure that is None has its reason
beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from fedaudit.ledger.statements import DATABASE
from fedaudit.privacy.accounting.privacy_events import LaplaceL2, adjacency_words, observer_words
from fedaudit.privacy.declared.figures import (
    SECRET_COUNT,
    UNBOUNDED,
    clients_over,
    conditions,
    has_unprotected,
)
from fedaudit.privacy.declared.histories import (
    Histories,
    largest_epsilon,
    largest_log_ratio,
    leakages,
)
from fedaudit.privacy.guarantees.guarantee import GuaranteeLabel
from fedaudit.privacy.mechanisms.gaussian import LOOSE_FIXED_SIZE
from fedaudit.reports.checks import EXACT, Check, agrees, value_at
from fedaudit.reports.declared.ledger_material import (
    DeclaredEvidence,
    DeclaredMaterial,
    decides_nothing,
    declared_fairness,
    gaps_of,
)
from fedaudit.reports.declared.tested_noise import TESTED
from fedaudit.reports.sections.epsilon import EpsilonSection
from fedaudit.reports.sections.guarantee import GuaranteeSection
from fedaudit.reports.sections.part import Part, Reasons, Section, no_limits, or_why, with_reasons
from fedaudit.reports.sections.provenance import integrity_checks, unsigned
from fedaudit.spec.canonical import canonical_hash
from fedaudit.spec.declared_ledgers import DeclaredMechanism, LedgerTerms
from fedaudit.spec.gates import PLAIN_FIGURES


class LedgerSection(Part):
    """Which ledger the report is about, and what was declared to it."""

    id: str
    name: str
    terms_hash: str
    rounds: int
    last_round: int
    gaps: list[tuple[int, int]]
    """First and last of the runs of numbers that were not declared; the first 100."""
    missing_rounds: int
    participations: int | None
    """The sum over all rounds; null where samples are secret, as are the failures."""
    failures: int | None
    unreserved_rounds: int
    """Declared without a reservation, or otherwise than was reserved."""
    refused_rounds: int
    """Those of them declared for clients whose reservation had been refused."""
    unanswered_reservations: int
    """Reserved, and neither declared nor released."""
    first_declared_at: str | None
    last_declared_at: str | None
    minimum_group_size: int
    """Groups with fewer rows are suppressed: the largest of the terms' minimum and of those of the
    service and the federation's policy when the report was made."""
    witness: str | None
    """`trainer`: the service's key signed every earlier round as stored, and the trainer received
    the heads. `database`: earlier signatures were missing or another key's, so rounds were signed
    as the database held them. Null without a signature."""
    reasons: Reasons = Field(default_factory=dict)
    """Why a count is null."""


def _ledger(material: DeclaredMaterial) -> LedgerSection:
    rounds = material.rounds
    counts: dict[str, Any] = {
        "participations": sum(one.participants for one in rounds),
        "failures": sum(one.failures for one in rounds),
    }
    if material.histories.draws_secretly:
        counts = dict.fromkeys(counts, SECRET_COUNT)
    return LedgerSection(
        id=material.ledger_id,
        name=material.terms.name,
        terms_hash=canonical_hash(material.terms.model_dump(mode="json")) or "",
        **_numbers([one.round for one in rounds]),
        **with_reasons(counts),
        unreserved_rounds=sum(one.reserved != "reserved" for one in rounds),
        refused_rounds=sum(one.reserved == "refused" for one in rounds),
        unanswered_reservations=material.unanswered_reservations,
        first_declared_at=rounds[0].declared_at.isoformat() if rounds else None,
        last_declared_at=rounds[-1].declared_at.isoformat() if rounds else None,
        minimum_group_size=material.minimum_group_size,
        witness=material.witness,
    )


def _numbers(rounds: Sequence[int]) -> dict[str, Any]:
    """What follows from the numbers of the declared rounds."""
    gaps, missing = gaps_of(rounds)
    return {
        "rounds": len(rounds),
        "last_round": rounds[-1] if rounds else 0,
        "gaps": [list(one) for one in gaps],
        "missing_rounds": missing,
    }


def _ledger_checks(found: DeclaredEvidence) -> Iterator[Check]:
    by_entries = _numbers(found.rounds)
    if found.asked is not None:
        by_entries |= zip(("participations", "failures"), found.asked, strict=True)
    yield agrees(found.report, "ledger.id", found.evidence.experiment_id)
    yield agrees(found.report, "ledger.name", found.terms.name)
    yield agrees(found.report, "ledger.terms_hash", canonical_hash(found.evidence.spec))
    for name, value in by_entries.items():
        yield agrees(found.report, f"ledger.{name}", value)


def _ledger_limits(material: DeclaredMaterial) -> Iterator[str]:
    failed = sum(one.failures for one in material.rounds)
    if failed and not material.histories.draws_secretly:
        yield (
            f"{counted(failed, 'failure')} within rounds: clients that failed are charged as if "
            "they had sent an update, because what left them before is not known."
        )
    if material.unanswered_reservations:
        yield (
            f"{counted(material.unanswered_reservations, 'round')} reserved and neither declared "
            "nor released: what was reserved may have run."
        )
    unreserved = sum(one.reserved != "reserved" for one in material.rounds)
    if unreserved and material.terms.budget is not None:
        yield (
            f"{counted(unreserved, 'round')} declared without a reservation, or otherwise than "
            "reserved: no budget was asked beforehand."
        )


def counted(number: int, what: str) -> str:
    """So many of something."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _guarantee(material: DeclaredMaterial) -> GuaranteeSection:
    terms = material.terms
    missing = () if terms.counts_epsilon else ("adjacency", "delta")
    unknown = {"in_force": "whether the noise was secret is not observed here"}
    return GuaranteeSection(
        **_by_terms(terms),
        conditions=conditions(terms, material.histories),
        statement=_statement(terms),
        reasons=unknown | dict.fromkeys(missing, _no_epsilon(terms)),
    )


def _by_terms(terms: LedgerTerms) -> dict[str, Any]:
    """What a ledger's terms alone say of its guarantee."""
    label = _LABELS[terms.mechanism]
    return {
        "kind": "none" if label == "none" else "declared",
        "label": label,
        # Whether the noise was secret is nothing that anybody here knows.
        "in_force": None,
        "mechanism": terms.mechanism,
        "unit": terms.unit,
        "adjacency": terms.adjacency if terms.counts_epsilon else None,
        "delta": terms.delta if terms.counts_epsilon else None,
        "observers": [] if label in ("none", "heuristic") else [terms.observer],
    }


_LABELS: dict[DeclaredMechanism, GuaranteeLabel] = {
    "none": "none",
    "gaussian-distance": "heuristic",
    **dict.fromkeys(("gaussian", "gaussian-central", "gaussian-local", "laplace-l2"), "declared"),
}


def _statement(terms: LedgerTerms) -> str:
    """The guarantee, as the trainer declares it."""
    if terms.mechanism == "gaussian-distance":
        return (
            "Heuristic, as declared by the trainer: noise of a trusted server by the distance of "
            "the clients' models, not enforced as a formal guarantee. No epsilon follows from it, "
            "and nothing bounds what its rounds reveal. The noise was not observed here."
        )
    if terms.mechanism == "none":
        return "The trainer declares no mechanism: nothing bounds what its rounds reveal."
    if not terms.counts_epsilon:
        return (
            "As declared by the trainer: uploads with noise of metric privacy, counted as leakage "
            f"against {observer_words(terms.observer)}. The noise was not observed here."
        )
    return (
        f"As declared by the trainer: (epsilon, delta)-differential privacy of one {terms.unit} at "
        f"delta = {terms.delta:g} under {adjacency_words(terms.adjacency or '')}, against "
        f"{observer_words(terms.observer)}, if every clip, noise and sample was as declared. "
        "They were not observed here; the composition alone was computed here."
    )


def _guarantee_checks(found: DeclaredEvidence) -> Iterator[Check]:
    for name, value in _by_terms(found.terms).items():
        yield agrees(found.report, f"guarantee.{name}", value, name=f"report.guarantee.{name}")
    said = value_at(found.report, "guarantee", "conditions")
    if found.histories is not None and said is not None:
        rests_on = conditions(found.terms, found.histories)
        yield Check.of(
            "report.guarantee.conditions",
            isinstance(said, Mapping) and said.keys() == rests_on.keys(),
            good="the report names each figure that rests on an untested sampling",
            bad="the report does not name the figures that rest on an untested sampling",
        )
    yield agrees(found.report, "declared", True)


def _guarantee_limits(material: DeclaredMaterial) -> Iterator[str]:
    terms = material.terms
    yield (
        "Clips, noise, samples, participants and counts are as the trainer declares them. The "
        "training was not observed here; a signature says what was declared, not that it is true."
    )
    yield (
        "A round that ran and was never declared is in no figure. Missing numbers are listed; a "
        "trainer that numbers only what it declares leaves none."
    )
    yield (
        "These are the figures of one ledger. A training that is split over several has a smaller "
        "figure in each, and nothing here adds them up, unless all of them charge the budget of "
        "one federation."
    )
    yield from _leakage_limits(material)
    if terms.subjects is None:
        yield (
            "Clients have the names that the trainer gives them. Renaming a client spreads its "
            f"cost; more names than the population of {terms.population} are refused or a "
            "contradiction, and a ledger that lists its subjects admits no other names."
        )
    yield (
        f"That the population is {terms.population} is declared. Samples of a smaller one cost "
        "more; those who were named are tested against it, which finds gross differences only."
    )
    kinds = {str(one.event["kind"]) for one in material.rounds}
    if "poisson-gaussian" in kinds:
        yield (
            "Rounds of the kind poisson-gaussian are amplified by sampling. That every unit "
            "entered by an independent secret coin is declared; shuffled batches or fixed cohorts "
            "have no such bound (in Opacus, poisson_sampling=False)."
        )
    for untested in conditions(terms, material.histories).values():
        yield f"{untested.capitalize()}; a gate takes the epsilon only with allow_conditional."
    if "fixed-gaussian" in kinds:
        yield "That samples of a fixed size were drawn uniformly and kept secret is declared."
        yield LOOSE_FIXED_SIZE
    if terms.adjacency == "add-or-remove-one":
        yield (
            "Under zero-out a unit that sends nothing changes no denominator. A mean over the "
            "number of those who came is not covered."
        )
    if terms.unit == "client" and terms.hides_participants:
        yield (
            "The figures hold against those who do not know who took part. The trainer knows, and "
            "so does anyone who reads its records."
        )
    if terms.unit == "record":
        yield "One record is covered; a person with several records is protected less."


def _leakage_limits(material: DeclaredMaterial) -> Iterator[str]:
    found = [
        (charge.event.radius, charge.clip)
        for charge in material.histories.charges
        if isinstance(charge.event, LaplaceL2)
    ]
    if not found:
        return
    radius, clip = found[0]
    if radius is None:
        yield (
            "The radius follows each update, so the rates are secret. That n/nu adds up over "
            "releases is the paper's convention and no theorem."
        )
    elif clip is None:
        yield (
            f"n/nu holds between uploads within {radius:g} of each other, and without a clip "
            "nothing keeps uploads there."
        )
    elif 2 * clip > radius:
        yield (
            f"n/nu holds between uploads within {radius:g} of each other, and a clip of {clip:g} "
            f"only keeps two of them within {2 * clip:g}: the sum by the theorem is larger."
        )
    yield (
        "Leakage says nothing of which hypothesis a client chose, where the training has several."
    )


class DeclaredPrivacy(Part):
    """What the rounds spent, if all is as declared."""

    epsilon_max: float | None
    epsilon: list[EpsilonSection]
    leakage_max: float | None
    leakage_median: float | None
    log_ratio_max: float | None
    participations_max: int
    """Compositions of the client that was charged most."""
    budget: dict[str, float] | None
    """The budget of each client."""
    over_budget: int
    """Clients that have spent more than it."""
    reasons: Reasons


_OVERFLOW = "exceeds what floating-point numbers hold, so it bounds nothing"
_NO_LEAKAGE = "only metric privacy is counted as leakage"
_NO_THEOREM = "the theorem's sum needs a fixed radius and a clip in every round"
_NO_MECHANISM = "no mechanism was declared, so nothing bounds what the rounds reveal"


def declared_privacy(terms: LedgerTerms, histories: Histories) -> DeclaredPrivacy:
    """The largest cost of any subject after all rounds so far."""
    largest = largest_epsilon(histories, terms)
    why = _NO_MECHANISM if terms.mechanism == "none" else _NO_LEAKAGE
    found: dict[str, Any] = {
        "epsilon_max": _no_epsilon(terms) if largest is None else largest.value,
        **dict.fromkeys(("leakage_max", "leakage_median", "log_ratio_max"), why),
    }
    if terms.mechanism == "laplace-l2":
        places = np.arange(1, len(histories.names))
        own = leakages(histories.of(places), histories.charges)
        found["leakage_max"] = float(own.max(initial=0.0))
        found["leakage_median"] = float(np.median(_population(own, terms)))
        found |= or_why({"log_ratio_max": largest_log_ratio(histories)}, _NO_THEOREM)
    for name, value in found.items():
        if not isinstance(value, str) and not np.isfinite(value):
            found[name] = UNBOUNDED if has_unprotected(histories) else _OVERFLOW
    fields = with_reasons(found)
    if largest and largest.reason is not None:
        fields["reasons"]["accountant"] = largest.reason
    epsilon = []
    if largest and fields["epsilon_max"] is not None and terms.delta and terms.adjacency:
        epsilon.append(
            EpsilonSection(
                observer=terms.observer,
                delta=terms.delta,
                adjacency=terms.adjacency,
                accountant=largest.accountant,
                value=largest.value,
            )
        )
    return DeclaredPrivacy(
        **fields,
        epsilon=epsilon,
        participations_max=int(histories.distinct().sum(axis=1).max(initial=0)),
        budget=None if terms.budget is None else terms.budget.model_dump(),
        over_budget=clients_over(terms, histories),
    )


def _no_epsilon(terms: LedgerTerms) -> str:
    return f"the cost of {terms.mechanism} is not counted as an epsilon with a delta"


def _population(own: np.ndarray, terms: LedgerTerms) -> np.ndarray:
    """The costs with a zero for each client that was never named, as many as a median needs."""
    if terms.unit == "record":
        return own if len(own) else np.zeros(1)
    unnamed = min(max(terms.population - len(own), 0), len(own) + 1)
    return np.concatenate([own, np.zeros(unnamed)])


_DIGITS = 1e-9
_DIGITS_OF_PLD = 1e-6


def _privacy_checks(found: DeclaredEvidence) -> Iterator[Check]:
    """The terms, and every figure from what the entries charged."""
    terms, histories = found.terms, found.histories
    yield Check.of(
        "report.terms",
        canonical_hash(value_at(found.report, "terms")) == canonical_hash(found.evidence.spec),
        good="the report is about the stored terms",
        bad="the report's terms are not the stored ones",
    )
    if histories is None:
        yield Check.unchecked("report.figures", "the entries have too many distinct events")
        return
    section = declared_privacy(terms, histories).model_dump(mode="json")
    computed = _DIGITS_OF_PLD if terms.accountant == "pld" else _DIGITS
    for name, value in section.items():
        digits = EXACT if name == "budget" else computed
        yield agrees(found.report, f"privacy.{name}", value, digits=digits)


def _privacy_limits(material: DeclaredMaterial) -> Iterator[str]:
    terms = material.terms
    if terms.delta is not None and terms.counts_epsilon and terms.delta >= 1 / terms.population:
        yield (
            f"delta = {terms.delta:g} is not below one in the population of {terms.population}: a "
            "mechanism may then disclose one unit's data in full."
        )


class DeclaredUtility(Part):
    """No figure of the model but whether the declared counts show one that decides something."""

    degenerate: bool | None
    stopped_by: str | None = None
    """Always null: how a training elsewhere ended is not declared."""
    reasons: Reasons


def _utility(material: DeclaredMaterial) -> DeclaredUtility:
    found = decides_nothing(material.groups)
    reasons = {
        name: "a declared ledger has no such figure"
        for name, row in PLAIN_FIGURES.items()
        if row.section == "utility"
    }
    if found is not False:
        reasons["degenerate"] = _CONSTANT if found else _NO_COUNTS
    return DeclaredUtility(degenerate=found, reasons=reasons)


_NO_COUNTS = "no counts of groups were declared, so nothing shows what the model decides"
_CONSTANT = "by the declared counts the model is no better than one answer for everybody"
_NOT_IN_ENTRIES = (
    "entries hold no counts of groups: the service compares them with what the chain holds"
)


def _fairness_limits(material: DeclaredMaterial) -> Iterator[str]:
    if material.groups:
        yield (
            "Gaps follow from counts that the trainer declares, of the newest round that has any. "
            "Which rows were counted, and by which rule, is not known here, and no guarantee "
            "covers the counts."
        )
    if len(material.groups) > 1:
        yield (
            "Small groups are suppressed attribute by attribute. Which rows attributes have in "
            "common is not declared, so differences between attributes are not looked at."
        )


def _integrity_limits(material: DeclaredMaterial) -> Iterator[str]:
    if material.witness == DATABASE:
        yield (
            "Earlier signatures of this ledger are missing, or another key made them. So this one "
            "covers rounds as the database held them: anyone who could change it could choose what "
            "was signed. A chain head that the trainer kept still shows a change."
        )
    first = material.first_declaration
    uncovered = sum(first is None or one.round < first for one in material.rounds)
    if uncovered:
        yield (
            f"{counted(uncovered, 'round')} declared before the chain covered counts of groups and "
            "who was drawn: of these it shows no change that was made before they were signed."
        )


_WHY_UNSIGNED = "waits for the service's signature, or the service has no key"
_Declared = Section[DeclaredMaterial, DeclaredEvidence]
DECLARED: tuple[_Declared, ...] = (
    _Declared("ledger", _ledger, _ledger_checks, _ledger_limits),
    _Declared(
        "integrity",
        lambda material: unsigned(material, _WHY_UNSIGNED),
        lambda found: integrity_checks(found.report, found.audit),
        _integrity_limits,
    ),
    _Declared("guarantee", _guarantee, _guarantee_checks, _guarantee_limits),
    _Declared(
        "privacy",
        lambda material: declared_privacy(material.terms, material.histories),
        _privacy_checks,
        _privacy_limits,
    ),
    TESTED,
    _Declared("utility", _utility, _NOT_IN_ENTRIES, no_limits),
    _Declared("fairness", declared_fairness, _NOT_IN_ENTRIES, _fairness_limits),
)
"""The sections of a declared ledger's report, in the order in which they are verified."""
