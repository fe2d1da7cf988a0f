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
- The adaptive radius is the norm of the secret update. The rate is then secret itself, the scale
  of the noise tells of it, and the proof does not apply: heuristic.
- Where clients report the hypothesis that they chose, the report leaves without noise. The
  factor then bounds nothing between datasets that choose differently: called heuristic here.
"""

from dataclasses import dataclass, field

from fedaudit.privacy.inputs import GuaranteeKind, MechanismInputs
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import LaplaceL2

ADJACENCY = (
    "two datasets that one client may hold; their distance in a round is the Euclidean distance "
    "between the uploads, before noise, that they give after the same transcript and with the same "
    "draws of batches"
)
_NO_DELTA = "the guarantee is a bound on densities for every output; it has no delta"
_NO_GUARANTEE = "no mechanism, no guarantee"
_SIMULATED = (
    "This run drew its noise from the experiment's seed, to be repeatable: whoever knows the seed "
    "can subtract it. The statement tells what the mechanism gives with secret noise; the model "
    "of this run is protected by nothing and is not for release."
)


@dataclass(frozen=True)
class Guarantee:
    """Who is protected against whom, and how far. A None has its reason in `reasons`."""

    kind: GuaranteeKind
    mechanism: str
    unit: str
    """Whose data the guarantee speaks of."""
    adjacency: str | None
    delta: float | None
    observers: tuple[str, ...]
    """Against whom it holds; empty where there is none."""
    statement: str
    reasons: dict[str, str] = field(default_factory=dict)


def guarantee_kind(spec: ExperimentSpec) -> GuaranteeKind:
    """How far the figures of the spec's mechanism are proven."""
    privacy = spec.privacy
    if not isinstance(privacy, LaplaceL2):
        return "none"
    if privacy.radius == "adaptive" or _reports_its_choice(spec):
        return "heuristic"
    return "formal"


def mechanism_inputs(spec: ExperimentSpec, *, n: int) -> MechanismInputs:
    """What the ledger records of the spec's mechanism, for a model of `n` parameters."""
    privacy = spec.privacy
    if not isinstance(privacy, LaplaceL2):
        return MechanismInputs("none", n, None, None, None, None, privacy.noise, "none")
    adaptive = privacy.radius == "adaptive"
    return MechanismInputs(
        mechanism=privacy.mechanism,
        n=n,
        noise_multiplier=float(privacy.noise_multiplier),
        radius=None if isinstance(privacy.radius, str) else float(privacy.radius),
        radius_floor=float(privacy.radius_floor) if adaptive else None,
        clip=None if privacy.clip is None else float(privacy.clip),
        noise=privacy.noise,
        guarantee=guarantee_kind(spec),
    )


def guarantee_statement(spec: ExperimentSpec, n: int) -> Guarantee:
    """The guarantee of the spec's mechanism for a model of `n` parameters, in plain language."""
    kind = guarantee_kind(spec)
    privacy = spec.privacy
    if not isinstance(privacy, LaplaceL2):
        return Guarantee(
            kind=kind,
            mechanism=privacy.mechanism,
            unit="client",
            adjacency=None,
            delta=None,
            observers=(),
            statement=(
                "No mechanism: updates leave the clients as they are. Nothing bounds what the "
                "server, or whoever sees the model, learns about a client's data."
            ),
            reasons={"adjacency": _NO_GUARANTEE, "delta": _NO_GUARANTEE},
        )
    sentences = _adaptive(privacy, n) if privacy.radius == "adaptive" else _fixed(spec, privacy, n)
    sentences += _choice(spec, privacy)
    sentences.append(
        "Which clients took part, were refused over their budget, or had an update withheld for "
        "not being finite is visible to the server and not covered. Nor are the clients held out "
        "for validation, whose losses and fairness counts are used without noise."
    )
    if privacy.noise == "simulation":
        sentences.append(_SIMULATED)
    return Guarantee(
        kind=kind,
        mechanism=privacy.mechanism,
        unit="client",
        adjacency=ADJACENCY,
        delta=None,
        observers=("server",),
        statement=" ".join(sentences),
        reasons={"delta": _NO_DELTA},
    )


def _reports_its_choice(spec: ExperimentSpec) -> bool:
    return spec.training.clustering.method == "reported" and spec.training.hypotheses > 1


def _adaptive(privacy: LaplaceL2, n: int) -> list[str]:
    bounds = f"at least {_number(privacy.radius_floor)}"
    if privacy.clip is not None:
        bounds += f", and at most {_number(privacy.clip)}, to which it is clipped"
    return [
        f"Heuristic. By the paper's convention each release costs n/nu = "
        f"{_number(n / privacy.noise_multiplier)} within a radius that is the norm of the client's "
        f"own update ({bounds}), and releases add up.",
        "This is no theorem: the radius depends on the data, the scale of the noise reveals it, "
        "and the proof for a public rate does not cover it.",
    ]


def _fixed(spec: ExperimentSpec, privacy: LaplaceL2, n: int) -> list[str]:
    radius = float(privacy.radius)
    cost = n / privacy.noise_multiplier
    label = "Formal" if guarantee_kind(spec) == "formal" else "Heuristic as a whole"
    return [
        f"{label}. Each released parameter vector satisfies epsilon*d-privacy with the public rate "
        f"epsilon = n/(nu*r) = {_number(cost / radius)} per unit of distance (r = "
        f"{_number(radius)}): between two datasets whose uploads lie d apart, what the server "
        "receives differs in likelihood by a factor of at most exp(epsilon*d). Over rounds the "
        "epsilon*d add up.",
        f"The figure n/nu = {_number(cost)} for each release bounds that exponent only between "
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
            f"within {_number(2 * clip)}, hence within r: n/nu covers every two datasets that "
            "choose the same hypothesis."
        )
    return reach + (
        f"within {_number(2 * clip)}, which exceeds r: over all datasets that choose the same "
        f"hypothesis a release is bounded by {_number(2 * clip / radius * cost)}, not by n/nu."
    )


def _choice(spec: ExperimentSpec, privacy: LaplaceL2) -> list[str]:
    if spec.training.hypotheses == 1:
        return []
    if _reports_its_choice(spec):
        return [
            "Clients report which hypothesis they chose without any noise: between datasets that "
            "choose differently nothing is bounded."
        ]
    if privacy.radius == "adaptive":
        return [
            "The hypothesis that a client chose is not hidden by noise of its own: the further "
            "apart the hypotheses, the more surely an upload tells which one it was."
        ]
    most = "" if privacy.clip is None else f" (at most that plus {_number(2 * privacy.clip)})"
    return [
        "Between datasets that choose different hypotheses i and j, d is about the distance "
        f"||theta_i - theta_j||{most}, which can be many radii: the choice is protected only so "
        "far."
    ]


def _number(value: float) -> str:
    return f"{value:.6g}"
