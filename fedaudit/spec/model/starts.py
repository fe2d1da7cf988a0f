"""The parameters that training starts from."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from fedaudit.spec.base import SpecPart
from fedaudit.spec.stored_spec import is_stored

DrawnStart = Literal["zeros", "normal", "uniform"]
"""`zeros`; `normal`, independent standard normal numbers; `uniform`, within 1/sqrt(fan-in) of zero
in each layer. The numbers are drawn from the seed, for every hypothesis its own."""


class ArtifactStart(SpecPart):
    """Parameters that were brought, or came of an earlier run."""

    artifact: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """The SHA-256 of the safetensors file, in hexadecimal: its id, whichever service has it."""


def _kind(value: object) -> str:
    return "artifact" if isinstance(value, dict | ArtifactStart) else "drawn"


Start = Annotated[
    Annotated[DrawnStart, Tag("drawn")] | Annotated[ArtifactStart, Tag("artifact")],
    Discriminator(_kind),
]

_LINEAR_MAPS = ("linear", "logistic")
_PAPERS_TASKS = ("synthetic-linear", "synthetic-groups")


def with_default_start(value: Any) -> Any:
    """The document of a spec, with a start that trains where it names none.

    Without a hidden layer a standard normal start leaves noise of length sqrt(n) wherever the data
    do not reach: on 784 pixels hundreds of rounds do not undo it. So a linear map over data starts
    from zero; several hypotheses, which zeros would leave alike, start close to zero. The synthetic
    tasks keep the paper's start, and so does a spec that was stored before there was a choice.
    Anything that is no such document is given back as it is, for validation to refuse.
    """
    if not isinstance(value, dict) or is_stored(value):
        return value
    model, training, source = (value.get(name) for name in ("model", "training", "federation"))
    if not (isinstance(model, dict) and isinstance(training, dict) and isinstance(source, dict)):
        return value
    if "start" in model or model.get("kind") not in _LINEAR_MAPS:
        return value
    if source.get("source") in _PAPERS_TASKS:
        return value
    start = "zeros" if training.get("hypotheses", 1) == 1 else "uniform"
    return {**value, "model": {**model, "start": start}}
