"""What the mechanisms with an epsilon and a delta guarantee, and what they do not.

- `gaussian-central`: one client's update, clipped to norm c, moves the sum of a round by at most c
  where the client joins or leaves (Poisson coins), by at most 2c where its data are replaced (a
  cohort of fixed size). Noise of standard deviation noise_multiplier * c on the sum is the Gaussian
  mechanism, sampled; rounds are composed. An adaptive clip shares that noise between the updates
  and the count of those within the clip (Andrew et al. 2021, theorem 1).
- `gaussian-local`: two updates of one client lie within 2c; every upload is the Gaussian mechanism
  by itself, and a client's uploads are composed.
- `record-personalised`: one record's clipped gradient moves the sum of a step by at most c where
  the record joins or leaves. Steps hang on the client's coin, and rounds are composed
  (`fedaudit.privacy.accountants.two_stage`). Rates follow from the record's own budget and public
  numbers, so no other record's rate moves. The baselines' rates and noise follow from how many
  records a client has, or from others' budgets too: a proof would take these as known to everybody,
  and their figures are called heuristic.

All of it is for a number of rounds that was fixed before the run. Where validation losses end a run
early, its end follows from the models; what is proven then is the epsilon of all planned rounds,
and the accountant's figure for those that were played is less (an odometer's: Rogers et al. 2016).
"""

from collections.abc import Sequence

from fedaudit.privacy.adaptive_clipping import update_noise_multiplier
from fedaudit.privacy.guarantee import SIMULATED, Guarantee, at_most, no_guarantee, number
from fedaudit.privacy.inputs import GuaranteeKind
from fedaudit.privacy.record_baselines import TREATED_AS_PUBLIC
from fedaudit.privacy.spending_plan import ObserverEpsilon
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import GaussianCentral, GaussianLocal, RecordPersonalised
from fedaudit.spec.training import FixedCohort, PoissonCohort

EpsilonMechanism = GaussianCentral | GaussianLocal | RecordPersonalised

_NOTHING_HIDDEN = (
    "Training without noise, to compare with: nothing bounds what the server, or whoever sees the "
    "model, learns about a record."
)
_HELD_OUT = {
    "client": (
        "The clients held out for validation are not covered: their losses choose the best round "
        "and when to stop, and their fairness counts are used without noise."
    ),
    "record": (
        "The rows held out for validation are not covered: their losses choose the best round and "
        "when to stop, and their fairness counts are used without noise."
    ),
}


def epsilon_kind(privacy: EpsilonMechanism) -> GuaranteeKind:
    """How far the figures of the mechanism are proven."""
    if not isinstance(privacy, RecordPersonalised):
        return "formal"
    if privacy.baseline == "privacy-free":
        return "none"
    proven = privacy.baseline is None and privacy.inversion == "exact"
    return "formal" if proven else "heuristic"


def epsilon_guarantee(
    spec: ExperimentSpec,
    privacy: EpsilonMechanism,
    epsilons: Sequence[ObserverEpsilon],
    planned: Sequence[ObserverEpsilon],
) -> Guarantee:
    """The guarantee; `epsilons` are what was spent, where that is known.

    `planned`: what all rounds would have spent, of a run that validation ended early.
    """
    kind = epsilon_kind(privacy)
    unit = "record" if isinstance(privacy, RecordPersonalised) else "client"
    if kind == "none":
        return no_guarantee(privacy.mechanism, unit=unit, statement=_NOTHING_HIDDEN)
    observers: tuple[str, ...]
    match privacy:
        case GaussianCentral():
            observers = ("final_model",)
            adjacency, sentences = _central(spec, privacy)
        case GaussianLocal():
            observers = ("server",)
            adjacency, sentences = "replace-one", _local(privacy)
        case RecordPersonalised():
            observers = ("final_model", "server")
            adjacency, sentences = "add-or-remove-one", _records(spec, privacy)
    sentences += _figures(epsilons)
    if spec.training.stopping.patience is not None:
        sentences.append(_early_end(planned))
    sentences.append(_HELD_OUT[spec.federation.validation_unit])
    if privacy.noise == "simulation":
        sentences.append(SIMULATED)
    return Guarantee(
        kind=kind,
        mechanism=privacy.mechanism,
        unit=unit,
        adjacency=adjacency,
        delta=privacy.delta,
        observers=observers,
        statement=" ".join(sentences),
    )


def _figures(epsilons: Sequence[ObserverEpsilon]) -> list[str]:
    if not epsilons:
        return []
    return [f"Spent, by whoever spent most: epsilon = {_told(epsilons)}."]


def _early_end(planned: Sequence[ObserverEpsilon]) -> str:
    """What is proven where losses may end the run."""
    figure = f": epsilon = {_told(planned)}" if planned else ""
    return (
        "Validation losses may end training early, and they follow from the models. What is proven "
        f"is then the epsilon of all rounds that were planned{figure}. The epsilon of the rounds "
        "that were played is the accountant's count of them and takes their number as given."
    )


def _told(epsilons: Sequence[ObserverEpsilon]) -> str:
    return ", ".join(f"{at_most(one.value)} before {_WHO[one.observer]}" for one in epsilons)


