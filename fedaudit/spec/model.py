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


ModelSpec = Annotated[Linear | Logistic | Mlp, Field(discriminator="kind")]
