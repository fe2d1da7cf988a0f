"""Gates on what attacks found: a small figure is evidence only of an attack that could find more.

Whoever is judged chooses the attack. One that finds nothing anywhere would pass every gate, so a
figure that meets an upper bound has to come from an attack that is shown to have power; one that
misses the bound decides by itself. Of several attacks of a kind the worst decides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never, cast

from fedaudit.spec.attacks.attack_spec import AttackKind
from fedaudit.spec.gates import AttackFigure, Gate

LEAST_POWER = 0.8
"""The chance of an alarm were there half the noise, from which the silence of canaries counts."""
LEAST_LEVEL = 0.95
"""Of an interval that decides."""
LEAST_WITHOUT_NOISE = 0.5
"""The share of images that an attack recovers where nothing protects them, from which its failure
with noise says something of the noise."""
LARGEST_SHARE = 0.25
"""The share of images that an attack may still get past a noise multiplier which is said to
protect."""
_FALSE_POSITIVES = 0.01

Section = Mapping[str, Any]
Report = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """A figure of one attack; a value of None has its reason."""

    value: float | None
    reason: str | None = None
    weakness: str | None = None
    """Why the value is no evidence that an attacker gets no further."""
    upper: float | None = None
    """The end of its interval up to which it may lie; None where it has none."""


def attack_evidence(figure: AttackFigure, report: Report) -> Evidence:
    """The worst of a figure over the report's attacks of its kind."""
    kind = _KINDS[figure]
    attacks = [one for one in report.get("attacks") or [] if one["kind"] == kind]
    if not attacks:
        return Evidence(None, f"the report has no attack of the kind {kind}")
    found = [_evidence(figure, one, report) for one in attacks]
    known = [one for one in found if one.value is not None]
    if not known:
        return found[0]
    doubts = [one.reason if one.value is None else one.weakness for one in found]
    return Evidence(
        max(cast(float, one.value) for one in known),
        weakness=next((one for one in doubts if one is not None), None),
        upper=max((one.upper for one in known if one.upper is not None), default=None),
    )


def attack_doubt(gate: Gate, report: Report, *, meets: Callable[[float, Gate], bool]) -> str | None:
    """Why a figure of an attack that meets the bound decides nothing; None where it does, and for
    any other figure.

    `meets`: whether a value meets the gate's bound.
    """
    figure = gate.plain_figure
    if figure is None or figure.section != "attacks":
        return None
    found = attack_evidence(cast(AttackFigure, gate.figure), report)
    if found.value is None or (gate.op == "le" and not meets(found.value, gate)):
        return None
    if found.weakness is not None:
        return found.weakness
    if gate.op == "le" and found.upper is not None and not meets(found.upper, gate):
        return (
            f"{found.value:.4g} was found, and by its interval it may be {found.upper:.4g}, which "
            f"is over {gate.value:.6g}; attack more images or records, or set a larger bound"
        )
    return None


_KINDS: Mapping[AttackFigure, AttackKind] = {
    "epsilon_lower_bound": "canaries",
    "membership_tpr_at_1pct": "membership",
    "recovered_share": "gradient-leakage",
    "nu_protecting": "gradient-leakage",
}


def _evidence(figure: AttackFigure, attack: Section, report: Report) -> Evidence:
    if attack["status"] != "done":
        return Evidence(None, attack["reason"] or "an attack was not done")
    match figure:
        case "epsilon_lower_bound":
            return _lower_bound(attack)
        case "membership_tpr_at_1pct":
            return _members_found(attack)
        case "recovered_share":
            return _recovered(attack, report)
        case "nu_protecting":
            return _protecting(attack, report)
        case _:
            assert_never(figure)


def _lower_bound(attack: Section) -> Evidence:
    bounds = _objects(attack, "bounds")
    values = list(_numbers(bounds, "epsilon_lower_bound"))
    if not values:
        return Evidence(None, attack.get("claim_reason") or "the audit by canaries has no bound")
    power = max(_numbers(bounds, "power"), default=None)
    weakness = None
    if power is None or power < LEAST_POWER:
        stated = "no power is stated" if power is None else f"its power is {power:.2g}"
        weakness = (
            f"the audit by canaries would notice too little to be evidence: {stated}, and "
            f"{LEAST_POWER:g} is needed; plant more canaries"
        )
    return Evidence(max(values), weakness=weakness)


