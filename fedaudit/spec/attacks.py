"""What may be asked of an attack, kind by kind, and what each answers for the rest of the spec."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol, assert_never, get_args

from pydantic import ConfigDict, Field

from fedaudit.spec.base import SpecPart
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.federation import FederationSpec
from fedaudit.spec.models import CnnFemnist, Layers, Linear, Logistic, Mlp, ModelSpec
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianDistance,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    PrivacySpec,
    RecordPersonalised,
)
from fedaudit.spec.training import QFfl, Training


class AttackedSpec(Protocol):
    """The parts of a spec that an attack must agree with."""

    federation: FederationSpec
    model: ModelSpec
    training: Training
    privacy: PrivacySpec


def _states_its_kind(schema: dict[str, Any]) -> None:
    schema["required"] = ["kind", *schema.get("required", ())]


class AttackPart(SpecPart):
    """An attack, which has no answer by default: one that leaves any out cannot be made."""

    model_config = ConfigDict(json_schema_extra=_states_its_kind)
    question: ClassVar[str]
    """Its name and what it asks, as a title for people."""
    tells_of_people: ClassVar[bool] = True
    """Whether its findings follow from people's data, without protection by noise. An attack that
    finds out about the noise alone must declare that."""
    needs_hypotheses: ClassVar[bool]
    """Whether it attacks what the run itself has trained, rather than runs beside it alone."""

    usual: ClassVar[Mapping[str, tuple[object, ...]]] = {}
    """The values that are left of fields with retired ones."""

    def retired(self, pointer: str) -> Refusals:
        """What stored attacks may ask for, and none is carried out with any more."""
        for name, left in self.usual.items():
            value = getattr(self, name)
            if value not in left:
                yield refuse_at(f"{pointer}/{name}", f"{value} is retired; use {left[-1]}")

    @abstractmethod
    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        """Every fault between the attack and the rest of the spec, with its field and the remedy.

        `pointer` is that of the attack in the spec, as `/attacks/0`. What depends on the data is
        checked once they are loaded (`fedaudit.attacks.feasibility`).
        """


def check_common_model(attacked: AttackedSpec, *, pointer: str) -> Refusals:
    """Refuses an attack on what all clients train where they send nothing."""
    if not attacked.training.method.releases:
        yield refuse_at(
            f"{pointer}/kind",
            "clients send nothing under this `training.method`, so there is no common model to "
            "attack; choose another method, or leave this attack out",
        )


CanaryUnit = Literal["record", "client"]


class CanariesSpec(AttackPart):
    """Bounds the privacy loss of the run's mechanism from below."""

    question = "Canaries: is the noise as large as claimed?"
    needs_hypotheses = False
    tells_of_people = False  # what clients sent is taken off before anything is examined
    kind: Literal["canaries"] = "canaries"
    unit: CanaryUnit
    """Whose presence the coins decide; it has to be the unit of the guarantee that is tested."""
    count: Annotated[int, Field(ge=2, le=100_000)]
    """How many canaries there are, of which about half take part."""
    significance: Annotated[float, Field(gt=0, le=0.05)] = 0.01
    """The chance of a bound above the truth, over all bounds of the attack together."""
    stop: Annotated[bool, Field(exclude_if=lambda stop: not stop)] = False
    """Whether the companion runs beside the run, and ends it in the round in which the evidence
    against its noise is sufficient."""

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        privacy, method = attacked.privacy, attacked.training.method
        if self.stop and not pointer.endswith("/0"):
            yield refuse_at(
                f"{pointer}/stop",
                "canaries that may end the run are weighed before all other attacks; put them "
                "first, or set it to false",
            )
        if self.stop and isinstance(privacy, LaplaceL2 | NoMechanism):
            yield refuse_at(
                f"{pointer}/stop",
                f"{privacy.mechanism} claims no epsilon that could be followed over rounds; set "
                "it to false",
            )
        if isinstance(method, QFfl) or not method.releases:
            yield refuse_at(
                "/training/method/kind",
                f"canaries take the place of updates, and clients of {method.kind} send none, or "
                "weighted ones; use `hypotheses`, `fine-tuning` or `ditto`",
            )
        unit: CanaryUnit = "record" if isinstance(privacy, RecordPersonalised) else "client"
        if self.unit != unit and not isinstance(privacy, GaussianDistance):
            yield refuse_at(
                f"{pointer}/unit",
                f"{privacy.mechanism} promises nothing to a {self.unit}, but to a {unit}; use "
                f"`unit: {unit}`",
            )
        match privacy:
            case RecordPersonalised() if privacy.baseline is not None:
                yield refuse_at(
                    "/privacy/baseline",
                    "canaries test the personalised noise that a record is promised; of a baseline "
                    "some is each client's own, or none; leave the baseline out",
                )
            case GaussianCentral() if privacy.adaptive_clip is not None:
                yield refuse_at(
                    "/privacy/clip",
                    "canaries need a clip that is a number: one that moves follows a noised count "
                    "beside the updates, which they do not test",
                )
            case LaplaceL2() if privacy.per_layer:
                yield refuse_at(
                    "/privacy/per_layer",
                    "canaries test the noise of whole updates; set it to false, or leave the "
                    "canaries out",
                )
            case GaussianDistance():
                yield refuse_at(
                    f"{pointer}/kind",
                    f"the noise of {privacy.mechanism} follows from the updates, canaries among "
                    "them, and claims nothing to test; use the attack `client-inference`",
                )
            case RecordPersonalised() | GaussianCentral() | LaplaceL2():
                pass
            case GaussianLocal() | NoMechanism():
                pass
            case _:
                assert_never(privacy)


