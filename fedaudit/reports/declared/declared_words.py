"""What the report of a declared ledger says in sentences: guarantee, verdict, limits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedaudit.ledger.statements import DATABASE
from fedaudit.privacy.accounting.privacy_events import LaplaceL2, adjacency_words, observer_words
from fedaudit.privacy.declared.figures import conditions, has_unprotected
from fedaudit.privacy.guarantees.cost_sentences import cost_words
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.privacy.mechanisms.gaussian import LOOSE_FIXED_SIZE
from fedaudit.reports.declared.ledger_material import DeclaredMaterial

_GAP = "demographic_parity_difference"


def statement(material: DeclaredMaterial) -> str:
    """The guarantee, as the trainer declares it."""
    terms = material.terms
    if terms.mechanism == "none":
        return "The trainer declares no mechanism: nothing bounds what its rounds reveal."
    if not terms.counts_epsilon:
        return (
            "As declared by the trainer: uploads with noise of metric privacy, counted as leakage "
            f"against {observer_words(terms.observer)}. Nobody here saw the noise."
        )
    return (
        f"As declared by the trainer: (epsilon, delta)-differential privacy of one {terms.unit} at "
        f"delta = {terms.delta:g} under {adjacency_words(terms.adjacency or '')}, against "
        f"{observer_words(terms.observer)}, if every clip, noise and sample was as declared. "
        "Nobody here saw them; the composition alone was computed here."
    )


def verdict(material: DeclaredMaterial, sections: Mapping[str, Any]) -> str:
    """What was declared, what it comes to, and what speaks against it."""
    return " ".join(_verdict(material, sections))


def _verdict(material: DeclaredMaterial, sections: Mapping[str, Any]) -> Iterator[str]:
    rounds = len(material.rounds)
    yield f"As declared by the trainer, and seen by nobody here: {_cost(material, sections)}"
    if sections["contradictions"]:
        yield (
            "What was declared contradicts itself, so these figures are no evidence: "
            f"{'; '.join(sections['contradictions'])}."
        )
    over = sections["privacy"]["over_budget"]
    if over:
        yield f"{_counted(over, 'client')} spent more than the budget of a client."
    refused = sections["ledger"]["refused_rounds"]
    if refused:
        yield f"{_counted(refused, 'round')} ran for clients to whom they had been refused."
    missing = sections["ledger"]["missing_rounds"]
    if missing:
        last = material.rounds[-1].round
        yield f"{_counted(missing, 'number')} below round {last} never declared."
    gaps = [
        (section["metrics"][_GAP]["value"], section["attribute"])
        for section in sections["fairness"]
        if section["metrics"][_GAP]["value"] is not None
    ]
    if gaps:
        value, attribute = max(gaps)
        yield f"The widest declared gap in selection rates is {value:.4g}, by {attribute}."
    elif rounds:
        yield "No gap between groups can be shown."


def _cost(material: DeclaredMaterial, sections: Mapping[str, Any]) -> str:
    terms, privacy, rounds = material.terms, sections["privacy"], len(material.rounds)
    what = _counted(rounds, "round")
    if not rounds:
        return "no round yet."
    if terms.mechanism == "none" or has_unprotected(material.histories):
        return f"{what}, some or all without noise, so nothing bounds what they reveal."
    if privacy["epsilon_max"] is not None:
        epsilon = privacy["epsilon_max"]
        guessed = f"whether a {terms.unit}'s data were used"
        if terms.adjacency == "replace-one":
            guessed = f"which of two datasets a {terms.unit} has"
        much = cost_words(epsilon, guessed=guessed, delta=terms.delta or 0.0, is_epsilon=True)
        return (
            f"{what} spent an epsilon of at most {at_most(epsilon)} at delta = {terms.delta:g} "
            f"under {adjacency_words(terms.adjacency or '')}. {_if_true(much)}"
        )
    if privacy["leakage_max"] is None:
        return f"{what}, and no finite number bounds what they reveal."
    return f"{what} have a leakage of at most {at_most(privacy['leakage_max'])} by n/nu a release."


def _if_true(sentence: str) -> str:
    return sentence.replace("That is", "If all was so, that is", 1)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def limits(material: DeclaredMaterial) -> list[str]:
    """What the report does not show."""
    return list(_limits(material))


def _limits(material: DeclaredMaterial) -> Iterator[str]:
    terms = material.terms
    yield (
        "Clips, noise, samples, participants and counts are as the trainer declares them. Nobody "
        "here saw the training; a signature says what was declared, and not that it is true."
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
            f"cost; no more than the population of {terms.population} can be named, and a ledger "
            "that lists its subjects admits no other names."
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
            "so does whoever reads its own records."
        )
    if terms.unit == "record":
        yield "One record is covered; a person with several records is protected less."
    failed = sum(one.failures for one in material.rounds)
    if failed:
        yield (
            f"{_counted(failed, 'failure')} within rounds: clients that failed are charged as if "
            "they had sent an update, because what left them before is not known."
        )
    if material.unanswered_reservations:
        yield (
            f"{_counted(material.unanswered_reservations, 'round')} reserved and neither declared "
            "nor released: what was reserved may have run."
        )
    unreserved = sum(not one.reserved for one in material.rounds)
    if unreserved and terms.budget is not None:
        yield (
            f"{_counted(unreserved, 'round')} declared without a reservation, or otherwise than "
            "reserved: no budget was asked beforehand."
        )
    yield from _proof_limits(material)
    if material.groups:
        yield from _fairness_limits(material.groups)
    if terms.delta is not None and terms.counts_epsilon and terms.delta >= 1 / terms.population:
        yield (
            f"delta = {terms.delta:g} is not below one in the population of {terms.population}: a "
            "mechanism may then disclose one unit's data in full."
        )


def _leakage_limits(material: DeclaredMaterial) -> Iterator[str]:
    charged = (
        charge for charge in material.histories.charges if isinstance(charge.event, LaplaceL2)
    )
    first = next(charged, None)
    if first is None or not isinstance(first.event, LaplaceL2):
        return
    radius, clip = first.event.radius, first.clip
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


def _proof_limits(material: DeclaredMaterial) -> Iterator[str]:
    if material.witness == DATABASE:
        yield (
            "Earlier signatures of this ledger are missing, or another key made them. So this one "
            "covers rounds as the database held them: whoever could change it could choose what "
            "was signed. A chain head that the trainer kept still shows a change."
        )
    if material.uncovered_rounds:
        yield (
            f"{_counted(material.uncovered_rounds, 'round')} declared before the chain covered "
            "counts of groups and who was drawn: of these it shows no change that was made before "
            "they were signed."
        )


def _fairness_limits(groups: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "Gaps follow from counts that the trainer declares, of the newest round that has any. "
        "Which rows were counted, and by which rule, is not known here, and no guarantee covers "
        "the counts."
    )
    if len(groups) > 1:
        yield (
            "Small groups are suppressed attribute by attribute. Which rows attributes have in "
            "common is not declared, so differences between attributes are not looked at."
        )


def observers_of(material: DeclaredMaterial) -> Sequence[str]:
    """Against whom the guarantee is declared."""
    return [] if material.terms.mechanism == "none" else [material.terms.observer]
