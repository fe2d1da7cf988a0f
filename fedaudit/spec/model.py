"""Which network is trained."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.spec.base import SpecPart


class Linear(SpecPart):
    """A linear regression."""

    kind: Literal["linear"]
    intercept: bool = True


class Logistic(SpecPart):
    """A logistic regression; softmax over more than two classes."""

    kind: Literal["logistic"]
    intercept: bool = True


class Mlp(SpecPart):
    """A fully connected network with ReLU units."""

    kind: Literal["mlp"]
    hidden: Annotated[
        list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1, max_length=10)
    ]
    intercept: bool = True


FEMNIST_IMAGE = (28, 28, 1)
"""Height, width and channels of the images that `cnn-femnist` takes."""


class CnnFemnist(SpecPart):
    """The convolutional network for 28 by 28 images of 62 characters (Galli et al., Table 3).

    The table prints 2 by 2 kernels; only 3 by 3 give its 1,206,590 parameters.
    """

    kind: Literal["cnn-femnist"]
    intercept: Literal[True] = True


ModelSpec = Annotated[Linear | Logistic | Mlp | CnnFemnist, Field(discriminator="kind")]
