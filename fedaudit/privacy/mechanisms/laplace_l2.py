"""The mechanism `laplace-l2`: the Laplace mechanism under Euclidean distance, metric privacy.

Its theory, and the sentences of its guarantee, are in
`fedaudit.privacy.guarantees.guarantee`; its figures are those of
`fedaudit.privacy.leakage`.
"""

from dataclasses import dataclass
from typing import ClassVar

from fedaudit.privacy.accounting.privacy_events import (
    GuaranteeKind,
    MechanismParameters,
    layer_components,
)
from fedaudit.privacy.guarantees.guarantee import (
    ADJACENCY,
    LAYER_ADJACENCY,
    Guarantee,
    GuaranteeLabel,
    adaptive_sentences,
    choice_sentences,
    fixed_sentences,
    scored_clients_train,
    within_the_radius,
)
from fedaudit.privacy.leakage import largest_participation, leakage
from fedaudit.privacy.mechanisms.base import (
    EACH_CLIENT,
    Epsilons,
    MechanismFacts,
    PrivacyMechanism,
    Sizes,
)
from fedaudit.privacy.planning.cost_projection import (
    NO_EPSILON,
    Projection,
    TargetedFigure,
    fixed_cohort,
    mean_participations,
    theorem_sum,
)
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.spec.privacy import LAPLACE_DECADES, LaplaceL2

_NO_DELTA = "the guarantee is a bound on densities for every output; it has no delta"
_NOT_COVERED = (
    "Which clients have a usable row (who is held out follows from that), took part, were "
    "refused over their budget, or had an update withheld for not being finite is visible to the "
    "server and not covered."
)
_NONE_WITHHELD = (
    "Which clients have a usable row (who is held out follows from that), took part or were "
    "refused over their budget is visible to the server and not covered. An update that is not "
    "finite counts as none, and its noise is sent."
)
_HELD_OUT = (
    "Nor are the clients held out for validation, whose losses and fairness counts are used "
    "without noise."
)
_HELD_OUT_WITH_NOISE = (
    "The clients held out for validation are covered by fairness_privacy, and not by this."
)
_LEAKAGE_FIGURES = ("leakage_max", "leakage_median")
_SAME_HYPOTHESIS = (
    "it bounds datasets that choose the same hypothesis in every round; between others the bound "
    "grows with the distance of the hypotheses"
)
_SECRET_RADIUS = (
    "The adaptive radius depends on the secret update, so its leakage is heuristic: "
    "adding n/nu over releases is the paper's convention, not a theorem."
)
_THEOREM = (
    "The theorem bounds a release by epsilon times the distance of the uploads; n/nu is that bound "
    "only for uploads within the radius of each other."
)
_LAYER_THEOREM = (
    "The theorem bounds a release by the sum over layers of the layer's epsilon times the distance "
    "of the uploads within it; n/nu is that bound only for uploads within the radius of each other "
    "in every layer."
)
_SECRET_EPSILON = (
    "The largest epsilon between hypotheses comes from one client's update: though it "
    "names no one and is rounded up to two digits, it reveals the norm of the smallest "
    "update of a round to within a tenth."
)


