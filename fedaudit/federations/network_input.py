"""Whether rows have the shape that a network takes as input."""

from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.spec.errors import FieldError
from fedaudit.spec.experiment import ExperimentSpec


def image_faults(spec: ExperimentSpec, federation: Federation) -> list[FieldError]:
    """An error at /model/kind where rows are not images of the size that the network takes."""
    taken = spec.model.image
    if taken is None:
        return []
    features = federation.features
    image = features.image if isinstance(features, ClientRows) else None
    if image == taken:
        return []
    height, width, channels = taken
    found = "no images" if image is None else f"images of {_size(*image)}"
    message = (
        f"`{spec.model.kind}` takes images of {_size(height, width, channels)}, and these rows are "
        f"{found}; bring them to that size, or use `mlp` or `logistic`"
    )
    return [FieldError("/model/kind", message, of_spec=True)]


def _size(height: int, width: int, channels: int) -> str:
    return f"{height} by {width} with {channels} channel{'s' if channels != 1 else ''}"
