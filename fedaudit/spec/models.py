"""Which network is trained, the layers it is made of, the parameters it starts from, and how local
steps and the server make the next parameters of a direction."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, assert_never, get_args

from pydantic import Discriminator, Field, Tag

from fedaudit.spec.base import InForm, SpecPart, is_stored
from fedaudit.spec.errors import Refusals, refuse_at
from fedaudit.spec.sources import TargetKind

StepSize = Annotated[float, Field(gt=0, le=1e6)]
Optimiser = Literal["sgd", "adam", "rmsprop"]
Decay = Annotated[float, Field(ge=0, lt=1)]
"""How much of what it was a mean over steps or rounds keeps."""
_DIGITS = 12
"""Digits of a share of the step size: cosines of different libraries agree in these."""


class Schedule(SpecPart):
    """The share of the step size that local steps take, by the number of their round."""

    kind: Literal["constant", "cosine"] = "constant"
    """`cosine` decreases it over the planned `rounds` (Loshchilov and Hutter 2017, equation 5,
    without restarts): full in the first round after the warm-up, small in the last."""
    warm_up: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Rounds in which it rises evenly, to all of it in the last of them."""

    def share(self, round_: int, *, rounds: int) -> float:
        """Within (0, 1], in a round from 1 to the planned `rounds`."""
        if round_ < self.warm_up:
            return round_ / self.warm_up
        match self.kind:
            case "constant":
                return 1.0
            case "cosine":
                done = max(0, round_ - 1 - self.warm_up) / (rounds - self.warm_up)
                return round((1 + math.cos(math.pi * done)) / 2, _DIGITS)
            case _:
                assert_never(self.kind)


DEFAULT_SCHEDULE = Schedule()


_SERVER_STEP_SIZE = InForm("Server step size", hint="Empty: 1 of momentum, 0.1 of adam.")


class ServerAverage(SpecPart):
    """The next hypothesis is the average that was released."""

    words: ClassVar = "plain averages"
    optimiser: Literal["average"] = "average"


class ServerMomentum(SpecPart):
    """FedAvgM (Hsu et al. 2019): a hypothesis goes on where earlier averages led it."""

    words: ClassVar = "averages with momentum"
    optimiser: Literal["momentum"]
    step_size: Annotated[StepSize, _SERVER_STEP_SIZE] = 1.0
    momentum: Annotated[Decay, InForm("Server momentum", "0.9")] = 0.9


class ServerAdam(SpecPart):
    """FedAdam (Reddi et al. 2021, Algorithm 2): every parameter moves about as far."""

    words: ClassVar = "Adam over averages"
    optimiser: Literal["adam"]
    step_size: Annotated[StepSize, _SERVER_STEP_SIZE] = 0.1
    beta1: Annotated[Decay, InForm("Server beta 1", "0.9")] = 0.9
    beta2: Annotated[Decay, InForm("Server beta 2", "0.99")] = 0.99
    tau: Annotated[Annotated[float, Field(ge=1e-9, le=1e6)], InForm("Server tau", "0.001")] = 1e-3
    """Added to the root of the mean square: a parameter that averages move by less moves less."""


ServerOptimiser = Annotated[
    ServerAverage | ServerMomentum | ServerAdam, Field(discriminator="optimiser")
]
DEFAULT_SERVER = ServerAverage()


ActivationName = Literal["relu", "tanh", "sigmoid", "gelu"]
PoolingName = Literal["max-pooling", "average-pooling"]


class Dense(SpecPart):
    """A fully connected layer with a bias."""

    kind: Literal["dense"]
    units: Annotated[int, Field(ge=1, le=4096)]


class Convolution(SpecPart):
    """A convolution with square kernels and a bias."""

    kind: Literal["convolution"]
    filters: Annotated[int, Field(ge=1, le=1024)]
    size: Annotated[int, Field(ge=1, le=31)]
    """Width and height of the kernel."""
    stride: Annotated[int, Field(ge=1, le=16)] = 1
    padding: Annotated[int, Field(ge=0, le=15)] = 0
    """Zeros around the maps, on each side."""


class Pooling(SpecPart):
    """The largest value, or the mean, of each square of `size` by `size`; what is left over at the
    edges is dropped."""

    padding: ClassVar = 0
    kind: PoolingName
    size: Annotated[int, Field(ge=2, le=64)]

    @property
    def stride(self) -> int:
        """Squares lie side by side."""
        return self.size


class Flatten(SpecPart):
    """Maps as one row, channels outermost."""

    kind: Literal["flatten"]


class Activation(SpecPart):
    """A function of each number by itself."""

    kind: ActivationName


LayerSpec = Annotated[
    Dense | Convolution | Pooling | Flatten | Activation, Field(discriminator="kind")
]


MAX_VALUES = 1 << 24
"""Numbers that all layers together may give for one row of data: 64 MiB."""


@dataclass(frozen=True)
class Rows:
    """A row of numbers."""

    width: int | None
    """None where the data decide it."""

    @property
    def numbers(self) -> int:
        """How many they are, as far as is known."""
        return self.width or 0