_WHO = {"final_model": "those who see the models", "server": "the server"}


def _central(spec: ExperimentSpec, privacy: GaussianCentral) -> tuple[str, list[str]]:
    fixed = isinstance(spec.training.cohort, FixedCohort)
    adjacency = "replace-one" if fixed else "add-or-remove-one"
    neighbours = (
        "the whole data of one client that trains"
        if fixed
        else "one client more or less among those that train"
    )
    reach = (
        "replacing a client moves the sum by up to two clips, and the accountant counts that"
        if fixed
        else "a client more or less moves the sum by at most one clip"
    )
    clip, noise = f"a clip of {number(privacy.initial_clip)}", number(privacy.noise_multiplier)
    if (adaptive := privacy.adaptive_clip) is not None:
        clip = (
            f"a clip that starts at {number(privacy.initial_clip)} and follows a noised count of "
            "the updates within it; updates and count share the noise, as one mechanism of noise "
            f"multiplier {noise}"
        )
        noise = number(
            update_noise_multiplier(
                noise_multiplier=privacy.noise_multiplier, count_noise=adaptive.count_noise
            )
        )
    sentences = [
        "Formal. The models of all rounds together satisfy (epsilon, delta)-differential privacy, "
        f"delta = {privacy.delta:g}, between federations that differ by {neighbours} (adjacency "
        f"{adjacency}), against everyone who sees the models but neither the updates nor who took "
        "part.",
        "The server is trusted: it sees every update before the noise, and who sent it. Nothing "
        "here protects a client against the server.",
        f"Updates are shortened to {clip}; {reach}. The sum of a round gets Gaussian noise of "
        f"{noise} clips, for every round whoever came, and is divided by a constant. Which "
        "clients train and how many they are is taken as known to everybody.",
    ]
    if spec.training.hypotheses > 1:
        sentences.append(
            "A client adds to the one hypothesis that it chose itself, and all hypotheses get "
            "noise, so the choice is covered too."
        )
    return adjacency, sentences


def _local(privacy: GaussianLocal) -> list[str]:
    return [
        "Formal. All that a client sends satisfies (epsilon, delta)-differential privacy, delta = "
        f"{privacy.delta:g}, between any two datasets that the client may hold (adjacency "
        "replace-one), against the server and everyone after it.",
        f"A client shortens its update to a clip of {number(privacy.clip)}, so that two updates "
        "lie within two clips, and adds Gaussian noise of "
        f"{number(privacy.noise_multiplier)} clips before anything leaves it. Its uploads are "
        "composed; being drawn at random gains it nothing, since the server sees who sends.",
        "Which clients took part, were refused over their budget, or had an update withheld for "
        "not being finite is visible to the server and not covered.",
    ]


def _records(spec: ExperimentSpec, privacy: RecordPersonalised) -> list[str]:
    cohort = spec.training.cohort
    assert isinstance(cohort, PoissonCohort)
    label = "Formal" if epsilon_kind(privacy) == "formal" else "Heuristic"
    sentences = [
        f"{label}. The models of all rounds together satisfy (epsilon, delta)-differential "
        f"privacy, delta = {privacy.delta:g}, for every record with an epsilon of its own, between "
        "datasets that differ by that record being there or not (adjacency add-or-remove-one).",
        "A client adds the noise itself, in every local step, so this holds against the server "
        f"too. {_what_the_server_sees(cohort.rate)}",
        _how_budgets_are_kept(privacy, cohort.rate),
    ]
    if privacy.baseline is not None:
        public = "; ".join(TREATED_AS_PUBLIC[privacy.baseline])
        sentences.append(
            f"This is the baseline {privacy.baseline}. Its figures are a theorem only where the "
            f"following is known to everybody anyway: {public}."
        )
    elif privacy.inversion == "curve-fit":
        sentences.append(
            "Rates are the authors' fit inverted, which lets small budgets be passed; the epsilons "
            "told are the accountant's own and not the fit's."
        )
    sentences.append(
        "A record is all that is covered: somebody with many records is protected less. Which "
        "clients there are, how many records have which budget, and how many are left out, is told "
        "without noise."
    )
    return sentences


def _what_the_server_sees(rate: float) -> str:
    if rate == 1:
        return (
            "All clients take part in every round, which is no secret, so both observers have the "
            "same figure."
        )
    return (
        "It sees which clients take part, and its figure counts in full the rounds of the client "
        "that came most, so it is larger in the worst case and may be smaller after a run. "
        "`final_model` is for those who do not see that, whom the clients' coins of chance "
        f"{number(rate)} leave in doubt."
    )


def _how_budgets_are_kept(privacy: RecordPersonalised, rate: float) -> str:
    if privacy.baseline == "uniform":
        return (
            f"Every record spends up to {number(privacy.uniform_epsilon)} before `final_model`, "
            "whatever its own budget."
        )
    if privacy.baseline is None and privacy.inversion == "curve-fit":
        return "Budgets are aimed at before `final_model`, and not always kept."
    if rate == 1:
        return "Budgets are kept before both."
    return (
        "Budgets are kept before `final_model`; the server may see more spent than a budget says."
    )
