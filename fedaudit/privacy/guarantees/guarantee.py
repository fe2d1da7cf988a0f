"""The form of a guarantee, sentences that several share, and what metric privacy guarantees, said
so that it never claims more than is proven.

What is proven (Galli et al., Lemma 4.1 and Theorem 4.2, in real arithmetic). The upload of a client
is u = theta_j + delta, theta_j the hypothesis it chose and delta its update. With noise of a public
rate epsilon the densities of what the server receives, under two datasets of the client, differ by
a factor of at most exp(epsilon * d), d the distance between the two uploads u. Over rounds the
exponents epsilon_t * d_t add up, d_t taken given the same transcript so far.

- A fixed radius r gives the public rate epsilon = n / (nu * r): formal. Its n / nu bounds one
  release between datasets whose uploads lie within r of each other. Nothing but a clip keeps them
  there: with clip c two uploads from one hypothesis lie within 2c, and two from the hypotheses i
  and j within 2c + ||theta_i - theta_j||.
- With noise layer by layer the lemma holds for each layer by itself, and the layers' noises are
  independent: the exponents epsilon_l * d_l add up, with the public rates n_l / (nu * r) of a fixed
  radius. Within r in every layer their sum is n / nu at most. A clip bounds whole updates: by
  Cauchy and Schwarz the sum is then at most 2c times the norm of the rates, which is
  2c / (nu * r) * sqrt(sum n_l^2).
- The adaptive radius is the norm of the secret update. The rate is then secret itself, the scale
  of the noise reveals it, and the proof does not apply: heuristic.
- Where clients report the hypothesis that they chose, the report leaves without noise. The
  factor then bounds nothing between datasets that choose differently: called heuristic here.
"""

import math
from collections.abc import Sequence
from typing import Literal, assert_never

from pydantic import BaseModel, ConfigDict

from fedaudit.number_text import at_most, number
from fedaudit.privacy.accounting.privacy_events import GuaranteeKind
from fedaudit.privacy.leakage import covers_every_pair, leakage
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import ArtifactStart, Start
from fedaudit.spec.privacy import LaplaceL2, RecordPersonalised

SIMULATED = (
    "This guarantee is not in force: the run drew its noise from the experiment's seed, to be "
    "repeatable, so anyone with the seed can subtract it. The statement says what the mechanism "
    "gives with secret noise. The model of this run is protected by nothing and is not for "
    "release, and neither is this report: its losses, accuracy, gaps and the figures of every "
    "round follow from the training data, and anyone with two candidate datasets can train on "
    "both and see which one gives them."
)
NO_GUARANTEE = "no mechanism, no guarantee"
UPDATES_AS_THEY_WERE = "There is no privacy mechanism: updates left the clients as they were."

GuaranteeLabel = Literal["formal", "formal within the radius", "heuristic", "declared", "none"]
"""The kind, and whether a proof covers all datasets or only uploads within a radius that nothing
keeps them in."""