MembershipMethod = Literal["threshold", "likelihood-ratio", "relative"]

MIN_SHADOWS_EACH = 16
"""Least number of shadow runs with a record, and without it, for a likelihood ratio: the variance
of fewer is too uncertain."""
LEAST_SHADOWS = 64
"""Least number of shadow runs: each record is in a random half of them, so more than twice
`MIN_SHADOWS_EACH` are needed for every record to be in that many, and outside as many."""


class MembershipSpec(AttackPart):
    """Guesses from the trained hypotheses which records were trained on."""

    question = "Membership: can a record be recognised as one of training?"
    needs_hypotheses = True
    usual = {
        "method": ("threshold", "likelihood-ratio"),
        "variant": ("online",),
        "variance": ("per-record",),
    }
    kind: Literal["membership"] = "membership"
    method: MembershipMethod = "threshold"
    """`threshold`: by the loss alone; `likelihood-ratio`: LiRA (Carlini et al. 2022); `relative` is
    retired."""
    shadows: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Models trained alike on random halves of all clients, that show what a loss means; none for
    `threshold`. Each costs about what the run costs."""
    variant: Literal["online", "offline"] = "online"
    """`online` compares shadow runs with and without the record; `offline` is retired."""
    variance: Literal["per-record", "global"] = "per-record"
    """Each record's scores have a separate variance; `global` is retired."""

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        yield from check_common_model(attacked, pointer=pointer)
        at = f"{pointer}/shadows"
        match self.method:
            case "threshold" if self.shadows is not None:
                yield refuse_at(
                    at,
                    "a threshold on the loss needs no shadow runs; leave `shadows` out, or choose "
                    "the method `likelihood-ratio`",
                )
            case "likelihood-ratio" if self.shadows is None or self.shadows < LEAST_SHADOWS:
                yield refuse_at(
                    at,
                    f"a likelihood ratio needs shadow runs: ask for at least {LEAST_SHADOWS} (256 "
                    "is usual), or choose the method `threshold`, which needs none",
                )
            case "threshold" | "likelihood-ratio" | "relative":
                pass  # the last is retired
            case _:
                assert_never(self.method)


class ClientInferenceSpec(AttackPart):
    """Guesses by a client which others took part (Sainz-Pardo Diaz et al. 2026, section 5)."""

    question = "Client inference: can a client infer that another one took part?"
    needs_hypotheses = True
    kind: Literal["client-inference"] = "client-inference"
    shadow_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """The share of each client's rows that the attacker has, at least one: a tenth in section
    7.4."""
    shadows: Annotated[int, Field(ge=LEAST_SHADOWS, le=4096)] | None = None
    """Models trained alike on random halves of all clients, that show what a loss means; without
    any the attacker has the loss of all clients that the server announces, as in the paper."""

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        yield from check_common_model(attacked, pointer=pointer)
        if attacked.federation.holds_out_rows:
            yield refuse_at(
                f"{pointer}/kind",
                "every client trains, so none is outside to compare with; use "
                "`federation.validation_unit: client`, or leave this attack out",
            )


TriedMultiplier = Annotated[float, Field(gt=0, le=1e6)]

_AROUND = (0.1, 1 / 3, 1.0, 3.0, 10.0)


