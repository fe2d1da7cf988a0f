"""What the counts with noise may reveal of held-out people, as the report states it."""

from typing import assert_never

from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.privacy.count_release import CountRelease, count_release
from fedaudit.privacy.guarantees.guarantee import at_most
from fedaudit.reports.document.held_out_document import CountSensitivity, FairnessPrivacy
from fedaudit.spec.experiment import ExperimentSpec

NO_NOISE = (
    "fairness.noise is not set: figures of the held-out people follow from their data without "
    "noise, and no epsilon bounds what they reveal"
)


def fairness_privacy(spec: ExperimentSpec, *, releases: int) -> FairnessPrivacy | None:
    """The section for a run whose ledger was charged so often; None without noise."""
    release = count_release(spec)
    if release is None:
        return None
    epsilon = release.epsilon(releases)
    in_force = is_secret(spec)
    return FairnessPrivacy(
        mechanism=release.mechanism,
        epsilon=epsilon,
        delta=release.delta,
        unit=release.unit,
        adjacency=release.adjacency,
        observer=release.observer,
        accountant=release.accountant,
        releases=releases,
        noise_deviation=release.deviation,
        sensitivity=CountSensitivity(
            l1=release.l1, l2=release.l2, attributes=release.attributes, max_rows=release.max_rows
        ),
        in_force=in_force,
        statement=_statement(release, epsilon, releases=releases, in_force=in_force),
    )


def is_secret(spec: ExperimentSpec) -> bool:
    """Whether nobody can draw the noise of the counts again."""
    match spec.privacy.noise:
        case "release":
            return True
        case "simulation":
            return False
        case _:
            assert_never(spec.privacy.noise)


def _statement(release: CountRelease, epsilon: float, *, releases: int, in_force: bool) -> str:
    match release.unit:
        case "client":
            who = (
                "one validation client are counted or not; at most "
                f"{release.max_rows} of its rows count towards an attribute"
            )
        case "record":
            who = "one held-out record are counted or not, its client's other records being given"
        case _:
            assert_never(release.unit)
    delta = f", delta = {release.delta:g}" if release.delta else ""
    found = (
        f"Formal. The fairness figures of {_published(releases)} satisfy "
        f"epsilon = {at_most(epsilon)}{delta} against {observer_words(release.observer)}, under "
        f"{adjacency_words(release.adjacency)}: "
        f"whether the figures of {who}. The model is taken as given."
    )
    if not in_force:
        found += (
            " The noise was simulated: whoever has the seed, which this report states, can "
            "subtract it, so the guarantee is not in force and protects nobody."
        )
    return found


def _published(releases: int) -> str:
    if releases == 1:
        return "this report"
    return f"this report and of its validated rounds ({releases - 1}), all together,"