@dataclass(frozen=True)
class Maps:
    """An image, or what convolutions make of it."""

    height: int
    width: int
    channels: int

    @property
    def numbers(self) -> int:
        """How many they are."""
        return self.height * self.width * self.channels

    @property
    def words(self) -> str:
        """Words for messages."""
        return f"maps of {self.height} by {self.width} with {self.channels} channels"


Values = Rows | Maps


class LayerError(ValueError):
    """A layer that cannot take what it is given; `place` counts from 0."""

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place


def values_between(layers: Sequence[LayerSpec], given: Values) -> list[Values]:
    """The shape of each layer's input, and last that of the output: a row. Raises LayerError where
    a layer cannot take its input, or the values exceed MAX_VALUES."""
    found, total = [given], given.numbers
    for place, layer in enumerate(layers):
        found.append(_passed(place, layer, found[-1]))
        total += found[-1].numbers
        if total > MAX_VALUES:
            raise LayerError(
                place,
                f"`{layer.kind}` brings the numbers that the layers give for one row to {total}, "
                f"and {MAX_VALUES} are allowed; use fewer filters or units, or pool before it",
            )
    last = found[-1]
    if isinstance(last, Maps):
        raise LayerError(
            len(layers) - 1,
            f"the last layer gives {last.words}, and the outputs are computed from a row; end with "
            "`flatten`",
        )
    return found


def _passed(place: int, layer: LayerSpec, given: Values) -> Values:
    match layer:
        case Dense():
            if isinstance(given, Maps):
                raise LayerError(
                    place, f"`dense` takes a row and is given {given.words}; put `flatten` before"
                )
            return Rows(layer.units)
        case Convolution() | Pooling():
            size = layer.size
            if isinstance(given, Rows):
                raise LayerError(
                    place,
                    f"`{layer.kind}` takes maps and is given a row; name the images' height, width "
                    "and channels in `input`, and put it before `flatten` and `dense`",
                )
            height, width = (
                (side + 2 * layer.padding - size) // layer.stride + 1
                for side in (given.height, given.width)
            )
            if min(height, width) < 1:
                raise LayerError(
                    place,
                    f"`{layer.kind}` of {size} by {size} does not fit {given.words}; use a smaller "
                    "one",
                )
            channels = given.channels if isinstance(layer, Pooling) else layer.filters
            return Maps(height, width, channels)
        case Flatten():
            if isinstance(given, Rows):
                raise LayerError(place, "`flatten` takes maps and is given a row; leave it out")
            return Rows(given.numbers)
        case Activation():
            return given
        case _:
            assert_never(layer)


DrawnStart = Literal["zeros", "normal", "uniform"]
"""`zeros`; `normal`, independent standard normal numbers; `uniform`, within 1/sqrt(fan-in) of zero
in each layer. The numbers are drawn from the seed, for every hypothesis its own."""


class ArtifactStart(SpecPart):
    """Parameters that were brought, or came of an earlier run."""

    artifact: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """The SHA-256 of the safetensors file, in hexadecimal: its id, whichever service has it."""


_DRAWN = dict.fromkeys(get_args(DrawnStart), "drawn")
Start = Annotated[
    Annotated[DrawnStart, Tag("drawn")] | Annotated[ArtifactStart, Tag("artifact")],
    Discriminator(
        lambda one: "artifact" if isinstance(one, dict | ArtifactStart) else _DRAWN.get(str(one)),
        custom_error_type="start",
        custom_error_message="must be 'zeros', 'normal', 'uniform' or {artifact: SHA-256}",
    ),
]


def with_default_start(value: Any) -> Any:
    """The document of a spec, with a start that trains where it names none.

    Without a hidden layer a standard normal start leaves noise of length sqrt(n) wherever the data
    do not reach: on 784 pixels hundreds of rounds do not undo it. So a linear map over data starts
    from zero; several hypotheses, which zeros would leave alike, start close to zero. The synthetic
    tasks keep the paper's start, and so does a spec that was stored before there was a choice.
    Anything that is not such a document is returned unchanged, for validation to refuse.
    """
    if not isinstance(value, dict) or is_stored(value):
        return value
    model, training, source = (value.get(name) for name in ("model", "training", "federation"))
    if not (isinstance(model, dict) and isinstance(training, dict) and isinstance(source, dict)):
        return value
    if "start" in model or model.get("kind") not in ("linear", "logistic"):
        return value
    if source.get("source") in ("synthetic-linear", "synthetic-groups"):
        return value
    start = "zeros" if training.get("hypotheses", 1) == 1 else "uniform"
    return {**value, "model": {**model, "start": start}}


Intercept = Annotated[bool, InForm("With an intercept", "on")]
_START = InForm(
    "Start",
    hint="What training starts from. Zeros leave several hypotheses alike.",
    words={
        "": "as suits the model",
        "zeros": "zeros",
        "normal": "standard normal",
        "uniform": "uniform, small",
    },
)
# Specs came before there was a choice: the start that they all had is left out of what is hashed.
NormalUnlessNamed = Annotated[Start, _START, Field(exclude_if=lambda start: start == "normal")]
UniformUnlessNamed = Annotated[Start, _START, Field(exclude_if=lambda start: start == "uniform")]


