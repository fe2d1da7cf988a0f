"""What a report states on each topic of NIST SP 800-226, and how far that answers the question."""

from typing import Final, Literal

from fedaudit.privacy.accounting.privacy_events import adjacency_words
from fedaudit.reports.document.participation import charges_everyone
from fedaudit.reports.readings import facts
from fedaudit.reports.readings.document_fields import (
    Document,
    ReadingPart,
    figure,
    number_at,
    part_at,
    parts_at,
    settings,
    text_at,
    texts_at,
)

Status = Literal["answered", "answered in part", "not shown by this run"]
ANSWERED: Final = "answered"
IN_PART: Final = "answered in part"
NOT_SHOWN: Final = "not shown by this run"

_NO_GUARANTEE = "There is no privacy mechanism, so there is no parameter and no guarantee."
_UNKNOWN = "The report does not say."


class NistStatement(ReadingPart):
    """One question, and what the report answers."""

    question: str
    status: Status
    statement: str


def parameters_and_unit(document: Document) -> list[NistStatement]:
    """Epsilon and delta (or leakage), the unit of privacy, and other figures spent."""
    unit = text_at(document, "guarantee", "unit")
    key = facts.client_key(document)
    stated = f"A {unit}" + (f", identified by the column {key}" if key and unit == "client" else "")
    return [
        _parameters(document),
        _statement(
            "Whose data is protected: what is the unit of privacy, and is it a person?",
            IN_PART,
            f"{stated}. Whether that is one person is not shown, nor whether one person's data "
            "lies in several of them."
            if unit
            else None,
        ),
        _statement(
            "What else was spent on the same data?",
            NOT_SHOWN,
            "The report counts this training alone. What other experiments spent is kept in the "
            "federation's budget.",
        ),
    ]


def guarantee(document: Document) -> list[NistStatement]:
    """The guarantee, its neighbouring datasets, and whether it is proven."""
    kind = facts.kind(document)
    adjacency = text_at(document, "guarantee", "adjacency")
    neighbours = None if adjacency is None else adjacency_words(adjacency)
    none = kind == "none"
    return [
        _statement(
            "Which guarantee is claimed, and is it proven?",
            IN_PART if kind == "heuristic" else ANSWERED,
            text_at(document, "guarantee", "statement"),
        ),
        _statement(
            "Which data sets are neighbours?", ANSWERED, _NO_GUARANTEE if none else neighbours
        ),
        _statement(
            "Is it differential privacy, or a variant that must not be compared with it?",
            ANSWERED,
            _variant(document),
        ),
        _statement(
            "Does the guarantee hold for the model of this run?",
            ANSWERED,
            _judge_this_model(document),
        ),
    ]


def algorithm_and_utility(document: Document) -> list[NistStatement]:
    """The mechanism, the remaining utility, and what the mechanism does not cover."""
    privacy = settings(part_at(document, "spec", "privacy"))
    return [
        _statement("Which mechanism, with which settings?", ANSWERED, privacy and f"{privacy}."),
        _statement("How is the loss composed?", ANSWERED, _composition(document)),
        _utility(document),
        _statement(
            "What uses the data outside the mechanism: preparation, choice of settings, testing?",
            IN_PART,
            f"{facts.held_out(document)} Notes on the data: {_notes(document)}. How the settings "
            "were chosen is not shown.",
        ),
    ]


def bias(document: Document) -> list[NistStatement]:
    """Which groups the model treats worse, and why."""
    sections = parts_at(document, "fairness")
    return [
        _statement(
            "Do groups fare differently under the model?",
            IN_PART if sections else NOT_SHOWN,
            " ".join(map(_gaps, sections)) or "No sensitive attribute was named.",
        ),
        _statement(
            "Are small groups hit harder by the noise?",
            NOT_SHOWN,
            "One run has one noise: compare with a run without. Groups below the minimum size are "
            "suppressed, so how the smallest fare is not shown either.",
        ),
        _statement(
            "Is there systemic bias, or human bias, in the data or in the use of the model?",
            NOT_SHOWN,
            "The report knows the rows as they came, and nothing of their origin or of the use.",
        ),
    ]


def security(document: Document) -> list[NistStatement]:
    """Who can change the evidence, and who can read the data."""
    signed = text_at(document, "integrity", "key_id") is not None
    head = text_at(document, "integrity", "chain_head")
    chain = f"The ledger is a hash chain with the head {head}. " if head else ""
    return [
        _statement(
            "Can the statement be altered unnoticed?",
            IN_PART,
            chain
            + (
                "The report is signed: nothing changed since. That it is true is not shown."
                if signed
                else "The report is not signed."
            ),
        ),
        _statement(
            "Who can read the data and the updates, and how is that kept?",
            NOT_SHOWN,
            "Access to the clients' data, to the server and to the traffic lies outside the run.",
        ),
        _attacks(document),
    ]


def side_channels(document: Document) -> list[NistStatement]:
    """Randomness, floating point, timing."""
    noise = text_at(document, "spec", "privacy", "noise")
    floats = [one for one in texts_at(document, "limits") if "floating-point" in one]
    stated = {
        "simulation": "Drawn from the experiment's seed, so anyone with the seed can repeat it.",
        "release": "Drawn from the operating system's entropy, and not repeatable.",
    }
    return [
        _statement(
            "Where does the randomness come from?",
            ANSWERED,
            stated.get(noise or "") if facts.is_protected(document) else "There is no noise.",
        ),
        _statement(
            "Does floating point give anything away?", IN_PART if floats else NOT_SHOWN, *floats
        ),
        _statement(
            "Does timing, memory or any other channel give anything away?",
            NOT_SHOWN,
            "No such channel was measured, and nothing was done against any.",
        ),
    ]


