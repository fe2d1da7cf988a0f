"""How local steps, and the server, make the next parameters of a direction."""

import math
from typing import Annotated, ClassVar, Literal, assert_never

from pydantic import Field

from fedaudit.spec.base import InForm, SpecPart

StepSize = Annotated[float, Field(gt=0, le=1e6)]
Optimiser = Literal["sgd", "adam", "rmsprop"]
Decay = Annotated[float, Field(ge=0, lt=1)]
"""How much of what it was a mean over steps or rounds keeps."""
_DIGITS = 12
"""Of a share of the step size: cosines of different libraries agree so far."""


class Schedule(SpecPart):
    """The share of the step size that local steps take, by the number of their round."""

    kind: Literal["constant", "cosine"] = "constant"
    """`cosine` lets it fall over the planned `rounds` (Loshchilov and Hutter 2017, equation 5,
    without restarts): all of it in the first round after the warm-up, little in the last."""
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
