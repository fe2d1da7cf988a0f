"""The mechanism of a spec, and the facts of a mechanism by its name.

A new mechanism is registered here in both places; a member of the spec's union that is missing from
`mechanism_of` is a type error.

Whether a trained model may leave the service, or the machine that trained it.
"""

from typing import assert_never

from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.privacy.mechanisms.base import MechanismFacts, NoPrivacyMechanism, PrivacyMechanism
from fedaudit.privacy.mechanisms.gaussian import (
    GaussianCentralMechanism,
    GaussianDistanceMechanism,
    GaussianLocalMechanism,
)
from fedaudit.privacy.mechanisms.laplace_l2 import LaplaceL2Mechanism
from fedaudit.privacy.mechanisms.record_personalised import RecordPersonalisedMechanism
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianDistance,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)

_SIMULATED = (
    "its noise was simulated: anyone with the seed can draw it again and subtract it; set "
    "privacy.noise to release"
)


def why_model_stays(mechanism: PrivacyMechanism) -> str | None:
    """Every reason why a model trained so may not leave, each with what to change.

    None where a proven guarantee covers the model and is in force. The people held out for
    validation are not asked about here: the round whose hypotheses are kept is chosen by their
    losses only where these are published as well, and with `fairness.noise` it is the last.
    """
    reasons = [] if mechanism.uncovered_model is None else [mechanism.uncovered_model]
    if not mechanism.noise_is_secret and mechanism.guarantee_kind != "none":
        reasons.append(_SIMULATED)
    return "; and ".join(reasons) or None


MECHANISMS: tuple[type[PrivacyMechanism], ...] = (
    LaplaceL2Mechanism,
    GaussianLocalMechanism,
    GaussianCentralMechanism,
    GaussianDistanceMechanism,
    RecordPersonalisedMechanism,
    NoPrivacyMechanism,
)
"""All mechanisms, in the order in which they are offered; the first is the default choice."""

_FACTS = {mechanism.facts.name: mechanism.facts for mechanism in MECHANISMS}


def mechanism_of(spec: ExperimentSpec) -> PrivacyMechanism:
    """The mechanism of a spec, bound to it."""
    privacy = spec.privacy
    match privacy:
        case NoMechanism():
            return NoPrivacyMechanism(spec, privacy)
        case LaplaceL2():
            return LaplaceL2Mechanism(spec, privacy)
        case GaussianCentral():
            return GaussianCentralMechanism(spec, privacy)
        case GaussianDistance():
            return GaussianDistanceMechanism(spec, privacy)
        case GaussianLocal():
            return GaussianLocalMechanism(spec, privacy)
        case RecordPersonalised():
            return RecordPersonalisedMechanism(spec, privacy)
        case _:
            assert_never(privacy)


def mechanism_facts(name: str) -> MechanismFacts:
    """The facts about the mechanism of that name. Raises ValueError for one that this version does
    not know."""
    if name not in _FACTS:
        raise ValueError(f"no mechanism {name!r}; known are {', '.join(_FACTS)}")
    return _FACTS[name]


def known_facts(name: str | None) -> MechanismFacts | None:
    """The same for a stored name, which may be missing or from another version; None in that
    case."""
    return None if name is None else _FACTS.get(name)


def bounds_nothing(name: str | None) -> bool:
    """Whether no run of this mechanism counts a cost. The name is a stored one, as in
    `known_facts`."""
    facts = known_facts(name)
    return facts is not None and facts.cost_kinds == ("unbounded",)


def unbounded_release(name: str | None) -> str:
    """How uploads left a client where nothing bounds them, as the end of a sentence.

    The name is a stored one, as in `known_facts`.
    """
    facts = known_facts(name)
    known = None if facts is None else facts.unbounded_release
    return "without any known bound" if known is None else known


def why_unbounded(inputs: MechanismParameters) -> str:
    """Why nothing bounds what a release reveals, for entries that count no cost."""
    facts = known_facts(inputs.mechanism)
    if facts is None:
        return "this version does not know the mechanism, so no bound is stated"
    if facts.unbounded is None:
        return "the mechanism has no noise multiplier on record, so nothing bounds a release"
    return facts.unbounded