class Guarantee(BaseModel):
    """Who is protected against whom, and how far. A None has its reason in `reasons`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    kind: GuaranteeKind
    label: GuaranteeLabel
    """The kind, with *within the radius* where the proof goes no further."""
    in_force: bool | None
    """Whether the noise was secret. False for simulated noise, which protects no one, and where
    there is no guarantee; None where a trainer elsewhere drew it."""
    conditions: dict[str, str]
    """Why a figure bounds some datasets only, by figure of the report; a figure without a condition
    bounds every two datasets of the adjacency. Gates on such a figure ask for
    `allow_conditional`."""
    mechanism: str
    unit: str
    """Whose data the guarantee speaks of."""
    adjacency: str | None
    delta: float | None
    observers: tuple[str, ...]
    """Observers against whom it holds; empty where there is no guarantee."""
    statement: str
    reasons: dict[str, str]


def no_guarantee(mechanism: str, *, unit: str, statement: str) -> Guarantee:
    """The statement for a mechanism that bounds nothing."""
    return Guarantee(
        kind="none",
        label="none",
        mechanism=mechanism,
        in_force=False,
        conditions={},
        unit=unit,
        adjacency=None,
        delta=None,
        observers=(),
        statement=statement,
        reasons=dict.fromkeys(("adjacency", "delta"), NO_GUARANTEE),
    )


def scored_clients_train(spec: ExperimentSpec) -> str | None:
    """What the guarantee does not cover of clients that train and are scored, too; None where
    others are scored, or single records are what it protects."""
    if not spec.scores_training_clients:
        return None
    if spec.fairness.noise is not None:
        return (
            "No held-out row decided anything that was released. Counts with noise are of held-out "
            "rows of the clients that train, so a client is charged this and fairness_privacy."
        )
    return (
        "No held-out row decided anything that was released: the models are those of the last "
        "round. Losses, accuracy and figures of groups and clients follow without noise from "
        "held-out rows of the very clients that train, and the guarantee covers none of them."
    )


def start_limit(start: Start) -> str | None:
    """What no one has counted of the parameters that training started from; None where they were
    drawn."""
    if not isinstance(start, ArtifactStart):
        return None
    return (
        f"Training started from the artifact {start.artifact}. What that discloses is not counted: "
        "if it was trained on these people without protection, so is the model of this run, "
        "whatever this run adds. Figures on the held-out people are too good where it was "
        "trained on them."
    )


def what_follows_from_the_seed(spec: ExperimentSpec) -> list[str]:
    """Why data that differ by a record make training sets that differ by it at most."""
    source = spec.federation
    drawn = {
        "whether it trains or is held out": source.holds_out_rows,
        "its budget": spec.privacy.budget_column is None,
    }
    what = " and ".join(name for name, follows in drawn.items() if follows)
    found = []
    if what:
        found.append(
            f"Of each record, {what} is drawn by the seed and the record itself, so that no other "
            "record changes by its being there. The seed is public: anyone with it and a record "
            "knows what was drawn for it."
        )
    if source.traits.deals_rows:
        found.append(
            "Rows were dealt to clients by their place (`partition`), which one more record does "
            "anew: with which client the other records lie is taken as fixed."
        )
    return found


def what_the_server_sees(rate: float) -> str:
    """State how the server's figure differs, for a client's chance in a round."""
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


def how_budgets_are_kept(privacy: RecordPersonalised, rate: float) -> str:
    """State against whom budgets are kept, and whether always. Raises ValueError without noise."""
    match privacy.baseline:
        case "uniform":
            return (
                f"Every record spends up to {number(privacy.uniform_epsilon)} against "
                "`final_model`, whatever its own budget."
            )
        case "privacy-free":
            raise ValueError("without noise no budget is kept")
        case None:
            if privacy.inversion == "curve-fit":
                return "Budgets are aimed at, against `final_model`, and not always kept."
        case "strong-for-all" | "dropout" | "filter":
            pass
        case other:
            assert_never(other)
    if rate == 1:
        return "Budgets are kept against both."
    return (
        "Budgets are kept against `final_model`; the server may see more spent than a budget says."
    )


ADJACENCY = (
    "two datasets that one client may hold; their distance in a round is the Euclidean distance "
    "between the uploads, before noise, that they give after the same transcript and with the same "
    "draws of batches"
)
LAYER_ADJACENCY = (
    "two datasets that one client may hold; their distances in a round are the Euclidean "
    "distances, one for each layer of the network, between the uploads, before noise, that they "
    "give after the same transcript and with the same draws of batches"
)


def adaptive_sentences(privacy: LaplaceL2, sizes: Sequence[int]) -> list[str]:
    """The cost of a release with radii that are the norms of the updates. `sizes`: parameters of
    each layer with its own noise, or of the whole vector."""
    nu, bounds = privacy.noise_multiplier, f"at least {number(privacy.radius_floor)}"
    if privacy.clip is not None:
        clipped = "the whole update" if privacy.per_layer else "it"
        bounds += f", and at most {number(privacy.clip)}, to which {clipped} is clipped"
    cost = at_most(leakage(1, n=sum(sizes), noise_multiplier=nu))
    if privacy.per_layer:
        return [
            f"Heuristic. Each of the {len(sizes)} layers has its own noise. By the paper's "
            f"convention a release costs n_l/nu in layer l ({_each(sizes, nu)}) within a radius "
            f"that is the norm of the layer's own update ({bounds}); over layers that is n/nu = "
            f"{cost}, and releases add up.",
            "This is no theorem: the radii depend on the data, the scales of the noise reveal "
            "them, and the proof for public rates does not cover it.",
        ]
    return [
        f"Heuristic. By the paper's convention each release costs n/nu = {cost} within a radius "
        f"that is the norm of the client's own update ({bounds}), and releases add up.",
        "This is no theorem: the radius depends on the data, the scale of the noise reveals it, "
        "and the proof for a public rate does not cover it.",
    ]


def fixed_sentences(privacy: LaplaceL2, sizes: Sequence[int], *, label: str) -> list[str]:
    """The cost of a release with a public radius, and the distance within which it holds. `label`
    says how far it is proven; `sizes` as for adaptive radii."""
    radius, nu = float(privacy.radius), privacy.noise_multiplier
    cost = leakage(1, n=sum(sizes), noise_multiplier=nu)
    if privacy.per_layer:
        found = [
            f"{label}. Each of the {len(sizes)} layers has independent noise with its own public "
            f"rate epsilon_l = n_l/(nu*r) per unit of distance (r = {number(radius)} for every "
            f"layer; n_l/nu is {_each(sizes, nu)}): between two datasets whose uploads lie d_l "
            "apart in layer l, what the server receives differs in likelihood by a factor of at "
            "most exp(sum of epsilon_l*d_l). Over rounds these exponents add up.",
            f"The figure n/nu = {at_most(cost)} for each release, the sum of n_l/nu over the "
            "layers, bounds that exponent only between datasets whose uploads lie within r of each "
            "other in every layer.",
        ]
    else:
        found = [
            f"{label}. Each released parameter vector satisfies epsilon*d-privacy with the public "
            f"rate epsilon = n/(nu*r) = {at_most(cost / radius)} per unit of distance (r = "
            f"{number(radius)}): between two datasets whose uploads lie d apart, what the server "
            "receives differs in likelihood by a factor of at most exp(epsilon*d). Over rounds the "
            "epsilon*d add up.",
            f"The figure n/nu = {at_most(cost)} for each release bounds that exponent only between "
            "datasets whose uploads lie within r of each other.",
        ]
    return [*found, _reach(privacy, sizes)]


def _each(sizes: Sequence[int], nu: float) -> str:
    return ", ".join(at_most(leakage(1, n=size, noise_multiplier=nu)) for size in sizes)


def _reach(privacy: LaplaceL2, sizes: Sequence[int]) -> str:
    """The extent of n / nu over the datasets that a client may hold."""
    clip, radius = privacy.clip, float(privacy.radius)
    if clip is None:
        return (
            "Updates are not clipped, so nothing keeps uploads within r: no single number holds "
            "for all datasets, and none of this is an (epsilon, delta) guarantee."
        )
    bound = at_most(2 * clip / radius * (math.hypot(*sizes) / privacy.noise_multiplier))
    how, together, covering, beyond = "", "", ", hence within r:", ", which exceeds r"
    if privacy.per_layer:
        how = " as a whole, before the layers are taken apart"
        together = " over all layers together"
        covering, beyond = ": whatever their distances within the layers,", ""
        bound = f"2c/r * sqrt(sum of n_l^2)/nu = {bound}"
    reach = (
        f"Updates are clipped to {number(clip)}{how}, so two uploads from one hypothesis lie "
        f"within {at_most(2 * clip)}{together}"
    )
    if covers_every_pair(clip=clip, radius=radius, sizes=sizes):
        return f"{reach}{covering} n/nu covers every two datasets that choose the same hypothesis."
    return (
        f"{reach}{beyond}: over all datasets that choose the same hypothesis a release is bounded "
        f"by {bound}, not by n/nu."
    )


def within_the_radius(privacy: LaplaceL2, sizes: Sequence[int]) -> str | None:
    """Why n/nu covers only datasets whose uploads lie within the fixed radius of each other; None
    where the clip keeps the uploads of one hypothesis there. `sizes` as for adaptive radii."""
    radius, clip = float(privacy.radius), privacy.clip
    if clip is None:
        return "n/nu holds within the radius, and without a clip nothing keeps uploads there"
    if covers_every_pair(clip=clip, radius=radius, sizes=sizes):
        return None
    return (
        f"n/nu holds within the radius of {number(radius)}, and a clip of {number(clip)} only "
        f"keeps two uploads within {at_most(2 * clip)} of each other; log_ratio_max bounds them all"
    )


def choice_sentences(privacy: LaplaceL2, *, hypotheses: int, reported: bool) -> list[str]:
    """How far the choice among several hypotheses stays hidden.

    `reported`: whether clients report their choice themselves.
    """
    if hypotheses == 1:
        return []
    if reported:
        return [
            "Clients report which hypothesis they chose without any noise: between datasets that "
            "choose differently nothing is bounded."
        ]
    if privacy.radius == "adaptive":
        where = " in any layer" if privacy.per_layer else ""
        return [
            "The hypothesis that a client chose is not hidden by separate noise: the further "
            f"apart the hypotheses{where}, the more surely an upload reveals which one it was."
        ]
    apart, most = "d", ""
    if privacy.per_layer:
        apart, most = "each d_l", " within layer l"
    elif privacy.clip is not None:
        most = f" (at most that plus {at_most(2 * privacy.clip)})"
    return [
        f"Between datasets that choose different hypotheses i and j, {apart} is about the distance "
        f"||theta_i - theta_j||{most}, which can be many radii: the choice is protected only so "
        "far."
    ]
