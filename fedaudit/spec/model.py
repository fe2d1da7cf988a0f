"""Which network is trained."""

from abc import abstractmethod
from typing import Annotated, Literal

from pydantic import Field

from fedaudit.spec.base import SpecPart
from fedaudit.spec.source_traits import TargetKind


class Model(SpecPart):
    """What the rest of the project asks of every network."""

    @property
    @abstractmethod
    def output(self) -> TargetKind:
        """What it predicts; `either` where the loss decides."""

    @property
    @abstractmethod
    def image(self) -> tuple[int, int, int] | None:
        """Height, width and channels of the images that it takes; None where it takes any rows."""


class Linear(Model):
    """A linear regression."""

    kind: Literal["linear"]
    intercept: bool = True

    @property
    def output(self) -> TargetKind:
        return "number"

    @property
    def image(self) -> None:
        return None


class Logistic(Model):
    """A logistic regression; softmax over more than two classes."""

    kind: Literal["logistic"]
    intercept: bool = True

    @property
    def output(self) -> TargetKind:
        return "class"

    @property
    def image(self) -> None:
        return None


class Mlp(Model):
    """A fully connected network with ReLU units."""

    kind: Literal["mlp"]
    hidden: Annotated[
        list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1, max_length=10)
    ]
    intercept: bool = True

    @property
    def output(self) -> TargetKind:
        return "either"

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

    @property
    def output(self) -> TargetKind:
        return "either"

    @property
    def image(self) -> tuple[int, int, int]:
        return FEMNIST_IMAGE


ModelSpec = Annotated[Linear | Logistic | Mlp | CnnFemnist, Field(discriminator="kind")]
