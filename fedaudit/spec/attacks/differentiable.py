"""Whether a network can be differentiated twice, as the matching of gradients by L-BFGS asks."""

from typing import assert_never

from fedaudit.spec.models import CnnFemnist, Layers, Linear, Logistic, Mlp, ModelSpec

_ROUGH = ("relu", "max-pooling")


def rough_layer(model: ModelSpec) -> str | None:
    """The first kind of layer whose first derivative jumps; None where all are smooth."""
    match model:
        case Linear() | Logistic():
            return None
        case Mlp() | CnnFemnist():
            return f"the ReLU of `{model.kind}`"
        case Layers():
            found = next((layer.kind for layer in model.layers if layer.kind in _ROUGH), None)
            return None if found is None else f"`{found}`"
        case _:
            assert_never(model)
