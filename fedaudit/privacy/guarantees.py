"""What a mechanism guarantees, said so that it never claims more than is proven.

What is proven (Galli et al., Lemma 4.1 and Theorem 4.2, in real arithmetic). The upload of a client
is u = theta_j + delta, theta_j the hypothesis it chose and delta its update. With noise of a public
rate epsilon the densities of what the server receives, under two datasets of the client, differ by
a factor of at most exp(epsilon * d), d the distance between the two uploads u. Over rounds the
exponents epsilon_t * d_t add up, d_t taken given the same transcript so far.

- A fixed radius r gives the public rate epsilon = n / (nu * r): formal. Its n / nu bounds one
  release between datasets whose uploads lie within r of each other. Nothing but a clip keeps them
  there: with clip c two uploads from one hypothesis lie within 2c, and two from the hypotheses i
  and j within 2c + ||theta_i - theta_j||.
- With noise layer by layer the exponents of the layers add up (`privacy.layer_guarantees`).
- The adaptive radius is the norm of the secret update. The rate is then secret itself, the scale
  of the noise tells of it, and the proof does not apply: heuristic.
- Where clients report the hypothesis that they chose, the report leaves without noise. The
  factor then bounds nothing between datasets that choose differently: called heuristic here.
"""

from collections.abc import Sequence

from fedaudit.privacy.epsilon_guarantees import (
    EpsilonMechanism,
    epsilon_guarantee,
    epsilon_kind,
)
from fedaudit.privacy.guarantee import SIMULATED, Guarantee, at_most, no_guarantee
from fedaudit.privacy.guarantee import number as _number
from fedaudit.privacy.inputs import GuaranteeKind, MechanismInputs, layer_components
from fedaudit.privacy.layer_guarantees import (
    LAYER_ADJACENCY,
    adaptive_layers,
    fixed_layers,
    layer_choice,
)
from fedaudit.privacy.spending_plan import ObserverEpsilon, SpendingPlan
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import GaussianCentral, LaplaceL2, RecordPersonalised

ADJACENCY = (
    "two datasets that one client may hold; their distance in a round is the Euclidean distance "
    "between the uploads, before noise, that they give after the same transcript and with the same "
    "draws of batches"
)
_NO_DELTA = "the guarantee is a bound on densities for every output; it has no delta"


def guarantee_kind(spec: ExperimentSpec) -> GuaranteeKind:
    """How far the figures of the spec's mechanism are proven."""
    privacy = spec.privacy
    if isinstance(privacy, EpsilonMechanism):
        return epsilon_kind(privacy)
    if not isinstance(privacy, LaplaceL2):
        return "none"
    if privacy.radius == "adaptive" or _reports_its_choice(spec):
        return "heuristic"
    return "formal"


def mechanism_inputs(
    spec: ExperimentSpec,
    *,
    n: int,
    plan: SpendingPlan | None = None,
    layers: Sequence[int] = (),
) -> MechanismInputs:
    """What the ledger records of the spec's mechanism, for a model of `n` parameters.

    `plan`: the spending plan of a mechanism with an epsilon and a delta; `layers`: parameters of
    each layer, for noise layer by layer. Leaving one out where it is needed is a ValueError, and so
    are layers that do not add up to `n`.
    """
    privacy, kind = spec.privacy, guarantee_kind(spec)
    if kind == "none":
        return MechanismInputs(privacy.mechanism, n, None, None, None, None, privacy.noise, "none")
    if isinstance(privacy, LaplaceL2):
        adaptive = privacy.radius == "adaptive"
        return MechanismInputs(
            mechanism=privacy.mechanism,
            n=n,
            noise_multiplier=float(privacy.noise_multiplier),
            radius=None if isinstance(privacy.radius, str) else float(privacy.radius),
            radius_floor=float(privacy.radius_floor) if adaptive else None,
            clip=None if privacy.clip is None else float(privacy.clip),
            noise=privacy.noise,
            guarantee=kind,
            components=layer_components(_needed(layers)) if privacy.per_layer else None,
        )
    if plan is None:
        raise ValueError(f"the ledger of {privacy.mechanism} records its spending plan")
    assert isinstance(privacy, EpsilonMechanism)
    return MechanismInputs(
        mechanism=privacy.mechanism,
        n=n,
        # Every client may have noise of its own under record-personalised: the events tell it.
        noise_multiplier=(
            None if isinstance(privacy, RecordPersonalised) else float(privacy.noise_multiplier)
        ),
        radius=None,
        radius_floor=None,
        clip=_fixed_clip(privacy),
        noise=privacy.noise,
        guarantee=kind,
        event=plan.events_json,
        delta=float(plan.delta),
        adjacency=plan.adjacency,
        accountant=plan.accountant,
    )


