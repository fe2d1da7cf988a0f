"""Reconstructions in plain words: what was tried, what came of it, and what it does not show."""

from collections.abc import Sequence
from typing import assert_never

from fedaudit.attacks.gradient_leakage.recovered_images import RECOVERED_BELOW
from fedaudit.reports.sections.attacks import LeakageResult
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import LaplaceL2


def capabilities_of(spec: GradientLeakageSpec) -> list[str]:
    """What the attacker knows and may do, a sentence each."""
    known = [
        "It sees one client's upload as the server does, and knows which client sent it.",
        "It knows the network, the loss, and the parameters that the client starts from: "
        f"{_start_words(spec)}.",
        f"It knows the step size, and that the client takes {_counted(spec.local_steps, 'step')} "
        f"on {_counted(spec.images_per_update, 'image')}.",
        "It knows neither the noise nor its size, and has no images of the same kind.",
    ]
    if spec.compares_updates:
        known.append(_label_words(spec))
    if spec.layer_weights == "by-noise":
        known.append("It knows that each layer has noise of its own, in proportion to its update.")
    return known


def leakage_statement(
    spec: GradientLeakageSpec,
    run: ExperimentSpec,
    by_noise: Sequence[LeakageResult],
    *,
    protecting: float | None,
) -> str:
    """The paragraph that an officer reads first; `by_noise` ascends."""
    sentences = [
        f"{_counted(spec.images, 'image')} of training clients were to be reconstructed from "
        f"updates with noise of {_counted(len(spec.noise_multipliers), 'size')}, {_method(spec)}.",
        *(_result_words(result) for result in by_noise),
        *_protection_words(by_noise, protecting),
        *_own_noise(run, by_noise),
        "A failed attack is no guarantee: another attacker, more steps or other images may "
        "succeed, and none of these figures is an epsilon.",
        "The updates were made for the attack by the run's own local steps and mechanism; no "
        "upload of the run was used, and none of its figures moved.",
    ]
    if run.privacy.noise == "release":
        sentences.append("What the attack shows of these clients is covered by no guarantee.")
    return " ".join(sentences)


def _method(spec: GradientLeakageSpec) -> str:
    match spec.method:
        case "lbfgs":
            return (
                f"by searching for images with the same update ({spec.searched_for} steps of "
                "L-BFGS at most)"
            )
        case "adam-cosine":
            return (
                "by searching for smooth images whose update has the same direction "
                f"({spec.searched_for} steps of Adam)"
            )
        case "first-layer":
            return "by solving the update of the first layer for its input"
        case "features":
            return (
                "by solving the update of the first dense layer for its input, and searching for "
                f"images that give it ({spec.searched_for} steps of L-BFGS at most)"
            )
        case _:
            assert_never(spec.method)


def _start_words(spec: GradientLeakageSpec) -> str:
    match spec.hypothesis:
        case "initial":
            return "those before the first round"
        case "trained":
            return "those that came of training"
        case _:
            assert_never(spec.hypothesis)


def _label_words(spec: GradientLeakageSpec) -> str:
    match spec.label:
        case "known":
            return "It knows the labels of the images."
        case "inferred":
            return "It reads the label off the last layer's update."
        case "optimised":
            return "It does not know the labels, and searches for them together with the images."
        case _:
            assert_never(spec.label)


def _result_words(result: LeakageResult) -> str:
    noise = f"At nu = {result.noise_multiplier:g}"
    if result.recovered_share is None or result.recovered_interval is None:
        return f"{noise} the mean squared error was {result.mse:.2g}."
    interval = result.recovered_interval
    return (
        f"{noise} {result.recovered_share:.0%} were recovered ({interval.level:.0%} interval "
        f"{interval.low:.0%} to {interval.high:.0%}), that is, with at most {RECOVERED_BELOW:g} "
        "times the error of the mean of the other images and of the nearest of them."
        if result.recovered_share
        else f"{noise} none was recovered ({interval.level:.0%} interval up to "
        f"{interval.high:.0%})."
    )


def _protection_words(
    by_noise: Sequence[LeakageResult], protecting: float | None
) -> tuple[str, ...]:
    if not by_noise or by_noise[0].better_share is None:
        return ()
    if protecting is None:
        return (
            "No noise that was tried kept this attacker from doing better than it could without an "
            "update.",
        )
    return (
        f"From nu = {protecting:g} on no reconstruction was better than what could be said without "
        "an update.",
    )


def _own_noise(run: ExperimentSpec, by_noise: Sequence[LeakageResult]) -> tuple[str, ...]:
    """Where the run's own noise lies among what was tried."""
    if not isinstance(run.privacy, LaplaceL2) or not by_noise:
        return ()
    own = run.privacy.noise_multiplier
    if any(result.noise_multiplier == own for result in by_noise):
        return (f"The run itself has nu = {own:g}.",)
    return (f"The run itself has nu = {own:g}, which was not tried.",)


def _counted(number: int, noun: str) -> str:
    return f"{'one' if number == 1 else number} {noun}{'' if number == 1 else 's'}"
