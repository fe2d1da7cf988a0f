"""Gradient leakage: a client's images, reconstructed from its upload."""

from typing import Annotated, Literal, assert_never

from pydantic import Field

from fedaudit.spec.attacks.attack_part import AttackedSpec, AttackPart
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.models import CnnFemnist, Layers, Linear, Logistic, Mlp, ModelSpec

LeakageMethod = Literal["lbfgs", "adam-cosine", "first-layer", "features"]
_COMPARES_UPDATES: dict[LeakageMethod, bool] = {
    **dict.fromkeys(("lbfgs", "adam-cosine"), True),
    **dict.fromkeys(("first-layer", "features"), False),
}
LabelKnowledge = Literal["optimised", "inferred", "known"]
AttackedHypothesis = Literal["initial", "trained"]
LayerWeights = Literal["even", "by-noise"]
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
    layer_weights: LayerWeights = "even"
    """Every parameter counts alike; `by-noise` is retired."""
    restarts: Annotated[int, Field(ge=1, le=100)] = 1
    """Starting points for each image, of which the one whose update fits best counts."""
    iterations: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Steps of the search; null takes those of the papers (`searched_for`)."""
    hypothesis: AttackedHypothesis = "initial"
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
        yield from self._check_itself(pointer)
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

    def _check_itself(self, pointer: str) -> Refusals:
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
        case CnnFemnist():
            return ["convolution", "relu", "max-pooling", "flatten", "dense"]
        case Layers():
            return [*(layer.kind for layer in model.layers), "dense"]
        case _:
            assert_never(model)