def trust_model(document: Document) -> list[NistStatement]:
    """Which parties have to be trusted, and with what."""
    against = texts_at(document, "guarantee", "observers")
    stated = "; ".join(map(facts.observer, against))
    origin = facts.noise_origin(document)
    who = "Who adds noise is not known." if origin is None else origin.statement
    return [
        _statement(
            "Against whom does the guarantee hold, and who is trusted?",
            ANSWERED,
            f"Against: {stated or 'nobody'}. {who}" if facts.mechanism(document) else None,
        ),
        _statement(
            "Do the parties deserve that trust?",
            NOT_SHOWN,
            "Whether clients and server run what was agreed on is not shown: the ledger says what "
            "the training process recorded.",
        ),
    ]


def data_collection(document: Document) -> list[NistStatement]:
    """What data were collected, and how exposed they are."""
    return [
        _statement(
            "Which data was used?", IN_PART, facts.federation(document), *_fingerprint(document)
        ),
        _statement(
            "How was it collected: with which consent, how little of it, how long kept?",
            NOT_SHOWN,
            "The run begins with data that is there. No guarantee covers how it was collected or "
            "stored.",
        ),
    ]


def _statement(question: str, status: Status, *sentences: str | None) -> NistStatement:
    """Without a sentence the report lacks the answer, regardless of `status`."""
    stated = " ".join(filter(None, sentences))
    if not stated:
        return NistStatement(question=question, status=NOT_SHOWN, statement=_UNKNOWN)
    return NistStatement(question=question, status=status, statement=stated)


def _parameters(document: Document) -> NistStatement:
    question = "How large is the privacy loss: which parameters, with which values?"
    if facts.kind(document) == "none":
        return _statement(question, ANSWERED, _NO_GUARANTEE)
    # Leakage has no delta and no bound over all data sets, so the question is answered only in
    # part.
    status: Status = IN_PART if facts.epsilon_max(document) is None else ANSWERED
    return _statement(question, status, *facts.spent(document))


def _variant(document: Document) -> str | None:
    if facts.kind(document) is None:
        return None
    if not facts.is_protected(document):
        return _NO_GUARANTEE
    if facts.epsilon_max(document) is None:
        return (
            "Metric privacy: a bound per unit of distance. It is not (epsilon, delta)-differential "
            "privacy, and its leakage must not be compared with an epsilon or added to one."
        )
    return "(epsilon, delta)-differential privacy."


def _judge_this_model(document: Document) -> str | None:
    if facts.kind(document) is None:
        return None
    if not facts.is_protected(document):
        return f"No. {_NO_GUARANTEE}"
    if facts.is_simulated(document):
        return f"No. {facts.NOT_FOR_RELEASE}"
    return "Noise was secret: within the statement above and the report's limits, it does."


def _composition(document: Document) -> str | None:
    if facts.kind(document) == "none":
        return _NO_GUARANTEE
    most = number_at(document, "privacy", "participations_max")
    if most is None:
        return None
    accountants = sorted(
        {
            text_at(one, "accountant") or "unknown"
            for one in parts_at(document, "privacy", "epsilon")
        }
    )
    how = f"by the accountant {', '.join(accountants)}" if accountants else "by adding n/nu"
    if charges_everyone(text_at(document, "guarantee", "mechanism")):
        return f"Over rounds, {how}; all {figure(most)} rounds are charged to everyone."
    return f"Over rounds, {how}; at most {figure(most)} rounds for one subject."


def _utility(document: Document) -> NistStatement:
    names = ("validation_loss", "accuracy")
    found = {name: number_at(document, "utility", name) for name in names}
    stated = ", ".join(f"{name} {figure(one)}" for name, one in found.items() if one is not None)
    return _statement(
        "How useful is what is left?",
        IN_PART,
        stated
        and f"On held-out rows: {stated}. {facts.trained(document)} Whether that suffices for "
        "the use is not shown.",
    )


def _notes(document: Document) -> str:
    return "; ".join(texts_at(document, "data", "notes")) or "none"


def _gaps(section: Document) -> str:
    attribute = text_at(section, "attribute") or "an attribute that is not named"
    stated = []
    for name, metric in part_at(section, "metrics").items():
        stated.append(f"{name} {figure(number_at(metric, 'value'))}")
    hidden = sum(one.get("suppressed") is True for one in parts_at(section, "groups"))
    outcome = text_at(section, "favourable")
    counted = "" if outcome is None else f" (favourable: {outcome})"
    return (
        f"By {attribute}{counted}: {', '.join(stated) or 'no metric'}; suppressed groups: {hidden}."
    )


def _attacks(document: Document) -> NistStatement:
    attacks = parts_at(document, "attacks")
    done = [one for one in attacks if text_at(one, "status") != "not-done"]
    kinds = sorted({text_at(one, "kind") or "unknown" for one in done})
    alarms = sorted({text_at(one, "kind") or "unknown" for one in done if part_at(one, "alarm")})
    raised = (
        f" An alarm was raised by: {', '.join(alarms)}; what was found contradicts the guarantee."
        if alarms
        else ""
    )
    left = " Others were asked for and not carried out." if len(done) < len(attacks) else ""
    return _statement(
        "Was the model attacked?",
        IN_PART if kinds else NOT_SHOWN,
        f"Attacks in the report: {', '.join(kinds)}. An attack that fails is no guarantee."
        f"{raised}{left}"
        if kinds
        else "No attack was run: nothing says what an adversary recovers.",
    )


def _fingerprint(document: Document) -> list[str]:
    found = text_at(document, "provenance", "data_fingerprint")
    return [f"SHA-256 of the data: {found}."] if found else []