class ClusterMembershipSpec(AttackPart):
    """Counts how often the server names the hypothesis that a client started from."""

    question = "Hypothesis membership: does an upload show its client's choice?"
    needs_hypotheses = True
    kind: Literal["cluster-membership"] = "cluster-membership"
    noise_multipliers: (
        Annotated[list[TriedMultiplier], Field(min_length=1, max_length=32)] | None
    ) = None
    """The values of nu to try; null tries the run's own, and a tenth, a third, three and ten times
    that."""

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        mechanism = attacked.privacy.mechanism
        if attacked.training.hypotheses == 1:
            yield refuse_at(
                f"{pointer}/kind",
                "with one hypothesis no client chooses; ask for more `training.hypotheses`, or "
                "leave this attack out",
            )
        if attacked.training.reports_choices:
            yield refuse_at(
                f"{pointer}/kind",
                "with `method: reported` clients say which hypothesis they chose; use the "
                "clustering `k-means`, or leave this attack out",
            )
        if not isinstance(attacked.privacy, LaplaceL2):
            yield refuse_at(
                f"{pointer}/kind",
                f"the server of {mechanism} does not receive uploads with noise; this attack is "
                "for `laplace-l2`",
            )

    def tried(self, own: float) -> list[float]:
        """The noise multipliers, ascending and each once; `own`: that of the run."""
        around = [own * factor for factor in _AROUND]
        return sorted(set(around if self.noise_multipliers is None else self.noise_multipliers))


LeakageMethod = Literal["lbfgs", "adam-cosine", "first-layer", "features"]
_COMPARES_UPDATES: dict[LeakageMethod, bool] = {
    **dict.fromkeys(("lbfgs", "adam-cosine"), True),
    **dict.fromkeys(("first-layer", "features"), False),
}
LabelKnowledge = Literal["optimised", "inferred", "known"]
NoiseMultiplier = Annotated[float, Field(ge=0, le=1e12)]


