"""Whether a trained model may leave the service, or the machine that trained it."""

from fedaudit.privacy.mechanisms.base import PrivacyMechanism

_SIMULATED = (
    "its noise was simulated: whoever has the seed can draw it again and subtract it; set "
    "privacy.noise to release"
)


def why_model_stays(mechanism: PrivacyMechanism) -> str | None:
    """Every reason why a model trained so may not leave, each with what to change.

    None where a proven guarantee covers the model and is in force. The people held out for
    validation are not asked about here: the round whose hypotheses are kept is chosen by their
    losses only where these are published as well, and with `fairness.noise` it is the last.
    """
    reasons = [] if mechanism.uncovered_model is None else [mechanism.uncovered_model]
    if not mechanism.noise_is_secret:
        reasons.append(_SIMULATED)
    return "; and ".join(reasons) or None