@dataclass(frozen=True)
class LaplaceL2Mechanism(PrivacyMechanism):
    """Clients add Laplace noise to their updates; the cost of a release is leakage."""

    facts: ClassVar[MechanismFacts] = MechanismFacts(
        name="laplace-l2",
        label="Laplace, metric privacy",
        description="Clients add Laplace noise to their updates. Counted as leakage.",
        applied_by="clients",
        noise_law="laplace",
        unit="client",
        subject_kind="client",
        observers=("server",),
        cost_kinds=("leakage",),
        noise_origin=EACH_CLIENT,
    )

    privacy: LaplaceL2

    @property
    def guarantee_kind(self) -> GuaranteeKind:
        """Formal where the radius is public, unless clients report their choice without noise."""
        return "heuristic" if self._is_adaptive or self._reports_choice else "formal"

    @property
    def uncovered_model(self) -> str | None:
        """The model follows from the uploads; what they do not hide it does not hide either."""
        if self._is_adaptive:
            return (
                "with an adaptive radius the noise follows each update, and no theorem bounds what "
                "it hides; set privacy.radius to a number, and privacy.clip"
            )
        if self._reports_choice:
            return (
                "clients report without noise which hypothesis they chose, and the hypotheses "
                "follow from that; set training.clustering.method to k-means, or use one hypothesis"
            )
        if self.privacy.clip is None:
            return (
                "without a clip nothing keeps uploads within the radius, and no number bounds what "
                "the model discloses; set privacy.clip"
            )
        return None

    def noise_multiplier(self) -> float | str:
        """nu."""
        return float(self.privacy.noise_multiplier)

    def inputs(
        self, *, n: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> MechanismParameters:
        """nu, the radius or its floor, and the clip."""
        privacy = self.privacy
        return MechanismParameters(
            mechanism=privacy.mechanism,
            n=n,
            noise_multiplier=float(privacy.noise_multiplier),
            radius=None if isinstance(privacy.radius, str) else float(privacy.radius),
            radius_floor=float(privacy.radius_floor) if self._is_adaptive else None,
            clip=None if privacy.clip is None else float(privacy.clip),
            noise=privacy.noise,
            guarantee=self.guarantee_kind,
            components=layer_components(self._sizes(n, layers)) if privacy.per_layer else None,
        )

    def participation_cap(self, *, n: int, plan: SpendingPlan | None = None) -> int | None:
        """Whole releases of n / nu within the budget of a client."""
        privacy = self.privacy
        if privacy.client_budget is None:
            return None
        return largest_participation(
            client_budget=privacy.client_budget, n=n, noise_multiplier=privacy.noise_multiplier
        )

    def project_cost(
        self, *, n: int, training_clients: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> Projection:
        """Leakage of a client drawn in every round, with the theorem's own sum, and of a client
        drawn as often as the average."""
        nu, rounds = self.privacy.noise_multiplier, self.spec.training.rounds
        allowed = self.participation_cap(n=n)
        most, within = rounds, f"a client drawn in all {rounds} rounds stays within"
        ends: int | str = f"{within} privacy.client_budget"
        if allowed is None:
            ends = "privacy.client_budget is not set"
        elif allowed < rounds:
            most, ends = allowed, allowed + 1
        cohort = fixed_cohort(self.spec, training_clients)
        mean = mean_participations(rounds, cohort, training_clients, most=most)
        return Projection.of(
            leakage_worst_case=leakage(most, n=n, noise_multiplier=nu),
            leakage_expected=leakage(mean, n=n, noise_multiplier=nu),
            log_ratio_worst_case=theorem_sum(self.inputs(n=n, layers=layers), most),
            epsilon=NO_EPSILON,
            budget_ends_in_round=ends,
            noise_multiplier=float(nu),
        )

    def targeted_figure(self, *, n: int, training_clients: int) -> TargetedFigure:
        """Leakage, n / nu for every round. With a fixed radius the theorem's sum is another figure,
        which a target does not bound."""
        rounds = self.spec.training.rounds
        return TargetedFigure(
            name="leakage",
            terms=f"{rounds} rounds of {n} / nu",
            figures=(lambda nu: leakage(rounds, n=n, noise_multiplier=nu),),
            decades=LAPLACE_DECADES,
        )

    def guarantee(
        self, *, n: int, epsilons: Epsilons = (), planned: Epsilons = (), layers: Sizes = ()
    ) -> Guarantee:
        """The guarantee against the server, between datasets with uploads at a given distance."""
        privacy, sizes = self.privacy, self._sizes(n, layers)
        if self._is_adaptive:
            sentences = adaptive_sentences(privacy, sizes)
        else:
            proven = self.guarantee_kind == "formal"
            label = self._label.capitalize() if proven else "Heuristic as a whole"
            sentences = fixed_sentences(privacy, sizes, label=label)
        sentences += choice_sentences(
            privacy, hypotheses=self.spec.training.hypotheses, reported=self._reports_choice
        )
        covers_all = privacy.clip is not None and not self._is_adaptive
        sentences.append(_NONE_WITHHELD if covers_all else _NOT_COVERED)
        with_noise = self.spec.fairness.noise is not None
        others = _HELD_OUT_WITH_NOISE if with_noise else _HELD_OUT
        sentences.append(scored_clients_train(self.spec) or others)
        return self.stated(
            sentences,
            adjacency=LAYER_ADJACENCY if privacy.per_layer else ADJACENCY,
            why_not=_NO_DELTA,
            label=self._label,
            conditions=self._conditions(sizes),
        )

    def stack_traits(self) -> tuple[object, ...]:
        """Whether each layer has its own noise."""
        return (self.privacy.per_layer,)

    def limits(self) -> list[str]:
        """What n/nu does not bound."""
        found, per_layer = [], self.privacy.per_layer
        if self._is_adaptive:
            found.append(_SECRET_RADIUS)
        elif self.guarantee_kind == "formal":
            found.append(_LAYER_THEOREM if per_layer else _THEOREM)
        if self.spec.training.hypotheses > 1:
            found.append(
                "The hypothesis that a client chose is not protected by itself: between hypotheses "
                "i and j the bound of a release is about epsilon * ||theta_i - theta_j||"
                f"{', added up over the layers' if per_layer else ''}, which can be large."
            )
            if self._is_adaptive:
                found.append(_SECRET_EPSILON)
        return found

    @property
    def _label(self) -> GuaranteeLabel:
        """The label: with a fixed radius and no clip, nothing is proven beyond the radius."""
        kind = self.guarantee_kind
        if kind == "formal" and self.privacy.clip is None:
            return "formal within the radius"
        return kind

    def _conditions(self, sizes: Sizes) -> dict[str, str]:
        """What the datasets must share for a proven figure to bound them. `sizes`: parameters of
        each part with its own noise."""
        if self.guarantee_kind != "formal":
            return {}
        alike = _SAME_HYPOTHESIS if self.spec.training.hypotheses > 1 else None
        both = within_the_radius(self.privacy, sizes), alike
        of_leakage = "; ".join(filter(None, both))
        found = dict.fromkeys(_LEAKAGE_FIGURES, of_leakage) if of_leakage else {}
        return found if alike is None else {**found, "log_ratio_max": alike}

    @property
    def _is_adaptive(self) -> bool:
        return self.privacy.radius == "adaptive"

    @property
    def _reports_choice(self) -> bool:
        """Whether clients report, without noise, which of several hypotheses they chose."""
        training = self.spec.training
        return training.reports_choices and training.hypotheses > 1

    def _sizes(self, n: int, layers: Sizes) -> Sizes:
        """Parameters of each part of the vector that has its own noise. Raises ValueError where
        layers are missing."""
        if not self.privacy.per_layer:
            return (n,)
        if not layers:
            raise ValueError("noise layer by layer needs the parameters of each layer")
        return layers