class Model(SpecPart):
    """What the rest of the project asks of every network."""

    output: ClassVar[TargetKind]
    """What it predicts; `either` where the loss decides."""
    has_hidden_layers: ClassVar[bool]
    """Whether anything is between inputs and outputs."""
    start: Start
    """What training starts from; `with_default_start` says what a spec has that names none."""

    @property
    def image(self) -> tuple[int, int, int] | None:
        """Height, width and channels of the images that it takes; None where it takes any rows."""
        return None

    def check_start(self, *, hypotheses: int) -> Refusals:
        """Why nothing would be learnt from the start: errors of a spec's validation."""
        match self.start:
            case "zeros":
                if self.has_hidden_layers:
                    yield refuse_at(
                        "/model/start",
                        "zeros give the hidden units of a network nothing to distinguish them by, "
                        "and no gradient; use `uniform`",
                    )
                elif hypotheses > 1:
                    yield refuse_at(
                        "/model/start",
                        f"zeros start all {hypotheses} hypotheses alike, and they never separate; "
                        "use `uniform` or `normal`, or one hypothesis",
                    )
            case "normal" | "uniform" | ArtifactStart():
                pass
            case _:
                assert_never(self.start)


class Linear(Model):
    """A linear regression."""

    output = "number"
    has_hidden_layers = False
    kind: Literal["linear"]
    intercept: Intercept = True
    start: NormalUnlessNamed = "normal"


class Logistic(Model):
    """A logistic regression; softmax over more than two classes."""

    output = "class"
    has_hidden_layers = False
    kind: Literal["logistic"]
    intercept: Intercept = True
    start: NormalUnlessNamed = "normal"


class Mlp(Model):
    """A fully connected network with ReLU units."""

    output = "either"
    has_hidden_layers = True
    kind: Literal["mlp"]
    hidden: Annotated[
        list[Annotated[int, Field(ge=1, le=4096)]],
        Field(min_length=1, max_length=10),
        InForm("Hidden layers", "16", "Units of each; commas between them."),
    ]
    intercept: Intercept = True
    start: UniformUnlessNamed = "uniform"


FEMNIST_IMAGE = (28, 28, 1)
"""Height, width and channels of the images that `cnn-femnist` takes."""


class CnnFemnist(Model):
    """The convolutional network for 28 by 28 images of 62 characters (Galli et al., Table 3).

    The table prints 2 by 2 kernels; only 3 by 3 give its 1,206,590 parameters.
    """

    output = "either"
    has_hidden_layers = True
    image: ClassVar[tuple[int, int, int]] = FEMNIST_IMAGE
    given: ClassVar[Values] = Maps(*FEMNIST_IMAGE)
    layers: ClassVar[Sequence[LayerSpec]] = (
        Convolution(kind="convolution", filters=32, size=3),
        Activation(kind="relu"),
        Convolution(kind="convolution", filters=64, size=3),
        # The pool before its ReLU: the maximum is the same, and leaves a quarter for ReLU.
        Pooling(kind="max-pooling", size=2),
        Activation(kind="relu"),
        Flatten(kind="flatten"),
        Dense(kind="dense", units=128),
        Activation(kind="relu"),
    )
    """Those before the outputs."""
    kind: Literal["cnn-femnist"]
    intercept: Literal[True] = True
    start: UniformUnlessNamed = "uniform"


class Layers(Model):
    """A network of named layers; a dense layer with the outputs is put behind the last one."""

    output = "either"
    has_hidden_layers = True
    kind: Literal["layers"]
    input: (
        Annotated[list[Annotated[int, Field(ge=1, le=1024)]], Field(min_length=3, max_length=3)]
        | None
    ) = None
    """Height, width and channels of the images that it takes; null where it takes any rows."""
    layers: Annotated[list[LayerSpec], Field(min_length=1, max_length=50)]
    start: UniformUnlessNamed = "uniform"

    def faults(self) -> Refusals:
        if not any(isinstance(layer, Dense | Convolution) for layer in self.layers):
            yield refuse_at(
                "/model/layers",
                "has no layer with parameters; add a `dense` or `convolution`, or use the kind "
                "`linear` or `logistic`",
            )
        try:
            values_between(self.layers, self.given)
        except LayerError as error:
            yield refuse_at(f"/model/layers/{error.place}", str(error))

    @property
    def given(self) -> Values:
        """What the first layer takes, as far as the spec says."""
        return Rows(None) if self.input is None else Maps(*self.input)

    @property
    def image(self) -> tuple[int, int, int] | None:
        if self.input is None:
            return None
        height, width, channels = self.input
        return height, width, channels


ModelSpec = Annotated[Linear | Logistic | Mlp | CnnFemnist | Layers, Field(discriminator="kind")]