def guarantee_statement(
    spec: ExperimentSpec,
    n: int,
    *,
    epsilons: Sequence[ObserverEpsilon] = (),
    planned: Sequence[ObserverEpsilon] = (),
    layers: Sequence[int] = (),
) -> Guarantee:
    """The guarantee of the spec's mechanism for a model of `n` parameters, in plain language.

    For mechanisms with an epsilon and a delta, `epsilons`: what a run spent; `planned`: what all
    its rounds would have spent, where it ended early by what its models showed. For noise layer by
    layer, `layers`: parameters of each; leaving them out there is a ValueError.
    """
    kind = guarantee_kind(spec)
    privacy = spec.privacy
    if isinstance(privacy, EpsilonMechanism):
        return epsilon_guarantee(spec, privacy, epsilons, planned)
    if not isinstance(privacy, LaplaceL2):
        return no_guarantee(
            privacy.mechanism,
            unit="client",
            statement=(
                "No mechanism: updates leave the clients as they are. Nothing bounds what the "
                "server, or whoever sees the model, learns about a client's data."
            ),
        )
    sentences = _of_releases(spec, privacy, n, layers)
    sentences += _choice(spec, privacy)
    sentences.append(
        "Which clients took part, were refused over their budget, or had an update withheld for "
        "not being finite is visible to the server and not covered. Nor are the clients held out "
        "for validation, whose losses and fairness counts are used without noise."
    )
    if privacy.noise == "simulation":
        sentences.append(SIMULATED)
    return Guarantee(
        kind=kind,
        mechanism=privacy.mechanism,
        unit="client",
        adjacency=LAYER_ADJACENCY if privacy.per_layer else ADJACENCY,
        delta=None,
        observers=("server",),
        statement=" ".join(sentences),
        reasons={"delta": _NO_DELTA},
    )


def _fixed_clip(privacy: EpsilonMechanism) -> float | None:
    """The clip of every round; None where it moves."""
    if isinstance(privacy, GaussianCentral) and privacy.adaptive_clip is not None:
        return None
    return privacy.initial_clip if isinstance(privacy, GaussianCentral) else privacy.clip


def _reports_its_choice(spec: ExperimentSpec) -> bool:
    return spec.training.clustering.method == "reported" and spec.training.hypotheses > 1


def _needed(layers: Sequence[int]) -> Sequence[int]:
    """The layers. ValueError where they were not handed over."""
    if not layers:
        raise ValueError("noise layer by layer needs the parameters of each layer")
    return layers


def _of_releases(
    spec: ExperimentSpec, privacy: LaplaceL2, n: int, layers: Sequence[int]
) -> list[str]:
    """What a release costs, and within which distance."""
    adaptive = privacy.radius == "adaptive"
    if privacy.per_layer:
        sizes = _needed(layers)
        if adaptive:
            return adaptive_layers(privacy, sizes)
        return fixed_layers(privacy, sizes, label=_label(spec))
    return _adaptive(privacy, n) if adaptive else _fixed(spec, privacy, n)


def _label(spec: ExperimentSpec) -> str:
    """What a fixed radius comes to."""
    return "Formal" if guarantee_kind(spec) == "formal" else "Heuristic as a whole"


def _adaptive(privacy: LaplaceL2, n: int) -> list[str]:
    bounds = f"at least {_number(privacy.radius_floor)}"
    if privacy.clip is not None:
        bounds += f", and at most {_number(privacy.clip)}, to which it is clipped"
    return [
        f"Heuristic. By the paper's convention each release costs n/nu = "
        f"{at_most(n / privacy.noise_multiplier)} within a radius that is the norm of the client's "
        f"own update ({bounds}), and releases add up.",
        "This is no theorem: the radius depends on the data, the scale of the noise reveals it, "
        "and the proof for a public rate does not cover it.",
    ]


def _fixed(spec: ExperimentSpec, privacy: LaplaceL2, n: int) -> list[str]:
    radius = float(privacy.radius)
    cost = n / privacy.noise_multiplier
    return [
        f"{_label(spec)}. Each released parameter vector satisfies epsilon*d-privacy with the "
        f"public rate epsilon = n/(nu*r) = {at_most(cost / radius)} per unit of distance (r = "
        f"{_number(radius)}): between two datasets whose uploads lie d apart, what the server "
        "receives differs in likelihood by a factor of at most exp(epsilon*d). Over rounds the "
        "epsilon*d add up.",
        f"The figure n/nu = {at_most(cost)} for each release bounds that exponent only between "
        f"datasets whose uploads lie within r of each other.",
        _reach(privacy.clip, radius, cost),
    ]


def _reach(clip: float | None, radius: float, cost: float) -> str:
    """How far n / nu reaches over the datasets that a client may hold."""
    if clip is None:
        return (
            "Updates are not clipped, so nothing keeps uploads within r: no single number holds "
            "for all datasets, and none of this is an (epsilon, delta) guarantee."
        )
    reach = f"Updates are clipped to {_number(clip)}, so two uploads from one hypothesis lie "
    if 2 * clip <= radius:
        return reach + (
            f"within {at_most(2 * clip)}, hence within r: n/nu covers every two datasets that "
            "choose the same hypothesis."
        )
    return reach + (
        f"within {at_most(2 * clip)}, which exceeds r: over all datasets that choose the same "
        f"hypothesis a release is bounded by {at_most(2 * clip / radius * cost)}, not by n/nu."
    )


def _choice(spec: ExperimentSpec, privacy: LaplaceL2) -> list[str]:
    if spec.training.hypotheses == 1:
        return []
    if _reports_its_choice(spec):
        return [
            "Clients report which hypothesis they chose without any noise: between datasets that "
            "choose differently nothing is bounded."
        ]
    if privacy.per_layer:
        return [layer_choice(privacy)]
    if privacy.radius == "adaptive":
        return [
            "The hypothesis that a client chose is not hidden by noise of its own: the further "
            "apart the hypotheses, the more surely an upload tells which one it was."
        ]
    most = "" if privacy.clip is None else f" (at most that plus {at_most(2 * privacy.clip)})"
    return [
        "Between datasets that choose different hypotheses i and j, d is about the distance "
        f"||theta_i - theta_j||{most}, which can be many radii: the choice is protected only so "
        "far."
    ]