class GradientLeakageSpec(AttackPart):
    """Reconstructs images from noised updates, at several noise multipliers (Galli et al., 5.3)."""

    question = "Gradient leakage: can an image be reconstructed from an update?"
    needs_hypotheses = False
    usual = {
        "hypothesis": ("initial",),
        "images_per_update": (1,),
        "local_steps": (1,),
        "layer_weights": ("even",),
        "label": ("optimised", "inferred"),
    }
    kind: Literal["gradient-leakage"] = "gradient-leakage"
    images: Annotated[int, Field(ge=1, le=1024)] = 16
    """How many images of training clients are attacked."""
    noise_multipliers: Annotated[list[NoiseMultiplier], Field(min_length=1, max_length=32)] = [
        0.0,
        0.001,
        0.01,
        0.1,
        1.0,
        3.0,
    ]
    method: LeakageMethod = "lbfgs"
    """`lbfgs`: DLG and iDLG (Zhu et al. 2019, Zhao et al. 2020); `adam-cosine`: cosine matching
    with total variation (Geiping et al. 2020); `first-layer`: a dense layer, inverted exactly;
    `features`: the first dense layer behind convolutions, inverted exactly, and then the image that
    gives its inputs."""
    label: LabelKnowledge = "inferred"
    """How the attacker gets the label: by a search together with the image (DLG), or from the last
    layer's update (iDLG); `known` is retired. `first-layer` and `features` need none."""
    per_layer: bool = False
    """Whether each layer has its own noise."""
    layer_weights: Literal["even", "by-noise"] = "even"
    """Every parameter counts alike; `by-noise` is retired."""
    restarts: Annotated[int, Field(ge=1, le=100)] = 1
    """Starting points for each image, of which the one whose update fits best counts."""
    iterations: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Steps of the search; null takes those of the papers (`searched_for`)."""
    hypothesis: Literal["initial", "trained"] = "initial"
    """Attacked clients start from the parameters before the first round: of several hypotheses each
    takes the one with the smallest loss on its image. `trained` is retired."""
    images_per_update: Annotated[int, Field(ge=1, le=64)] = 1
    """An attacked update is that of one image; more are retired."""
    local_steps: Annotated[int, Field(ge=1, le=50)] = 1
    """An attacked update is one local step; more are retired."""

    @property
    def searched_for(self) -> int:
        """How many steps the search takes: 1,200 (Zhu et al. 2019) or, where the label is not
        searched for, 300 (Zhao et al. 2020) of L-BFGS, 24,000 (Geiping et al. 2020) of Adam; 100
        for features, which is no paper's number; none where the first layer is inverted."""
        match self.method:
            case "first-layer":
                return 0
            case "features":
                return self.iterations or 100
            case "lbfgs":
                return self.iterations or (1_200 if self.label == "optimised" else 300)
            case "adam-cosine":
                return self.iterations or 24_000
            case _:
                assert_never(self.method)

    @property
    def compares_updates(self) -> bool:
        """Whether images are searched for by their updates, for which their labels are needed."""
        return _COMPARES_UPDATES[self.method]

    def disagreements(self, attacked: AttackedSpec, *, pointer: str) -> Refusals:
        if len(set(self.noise_multipliers)) != len(self.noise_multipliers):
            yield refuse_at(f"{pointer}/noise_multipliers", "must not name a multiplier twice")
        if any(0 < nu < 1e-12 for nu in self.noise_multipliers):
            yield refuse_at(
                f"{pointer}/noise_multipliers", "must be 0 (no noise) or at least 1e-12"
            )
        if self.method == "first-layer" and self.iterations is not None:
            yield refuse_at(
                f"{pointer}/iterations", "`first-layer` searches for nothing; leave it out"
            )
        if self.restarts > 1 and not self.compares_updates:
            yield refuse_at(
                f"{pointer}/restarts", f"`{self.method}` starts once; leave it out, or use 1"
            )
        if not attacked.training.method.releases or attacked.training.method.kind == "q-ffl":
            yield refuse_at(
                f"{pointer}/kind",
                "reconstructs images from plain updates, and clients send none under this "
                "`training.method`; leave the attack out, or choose another method",
            )
        if not attacked.training.local.descends_plainly:
            yield refuse_at(
                "/training/local/"
                + ("momentum" if attacked.training.local.momentum else "optimiser"),
                "gradient-leakage inverts plain gradient descent; use `sgd` without momentum, or "
                "leave the attack out",
            )
        if not attacked.federation.traits.images:
            yield refuse_at(
                f"{pointer}/kind",
                f"the rows of {attacked.federation.source} are no images; leave the attack to "
                "`images` and `femnist`",
            )
        if not attacked.training.compares_classes:
            yield refuse_at(
                "/training/loss",
                "gradient-leakage knows the gradients of `cross-entropy` alone; use it, or leave "
                "the attack out",
            )
        if attacked.privacy.mechanism not in ("laplace-l2", "none"):
            yield refuse_at(
                f"{pointer}/kind",
                f"adds the noise of `laplace-l2`, which {attacked.privacy.mechanism} is not; leave "
                "the attack to runs with `laplace-l2` or `none`",
            )
        yield from self._check_network(attacked, pointer)

    def _check_network(self, attacked: AttackedSpec, pointer: str) -> Refusals:
        kinds = _layer_kinds(attacked.model)
        if not getattr(attacked.model, "intercept", True):
            yield refuse_at(
                f"{pointer}/kind",
                "reads labels and images off layers with a bias; set `model.intercept` to true",
            )
        match self.method:
            case "lbfgs":
                rough = next((kind for kind in kinds if kind in _ROUGH), None)
                if rough is not None:
                    yield refuse_at(
                        f"{pointer}/method",
                        f"`lbfgs` follows second derivatives, and `{rough}` has jumps in its "
                        "first; use the kind `layers` with `sigmoid`, `tanh` or `gelu` and "
                        "`average-pooling`, as the paper does, or another method",
                    )
            case "first-layer":
                if next(kind for kind in kinds if kind != "flatten") != "dense":
                    yield refuse_at(
                        f"{pointer}/method",
                        "`first-layer` inverts a dense layer over the pixels, and this network "
                        "begins with another; use `features`, `lbfgs` or `adam-cosine`",
                    )
            case "features":
                if "convolution" not in kinds:
                    yield refuse_at(
                        f"{pointer}/method",
                        "`features` are what convolutions make of an image, and this network has "
                        "none; use `first-layer`",
                    )
            case "adam-cosine":
                pass  # it needs gradients alone, which exist almost everywhere
            case _:
                assert_never(self.method)


_ROUGH = ("relu", "max-pooling")
"""Layers whose first derivative jumps."""


def _layer_kinds(model: ModelSpec) -> list[str]:
    """What the model does to an image, one kind after the other; the outputs are a dense layer."""
    match model:
        case Linear() | Logistic():
            return ["dense"]
        case Mlp():
            return ["dense", "relu", "dense"]
        case CnnFemnist() | Layers():
            return [*(layer.kind for layer in model.layers), "dense"]
        case _:
            assert_never(model)


AttackSpec = Annotated[
    CanariesSpec
    | MembershipSpec
    | GradientLeakageSpec
    | ClusterMembershipSpec
    | ClientInferenceSpec,
    Field(discriminator="kind"),
]
AttackKind = Literal[
    "canaries", "membership", "gradient-leakage", "cluster-membership", "client-inference"
]


def attack_titles() -> dict[str, str]:
    """What each kind asks, as a title for people."""
    parts: tuple[type[AttackPart], ...] = get_args(get_args(AttackSpec)[0])
    return {part.model_fields["kind"].default: part.question for part in parts}