def _members_found(attack: Section) -> Evidence:
    """By the way to score rows that finds most of those that the attack tried."""
    at_one = [_at_one_percent(one) for one in (attack, *_objects(attack, "others"))]
    own = at_one[0]
    if own is None:
        return Evidence(None, "the attack states no true positive rate at 1 % of false positives")
    known = [one for one in at_one if one is not None and isinstance(one["tpr"], int | float)]
    if own not in known:
        return Evidence(None, str(own["reason"] or "the true positive rate at 1 % is not known"))
    limits = [_interval(one.get("interval"), level=attack.get("confidence")) for one in known]
    weakness = next((why for why, _ in limits if why is not None), None)
    if attack.get("method") == "threshold":
        weakness = (
            "guessing by the loss alone finds few members at 1 % of false positives, whatever the "
            "model; attack by `likelihood-ratio` or `relative`"
        )
    return Evidence(
        max(float(one["tpr"]) for one in known),
        weakness=weakness,
        upper=max((upper for _, upper in limits if upper is not None), default=None),
    )


def _at_one_percent(rates: Section) -> Section | None:
    found = _objects(rates, "tpr_at_fpr")
    return next((one for one in found if one.get("fpr") == _FALSE_POSITIVES), None)


def _recovered(attack: Section, report: Report) -> Evidence:
    """At the run's own noise, or the nearest smaller one that was tried."""
    own = report["privacy"].get("noise_multiplier") or 0.0
    results = sorted(_objects(attack, "results"), key=lambda one: float(one["noise_multiplier"]))
    tried = [one for one in results if one["noise_multiplier"] <= own]
    if not tried:
        return Evidence(
            None, f"no noise multiplier was tried that is at most the run's own, {own:g}"
        )
    value = next(_numbers(tried[-1:], "recovered_share"), None)
    if value is None:
        return Evidence(None, "without baselines nobody can say which images were recovered")
    weakness, upper = _interval(tried[-1].get("recovered_interval"))
    weakness = _other_than_the_run(attack, report) or _without_noise(results) or weakness
    return Evidence(value, weakness=weakness, upper=upper)


def _other_than_the_run(attack: Section, report: Report) -> str | None:
    """Why the updates attacked are harder than those of the run, or too few to count; None where
    they are neither."""
    if (attack.get("images_per_update") or 1) > 1:
        return (
            "images of one update are recovered or lost together, so their number is no evidence; "
            "attack with `images_per_update: 1`"
        )
    own = bool(report.get("spec", {}).get("privacy", {}).get("per_layer"))
    if bool(attack.get("per_layer")) != own:
        return f"the run has `per_layer: {str(own).lower()}`, and the attack was on other noise"
    if (attack.get("local_steps") or 1) > 1:
        return "one local step reveals more than several; attack with `local_steps: 1`"
    if attack.get("hypothesis") == "trained":
        return (
            "updates of a trained model are shorter beside the same noise than those that the run "
            "sent first; attack with `hypothesis: initial`"
        )
    return None


def _protecting(attack: Section, report: Report) -> Evidence:
    value = next(_numbers([attack], "nu_protecting"), None)
    if value is None:
        why = attack.get("nu_protecting_reason") or "no noise multiplier is known to protect"
        return Evidence(None, str(why))
    weakness, upper = _interval(attack.get("nu_protecting_interval"))
    if weakness is None and upper is not None and upper > LARGEST_SHARE:
        weakness = (
            f"up to {upper:.2g} of images may still be recovered at that noise multiplier, since "
            "few were attacked; attack more"
        )
    results = _objects(attack, "results")
    weakness = _other_than_the_run(attack, report) or _without_noise(results) or weakness
    return Evidence(value, weakness=weakness)


def _without_noise(results: Sequence[Section]) -> str | None:
    """Why the attack is not shown to recover anything; None where it does without noise."""
    bare = [one for one in results if one["noise_multiplier"] == 0]
    share = next(_numbers(bare, "recovered_share"), None)
    if share is not None and share >= LEAST_WITHOUT_NOISE:
        return None
    found = "was not tried without noise" if share is None else f"recovers {share:.2g} without it"
    return (
        f"the attack {found}, so that its failure says nothing of noise; try the noise multiplier "
        f"0, at which it has to recover {LEAST_WITHOUT_NOISE:g} of the images"
    )


def _interval(interval: object, *, level: float | None = None) -> tuple[str | None, float | None]:
    """Why an interval decides nothing, and its upper end. `level`: where it does not say itself."""
    if not isinstance(interval, Mapping):
        return "it has no interval, and a share alone decides nothing", None
    of = interval.get("level", level)
    if of is None or of < LEAST_LEVEL:
        return f"an interval of less than {LEAST_LEVEL:.0%} decides nothing", None
    return None, float(interval["high"])


def _objects(attack: Section, name: str) -> list[Section]:
    found = attack.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _numbers(sections: Sequence[Section], name: str) -> Iterator[float]:
    for one in sections:
        value = one.get(name)
        if isinstance(value, int | float):
            yield float(value)
