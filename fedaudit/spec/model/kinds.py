"""The kinds of networks."""

from abc import abstractmethod
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedaudit.spec.base import SpecPart
from fedaudit.spec.errors import refuse_at
from fedaudit.spec.in_form import InForm
from fedaudit.spec.model.layer_values import LayerError, Maps, Rows, Values, values_between
from fedaudit.spec.model.layers import Convolution, Dense, LayerSpec
from fedaudit.spec.model.starts import Start
from fedaudit.spec.source_traits import TargetKind

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

    start: Start
    """What training starts from; `with_default_start` says what a spec has that names none."""

    @property
    @abstractmethod
    def output(self) -> TargetKind:
        """What it predicts; `either` where the loss decides."""

    @property
    @abstractmethod
    def has_hidden_layers(self) -> bool:
        """Whether anything lies between inputs and outputs."""

    @property
    @abstractmethod
    def image(self) -> tuple[int, int, int] | None:
        """Height, width and channels of the images that it takes; None where it takes any rows."""


class Linear(Model):
    """A linear regression."""

    kind: Literal["linear"]
    intercept: Intercept = True
    start: NormalUnlessNamed = "normal"

    @property
    def output(self) -> TargetKind:
        return "number"

    @property
    def has_hidden_layers(self) -> bool:
        return False

    @property
    def image(self) -> None:
        return None


class Logistic(Model):
    """A logistic regression; softmax over more than two classes."""

    kind: Literal["logistic"]
    intercept: Intercept = True
    start: NormalUnlessNamed = "normal"

    @property
    def output(self) -> TargetKind:
        return "class"

    @property
    def has_hidden_layers(self) -> bool:
        return False

    @property
    def image(self) -> None:
        return None


class Mlp(Model):
    """A fully connected network with ReLU units."""

    kind: Literal["mlp"]
    hidden: Annotated[
        list[Annotated[int, Field(ge=1, le=4096)]],
        Field(min_length=1, max_length=10),
        InForm("Hidden layers", "16", "Units of each, separated by commas."),
    ]
    intercept: Intercept = True
    start: UniformUnlessNamed = "uniform"

    @property
    def output(self) -> TargetKind:
        return "either"

    @property
    def has_hidden_layers(self) -> bool:
        return True

    @property
    def image(self) -> None:
        return None


FEMNIST_IMAGE = (28, 28, 1)
"""Height, width and channels of the images that `cnn-femnist` takes."""


class CnnFemnist(Model):
    """The convolutional network for 28 by 28 images of 62 characters (Galli et al., Table 3).

    The table prints 2 by 2 kernels; only 3 by 3 give its 1,206,590 parameters.
    """

    kind: Literal["cnn-femnist"]
    intercept: Literal[True] = True
    start: UniformUnlessNamed = "uniform"

    @property
    def output(self) -> TargetKind:
        return "either"

    @property
    def has_hidden_layers(self) -> bool:
        return True

    @property
    def image(self) -> tuple[int, int, int]:
        return FEMNIST_IMAGE


class Layers(Model):
    """A network of named layers; a dense layer with the outputs is put behind the last one."""

    kind: Literal["layers"]
    input: Annotated[
        Annotated[list[Annotated[int, Field(ge=1, le=1024)]], Field(min_length=3, max_length=3)]
        | None,
        InForm("Images", hint="Height, width and channels, for convolutions and pooling."),
    ] = None
    """Height, width and channels of the images that it takes; null where it takes any rows."""
    layers: Annotated[
        list[LayerSpec],
        Field(min_length=1, max_length=50),
        InForm("Layers", "dense 16\nrelu", "One a line; the layer with the outputs is added."),
    ]
    start: UniformUnlessNamed = "uniform"

    @model_validator(mode="after")
    def _layers_fit(self) -> Self:
        if not any(isinstance(layer, Dense | Convolution) for layer in self.layers):
            raise refuse_at(
                "/model/layers",
                "has no layer with parameters; add a `dense` or `convolution`, or use the kind "
                "`linear` or `logistic`",
            )
        try:
            values_between(self.layers, self.given)
        except LayerError as error:
            raise refuse_at(f"/model/layers/{error.place}", str(error)) from None
        return self

    @property
    def given(self) -> Values:
        """What the first layer takes, as far as the spec says."""
        return Rows(None) if self.input is None else Maps(*self.input)

    @property
    def output(self) -> TargetKind:
        return "either"

    @property
    def has_hidden_layers(self) -> bool:
        return True

    @property
    def image(self) -> tuple[int, int, int] | None:
        if self.input is None:
            return None
        height, width, channels = self.input
        return height, width, channels


ModelSpec = Annotated[Linear | Logistic | Mlp | CnnFemnist | Layers, Field(discriminator="kind")]
