"""What canaries show and what they do not, in plain words."""

from collections.abc import Sequence

from fedaudit.privacy.accounting.privacy_events import Observer, observer_words
from fedaudit.reports.sections.attacks import CanaryBound
from fedaudit.spec.attacks.canaries_spec import CanariesSpec

HALVED_ALONE = (
    "The power is for noise of the claimed kind and half its size alone; of any other fault, as of "
    "noise that cancels over rounds, it says nothing."
)
COMPANION = (
    "The canaries took part in a companion training of the same spec, by the same sampling, clip, "
    "sums and noise as everybody. The run itself was not touched, nor any loss, count or figure "
    "of its utility: what is tested is the mechanism and its code with this spec, in a training "
    "beside the run, and not the releases of the run itself."
)
CONFIDENTIAL = (
    "Nothing is charged for it, and no guarantee covers its results: they are confidential."
)
_SHARED_CAPABILITIES = [
    "Knows everything but the coins of the canaries, as the adversary of the definition does.",
    "Chooses what a canary sends before it is clipped.",
]


def capabilities(observer: Observer | None, *, by_record: bool) -> list[str]:
    """What this attacker knows and may do."""
    seen = {
        "final_model": "Sees the released hypotheses of every round, and not who took part.",
        "server": "Sees every upload, and who sent it.",
        None: "Sees every upload, and who sent it.",
    }[observer]
    steps = ["Sees every local step of the canaries' clients (white box)."] * by_record
    return [*_SHARED_CAPABILITIES, seen, *steps]


def claim_words(spec: CanariesSpec, *, epsilon: float, delta: float, observer: Observer) -> str:
    """The claim, with its unit, observer and figure."""
    return (
        f"epsilon {epsilon:.4g} at delta {delta:g} for every {spec.unit}, against "
        f"{observer_words(observer)}"
    )


def measured_words(bounds: Sequence[CanaryBound]) -> str:
    """What each bound measured, for an alarm."""
    return "; ".join(
        f"{bound.name}: at least {bound.epsilon_lower_bound:.4g}, wrong with a chance of at most "
        f"{bound.significance:.2g}"
        + ("" if bound.e_value is None else f" (e-value {bound.e_value:.4g})")
        for bound in bounds
    )


def bounds_statement(
    claim: str,
    epsilon: float,
    bounds: Sequence[CanaryBound],
    *,
    alarm: bool,
    stopped_in: int | None = None,
) -> str:
    """What was tried and what came of it."""
    figures = ", ".join(
        f"{bound.epsilon_lower_bound:.3g} by {bound.name} (power {bound.power:.0%})"
        for bound in bounds
    )
    if stopped_in is not None:
        verdict = (
            f"After round {stopped_in} the evidence was enough, and a run beside it was ended: "
            "either the mechanism or its accounting is wrong."
        )
    elif alarm:
        verdict = "The evidence is enough: either the mechanism or its accounting is wrong."
    elif any(bound.epsilon_lower_bound > epsilon for bound in bounds):
        verdict = (
            "A bound passes the claim, which one look at its significance does by chance now and "
            "then; all attacks on this run together are not enough for an alarm."
        )
    elif any(bound.all_clear is None for bound in bounds):
        verdict = (
            "No measurement passes the claim, and one of them would likely have, were the noise "
            "half of what is claimed. That is evidence and no proof: other faults may hide."
        )
    else:
        verdict = (
            "No measurement passes the claim, but none was likely to even were the noise half of "
            "what is claimed: this is no all-clear. More canaries or rounds would tell more, by "
            "known-noise at least."
        )
    return (
        f"Claimed: {claim}. Measured from below: {figures}. {HALVED_ALONE} {verdict} {COMPANION} "
        f"{CONFIDENTIAL}"
    )
